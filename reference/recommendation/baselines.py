"""The naive rankings that NeuMF is compared with; judged by the same metric over the same candidates."""

from __future__ import annotations

import torch
from torch import Tensor

from .data import TrainSet
from .metric import Scorer

NEIGHBOURS = 20  # chosen on the validation split of MovieLens-100K among 10, 20, 50, 100, 200, 400 and all


def rankings(train: TrainSet, n_users: int, n_items: int) -> dict[str, Scorer]:
    """All of them by name."""
    return {
        "popularity": popularity(train.items, n_items),
        "item_knn": ItemNeighbours(train.users, train.items, n_users, n_items, NEIGHBOURS),
    }


def popularity(train_items: Tensor, n_items: int) -> Scorer:
    """Scores an item by how often it was rated in the training data, the same for every user."""
    counts = torch.bincount(train_items, minlength=n_items)
    return lambda users, items: counts[items]


class ItemNeighbours:
    """Item-based nearest neighbours: an item scores its similarity to those of its nearest items that the user rated.

    Similarity is the cosine between two items' 0/1 columns of the training matrix, summed over the `neighbours`
    nearest. The matrix is accumulated over blocks of users, so memory is a few times n_items^2 floats (2.9 GB each
    for MovieLens-20M).

    Args:
        train_users, train_items: int64 [n], the training pairs, sorted by user.
        neighbours: how many an item has; more than there are items means all.
    """

    BLOCK = 1024  # users at once

    def __init__(self, train_users: Tensor, train_items: Tensor, n_users: int, n_items: int, neighbours: int) -> None:
        self.users, self.items, self.n_items = train_users, train_items, n_items
        device = train_users.device
        self.first = torch.searchsorted(train_users, torch.arange(n_users + 1, device=device))
        together = torch.zeros(n_items, n_items, device=device)
        for start in range(0, n_users, self.BLOCK):
            rows = self.rated(torch.arange(start, min(start + self.BLOCK, n_users), device=device))
            together.addmm_(rows.T, rows)
        length = together.diagonal().sqrt().clamp(min=1)
        cosine = together.div_(length).div_(length[:, None]).fill_diagonal_(0)
        nearest = cosine.topk(min(neighbours, n_items), dim=1)
        self.similarity = torch.zeros_like(cosine).scatter_(1, nearest.indices, nearest.values)  # [of, to]

    def rated(self, users: Tensor) -> Tensor:
        """The 0/1 rows [len(users), n_items] of these users, who are consecutive."""
        start, stop = self.first[users[0]], self.first[users[-1] + 1]
        rows = torch.zeros(len(users), self.n_items, device=self.items.device)
        rows[self.users[start:stop] - users[0], self.items[start:stop]] = 1
        return rows

    def __call__(self, users: Tensor, items: Tensor) -> Tensor:
        """Scores [n] of the pairs; `users` is sorted and without gaps, as an evaluation batch is."""
        distinct = torch.unique_consecutive(users)
        return (self.rated(distinct) @ self.similarity.T)[users - distinct[0], items]
