"""What the detector is trained on: which anchors and regions hold which object, a sample of them, and the four losses.

Objects come padded: boxes (n, g, 4) and labels (n, g) int64 from 0, where -1 marks padding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from . import boxes as geometry
from .model import DELTA_SCALE, FasterRCNN

ANCHOR_OBJECT, ANCHOR_BACKGROUND = 0.7, 0.3  # IoU from which an anchor is an object, and below which it is background
REGION_OBJECT = 0.5  # the same for a region; below it is background
JITTER = 0.15  # of a box's sides: how far a jittered copy's edges are moved


@dataclass(frozen=True)
class Sampling:
    """How many anchors and regions of an image are trained on."""

    proposals_before_nms: int
    proposals: int
    anchors: int
    anchor_positives: float  # share of them, at most
    regions: int
    region_positives: float
    jittered: int  # copies of each true box, moved a little, among the regions


def losses(net: FasterRCNN, images: Tensor, sizes: Tensor, boxes: Tensor, labels: Tensor, how: Sampling) -> Tensor:
    """The four losses (4,) of a batch: objectness, anchors' boxes, classes, regions' boxes; each a mean over samples.

    images (n, 3, h, w), sizes (n, 2), and the objects that aren't difficult.
    """
    features = net.body(images)
    logits, deltas = net.rpn(features)
    anchors = net.anchors(features)
    first = rpn_losses(logits, deltas, anchors, boxes, labels, how)
    proposals, there = net.propose(logits, deltas, anchors, sizes, how.proposals_before_nms, how.proposals)
    regions, classes, targets, weights = sample_regions(proposals, there, boxes, labels, sizes, how)
    second = region_losses(*net.regions(features, regions), classes.flatten(), targets.view(-1, 4), weights.flatten())
    return torch.cat([first, second])


def match(candidates: Tensor, boxes: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Overlap of candidates (n, m, 4) or (m, 4) with objects: all (n, m, g), the best (n, m), whose it is (n, m)."""
    if boxes.shape[1] == 0:  # no object in the whole batch
        boxes, labels = boxes.new_zeros(len(boxes), 1, 4), labels.new_full((len(labels), 1), -1)
    overlaps = geometry.iou(candidates.expand(len(boxes), -1, 4), boxes)
    overlaps = overlaps.masked_fill((labels < 0)[:, None, :], -1.0)
    best = overlaps.max(dim=2)
    return overlaps, best.values, best.indices


def anchor_labels(anchors: Tensor, boxes: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """1 object, 0 background, -1 neither; and whose it is: both (n, a). Each object's best anchors are objects."""
    overlaps, best, whose = match(anchors, boxes, labels)
    kind = torch.full_like(whose, -1)
    kind[best < ANCHOR_BACKGROUND] = 0
    highest = overlaps.amax(dim=1, keepdim=True)
    favourite = (overlaps == highest) & (highest > 0)
    kind[favourite.any(dim=2) | (best >= ANCHOR_OBJECT)] = 1
    return kind, whose


def sample(kind: Tensor, count: int, positives: float) -> Tensor:
    """Choose at random: at most count * positives of kind 1, the rest of kind 0. kind (n, m) -> (n, m) bool."""
    chosen = torch.zeros_like(kind, dtype=torch.bool)
    left = torch.full((len(kind), 1), int(count * positives), device=kind.device)
    for wanted in (1, 0):
        key = torch.rand(kind.shape, device=kind.device).add_(1e-6) * (kind == wanted)
        top = key.topk(min(count, kind.shape[1]), dim=1)
        rank = torch.arange(top.indices.shape[1], device=kind.device)
        chosen.scatter_(1, top.indices, chosen.gather(1, top.indices) | ((rank < left) & (top.values > 0)))
        left = count - chosen.sum(dim=1, keepdim=True)
    return chosen


def rpn_losses(logits: Tensor, deltas: Tensor, anchors: Tensor, boxes: Tensor, labels: Tensor, how: Sampling) -> Tensor:
    """Objectness and box loss (2,) of the sampled anchors. logits (n, a), deltas (n, a, 4), anchors (a, 4)."""
    with torch.no_grad():
        kind, whose = anchor_labels(anchors, boxes, labels)
        chosen = sample(kind, how.anchors, how.anchor_positives)
        image, place = (chosen & (kind == 1)).nonzero(as_tuple=True)
        number = chosen.sum().clamp(min=1)
    objectness = F.binary_cross_entropy_with_logits(logits[chosen], kind[chosen].to(logits.dtype), reduction="sum")
    if not len(image):
        return torch.stack([objectness / number, deltas.sum() * 0])
    targets = geometry.encode(boxes[image, whose[image, place]], anchors[place])
    moved = F.smooth_l1_loss(deltas[image, place], targets, beta=1 / 9, reduction="sum")
    return torch.stack([objectness / number, moved / number])


@torch.no_grad()
def sample_regions(
    proposals: Tensor, there: Tensor, boxes: Tensor, labels: Tensor, sizes: Tensor, how: Sampling
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Choose regions to train on, among the proposals, the true boxes and jittered copies of these.

    Returns, for each image how.regions of them: boxes (n, r, 4), classes (n, r) with 0 for background, the deltas to
    the object (n, r, 4), and weights (n, r): 0.0 where an image has too few.
    """
    real = labels >= 0
    side = (boxes[..., 2:] - boxes[..., :2]).repeat(1, 1, 2)
    copies = [boxes + (torch.rand_like(boxes) * 2 - 1) * JITTER * side for _ in range(how.jittered)]
    candidates = torch.cat([proposals, boxes, *(geometry.clip(copy, sizes) for copy in copies)], dim=1)
    valid = torch.cat([there, real.repeat(1, 1 + how.jittered)], dim=1)
    short = how.regions - candidates.shape[1]
    if short > 0:
        candidates, valid = F.pad(candidates, (0, 0, 0, short)), F.pad(valid, (0, short))
    _, best, whose = match(candidates, boxes, labels)
    kind = torch.where(valid, (best >= REGION_OBJECT).long(), -1)
    chosen = sample(kind, how.regions, how.region_positives)
    places = chosen.long().topk(how.regions, dim=1).indices
    weights = chosen.gather(1, places).float()
    regions, whose, kind = _pick(candidates, places), whose.gather(1, places), kind.gather(1, places)
    if boxes.shape[1] == 0:
        return regions, torch.zeros_like(kind), torch.zeros_like(regions), weights
    classes = torch.where(kind == 1, labels.gather(1, whose) + 1, 0)
    targets = geometry.encode(_pick(boxes, whose), regions) / regions.new_tensor(DELTA_SCALE)
    return regions, classes, torch.where((classes > 0)[..., None], targets, 0.0), weights


def region_losses(logits: Tensor, deltas: Tensor, classes: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Class and box loss (2,) of r regions: logits (r, c), deltas (r, 1 or c, 4), the rest as in `sample_regions`."""
    number = weights.sum().clamp(min=1)
    classified = (F.cross_entropy(logits, classes, reduction="none") * weights).sum() / number
    own = deltas[:, 0] if deltas.shape[1] == 1 else deltas[torch.arange(len(classes), device=classes.device), classes]
    distance = F.smooth_l1_loss(own, targets, reduction="none").sum(dim=1)
    return torch.stack([classified, (distance * weights * (classes > 0)).sum() / number])


def _pick(boxes: Tensor, places: Tensor) -> Tensor:
    """boxes (n, m, 4) at places (n, r) -> (n, r, 4)."""
    return boxes.gather(1, places[..., None].expand(-1, -1, 4))
