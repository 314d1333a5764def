"""Click samples held in memory, and batches of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Batch = tuple[Tensor, Tensor, Tensor]  # labels (n,) float, dense (n, numbers) float, categories (n, tables) int64


@dataclass(frozen=True)
class Samples:
    """n samples: a label 0 or 1, `dense` numbers, and one row index into each of the tables of `table_rows` rows."""

    labels: NDArray[np.float32]  # (n,)
    dense: NDArray[np.float32]  # (n, numbers)
    categories: NDArray[np.int64]  # (n, tables)
    table_rows: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[np.intp]) -> Samples:
        """The samples of these row numbers, in their order."""
        return Samples(self.labels[rows], self.dense[rows], self.categories[rows], self.table_rows)

    def part(self, start: int, stop: int) -> Samples:
        """The samples from `start` to `stop` (not included), not copied."""
        rows = slice(start, stop)
        return Samples(self.labels[rows], self.dense[rows], self.categories[rows], self.table_rows)


def join(first: Samples, second: Samples) -> Samples:
    """The samples of `first` and then of `second`, which have the same tables."""
    return Samples(
        np.concatenate([first.labels, second.labels]),
        np.concatenate([first.dense, second.dense]),
        np.concatenate([first.categories, second.categories]),
        first.table_rows,
    )


def batches(samples: Samples, batch_size: int, device: torch.device) -> Iterator[Batch]:
    """One pass over `samples` in their order; the last batch may be smaller."""
    arrays = (samples.labels, samples.dense, samples.categories)
    parts = (torch.from_numpy(array).to(device).split(batch_size) for array in arrays)
    yield from zip(*parts, strict=True) if len(samples) else ()
