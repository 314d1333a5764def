"""The labels, and how a network's label probabilities are read as text: greedily, or by a beam search over prefixes.

A network gives each frame of sound a probability of every label; the blank label says nothing. A path is one label a
frame; what it spells is the path with repeated labels merged and blanks removed (Graves et al., ICML 2006).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

BLANK = 0
LABELS = "_'ABCDEFGHIJKLMNOPQRSTUVWXYZ "  # 29; the first is the blank, which no text contains
_NUMBERS = {label: number for number, label in enumerate(LABELS) if number != BLANK}
_NEVER = -math.inf


def encode(text: str) -> list[int]:
    """The label numbers of `text`. Raises ValueError for a character that is no label."""
    try:
        return [_NUMBERS[character] for character in text]
    except KeyError as error:
        raise ValueError(f"{error.args[0]!r} in {text!r} is not one of the labels {LABELS[1:]!r}") from None


def spell(numbers: Sequence[int]) -> str:
    return "".join(LABELS[number] for number in numbers)


def greedy(log_probabilities: np.ndarray) -> list[int]:
    """What the most probable path spells. log_probabilities (frames, labels)."""
    path = log_probabilities.argmax(axis=1)
    starts = np.ones(len(path), bool)
    starts[1:] = path[1:] != path[:-1]
    return [int(label) for label in path[starts] if label != BLANK]


def beam(log_probabilities: np.ndarray, width: int, least: float = 1e-4) -> list[int]:
    """The most probable text by a prefix beam search, without a language model. log_probabilities (frames, labels).

    A text's probability is the sum over all paths that spell it. After each frame the `width` most probable prefixes
    are kept; labels less probable than `least` extend none. Wide enough and with `least` 0 it is exact.
    """
    floor = math.log(least) if least > 0 else _NEVER
    beams: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, _NEVER)}  # the path so far ends in a blank, or not
    for frame in log_probabilities.tolist():
        extending = [label for label, value in enumerate(frame) if label != BLANK and value > floor]
        grown: dict[tuple[int, ...], list[float]] = {}
        for prefix, (blank, spoken) in beams.items():
            either = _sum(blank, spoken)
            stay = grown.setdefault(prefix, [_NEVER, _NEVER])
            stay[0] = _sum(stay[0], either + frame[BLANK])
            if prefix:
                stay[1] = _sum(stay[1], spoken + frame[prefix[-1]])
            for label in extending:
                before = blank if prefix and prefix[-1] == label else either  # a double letter needs a blank between
                longer = grown.setdefault((*prefix, label), [_NEVER, _NEVER])
                longer[1] = _sum(longer[1], before + frame[label])
        best = sorted(grown.items(), key=lambda item: _sum(*item[1]), reverse=True)[:width]
        beams = {prefix: (blank, spoken) for prefix, (blank, spoken) in best}
    return list(next(iter(beams)))


def _sum(a: float, b: float) -> float:
    """log(exp(a) + exp(b))."""
    if a < b:
        a, b = b, a
    return a if b == _NEVER else a + math.log1p(math.exp(b - a))
