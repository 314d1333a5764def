"""The naive rankings that the student is compared with; judged by the same metric over the same items."""

from __future__ import annotations

import torch
from torch import Tensor

from .data import TrainSet
from .metric import Scorer


def rankings(train: TrainSet) -> dict[str, Scorer]:
    """All of them by name."""
    similar = Similarity(train)
    return {
        "popularity": lambda users, histories: train.counts.float().expand(len(users), -1),
        "item_knn": similar.of_all,
        "recent_items": similar.of_history,
    }


class Similarity:
    """Ranks items by their cosine to what the user took: the sum over all training items, or over the newest.

    The cosine is that of two items' 0/1 columns of who took them. Built over blocks of users; memory is a few times
    n_items^2 floats (0.8 GB each for Gowalla).
    """

    BLOCK = 1024  # users at once

    def __init__(self, train: TrainSet) -> None:
        self.taken = train.taken
        n_items = train.taken.shape[1]
        together = torch.zeros(n_items, n_items, device=train.taken.device)
        for block in train.taken.split(self.BLOCK):
            rows = self._rows(block)
            together.addmm_(rows.T, rows)
        length = together.diagonal().sqrt().clamp(min=1)
        self.cosine = together.div_(length).div_(length[:, None]).fill_diagonal_(0)

    def of_all(self, users: Tensor, histories: Tensor) -> Tensor:
        """Scores [n, n_items] from all training items of `users`."""
        return self._rows(self.taken[users]) @ self.cosine

    def of_history(self, users: Tensor, histories: Tensor) -> Tensor:
        """Scores [n, n_items] from `histories` [n, length]; the padding is similar to nothing."""
        return self.cosine[histories].sum(dim=1)

    @staticmethod
    def _rows(taken: Tensor) -> Tensor:
        rows = taken.float()
        rows[:, 0] = 0  # marked as taken so that the padding is never ranked
        return rows
