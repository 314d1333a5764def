"""Verification of pairs: do two pictures show the same person? Ten folds, as Labeled Faces in the Wild asks for.

A pair is accepted as the same person when the squared distance of its two embeddings is below a threshold. The
threshold is the best one of nine folds, and is judged on the tenth; the accuracy is the mean over the ten.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Pairs:
    """rows (n, 2) int64: numbers of pictures; same (n,) bool: one person; fold (n,) int64, from 0."""

    rows: Tensor
    same: Tensor
    fold: Tensor

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Verified:
    """accuracy: mean over folds. true_accepts: see `true_accept_rate`. spread: 0 when all embeddings are one point, up
    to 1 when their mean is the origin."""

    accuracy: float
    true_accepts: float
    spread: float
    pairs: int


def best_threshold(distances: Tensor, same: Tensor) -> float:
    """The threshold with the most right answers on these pairs; of several as good, the smallest.

    It lies in the middle between two neighbouring distances, or beside all of them. distances, same: (n,).
    """
    ordered, order = distances.double().sort()
    hits = torch.zeros(len(ordered) + 1, dtype=torch.int64, device=ordered.device)
    hits[1:] = same[order].long().cumsum(0)  # same pairs among the k nearest
    nearest = torch.arange(len(ordered) + 1, device=ordered.device)
    right = hits + (len(ordered) - int(hits[-1])) - (nearest - hits)
    possible = torch.ones_like(right, dtype=torch.bool)
    possible[1:-1] = ordered[:-1] < ordered[1:]  # no threshold parts equal distances
    best = int(torch.where(possible, right, -1).argmax())
    edges = torch.cat([ordered[:1] - 1, ordered, ordered[-1:] + 1])
    return float((edges[best] + edges[best + 1]) / 2)


def accuracy(distances: Tensor, pairs: Pairs) -> float:
    """The mean over folds of the accuracy at the threshold that is the best one on the other folds.

    Raises ValueError for distances that are no numbers, no pairs, or fewer than two folds.
    """
    folds = pairs.fold.unique().tolist()
    if len(distances) != len(pairs) or len(folds) < 2:
        raise ValueError(f"{len(distances)} distances of {len(pairs)} pairs in {len(folds)} folds cannot be judged")
    if not distances.isfinite().all():
        raise ValueError("a distance is not a finite number: training has diverged")
    values = []
    for fold in folds:
        own = pairs.fold == fold
        threshold = best_threshold(distances[~own], pairs.same[~own])
        accepted = distances[own].double() < threshold
        values.append(float((accepted == pairs.same[own]).double().mean()))
    return sum(values) / len(values)


def true_accept_rate(distances: Tensor, same: Tensor, false_accept_rate: float) -> float:
    """The share of same pairs that are accepted when at most this share of the different pairs is, over all folds."""
    different = distances[~same].sort().values
    allowed = int(false_accept_rate * len(different))
    if allowed >= len(different):
        return 1.0
    return float((distances[same] < different[allowed]).double().mean())


@torch.no_grad()
def embeddings(net: nn.Module, batches: Iterable[Tensor]) -> Tensor:
    """The embeddings (n, size) of all pictures, in their order; `net` is in evaluation mode meanwhile."""
    training = net.training
    net.eval()
    found = [net(images) for images in batches]
    net.train(training)
    if not found:
        raise ValueError("no pictures to embed")
    return torch.cat(found)


def verify(found: Tensor, pairs: Pairs, false_accept_rate: float) -> Verified:
    """Judge embeddings (pictures, size) of length 1."""
    distances = (found[pairs.rows[:, 0]] - found[pairs.rows[:, 1]]).square().sum(dim=1)
    judged = accuracy(distances, pairs)
    accepts = true_accept_rate(distances, pairs.same, false_accept_rate)
    spread = 1 - float(found.mean(dim=0).square().sum())
    return Verified(judged, accepts, spread, len(pairs))
