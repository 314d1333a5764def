"""DLRM: the deep learning recommendation model of Naumov et al., 2019 (arXiv:1906.00091).

Numbers go through the bottom network, every category through a table of its own; all pairs of the resulting vectors
meet in a dot product, and the top network reads the products next to the bottom network's output.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def mlp(widths: Sequence[int], last_is_linear: bool) -> nn.Sequential:
    """Linear layers of the given widths with ReLU between them, and after the last one unless `last_is_linear`.

    Weights are normal with variance 2 / (inputs + outputs), biases normal with variance 1 / outputs, as the authors'
    implementation starts them.
    """
    layers: list[nn.Module] = []
    for inputs, outputs in zip(widths[:-1], widths[1:], strict=True):
        linear = nn.Linear(inputs, outputs)
        nn.init.normal_(linear.weight, std=(2 / (inputs + outputs)) ** 0.5)
        nn.init.normal_(linear.bias, std=(1 / outputs) ** 0.5)
        layers += [linear, nn.ReLU()]
    return nn.Sequential(*(layers[:-1] if last_is_linear else layers))


def interact(vectors: Tensor) -> Tensor:
    """Dot products of all pairs of different vectors: (batch, n, width) to (batch, n (n - 1) / 2).

    The order is that of the strict lower triangle, row by row: 1·0, 2·0, 2·1, 3·0 ...
    """
    products = torch.bmm(vectors, vectors.transpose(1, 2))
    row, column = torch.tril_indices(vectors.shape[1], vectors.shape[1], offset=-1, device=vectors.device)
    return products[:, row, column]


class DLRM(nn.Module):
    """Click logits from `dense` numbers (batch, dense_features) and `categories` (batch, tables), one index a table.

    `table_rows` gives the rows of each table, all of them `embedding_dim` wide. `bottom` and `top` are the widths of
    the hidden layers; the bottom network ends in `embedding_dim` and the top one in the logit without being told so.
    `table_bound` limits the first values of the tables (see `table`).
    Tables give sparse gradients: a step touches the rows of its batch and no others.
    """

    def __init__(
        self,
        dense_features: int,
        table_rows: Sequence[int],
        embedding_dim: int,
        bottom: Sequence[int],
        top: Sequence[int],
        table_bound: float = 0.0,
    ) -> None:
        super().__init__()
        vectors = len(table_rows) + 1
        self.tables = nn.ModuleList(table(rows, embedding_dim, table_bound) for rows in table_rows)
        self.bottom = mlp([dense_features, *bottom, embedding_dim], last_is_linear=False)
        self.top = mlp([embedding_dim + vectors * (vectors - 1) // 2, *top, 1], last_is_linear=True)

    def forward(self, dense: Tensor, categories: Tensor) -> Tensor:
        numbers = self.bottom(dense)
        looked_up = [table(column[:, None]) for table, column in zip(self.tables, categories.unbind(1), strict=True)]
        crossed = interact(torch.stack([numbers, *looked_up], dim=1))
        return self.top(torch.cat([numbers, crossed], dim=1)).squeeze(1)


def table(rows: int, width: int, bound: float) -> nn.EmbeddingBag:
    """A table of `rows` vectors, uniform within `bound`, or within 1 / sqrt(rows) where that is 0."""
    bound = bound or rows**-0.5
    bag = nn.EmbeddingBag(rows, width, mode="sum", sparse=True)
    nn.init.uniform_(bag.weight, -bound, bound)
    return bag


def parameter_count(net: nn.Module) -> int:
    """Number of trained values. A model built under `torch.device("meta")` is counted without its memory."""
    return sum(parameter.numel() for parameter in net.parameters())
