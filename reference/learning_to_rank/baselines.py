"""The naive rankings that the student is compared with; judged by the same metric over the same items.

Their constants are tuned like the models' settings, on the made-up check-ins of `--held-out validation`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .data import TrainSet
from .metric import Scorer

BACK_OFF = 0.02  # of the popularity beside counted transitions: where none was counted it alone decides
RECENT_DECAY = 0.7  # what an item one place further back weighs, by similarity
POSITION_DECAY = 0.7  # the same for counted transitions and for near visits
LONG_AGO = 0.1  # what each of all items that a user took weighs beside the newest
NEAR = 5  # visits that count as near one another


def rankings(train: TrainSet) -> dict[str, Scorer]:
    """All of them by name."""
    similar, follows = Similarity(train), Transitions(train, train.histories.shape[1])
    near = NearVisits(train, NEAR)
    return {
        "popularity": lambda users, histories: train.counts.float().expand(len(users), -1),
        "item_knn": similar.of_all,
        "recent_items": similar.of_history,
        "recent_and_all": similar.of_both,
        "near_visits": near.of_history,
        "last_transition": lambda users, histories: follows.of_positions(histories[:, -1:]),
        "transitions_by_position": lambda users, histories: follows.of_positions(histories),
    }


class Similarity:
    """Ranks items by their cosine to what the user took: the sum over all training items, or over the newest.

    The cosine is that of two items' 0/1 columns of who took them. Built over blocks of users; memory is a few times
    n_items^2 floats (0.8 GB each for Gowalla).
    """

    BLOCK = 1024  # users at once

    def __init__(self, train: TrainSet) -> None:
        self.taken = train.taken
        n_items = train.taken.shape[1]
        together = torch.zeros(n_items, n_items, device=train.taken.device)
        for block in train.taken.split(self.BLOCK):
            rows = self._rows(block)
            together.addmm_(rows.T, rows)
        length = together.diagonal().sqrt().clamp(min=1)
        self.cosine = together.div_(length).div_(length[:, None]).fill_diagonal_(0)

    def of_all(self, users: Tensor, histories: Tensor) -> Tensor:
        """Scores [n, n_items] from all training items of `users`."""
        return self._rows(self.taken[users]) @ self.cosine

    def of_history(self, users: Tensor, histories: Tensor) -> Tensor:
        """Scores [n, n_items] from `histories` [n, length]; the padding is similar to nothing."""
        return self.cosine[histories].sum(dim=1)

    def of_both(self, users: Tensor, histories: Tensor) -> Tensor:
        """Scores [n, n_items] from `histories`, older items counting for less, and a little from all items."""
        scores = LONG_AGO * self.of_all(users, histories)
        for back in range(histories.shape[1]):
            scores += RECENT_DECAY**back * self.cosine[histories[:, histories.shape[1] - 1 - back]]
        return scores

    @staticmethod
    def _rows(taken: Tensor) -> Tensor:
        rows = taken.float()
        rows[:, 0] = 0  # marked as taken so that the padding is never ranked
        return rows


class Counts:
    """How often each pair of items (i, j) was counted: the rows of a sparse matrix [n_items, n_items].

    Args:
        first, second: int64 [pairs], a pair as often as it is to count.
    """

    def __init__(self, first: Tensor, second: Tensor, n_items: int) -> None:
        pairs, counts = torch.unique(first * n_items + second, return_counts=True)  # sorted
        self.second, self.counts = pairs % n_items, counts.float()
        per_row = torch.bincount(pairs // n_items, minlength=n_items)
        self.starts, self.sizes = per_row.cumsum(0) - per_row, per_row
        self.totals = torch.zeros(n_items, device=first.device).index_add_(0, pairs // n_items, self.counts)

    def add_rows(self, scores: Tensor, items: Tensor, weights: Tensor) -> None:
        """Adds to each row of `scores` [n, n_items] the counts of its item in `items` [n], times `weights` [n]."""
        sizes = self.sizes[items]
        rows = torch.arange(len(items), device=items.device).repeat_interleave(sizes)
        within = torch.arange(len(rows), device=items.device) - (sizes.cumsum(0) - sizes)[rows]
        where = self.starts[items][rows] + within
        scores.index_put_((rows, self.second[where]), self.counts[where] * weights[rows], accumulate=True)


def pairs_apart(train: TrainSet, lag: int) -> tuple[Tensor, Tensor]:
    """All training items that a user took with `lag` - 1 others between them: the earlier ones, the later ones."""
    earlier, later = slice(0, max(len(train.order) - lag, 0)), slice(lag, None)
    same = train.owners[earlier] == train.owners[later]
    return train.order[earlier][same], train.order[later][same]


class Transitions:
    """Ranks items by how often they came after the newest ones in training: as a share of all that came after.

    A history's last item looks up what came next, the one before it what came second next, and so on. Shares are
    weighed by POSITION_DECAY for each position; BACK_OFF times the popularity is added.
    """

    def __init__(self, train: TrainSet, positions: int) -> None:
        n_items = len(train.counts)
        self.after = [Counts(*pairs_apart(train, lag), n_items) for lag in range(1, positions + 1)]
        self.popularity = train.counts / train.counts.sum()

    def of_positions(self, newest: Tensor) -> Tensor:
        """Scores [n, n_items] from the `newest` items [n, up to `positions`], the last one at the end."""
        scores = (BACK_OFF * self.popularity).repeat(len(newest), 1)
        for back in range(newest.shape[1]):
            items = newest[:, newest.shape[1] - 1 - back]
            weights = POSITION_DECAY**back / self.after[back].totals[items].clamp(min=1)
            self.after[back].add_rows(scores, items, weights)
        return scores


class NearVisits:
    """Ranks items by how often they stood near the newest ones, before or after, over the root of both popularities.

    Near are items with fewer than `reach` others between them; POSITION_DECAY weighs the distance and the position.
    """

    def __init__(self, train: TrainSet, reach: int) -> None:
        n_items = len(train.counts)
        self.near = []
        for lag in range(1, reach + 1):
            first, second = pairs_apart(train, lag)
            self.near.append(Counts(torch.cat((first, second)), torch.cat((second, first)), n_items))
        self.rarity = train.counts.clamp(min=1).rsqrt()

    def of_history(self, users: Tensor, histories: Tensor) -> Tensor:
        """Scores [n, n_items] from `histories` [n, length]."""
        scores = torch.zeros(len(histories), len(self.rarity), device=histories.device)
        for back in range(histories.shape[1]):
            items = histories[:, histories.shape[1] - 1 - back]
            for lag, counts in enumerate(self.near):
                counts.add_rows(scores, items, POSITION_DECAY ** (back + lag) * self.rarity[items])
        return scores * self.rarity
