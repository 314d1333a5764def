"""Samplers that need no training, and the two ends of the scale."""

from __future__ import annotations

import torch
from torch import Tensor

from . import metric

SEED = 1
DRAWS = 3  # of the collapsed sampler; the best one counts
MODES = 10  # pictures that it repeats where there are no classes


def distances(judge: metric.Judge, images: Tensor, labels: Tensor | None, count: int) -> dict[str, float]:
    """The Fréchet distance of `count` images of each sampler, lower is better.

    images: training images (n, channels, side, side), labels (n,) or None. `collapsed_*` repeats one real image a
    class (or ten of all), the best of three draws: what a generator scores that has forgotten all but ten pictures.
    `real training images` is the floor that repeating the whole training set would reach.
    """
    draws = torch.Generator().manual_seed(SEED)

    def some(rows: Tensor, number: int) -> Tensor:
        return rows[torch.randint(len(rows), (number,), generator=draws).to(rows.device)]

    everything = torch.arange(len(images), device=images.device)
    groups = [everything] if labels is None else [(labels == k).nonzero().flatten() for k in labels.unique()]
    each = -(-count // len(groups))
    means = torch.stack([images[group].mean(dim=0) for group in groups])
    samplers = {
        "noise": torch.randn((count, *images.shape[1:]), generator=draws).to(images.device).clamp(-1, 1),
        "mean_image_of_a_class": means.repeat_interleave(each, dim=0)[:count],
        "real training images (the floor)": images[some(everything, count)],
    }
    found = {name: _distance(judge, made) for name, made in samplers.items()}
    collapsed = []
    for _ in range(DRAWS):
        kept = some(everything, MODES) if labels is None else torch.cat([some(group, 1) for group in groups])
        collapsed.append(_distance(judge, images[kept].repeat_interleave(-(-count // len(kept)), dim=0)[:count]))
    return {**found, "collapsed_to_single_images": min(collapsed)}


def _distance(judge: metric.Judge, images: Tensor) -> float:
    return judge.distance(images.split(judge.batch_size))[0]
