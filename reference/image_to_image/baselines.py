"""What label maps are worth that no network made. None of them sees an evaluation answer.

Label maps are class numbers (n, h, w) uint8, 255 for void; photos (n, 3, h, w) -1..1.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from . import metric

FIT_IMAGES = 300  # photos and label maps that a baseline learns from, at most
FIT_PIXELS = 20_000
STEPS = 30  # of k-means
CLUSTERS = (14, 30, 60)
POSITION_WEIGHT = 0.5  # of a position, -1..1, beside a colour, -1..1


def scores(
    photos: Tensor, maps: Tensor, held_out: tuple[Tensor, Tensor], palette: Tensor, name: str
) -> dict[str, float]:
    """The metric `name` of each naive method, learned from training photos and maps that are not paired.

    held_out: (photos, true label maps).
    """
    photos, maps = photos[:FIT_IMAGES], maps[:FIT_IMAGES]
    shares = class_shares(maps, len(palette))
    test, true = held_out
    majority = shares.sum(dim=(1, 2)).argmax()
    predictions = {
        "majority_class": majority.expand(true.shape),
        "nearest_label_colour": metric.classes_of(test, palette),
        "position_mode": shares.argmax(dim=0).expand(true.shape),
    }
    for clusters in CLUSTERS:
        centres = k_means(photos, clusters)
        names = named_by_position(assigned(photos, centres), shares, clusters)
        predictions[f"k_means_{clusters}"] = names[assigned(test, centres)]
    found = {}
    for method, predicted in predictions.items():
        confusion = metric.Confusion(len(palette))
        confusion.add(predicted, true)
        found[method] = confusion.scores()[name]
    return found


def class_shares(maps: Tensor, classes: int) -> Tensor:
    """How often each class is at each place, (classes, h, w)."""
    return torch.stack([(maps == number).float().mean(dim=0) for number in range(classes)])


def points(photos: Tensor) -> Tensor:
    """Colour and weighted position of every pixel, (n * h * w, 5)."""
    count, _, height, width = photos.shape
    rows = torch.linspace(-1, 1, height, device=photos.device).view(1, height, 1, 1).expand(count, height, width, 1)
    columns = torch.linspace(-1, 1, width, device=photos.device).view(1, 1, width, 1).expand(count, height, width, 1)
    where = torch.cat([rows, columns], dim=3) * POSITION_WEIGHT
    return torch.cat([photos.permute(0, 2, 3, 1), where], dim=3).flatten(0, 2)


def k_means(photos: Tensor, clusters: int) -> Tensor:
    """Centres (clusters, 5) after Lloyd's steps on FIT_PIXELS pixels, farthest-first at the start."""
    every = points(photos)
    draws = torch.Generator().manual_seed(0)
    chosen = torch.randint(len(every), (FIT_PIXELS,), generator=draws).to(every.device)
    sample = every[chosen]
    centres = sample.mean(dim=0, keepdim=True)
    while len(centres) < clusters:
        farthest = torch.cdist(sample, centres).amin(dim=1).argmax()
        centres = torch.cat([centres, sample[farthest : farthest + 1]])
    for _ in range(STEPS):
        nearest = torch.cdist(sample, centres).argmin(dim=1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, sample)
        sizes = torch.bincount(nearest, minlength=clusters).unsqueeze(1)
        centres = torch.where(sizes > 0, sums / sizes.clamp(min=1), centres)
    return centres


def assigned(photos: Tensor, centres: Tensor) -> Tensor:
    """The nearest centre of every pixel, (n, h, w)."""
    return torch.stack(
        [torch.cdist(points(photo[None]), centres).argmin(dim=1).view(photo.shape[1:]) for photo in photos]
    )


def named_by_position(clusters_at: Tensor, shares: Tensor, clusters: int) -> Tensor:
    """A class for each cluster, (clusters,): the one whose places are most like the places of the cluster's pixels.

    Likeness is the cosine of the two maps of frequencies, so that a rare class can name a cluster too.
    """
    where = torch.stack([(clusters_at == number).float().mean(dim=0) for number in range(clusters)])
    return (where.flatten(1) @ F.normalize(shares.flatten(1)).T).argmax(dim=1)
