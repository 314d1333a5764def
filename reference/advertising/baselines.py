"""What a model has to beat: predictions that need no deep network."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from .samples import Samples


def field_mean(train: Samples, held_out: Samples, field: int, prior: float = 5.0) -> NDArray[np.float64]:
    """Share of clicks that the category of one field had in training, drawn to the overall share as if by `prior` more
    samples. A score (n,) for each held-out sample."""
    rows = train.table_rows[field]
    shown = np.bincount(train.categories[:, field], minlength=rows)
    clicked = np.bincount(train.categories[:, field], weights=train.labels, minlength=rows)
    share = (clicked + prior * train.labels.mean()) / (shown + prior)
    return share[held_out.categories[:, field]]


def best_field_mean(train: Samples, held_out: Samples) -> NDArray[np.float64]:
    """`field_mean` of the field whose means tell most in the training samples (MovieLens: the film)."""

    def gain(field: int) -> float:
        means = field_mean(train, train, field)
        return float(np.var(means))

    return field_mean(train, held_out, max(range(len(train.table_rows)), key=gain))


def logistic_regression(train: Samples, held_out: Samples, l2: float = 2.0, steps: int = 60) -> NDArray[np.float64]:
    """Logits (n,) of a logistic regression on all numbers and the one-hot categories of all fields.

    Fitted by L-BFGS on all training samples, with `l2` / 2 times the squared weights added to the summed log loss: no
    seed, one answer.
    """
    offsets = torch.tensor([0, *np.cumsum(train.table_rows)[:-1]])
    weights = torch.zeros(sum(train.table_rows) + train.dense.shape[1] + 1, dtype=torch.float64, requires_grad=True)
    one_hot = sum(train.table_rows)

    def logits(samples: Samples) -> torch.Tensor:
        rows = torch.from_numpy(samples.categories) + offsets
        dense = torch.from_numpy(samples.dense).double()
        return weights[:one_hot][rows].sum(1) + dense @ weights[one_hot:-1] + weights[-1]

    labels = torch.from_numpy(train.labels).double()
    optimizer = torch.optim.LBFGS([weights], max_iter=steps, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        total = F.binary_cross_entropy_with_logits(logits(train), labels, reduction="sum")
        total = (total + l2 / 2 * weights[:-1].square().sum()) / len(train)
        total.backward()
        return total

    optimizer.step(loss)
    with torch.no_grad():
        return logits(held_out).numpy()
