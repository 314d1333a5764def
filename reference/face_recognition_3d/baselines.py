"""How often people are named without a network: nearest neighbours of colours, depths, edges and their projections.

What learns, learns from training pictures only. All go through the same count of hits as the network. A probe's score
for a person is its likeness to that person's most alike picture; a score by templates (`fisher_*`) to their mean.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from . import data, metric

FIT_PICTURES = 5_000  # training pictures that a method sees, at most
SIDE = 32  # pixels that larger pictures are brought down to
COMPONENTS = 150  # of PCA
BINS, CELL = 8, 8  # directions of an edge; pixels of a cell of edge histograms
SHRINK = 0.05  # share of the mean variance that is added to the variance within a person


def scores(found: data.People) -> dict[str, float]:
    """The share of probes that each method names."""
    train, train_labels = pictures_of(found.train, FIT_PICTURES)
    shown, people = (train, train_labels) if found.gallery is None else pictures_of(found.gallery, FIT_PICTURES)
    probes, labels = pictures_of(found.probes, len(found.probes.labels))
    kinds = {"mean_colour": mean_colour, "colour": colour, "depth": depth, "colour_and_depth": colour_and_depth}
    accuracy = {name: nearest(kind(shown), people, kind(probes), labels) for name, kind in kinds.items()}
    kinds = {"fisherfaces": colour_and_depth, "fisher_edges": edges}
    for name, kind in kinds.items():
        project = Fisher(kind(train), train_labels)
        templates = metric.templates(project(kind(shown)), people)
        likeness = F.normalize(project(kind(probes)), dim=1) @ templates.T
        accuracy[name] = metric.hits(likeness, labels) / len(labels)
    return accuracy


def pictures_of(found: data.Labelled, count: int) -> tuple[Tensor, Tensor]:
    """At most `count` pictures (n, 4, side, side), spread over all, and their labels."""
    rows = torch.arange(0, len(found.labels), -(-len(found.labels) // count)).tolist()
    parts = [found.pictures[rows[at : at + 250]] for at in range(0, len(rows), 250)]
    pictures = torch.cat([F.adaptive_avg_pool2d(part, SIDE) if part.shape[-1] > SIDE else part for part in parts])
    return pictures, found.labels[rows]


def nearest(shown: Tensor, people: Tensor, probes: Tensor, labels: Tensor) -> float:
    """The share of probes whose nearest neighbour among the shown features (n, size) is of their person."""
    distances = torch.cdist(probes, shown)
    count = int(people.max()) + 1
    closest = torch.full((len(probes), count), torch.inf).scatter_reduce_(
        1, people.expand(len(probes), -1), distances, "amin"
    )
    return metric.hits(-closest, labels) / len(labels)


def mean_colour(pictures: Tensor) -> Tensor:
    return pictures[:, :3].mean(dim=(2, 3))


def colour(pictures: Tensor) -> Tensor:
    """Colour pixels without each picture's mean colour."""
    return (pictures[:, :3] - pictures[:, :3].mean(dim=(2, 3), keepdim=True)).flatten(1)


def depth(pictures: Tensor) -> Tensor:
    """Depth pixels without the mean of those that have a depth; the others count as that mean."""
    planes = pictures[:, 3:]
    known = planes > -1
    mean = (planes * known).sum(dim=(2, 3), keepdim=True) / known.sum(dim=(2, 3), keepdim=True).clamp(min=1)
    return torch.where(known, planes - mean, 0).flatten(1)


def colour_and_depth(pictures: Tensor) -> Tensor:
    return torch.cat([colour(pictures), depth(pictures)], dim=1)


def edges(pictures: Tensor) -> Tensor:
    """How strong edges of BINS directions are in each cell, of the grey values and of the depth, each of length 1."""
    found = []
    for plane in (pictures[:, :3].mean(dim=1, keepdim=True), depth(pictures).view_as(pictures[:, 3:])):
        across = F.pad(plane[..., 2:] - plane[..., :-2], (1, 1))
        down = F.pad(plane[..., 2:, :] - plane[..., :-2, :], (0, 0, 1, 1))
        strength = (across.square() + down.square()).sqrt()
        direction = (torch.atan2(down, across) / torch.pi % 1 * BINS).long().clamp(max=BINS - 1)
        planes = F.one_hot(direction[:, 0], BINS).permute(0, 3, 1, 2) * strength
        found.append(F.normalize(F.avg_pool2d(planes, CELL, CELL // 2).sqrt().flatten(1), dim=1))
    return torch.cat(found, dim=1)


class Fisher:
    """Linear discriminants: principal components, scaled so that they vary by 1 within a person, of length 1."""

    def __init__(self, train: Tensor, labels: Tensor) -> None:
        self.mean = train.mean(dim=0)
        count = min(COMPONENTS, train.shape[1], len(train) - 1)
        draws = torch.random.get_rng_state()
        torch.manual_seed(0)  # pca_lowrank draws; what it draws is the same in each run
        self.directions = torch.pca_lowrank(train - self.mean, count, center=False)[2]
        torch.random.set_rng_state(draws)
        known = (train - self.mean) @ self.directions
        numbers = labels.unique(return_inverse=True)[1]
        people = int(numbers.max()) + 1
        means = torch.zeros(people, count).index_add_(0, numbers, known) / numbers.bincount()[:, None]
        within = known - means[numbers]
        spread = within.T @ within / len(within)
        spread += SHRINK * spread.diagonal().mean() * torch.eye(count)
        values, vectors = torch.linalg.eigh(spread)
        whiten = vectors / values.sqrt()
        ways = torch.linalg.eigh((means @ whiten).T @ (means @ whiten) / people)[1]
        self.final = whiten @ ways[:, -min(people - 1, count // 2) :]

    def __call__(self, features: Tensor) -> Tensor:
        return F.normalize((features - self.mean) @ self.directions @ self.final, dim=1)
