"""Word error rate: the edits that turn what was read into what was said, over the words that were said.

Counted over the whole set: a mean of the utterances' own rates would weigh a word of a short one more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import jiwer
import numpy as np
import torch
from torch import nn

from . import decoding
from .batches import Batch


class Heard(NamedTuple):
    """What a network made of utterances: label log-probabilities (frames, labels) of each, and what was said."""

    log_probabilities: list[np.ndarray]
    texts: list[str]

    def greedy(self) -> list[str]:
        return [decoding.spell(decoding.greedy(each)) for each in self.log_probabilities]

    def beam(self, width: int) -> list[str]:
        return [decoding.spell(decoding.beam(each, width)) for each in self.log_probabilities]


@torch.no_grad()
def listen(net: nn.Module, batches: Iterable[Batch]) -> Heard:
    """Let `net` hear all of `batches`, in evaluation mode. Raises ValueError where its outputs are no numbers."""
    heard = Heard([], [])
    training = net.training
    net.eval()
    for batch in batches:
        log_probabilities, frames = net(batch.features, batch.frames)
        found = log_probabilities.transpose(0, 1).cpu().numpy()
        if not np.isfinite(found).all():
            raise ValueError("the network's outputs are not finite: training has diverged")
        heard.log_probabilities.extend(each[:count] for each, count in zip(found, frames.tolist(), strict=True))
        heard.texts.extend(batch.texts)
    net.train(training)
    return heard


def word_error_rate(said: Sequence[str], read: Sequence[str]) -> float:
    """Substituted, deleted and inserted words over the words said, of the whole set. Raises ValueError without any."""
    return _rate(jiwer.process_words, said, read)


def character_error_rate(said: Sequence[str], read: Sequence[str]) -> float:
    """The same of characters, a space between words being one."""
    return _rate(jiwer.process_characters, said, read)


def _rate(process, said: Sequence[str], read: Sequence[str]) -> float:  # type: ignore[no-untyped-def]
    if len(said) != len(read):
        raise ValueError(f"{len(said)} texts were said and {len(read)} read")
    if not any(text.strip() for text in said):
        raise ValueError("no words were said")
    found = process(list(said), list(read))
    edits = found.substitutions + found.deletions + found.insertions
    return edits / (found.hits + found.substitutions + found.deletions)
