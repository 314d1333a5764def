"""Perplexity, per character or per word, whatever pieces of text the model predicts."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import functional as F

from reference.common.errors import SetupError

from .cell import Cell
from .model import SharedModel

PADDING = -100  # in what follows: nothing is to be predicted there


class Score:
    """Sums over a text: the negative log-likelihood in nats, the symbols predicted and their lengths."""

    def __init__(self) -> None:
        self.nats = 0.0
        self.symbols = 0
        self.units = 0

    def add(self, logits: Tensor, following: Tensor, lengths: Tensor) -> None:
        """Count `following` (n,), predicted by `logits` (n, symbols); PADDING in it counts nowhere.

        lengths: int64 (symbols,), of each symbol in the unit of the perplexity: its characters, or 1 for words.
        """
        real = following != PADDING
        losses = F.cross_entropy(logits, following, ignore_index=PADDING, reduction="sum")
        self.nats += float(losses.double())
        self.symbols += int(real.sum())
        self.units += int(lengths[following[real]].sum())

    @property
    def perplexity(self) -> float:
        """exp(nats / units). Raises ValueError for an empty text, SetupError for a likelihood that is not finite."""
        if not self.units:
            raise ValueError("nothing was predicted")
        if not math.isfinite(self.nats):
            raise SetupError(f"training diverged: the log-likelihood of an evaluated text is {self.nats}")
        return math.exp(min(self.nats / self.units, 700.0))


@torch.no_grad()
def evaluate(
    net: SharedModel, cell: Cell, pieces: Iterable[tuple[Tensor, Tensor]], streams: int, lengths: Tensor
) -> Score:
    """The score of `net` with `cell` on a text read in `streams`, each from an empty state on.

    Args:
        pieces: one after the other, what follows (steps * streams,) and the text (steps, streams).
        streams: how many the text is cut into.
        lengths: see Score.add.
    """
    was_training = net.training
    net.eval()
    score, state = Score(), net.start_state(streams)
    for following, text in pieces:
        logits, state = net(text, state, cell)
        score.add(logits.flatten(0, 1), following, lengths)
    net.train(was_training)
    return score
