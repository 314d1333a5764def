"""The losses: ranking what was taken above what was not, and the teacher's list above all (Tang and Wang, KDD 2018).

A teacher's list at a moment is its first items without those of the moment itself: the last ones taken and the next.
Later ones may be among them; leaving all of a user's items out would leave lists of what the user passed over.
The student takes them for further positives, each with a weight of two parts: how high the teacher has it, and how
much lower the student has it still.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .data import TrainSet
from .model import Caser


def ranking_loss(taken: Tensor, others: Tensor) -> Tensor:
    """Mean log loss of the logits `taken` [batch] as positives plus that of `others` [batch, n] as negatives."""
    return F.softplus(-taken).mean() + F.softplus(others).mean()


def distillation_loss(listed: Tensor, weights: Tensor) -> Tensor:
    """Weighted log loss of the student's logits `listed` [batch, n] for the teacher's list, mean over the batch."""
    return (weights * F.softplus(-listed)).sum(dim=1).mean()


def place_weights(places: int, scale: float, device: torch.device) -> Tensor:
    """exp(-r / `scale`) for the places r = 1 .. `places` of a list, with sum 1."""
    return torch.softmax(-torch.arange(1, places + 1, device=device) / scale, dim=0)


def estimated_places(listed: Tensor, sampled: Tensor, n_items: int) -> Tensor:
    """Where the student has the listed items, from logits of items drawn at random; float [batch, n].

    Args:
        listed: the student's logits [batch, n] of the listed items.
        sampled: its logits [batch, m] of m items drawn from all `n_items`.
    """
    below = torch.searchsorted(sampled.sort(dim=1).values, listed.contiguous())
    return (1 - below / sampled.shape[1]) * n_items + 1


def combined_weights(by_place: Tensor, places: Tensor, scale: float) -> Tensor:
    """The weights by place times tanh(`scale` * (student's place - teacher's place)), none below 0; sum 1 in each row.

    Where the student has every listed item at its place or better the row is 0: there is nothing left to learn.

    Args:
        by_place: [n], of `place_weights`.
        places: the student's [batch, n], of `estimated_places`.
    """
    teachers = torch.arange(1, places.shape[1] + 1, device=places.device)
    weights = by_place * torch.tanh((scale * (places - teachers)).clamp(min=0))
    return weights / weights.sum(dim=1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)


def plain_loss(net: Caser, train_set: TrainSet, moments: Tensor, negatives: int, generator: torch.Generator) -> Tensor:
    """The loss of a model that learns from what was taken alone, teacher or student, at `moments`; 0-d."""
    users = train_set.users[moments]
    items = torch.cat((train_set.targets[moments, None], train_set.draw(users, negatives, generator)), dim=1)
    logits = net.score(net.represent(users, train_set.histories[moments]), items)
    return ranking_loss(logits[:, 0], logits[:, 1:])


def student_loss(
    student: Caser,
    train_set: TrainSet,
    moments: Tensor,
    listed_items: Tensor,
    epoch: int,
    hp: Any,
    generator: torch.Generator,
) -> Tensor:
    """The loss of the student at `moments` with the teacher's `listed_items` [len(moments), distill_items]; 0-d.

    hp: the run's Settings. After `distill_rank_start_epoch` epochs the weights look at the student's places, too.
    """
    users = train_set.users[moments]
    items = torch.cat((train_set.targets[moments, None], train_set.draw(users, hp.train_negatives, generator)), dim=1)
    moment = student.represent(users, train_set.histories[moments])
    logits = student.score(moment, torch.cat((items, listed_items), dim=1))
    known, listed = logits[:, : items.shape[1]], logits[:, items.shape[1] :]
    weights = place_weights(listed.shape[1], hp.distill_place_scale, listed.device)
    if epoch > hp.distill_rank_start_epoch:
        n_items = train_set.taken.shape[1]
        shape = (len(moments), hp.distill_rank_samples)
        drawn = torch.randint(1, n_items, shape, generator=generator, device=listed.device)
        with torch.no_grad():
            places = estimated_places(listed, student.score(moment, drawn), n_items - 1)
            weights = combined_weights(weights, places, hp.distill_rank_scale)
    return ranking_loss(known[:, 0], known[:, 1:]) + hp.distill_weight * distillation_loss(listed, weights)


@torch.no_grad()
def lists(teacher: Caser, train_set: TrainSet, moments: Iterable[Tensor], length: int) -> Tensor:
    """The teacher's first `length` items at each training moment, the history and the item taken left out.

    Args:
        moments: batches of numbers of moments, together all of them; those that are missing have lists of padding.

    Returns:
        int64 [moments, length].
    """
    teacher.eval()
    found = torch.zeros(len(train_set.users), length, dtype=torch.int64, device=train_set.users.device)
    for batch in moments:
        history = train_set.histories[batch]
        scores = teacher.score_all(teacher.represent(train_set.users[batch], history))
        known = torch.cat((history, train_set.targets[batch, None]), dim=1)
        found[batch] = scores.scatter(1, known, -torch.inf).topk(length, dim=1).indices
    return found
