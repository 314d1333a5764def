"""Ranked lists of a few users as text, for a person to look at."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from .data import EvalSet
from .metric import Scorer

USERS, PLACES = 6, 10


@torch.no_grad()
def write(path: Path, scorers: Mapping[str, Scorer], held_out: EvalSet, names: Mapping[int, str]) -> None:
    """For USERS users spread over all: the newest items, then each scorer's first PLACES; * is one they took later.

    Args:
        names: of items by their number; the number itself stands for one without a name.
    """
    step = max(len(held_out.users) // USERS, 1)
    users = held_out.users[::step][:USERS]
    histories, taken, relevant, n_relevant = held_out.of(users)
    lists = {
        name: scorer(users, histories).masked_fill(taken, -torch.inf).topk(PLACES, dim=1).indices
        for name, scorer in scorers.items()
    }

    def called(item: int) -> str:
        return names.get(item, f"item {item}")

    lines = []
    for row, user in enumerate(users.tolist()):
        lines.append(f"user {user}, {int(n_relevant[row])} held out; last taken, the newest at the end:")
        lines += [f"      {called(item)}" for item in histories[row].tolist() if item]
        for name, listed in lists.items():
            found = relevant[row, listed[row]]
            lines.append(f"  {name}: {int(found.sum())} of {PLACES}")
            lines += [f"  {_mark(hit)}  {called(item)}" for item, hit in zip(listed[row].tolist(), found, strict=True)]
        lines.append("")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines), encoding="utf-8")


def _mark(hit: Tensor) -> str:
    return "  *" if bool(hit) else "   "
