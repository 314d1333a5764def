"""How well faces are verified without a network: distances of pixels, colours, edges and linear projections of them.

What learns, learns from training pictures only. All go through the same ten folds as the network.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from . import metric

COMPONENTS = 120  # of PCA
BINS = 8  # of a colour channel, and directions of an edge
FIT_PICTURES = 20_000  # training pictures that a method learns from, at most
SIDE = 32  # pixels that larger pictures are brought down to
CELL = 8  # pixels: side of a cell of edge histograms
SHRINK = 0.05  # share of the mean variance that is added to the variance within a person


def scores(train: Tensor, labels: Tensor, held_out: Tensor, pairs: metric.Pairs) -> dict[str, float]:
    """Verification accuracy of each method. train, held_out: (n, 3, side, side), -1..1; labels: (n,) of `train`."""
    grey = grey_pixels(train), grey_pixels(held_out)
    edges = edge_histograms(train), edge_histograms(held_out)
    features = {
        "mean_colour": held_out.mean(dim=(2, 3)),
        "colour_histogram": colour_histograms(held_out),
        "pixels": held_out.flatten(1),
        "normalised_pixels": F.normalize(centred(held_out).flatten(1), dim=1),
        "eigenfaces": eigenfaces(*grey),
        "fisherfaces": fisherfaces(*grey, labels),
        "edge_histograms": edges[1],
        "fisher_edge_histograms": fisherfaces(*edges, labels),
    }
    return {name: metric.accuracy(distances(found, pairs.rows), pairs) for name, found in features.items()}


def distances(features: Tensor, rows: Tensor) -> Tensor:
    return (features[rows[:, 0]] - features[rows[:, 1]]).square().sum(dim=1)


def centred(images: Tensor) -> Tensor:
    """Without each channel's mean in each picture: what light there is doesn't count."""
    return images - images.mean(dim=(2, 3), keepdim=True)


def grey_pixels(images: Tensor) -> Tensor:
    """Grey values (n, side * side) of mean 0 and length 1 in each picture."""
    return F.normalize(centred(images.mean(dim=1, keepdim=True)).flatten(1), dim=1)


def colour_histograms(images: Tensor) -> Tensor:
    """The square roots (their distance is Hellinger's) of each channel's shares of BINS values: (n, 3 * BINS)."""
    bins = ((images + 1) * (BINS / 2)).long().clamp(0, BINS - 1).flatten(2)
    return F.one_hot(bins, BINS).float().mean(dim=2).sqrt().flatten(1)


def edge_histograms(images: Tensor) -> Tensor:
    """How strong edges of BINS directions are in each cell of the picture's grey values; each picture's length is 1."""
    grey = images.mean(dim=1, keepdim=True)
    across = F.pad(grey[..., 2:] - grey[..., :-2], (1, 1))
    down = F.pad(grey[..., 2:, :] - grey[..., :-2, :], (0, 0, 1, 1))
    strength = (across.square() + down.square()).sqrt()
    direction = (torch.atan2(down, across) / torch.pi % 1 * BINS).long().clamp(max=BINS - 1)
    planes = F.one_hot(direction[:, 0], BINS).permute(0, 3, 1, 2) * strength
    return F.normalize(F.avg_pool2d(planes, CELL, CELL // 2).sqrt().flatten(1), dim=1)


def principal(train: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The mean (f,), the directions (f, COMPONENTS or fewer) and the deviations along them."""
    mean = train.mean(dim=0)
    values, vectors = torch.linalg.eigh((train - mean).T @ (train - mean) / len(train))
    count = min(COMPONENTS, train.shape[1], len(train) - 1)
    return mean, vectors[:, -count:], values[-count:].clamp(min=1e-8).sqrt()


def eigenfaces(train: Tensor, held_out: Tensor) -> Tensor:
    """Principal components, each scaled to deviation 1, of length 1."""
    mean, directions, deviations = principal(train)
    return F.normalize((held_out - mean) @ directions / deviations, dim=1)


def fisherfaces(train: Tensor, held_out: Tensor, labels: Tensor) -> Tensor:
    """Principal components scaled so that they vary by 1 within a person (linear discriminants), of length 1."""
    mean, directions, _ = principal(train)
    known, other = (train - mean) @ directions, (held_out - mean) @ directions
    numbers = labels.unique(return_inverse=True)[1]
    people = int(numbers.max()) + 1
    means = torch.zeros(people, known.shape[1]).index_add_(0, numbers, known) / numbers.bincount()[:, None]
    within = known - means[numbers]
    spread = within.T @ within / len(within)
    spread += SHRINK * spread.diagonal().mean() * torch.eye(len(spread))
    values, vectors = torch.linalg.eigh(spread)
    whiten = vectors / values.sqrt()
    between, ways = torch.linalg.eigh((means @ whiten).T @ (means @ whiten) / people)
    kept = ways[:, -min(people - 1, COMPONENTS // 2) :]
    return F.normalize(other @ whiten @ kept, dim=1)
