"""Geometry of boxes: overlap, non-maximum suppression, the coding of box regression, anchors, RoIAlign.

A box is (x0, y0, x1, y1) in pixels, as a continuous rectangle: the pixel in column 0 spans 0 to 1, so a box around it
alone is (0, 0, 1, 1). (VOC's own files count from 1 and include the last pixel; `voc.py` converts them.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

MAX_LOG_SCALE = math.log(1000 / 16)  # a predicted side is at most this much longer than its anchor's


def area(boxes: Tensor) -> Tensor:
    """(..., 4) -> (...)"""
    return (boxes[..., 2] - boxes[..., 0]) * (boxes[..., 3] - boxes[..., 1])


def iou(first: Tensor, second: Tensor) -> Tensor:
    """Intersection over union of each pair: (..., n, 4) and (..., m, 4) -> (..., n, m). 0 where both are empty."""
    low = torch.maximum(first[..., :, None, :2], second[..., None, :, :2])
    high = torch.minimum(first[..., :, None, 2:], second[..., None, :, 2:])
    both = (high - low).clamp(min=0).prod(dim=-1)
    either = area(first)[..., :, None] + area(second)[..., None, :] - both
    return both / either.clamp(min=1e-9)


def clip(boxes: Tensor, sizes: Tensor) -> Tensor:
    """Cut boxes (n, m, 4) at the edges of their images; sizes (n, 2) as (height, width)."""
    height, width = sizes[:, 0, None], sizes[:, 1, None]
    limits = torch.stack([width, height, width, height], dim=-1).to(boxes.dtype)
    return torch.minimum(boxes.clamp(min=0), limits)


def nms(boxes: Tensor, scores: Tensor, threshold: float, keep_at_most: int | None = None) -> Tensor:
    """Non-maximum suppression: the indices of the boxes that stay, the best score first.

    A box goes when it overlaps one with a better score, that itself stays, by more than `threshold`. Of equal scores
    the first in the list is the better one. boxes (n, 4), scores (n,) -> (k,) int64.

    Works through blocks: inside a block the decisions follow one another, on the host; what the block keeps then
    suppresses everything after it at once.
    """
    order = scores.argsort(descending=True, stable=True)
    kept: list[Tensor] = []
    count = 0
    while len(order) and (keep_at_most is None or count < keep_at_most):
        block, order = order[:1024], order[1024:]
        overlaps = (iou(boxes[block], boxes[block]) > threshold).cpu().numpy()
        alive = overlaps.diagonal() | True
        for row in range(len(block)):
            if alive[row]:
                alive[row + 1 :] &= ~overlaps[row, row + 1 :]
        chosen = block[torch.from_numpy(alive).to(block.device)]
        kept.append(chosen)
        count += len(chosen)
        if len(order):
            order = order[~(iou(boxes[order], boxes[chosen]) > threshold).any(dim=1)]
    return torch.cat(kept)[:keep_at_most] if kept else order


def nms_by_class(boxes: Tensor, scores: Tensor, classes: Tensor, threshold: float) -> Tensor:
    """As `nms`, where only boxes of the same class suppress one another: each class is moved to a place of its own."""
    if not len(boxes):
        return torch.zeros(0, dtype=torch.long, device=boxes.device)
    apart = classes.to(boxes.dtype) * (boxes.max() - boxes.min() + 1)
    return nms(boxes + apart[:, None], scores, threshold)


def encode(boxes: Tensor, anchors: Tensor) -> Tensor:
    """What the regression has to predict for `anchors` to become `boxes`: (dx, dy, log dw, log dh), each (..., 4)."""
    size, anchor_size = boxes[..., 2:] - boxes[..., :2], anchors[..., 2:] - anchors[..., :2]
    anchor_size = anchor_size.clamp(min=1e-3)
    centre, anchor_centre = boxes[..., :2] + size / 2, anchors[..., :2] + anchor_size / 2
    shift = (centre - anchor_centre) / anchor_size
    return torch.cat([shift, (size.clamp(min=1e-3) / anchor_size).log()], dim=-1)


def decode(deltas: Tensor, anchors: Tensor) -> Tensor:
    """The boxes that predictions (..., 4) make of `anchors` (..., 4): the inverse of `encode`."""
    anchor_size = anchors[..., 2:] - anchors[..., :2]
    centre = anchors[..., :2] + anchor_size / 2 + deltas[..., :2] * anchor_size
    half = deltas[..., 2:].clamp(max=MAX_LOG_SCALE).exp() * anchor_size / 2
    return torch.cat([centre - half, centre + half], dim=-1)


def anchors(height: int, width: int, stride: int, sizes: Sequence[float], ratios: Sequence[float]) -> Tensor:
    """Anchor boxes (height * width * len(sizes) * len(ratios), 4) around the centre of each cell of a feature map.

    An anchor has the area size^2 and the ratio height / width. Order: rows, columns, sizes, ratios.
    """
    size = torch.tensor([(s / math.sqrt(r), s * math.sqrt(r)) for s in sizes for r in ratios])
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    centre = (torch.stack([x, y], dim=-1).view(-1, 1, 2) + 0.5) * stride
    return torch.cat([centre - size / 2, centre + size / 2], dim=-1).view(-1, 4)


def roi_align(features: Tensor, boxes: Tensor, stride: int, side: int, samples: int) -> Tensor:
    """Cut regions out of feature maps: each becomes side x side cells, a cell the mean of samples x samples points.

    features (n, c, h, w), boxes (n, m, 4) in pixels of the image, m regions of each image -> (n * m, c, side, side).
    Points are interpolated bilinearly between the centres of the map's cells; beyond the outer centres the map goes
    on with its edge's value.
    """
    n, m = boxes.shape[:2]
    channels, height, width = features.shape[1:]
    points = (torch.arange(side * samples, device=boxes.device) + 0.5) / (side * samples)
    x = boxes[..., 0, None] + points * (boxes[..., 2] - boxes[..., 0])[..., None]  # (n, m, side * samples)
    y = boxes[..., 1, None] + points * (boxes[..., 3] - boxes[..., 1])[..., None]
    x, y = 2 * x / (stride * width) - 1, 2 * y / (stride * height) - 1
    many = side * samples
    grid = torch.stack([x[:, :, None].expand(-1, -1, many, -1), y[..., None].expand(-1, -1, -1, many)], dim=-1)
    grid = grid.reshape(n, m * many, many, 2)
    cut = F.grid_sample(features, grid, mode="bilinear", padding_mode="border", align_corners=False)
    cut = cut.view(n, channels, m, many, many).transpose(1, 2).reshape(n * m, channels, many, many)
    return F.avg_pool2d(cut, samples) if samples > 1 else cut
