"""What voxels are worth that no network made. Each learns from the training objects only, but for the oracle, which is
told the true class of what it is judged on.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from . import data, metric

OBJECTS = 2000  # training objects that a baseline learns from, at most, evenly apart
SHARES = (0.2, 0.3, 0.4, 0.5)  # thresholds of a mean shape; the best one on JUDGES training objects counts
JUDGES = 200
NEIGHBOURS = (1, 3, 5, 9, 15)
SHARE = 0.35  # a voxel that more of the neighbours than this share fill is taken for filled; of all tried the best
WEIGHTED = 25  # neighbours that count by their nearness
EDGE = 0.06  # how far a channel, -1..1, must be from the ground's for a pixel of the object
PARTS = 32  # principal parts of the voxels that the linear model predicts
PARTS_OBJECTS = 500  # training objects that the parts are found from
RIDGE = 30.0  # of the linear model, of what `cut_out` makes


def scores(train: data.Part, held_out: data.Part, eval_views: int) -> dict[str, float]:
    """Mean IoU over the evaluation objects of each naive method."""
    chosen = np.linspace(0, len(train) - 1, min(OBJECTS, len(train))).round().astype(int)
    voxels, classes = train.voxels(chosen), torch.from_numpy(train.classes[chosen])
    known, of = _pictures(train, chosen)
    tests = list(held_out.evaluation(64, eval_views))
    photos, true = torch.cat([p for p, _ in tests]), torch.cat([v for _, v in tests])
    flat = photos.flatten(2).flatten(0, 1)

    found = {"mean_shape": metric.iou(mean_shape(voxels), true).mean().item()}
    nearest = neighbours(*(F.avg_pool2d(p.view(-1, *photos.shape[2:]), 2).flatten(1) for p in (flat, known)), 1)[:, 0]
    found["pixel_neighbour"] = _mean(voxels[of[nearest]], true, eval_views)
    cut, known_cut = cut_out(photos.flatten(0, 1)), cut_out(known.view(-1, *photos.shape[2:]))
    grids = by_neighbours(cut, torch.cat([known_cut, mirror(known_cut, photos.shape[-1])]), voxels, of)
    found |= {f"cut_out_neighbours_{name}": _mean(grid, true, eval_views) for name, grid in grids.items()}
    found["linear"] = _mean(linear(known_cut, voxels, of, cut), true, eval_views)
    means = {number: mean_shape(voxels[classes == number]) for number in classes.unique().tolist()}
    told = torch.stack([means[number] for number in held_out.classes.tolist()])
    found["oracle_class_mean"] = metric.iou(told, true).mean().item()
    return found


def mean_shape(voxels: Tensor) -> Tensor:
    """The voxels that most shapes fill, (x, y, z) bool, at the share that gives the best IoU on these shapes."""
    share, judges = voxels.float().mean(0), voxels[:JUDGES]
    return max((share > limit for limit in SHARES), key=lambda grid: metric.iou(grid, judges).mean().item())


def cut_out(pictures: Tensor) -> Tensor:
    """The object without its ground and its colour, (n, pixels): 0 outside, brightness within, 1 at its brightest.

    pictures (n, 3, s, s). The ground of a row is the mean of its two ends, which the object seldom covers.
    """
    ground = 0.5 * (pictures[..., :1] + pictures[..., -1:])
    inside = (pictures - ground).abs().amax(1) > EDGE
    bright = (pictures.mean(1) + 1) * inside
    return (bright / bright.amax((1, 2), keepdim=True).clamp(min=1e-6)).flatten(1)


def neighbours(pictures: Tensor, known: Tensor, count: int) -> Tensor:
    """The nearest known pictures of each picture by the sum of squared differences, nearest first, (n, count)."""
    nearest = [
        torch.cdist(part, known).topk(min(count, len(known)), largest=False).indices for part in pictures.split(64)
    ]
    return torch.cat(nearest)


def mirror(cut: Tensor, size: int) -> Tensor:
    """What `cut_out` made of pictures, left and right exchanged."""
    return cut.view(-1, size, size).flip(2).flatten(1)


def by_neighbours(cut: Tensor, known: Tensor, voxels: Tensor, of: Tensor) -> dict[str, Tensor]:
    """Voxels that the nearest known pictures' objects fill, by the number of neighbours, (n, x, y, z) bool.

    cut     pictures, as `cut_out` makes them
    known   of the known objects, then the same in a mirror; `of` says which of the voxels each of the first half shows
    """
    of = torch.cat([of, of + len(voxels)])
    voxels = torch.cat([voxels, voxels.flip(1)])
    order = neighbours(cut, known, WEIGHTED)
    apart = torch.stack([(cut - known[order[:, place]]).square().sum(1) for place in range(order.shape[1])], 1)
    near = (-3 * apart / apart[:, :1].clamp(min=1e-6)).softmax(1)
    sums = torch.zeros((len(order), *voxels.shape[1:]), dtype=torch.uint8, device=voxels.device)
    weighted = torch.zeros(sums.shape, device=voxels.device)
    grids = {}
    for place in range(order.shape[1]):
        filled = voxels[of[order[:, place]]]
        weighted += near[:, place].view(-1, 1, 1, 1) * filled
        sums += filled
        if place + 1 in NEIGHBOURS:
            grids[str(place + 1)] = sums > int(SHARE * (place + 1))
    return {**grids, "weighted": weighted > SHARE}


def linear(known: Tensor, voxels: Tensor, of: Tensor, pictures: Tensor) -> Tensor:
    """Voxels by ridge regression from pixels to the principal parts of the training voxels, (n, x, y, z) bool."""
    grids = voxels.flatten(1).float()
    centre = grids.mean(0)
    some = (grids - centre)[:: max(len(grids) // PARTS_OBJECTS, 1)]
    with torch.random.fork_rng(devices=[]):  # it starts from random vectors
        torch.manual_seed(0)
        _, _, parts = torch.svd_lowrank(some, min(PARTS, *some.shape), niter=1)
    targets = ((grids - centre) @ parts)[of]
    inputs = torch.cat([known, torch.ones_like(known[:, :1])], 1)
    square = inputs.T @ inputs + RIDGE * torch.eye(inputs.shape[1], device=inputs.device)
    weights = torch.linalg.solve(square, inputs.T @ targets)
    codes = torch.cat([pictures, torch.ones_like(pictures[:, :1])], 1) @ weights
    return (codes @ parts.T + centre > 0.4).unflatten(1, voxels.shape[1:])


def _pictures(part: data.Part, rows: np.ndarray) -> tuple[Tensor, Tensor]:
    """At most four views of these objects, (k * views, pixels), -1..1, and which of the rows each belongs to."""
    views = min(4, part.pictures.views)
    numbers = np.tile(np.arange(views), len(rows))
    read = part.pictures.read(rows.repeat(views), numbers)
    pictures = torch.from_numpy(read).to(part.device).permute(0, 3, 1, 2).flatten(1).float() / 127.5 - 1
    return pictures, torch.arange(len(rows), device=part.device).repeat_interleave(views)


def _mean(predicted: Tensor, true: Tensor, views: int) -> float:
    return metric.iou(predicted.unflatten(0, (-1, views)), true.unsqueeze(1)).mean().item()
