"""What word error rates are reached without learning: texts that ignore the sound, and the most similar utterance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from . import metric
from .batches import Utterances

STEPS, NEIGHBOURS = 24, 500  # into which an utterance is cut; training utterances compared at most


def scores(train: Utterances, held_out: Utterances) -> dict[str, float]:
    """Word error rates on `held_out`. The spectrograms of at most NEIGHBOURS training utterances are read."""
    constant = best_constant(train.texts)
    found = {"empty": "", "frequent_words": constant}
    said = list(held_out.texts)
    rates = {name: metric.word_error_rate(said, [text] * len(said)) for name, text in found.items()}
    compared = np.linspace(0, len(train) - 1, min(len(train), NEIGHBOURS)).round().astype(int)
    ours = torch.stack([steps(train.read(int(index))) for index in compared])
    theirs = torch.stack([steps(held_out.read(index)) for index in range(len(held_out))])
    nearest = [train.texts[compared[index]] for index in nearest_by_warping(ours, theirs)]
    return {**rates, "nearest_utterance": metric.word_error_rate(said, nearest)}


def best_constant(texts: Sequence[str], most: int = 3) -> str:
    """Of texts of at most `most` words, grown from the most frequent ones, that with the fewest errors on `texts`."""
    frequent = [word for word, _ in Counter(word for text in texts for word in text.split()).most_common(8)]
    sample = list(texts[:300])
    best, least = "", 1.0
    for _ in range(most):
        tried = {f"{best} {word}".strip(): 0.0 for word in frequent}
        tried = {text: metric.word_error_rate(sample, [text] * len(sample)) for text in tried}
        text = min(tried, key=tried.__getitem__)
        if tried[text] >= least:
            break
        best, least = text, tried[text]
    return best


def steps(spectrogram: Tensor) -> Tensor:
    """A spectrogram (bins, frames) averaged to STEPS times: (STEPS, bins)."""
    return torch.nn.functional.adaptive_avg_pool1d(spectrogram[None], STEPS)[0].T.contiguous()


def nearest_by_warping(ours: Tensor, theirs: Tensor) -> list[int]:
    """For each of `theirs` (m, STEPS, bins) the one of `ours` (n, STEPS, bins) that warps to it best."""
    flat = ours.flatten(0, 1)
    return [int(_warped(torch.cdist(flat, one).view(len(ours), STEPS, STEPS).numpy()).argmin()) for one in theirs]


def _warped(costs: np.ndarray) -> np.ndarray:
    """The least sum of costs (n, s, s) along a path from corner to corner, (n,)."""
    total = np.full((len(costs), STEPS + 1, STEPS + 1), np.inf, np.float32)
    total[:, 0, 0] = 0
    for i in range(STEPS):
        for j in range(STEPS):
            before = np.minimum(np.minimum(total[:, i, j], total[:, i, j + 1]), total[:, i + 1, j])
            total[:, i + 1, j + 1] = costs[:, i, j] + before
    return total[:, STEPS, STEPS]
