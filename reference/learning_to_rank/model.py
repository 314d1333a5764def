"""Caser: the next item from the convolved embeddings of the last ones (Tang and Wang, WSDM 2018, section 3)."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Caser(nn.Module):
    """Scores items for a user who has just taken `length` others.

    The history's embeddings are an image of `length` rows and `dim` columns. Vertical filters weigh its rows,
    horizontal ones of every height slide down it and keep their maximum; a layer makes `dim` numbers of both. Beside
    the user's own vector they meet each item's output vector in a dot product.

    Filters are linear layers over windows: the same arithmetic and parameters as a convolution, held to it by a test.
    They have no activation, and the layer behind them has a sigmoid, as in AIBench's settings.

    With 13,149 users, 14,008 rows of items and dim 100 it has 5,583,500 parameters, the teacher of AIBench's log.

    Args:
        n_users: rows of the users' table.
        n_items: rows of the items' tables, row 0 of them the padding of short histories.
        dim: width of the embeddings; the output vectors are twice as wide.
        length: items in a history.
        vertical, horizontal: filters, the latter for each height 1 .. length.
        dropout: share of the filters' outputs that a training step drops.
        spread: standard deviation of the tables' first values, in units of 1 / width.

    Raises:
        ValueError: a size below 1, or a dropout outside 0 .. 1, or a spread of 0 or less.
    """

    def __init__(
        self,
        n_users: int,
        n_items: int,
        dim: int,
        length: int,
        vertical: int,
        horizontal: int,
        dropout: float,
        spread: float = 1.0,
    ) -> None:
        super().__init__()
        if min(dim, length, vertical, horizontal) < 1:
            raise ValueError(f"sizes must be at least 1, got {dim}, {length}, {vertical} and {horizontal}")
        if not spread > 0:
            raise ValueError(f"the spread of first values must be above 0, got {spread}")
        self.users = nn.Embedding(n_users, dim)
        self.items = nn.Embedding(n_items, dim, padding_idx=0)
        self.vertical = nn.Linear(length, vertical)
        self.horizontal = nn.ModuleList(nn.Linear(height * dim, horizontal) for height in range(1, length + 1))
        self.dropout = nn.Dropout(dropout)
        self.taste = nn.Linear(vertical * dim + horizontal * length, dim)
        self.output = nn.Embedding(n_items, 2 * dim)
        self.bias = nn.Embedding(n_items, 1)
        for table in (self.users, self.items, self.output):
            nn.init.normal_(table.weight, std=spread / table.embedding_dim)
        nn.init.zeros_(self.bias.weight)
        with torch.no_grad():
            self.items.weight[0] = 0

    def represent(self, users: Tensor, history: Tensor) -> Tensor:
        """What is known of a moment, float [batch, 2 dim], from users [batch] and their last items [batch, length]."""
        image = self.items(history)  # [batch, length, dim]
        filtered = [self.vertical(image.transpose(1, 2)).transpose(1, 2).flatten(1)]
        for height, layer in enumerate(self.horizontal, start=1):
            windows = image.unfold(1, height, 1).transpose(2, 3).flatten(2)  # [batch, places, height * dim]
            filtered.append(layer(windows).amax(dim=1))
        taste = torch.sigmoid(self.taste(self.dropout(torch.cat(filtered, dim=1))))
        return torch.cat((taste, self.users(users)), dim=1)

    def score(self, moment: Tensor, items: Tensor) -> Tensor:
        """Logits [batch, n] of `items` [batch, n] at each moment [batch, 2 dim]."""
        return torch.einsum("bnd,bd->bn", self.output(items), moment) + self.bias(items).squeeze(2)

    def score_all(self, moment: Tensor) -> Tensor:
        """Logits [batch, n_items] of every item; the padding's is -inf."""
        scores = torch.addmm(self.bias.weight.T, moment, self.output.weight.T)
        scores[:, 0] = -torch.inf
        return scores
