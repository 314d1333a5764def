"""Precision, recall and nDCG of full rankings, the user's training items left out.

Every ranking, learned or naive, goes through the same function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from .data import EvalSet

CUTS = (3, 5, 10)
JUDGED = "precision_at_10"

Scorer = Callable[[Tensor, Tensor], Tensor]  # users [n], histories [n, length] -> scores [n, n_items]


def hits(scores: Tensor, seen: Tensor, relevant: Tensor, depth: int) -> Tensor:
    """Whether each of the first `depth` places holds a relevant item; bool [users, depth].

    Seen items are never ranked; where fewer than `depth` others exist, the places left are misses. Equal scores stand
    in the order of the item's number, which knows nothing of relevance. NaN ranks last, like -inf.

    Args:
        scores: float [users, n_items].
        seen, relevant: bool [users, n_items], what the user took in training and afterwards.
    """
    if scores.shape[1] < depth:
        raise ValueError(f"{scores.shape[1]} items cannot fill {depth} places")
    known = torch.nan_to_num(scores, nan=-torch.inf, posinf=torch.inf, neginf=-torch.inf)
    known = known.masked_fill(seen, -torch.inf)
    order = known.sort(dim=1, descending=True, stable=True)
    places = order.indices[:, :depth]
    return relevant.gather(1, places) & (order.values[:, :depth] > -torch.inf)


def quality(hit: Tensor, n_relevant: Tensor) -> dict[str, Tensor]:
    """Precision, recall and nDCG at each of CUTS, summed over the users; by name, 0-d double.

    Precision divides by the cut, recall by the user's number of relevant items, nDCG by the gain of the best possible
    order, which has min(cut, that number) hits in front.

    Args:
        hit: bool [users, depth], depth >= max(CUTS).
        n_relevant: int64 [users], each at least 1.
    """
    places = torch.arange(1, max(CUTS) + 1, device=hit.device, dtype=torch.float64)
    gains = 1 / torch.log2(places + 1)
    best = gains.cumsum(0)
    sums = {}
    for cut in CUTS:
        found = hit[:, :cut].double()
        ideal = best[n_relevant.clamp(max=cut) - 1]
        sums[f"precision_at_{cut}"] = found.mean(dim=1).sum()
        sums[f"recall_at_{cut}"] = (found.sum(dim=1) / n_relevant).sum()
        sums[f"ndcg_at_{cut}"] = ((found * gains[:cut]).sum(dim=1) / ideal).sum()
    return sums


@torch.no_grad()
def evaluate(scorer: Scorer, held_out: EvalSet, batches: Iterable[Tensor]) -> tuple[dict[str, float], int]:
    """The means of `quality` over all users, and their number.

    Sums run over all users and are divided once, so the size of a batch changes nothing.

    Args:
        scorer: scores every item for users with their histories.
        batches: users int64 [n] of `held_out`.

    Raises:
        ValueError: no user at all.
    """
    totals: dict[str, Tensor] = {}
    n_users = 0
    for users in batches:
        history, seen, relevant, n_relevant = held_out.of(users)
        found = hits(scorer(users, history), seen, relevant, max(CUTS))
        for name, value in quality(found, n_relevant).items():
            totals[name] = totals.get(name, 0) + value
        n_users += len(users)
    if not n_users:
        raise ValueError("no user to evaluate")
    return {name: float(value) / n_users for name, value in totals.items()}, n_users
