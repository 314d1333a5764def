"""What is judged: the share of the masked words that the model names, over all masked words of the held-out text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from reference.common.errors import SetupError

from .pairs import NO_LABEL, Batch


@dataclass(frozen=True)
class Scores:
    """Over the whole held-out text."""

    masked_accuracy: float  # right masked words / masked words
    masked_loss: float  # nats a masked word
    next_sentence_accuracy: float  # right / sequences
    masked_words: int
    sequences: int


@torch.no_grad()
def evaluate(net: nn.Module, batches: Iterable[Batch], device: torch.device) -> Scores:
    """Sums of right words and of losses, divided once at the end: a last batch may be smaller, padding counts nothing.

    Raises SetupError where nothing is masked, or where the loss is not finite.
    """
    net.eval()
    totals = torch.zeros(5, dtype=torch.float64)
    for batch in batches:
        batch = batch.to(device)
        words, unrelated = net(batch.ids, batch.segments, batch.lengths, batch.positions)
        right, asked = count_right(words.argmax(2), batch.labels)
        loss = F.cross_entropy(words.flatten(0, 1), batch.labels.flatten(), ignore_index=NO_LABEL, reduction="sum")
        guessed = (unrelated.argmax(1) == batch.unrelated).sum()
        totals += torch.tensor([right, loss.item(), guessed.item(), asked, len(batch.ids)], dtype=torch.float64)
    net.train()
    right, loss, guessed, asked, count = totals.tolist()
    if not asked:
        raise SetupError("no masked word in the held-out text")
    if not torch.isfinite(totals).all():
        raise SetupError(f"training diverged: the held-out loss is {loss / asked}; try a smaller learning rate")
    return Scores(right / asked, loss / asked, guessed / count, int(asked), int(count))


def count_right(guesses: Tensor, labels: Tensor) -> tuple[int, int]:
    """How many of the `guesses` equal their label, and how many labels there are; NO_LABEL is none."""
    asked = labels != NO_LABEL
    return int(((guesses == labels) & asked).sum()), int(asked.sum())
