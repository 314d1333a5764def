"""Hit rate and NDCG at 10 under leave-one-out.

Every ranking, learned or naive, goes through the same function over the same candidates: a user's held-out item in
column 0 and the fixed negatives after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

TOP = 10  # the 10 of HR@10 and NDCG@10

Scorer = Callable[[Tensor, Tensor], Tensor]  # users [n], items [n] -> scores [n]


def rank(scores: Tensor) -> Tensor:
    """How many negatives stand before the held-out item, for each row; int64 [rows].

    Ties are broken against the model: a negative with the same score stands before the held-out item, so a model that
    scores everything alike hits nobody. So does a comparison with NaN.

    Args:
        scores: [rows, 1 + negatives], the held-out item's score in column 0.
    """
    return (~(scores[:, 1:] < scores[:, :1])).sum(dim=1)


def totals(scores: Tensor) -> tuple[float, float]:
    """Hits and gains summed (not averaged) over the rows of `scores`, as `rank` takes them.

    With one relevant item the ideal DCG is 1, so NDCG is 1 / log2(rank + 2) for a hit and 0 otherwise.
    """
    before = rank(scores)
    hit = before < TOP
    gain = torch.where(hit, 1 / torch.log2(before.double() + 2), 0.0)
    return float(hit.sum()), float(gain.sum())


@torch.no_grad()
def hit_rate(scorer: Scorer, batches: Iterable[tuple[Tensor, Tensor]]) -> tuple[float, float, int]:
    """HR@10, NDCG@10 and the number of users they are the mean of.

    Sums run over all users and are divided once, so the size of a batch (the last one is smaller) changes nothing.

    Args:
        scorer: gives one score a (user, item) pair.
        batches: pairs of users [n] and candidates [n, 1 + negatives], the held-out item first.

    Raises:
        ValueError: no user at all.
    """
    hits = gains = 0.0
    n_users = 0
    for users, candidates in batches:
        pairs = users.repeat_interleave(candidates.shape[1])
        scores = scorer(pairs, candidates.flatten().long()).view(candidates.shape)
        hit, gain = totals(scores)
        hits, gains, n_users = hits + hit, gains + gain, n_users + len(users)
    if not n_users:
        raise ValueError("no user to evaluate")
    return hits / n_users, gains / n_users, n_users
