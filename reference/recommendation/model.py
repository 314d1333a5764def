"""NeuMF: generalized matrix factorization beside a multilayer perceptron (He et al., WWW 2017, section 3.4)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn


class NeuMF(nn.Module):
    """Scores how likely a user is to interact with an item.

    Two paths with embeddings of their own: the element-wise product of a user's and an item's factors, and a
    perceptron over their concatenation. One linear layer weighs both. There is no sigmoid at the end: the loss takes
    logits, and a ranking doesn't change under a monotone function.

    With MovieLens-20M's 138,493 users and 26,744 items, 64 factors and layers (256, 256, 128, 64) it has 31,832,577
    parameters, the model of MLPerf Training v0.5.

    Args:
        n_users, n_items: sizes of the embedding tables.
        factors: width of the factorization path.
        layers: widths of the perceptron; the first is the concatenated embedding (even), the rest its layers.
        init_std: standard deviation of the embeddings' normal initialization (0.01 in the paper's code).

    Raises:
        ValueError: a width that can't be built.
    """

    def __init__(self, n_users: int, n_items: int, factors: int, layers: Sequence[int], init_std: float = 0.01) -> None:
        super().__init__()
        if len(layers) < 2 or layers[0] % 2 or min(layers) < 1 or factors < 1:
            raise ValueError(f"layers need an even first width and at least one more, got {list(layers)}")
        self.user_factors = nn.Embedding(n_users, factors)
        self.item_factors = nn.Embedding(n_items, factors)
        self.user_mlp = nn.Embedding(n_users, layers[0] // 2)
        self.item_mlp = nn.Embedding(n_items, layers[0] // 2)
        self.hidden = nn.ModuleList(nn.Linear(width, after) for width, after in zip(layers, layers[1:], strict=False))
        self.score = nn.Linear(layers[-1] + factors, 1)
        self.reset_parameters(init_std)

    def reset_parameters(self, init_std: float) -> None:
        """Normal embeddings, Glorot-uniform hidden layers, LeCun-uniform last layer; biases as torch sets them."""
        for table in (self.user_factors, self.item_factors, self.user_mlp, self.item_mlp):
            nn.init.normal_(table.weight, std=init_std)
        for layer in self.hidden:
            nn.init.xavier_uniform_(layer.weight)
        bound = math.sqrt(3 / self.score.in_features)
        nn.init.uniform_(self.score.weight, -bound, bound)

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Logits of shape [n] for the pairs (users[k], items[k]); both int64 of shape [n]."""
        product = self.user_factors(users) * self.item_factors(items)
        hidden = torch.cat((self.user_mlp(users), self.item_mlp(items)), dim=1)
        for layer in self.hidden:
            hidden = torch.relu(layer(hidden))
        return self.score(torch.cat((product, hidden), dim=1)).squeeze(1)
