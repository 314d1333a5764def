"""The triplet loss of FaceNet (Schroff, Kalenichenko and Philbin, CVPR 2015, arXiv:1503.03832), mined in the batch."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Mined(NamedTuple):
    """anchors, positives, negatives (m,) int64: rows of the batch."""

    anchors: Tensor
    positives: Tensor
    negatives: Tensor


def squared_distances(embeddings: Tensor) -> Tensor:
    """Between all rows of (n, size), each of length 1: (n, n)."""
    return (2 - 2 * embeddings @ embeddings.T).clamp(min=0)


@torch.no_grad()
def semi_hard(distances: Tensor, labels: Tensor) -> Mined:
    """A triplet for each ordered pair of two pictures of one identity.

    The negative is the nearest picture of somebody else that lies farther from the anchor than the positive does; where
    all of them lie nearer, the farthest of them. (The very nearest negative, taken always, lets training collapse.)
    A batch of one identity has no triplets.

    distances: (n, n); labels: (n,).
    """
    same = labels[:, None] == labels
    others = ~same
    anchors, positives = (same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device)).nonzero(as_tuple=True)
    usable = others[anchors].any(dim=1)
    anchors, positives = anchors[usable], positives[usable]
    rows, negative = distances[anchors], others[anchors]
    farther = negative & (rows > distances[anchors, positives][:, None])
    nearest = rows.masked_fill(~farther, torch.inf).argmin(dim=1) if len(rows) else anchors
    farthest = rows.masked_fill(~negative, -torch.inf).argmax(dim=1) if len(rows) else anchors
    return Mined(anchors, positives, torch.where(farther.any(dim=1), nearest, farthest))


def loss(embeddings: Tensor, labels: Tensor, margin: float) -> tuple[Tensor, Tensor]:
    """The mean loss of the triplets that break the margin, and the share of them among all that were mined.

    A triplet's loss is max(0, d(anchor, positive) - d(anchor, negative) + margin), of squared distances. Without a
    triplet that breaks it the loss is 0, with a gradient of 0.
    """
    distances = squared_distances(embeddings)
    found = semi_hard(distances.detach(), labels)
    terms = F.relu(distances[found.anchors, found.positives] - distances[found.anchors, found.negatives] + margin)
    broken = (terms > 0).sum()
    return terms.sum() / broken.clamp(min=1), broken / max(len(terms), 1)
