"""Captions as numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

PAD, START, END, UNKNOWN = range(4)
SPECIAL = ("<pad>", "<start>", "<end>", "<unknown>")
WORD = re.compile(r"[a-z0-9]+(?:['-][a-z0-9]+)*|[^\sa-z0-9]")


def split(text: str) -> list[str]:
    """Lower-case words, and single signs between them."""
    return WORD.findall(text.lower())


class Vocabulary:
    """Words by number; PAD, START, END and UNKNOWN are the first four."""

    def __init__(self, captions: Iterable[Sequence[str]], min_count: int) -> None:
        counts = Counter(word for caption in captions for word in caption)
        kept = sorted((word for word, count in counts.items() if count >= min_count), key=lambda w: (-counts[w], w))
        self.words = [*SPECIAL, *kept]
        self._numbers = {word: number for number, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def numbers(self, words: Iterable[str]) -> list[int]:
        return [self._numbers.get(word, UNKNOWN) for word in words]

    def text(self, numbers: Iterable[int]) -> str:
        return " ".join(self.words[number] for number in numbers)


def padded(captions: Sequence[Sequence[int]]) -> Tensor:
    """START, the caption's numbers, END and then PAD: (captions, longest + 2) int64."""
    longest = max(map(len, captions))
    return torch.tensor([[START, *caption, END, *[PAD] * (longest - len(caption))] for caption in captions])
