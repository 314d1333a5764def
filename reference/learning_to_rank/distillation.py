"""The losses: ranking what was taken above what was not, and the teacher's list above all (Tang and Wang, KDD 2018).

A teacher's list at a moment is its first items without those of the moment itself: the last ones taken and the next.
Later ones may be among them; leaving all of a user's items out would leave lists of what the user passed over.
The student takes them for further positives, each with a weight of two parts: how high the teacher has it, and how
much lower the student has it still.

Three things are ours, and each is a setting. Lists can be had at crossed moments, where a training moment's history
meets another user: nobody saw what came next there, but the teacher has an opinion. A listed item can be a positive
only as far as the teacher is confident of it, by its own logit, and a negative for the rest. And items drawn at random
can be negatives beside a list.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from .data import TrainSet
from .model import Caser


def ranking_loss(taken: Tensor, others: Tensor) -> Tensor:
    """Mean log loss of the logits `taken` [batch] as positives plus that of `others` [batch, n] as negatives."""
    return F.softplus(-taken).mean() + F.softplus(others).mean()


def distillation_loss(listed: Tensor, weights: Tensor, confidences: Tensor) -> Tensor:
    """Weighted log loss of the student's logits `listed` [batch, n] for the teacher's list, mean over the batch.

    confidences: [batch, n], how much of a positive each item is, from 0 to 1.
    """
    losses = confidences * F.softplus(-listed) + (1 - confidences) * F.softplus(listed)
    return (weights * losses).sum(dim=1).mean()


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


@dataclass(frozen=True)
class Lists:
    """The teacher's list at each training moment's history, for the moment's user or, crossed, for another.

    Attributes:
        users: int64 [moments], for whom.
        items: int64 [moments, distill_items], the teacher's first first.
        confidences: float [moments, distill_items], the sigmoid of the teacher's logits, or 1.
    """

    users: Tensor
    items: Tensor
    confidences: Tensor


def student_loss(
    student: Caser, train_set: TrainSet, moments: Tensor, lists: Lists, epoch: int, hp: Any, generator: torch.Generator
) -> Tensor:
    """The loss of the student at `moments` with the teacher's lists there; 0-d.

    hp: the run's Settings. After `distill_rank_start_epoch` epochs the weights look at the student's places, too.
    """
    users, histories = train_set.users[moments], train_set.histories[moments]
    items = torch.cat((train_set.targets[moments, None], train_set.draw(users, hp.train_negatives, generator)), dim=1)
    moment = student.represent(users, histories)
    known = student.score(moment, items)
    if hp.distill_crossed:
        moment = student.represent(lists.users[moments], histories)
    listed = student.score(moment, lists.items[moments])
    n_items = train_set.taken.shape[1]
    weights = place_weights(listed.shape[1], hp.distill_place_scale, listed.device)
    if epoch > hp.distill_rank_start_epoch:
        drawn = draw_any(n_items, len(moments), hp.distill_rank_samples, generator)
        with torch.no_grad():
            places = estimated_places(listed, student.score(moment, drawn), n_items - 1)
            weights = combined_weights(weights, places, hp.distill_rank_scale)
    from_lists = distillation_loss(listed, weights, lists.confidences[moments])
    if hp.distill_negatives:
        drawn = draw_any(n_items, len(moments), hp.distill_negatives, generator)
        from_lists = from_lists + F.softplus(student.score(moment, drawn)).mean()
    return ranking_loss(known[:, 0], known[:, 1:]) + hp.distill_weight * from_lists


def draw_any(n_items: int, rows: int, count: int, generator: torch.Generator) -> Tensor:
    """Items from 1 to `n_items` - 1, each equally likely; int64 [rows, count]."""
    return torch.randint(1, n_items, (rows, count), generator=generator, device=generator.device)


@torch.no_grad()
def lists(teacher: Caser, train_set: TrainSet, moments: Iterable[Tensor], hp: Any, generator: torch.Generator) -> Lists:
    """The teacher's first items at each training moment, the history and the item taken left out.

    Crossed moments have their users from a permutation of the training moments', and leave out the history alone.

    Args:
        moments: batches of numbers of moments, together all of them; those that are missing have lists of padding.
        hp: the run's Settings.
    """
    teacher.eval()
    total, device = len(train_set.users), train_set.users.device
    users = train_set.users
    if hp.distill_crossed:
        users = users[torch.randperm(total, generator=generator, device=device)]
    items = torch.zeros(total, hp.distill_items, dtype=torch.int64, device=device)
    confidences = torch.ones(total, hp.distill_items, device=device)
    for batch in moments:
        left_out = train_set.histories[batch]
        scores = teacher.score_all(teacher.represent(users[batch], left_out))
        if not hp.distill_crossed:
            left_out = torch.cat((left_out, train_set.targets[batch, None]), dim=1)
        logits, items[batch] = scores.scatter(1, left_out, -torch.inf).topk(hp.distill_items, dim=1)
        if hp.distill_confident:
            confidences[batch] = torch.sigmoid(logits)
    return Lists(users, items, confidences)
