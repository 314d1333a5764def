"""How often a picture's person comes first: among the classes of a network, or among the people of a gallery."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
import torch.nn.functional as F
from torch import Tensor


def hits(scores: Tensor, labels: Tensor) -> int:
    """How many rows of scores (n, people) have their label first.

    Others with the label's own score stand before it, so that whoever answers everything alike scores nothing; and so
    does a score that is no number.
    """
    own = scores.gather(1, labels[:, None])
    before = (~(scores < own)).sum(dim=1) - 1  # the label itself is not less than itself
    return int(((before == 0) & ~own[:, 0].isnan()).sum())


def templates(features: Tensor, people: Tensor) -> Tensor:
    """One template for each person of a gallery, (people, size): the mean of its features' directions, of length 1.

    features: (n, size); people: (n,) int64, every number from 0 on at least once.
    """
    count = int(people.max()) + 1
    sums = torch.zeros(count, features.shape[1], device=features.device).index_add_(
        0, people, F.normalize(features, dim=1)
    )
    return F.normalize(sums, dim=1)


@torch.no_grad()
def identification(
    scorer: Callable[[Tensor], Tensor], batches: Iterable[tuple[Tensor, Tensor]], device: torch.device
) -> tuple[float, int]:
    """The share of pictures whose person has the highest score, and how many pictures there are.

    scorer: pictures (n, 4, h, w) -> scores (n, people): logits, or likenesses to the templates. batches: (pictures,
    labels (n,)), any sizes: hits are summed over all and divided once. Raises ValueError without pictures.
    """
    right = seen = 0
    for pictures, labels in batches:
        right += hits(scorer(pictures.to(device)), labels.to(device))
        seen += len(labels)
    if not seen:
        raise ValueError("no pictures to identify")
    return right / seen, seen
