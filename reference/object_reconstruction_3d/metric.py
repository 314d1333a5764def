"""How well predicted voxels fit the true ones: intersection over union, one picture at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

THRESHOLD = 0.5  # a voxel is taken for filled when its probability is above it


def iou(predicted: Tensor, true: Tensor) -> Tensor:
    """Intersection over union of each pair, (...,) float64. Both are bool, (..., x, y, z), broadcast to each other.

    Two empty grids agree: 1.
    """
    first, second = predicted.flatten(-3).float(), true.flatten(-3).float()  # sums of floats are faster, and exact here
    both = (first * second).sum(-1).double()
    either = first.sum(-1).double() + second.sum(-1).double() - both
    return torch.where(either > 0, both / either.clamp(min=1), 1.0)


@torch.no_grad()
def mean_iou(net: Callable[[Tensor], Tensor], batches: Iterable[tuple[Tensor, Tensor]]) -> tuple[float, Tensor, int]:
    """The mean over shapes of the mean over a shape's pictures; the same for each shape; and the number of shapes.

    net      pictures (n, 3, s, s) -> logits of voxels (n, x, y, z); compared with THRESHOLD
    batches  pictures (n, views, 3, s, s), -1..1, and voxels (n, x, y, z) bool; any sizes
    Raises ValueError for logits that are no numbers, and for an empty evaluation set.
    """
    found = []
    for pictures, true in batches:
        logits = net(pictures.flatten(0, 1))
        if not logits.isfinite().all():
            raise ValueError("the network's voxels hold values that are not finite numbers: training has diverged")
        predicted = (logits.sigmoid() > THRESHOLD).unflatten(0, pictures.shape[:2])
        found.append(iou(predicted, true.unsqueeze(1)).mean(1))
    if not found:
        raise ValueError("no shapes to evaluate")
    values = torch.cat(found)
    return values.mean().item(), values, len(values)


def by_class(values: Tensor, classes: np.ndarray) -> list[float]:
    """The mean of a value for each shape, (n,), over each class in turn, as far as it occurs."""
    return [values[torch.from_numpy(classes == number)].mean().item() for number in np.unique(classes)]
