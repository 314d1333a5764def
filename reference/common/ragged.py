"""Sentences as numbers: rows of different lengths in one array, and batches of them with padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

PAD = 0
"""What fills up a batch: the number of no word."""


@dataclass(frozen=True)
class Ragged:
    """Rows of numbers, of different lengths, one after the other: row k is flat[starts[k]:starts[k + 1]]."""

    flat: np.ndarray
    starts: np.ndarray  # int64 [rows + 1]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]]) -> Ragged:
        """From rows of numbers from 0 to 2**32 - 1."""
        lengths = [len(row) for row in rows]
        flat = np.fromiter((number for row in rows for number in row), dtype=np.uint32, count=sum(lengths))
        return cls(flat, np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def row(self, number: int) -> np.ndarray:
        return self.flat[self.starts[number] : self.starts[number + 1]]

    def padded(self, rows: np.ndarray, longest: int) -> np.ndarray:
        """These rows as int64 [rows, longest of them], filled up with PAD; of each its first `longest` numbers."""
        begin, length = self.starts[rows], np.minimum(self.lengths[rows], longest)
        places = np.arange(max(int(length.max()), 1) if len(rows) else 1)
        inside = places < length[:, None]
        found = np.full(inside.shape, PAD, dtype=np.int64)
        found[inside] = self.flat[(begin[:, None] + places)[inside]]
        return found
