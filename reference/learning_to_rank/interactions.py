"""Who took what, in which order, and which of it is held out: what every source of data comes down to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reference.common.errors import SetupError

HELD_OUT = 5  # one in so many of each user's items, the newest, is judged
VALIDATION = 10  # one in so many of those left, the newest, is what settings are tuned on


@dataclass(frozen=True)
class Interactions:
    """One user after the other, each in order of time; users are numbered from 0, items from 1.

    Attributes:
        users, items: int64 [interactions]; item 0 is one that nobody took in training.
        held_out: bool [interactions].
        item_ids: int64 [n_items - 1], the ids of items 1, 2, ...
        n_items: one more than the number of items known in training, for the padding.
    """

    users: NDArray[np.int64]
    items: NDArray[np.int64]
    held_out: NDArray[np.bool_]
    item_ids: NDArray[np.int64]
    n_users: int
    n_items: int


def in_order(user_ids: NDArray[np.int64], item_ids: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.intp]:
    """Row numbers by user, then time, then row; of a user's rows with the same item only the first is among them."""
    order = np.lexsort((np.arange(len(times)), times, user_ids))
    pairs = np.stack((user_ids[order], item_ids[order]), axis=1)
    _, first = np.unique(pairs, axis=0, return_index=True)
    return order[np.sort(first)]


def newest(users: NDArray[np.int64], part: int) -> NDArray[np.bool_]:
    """True at the newest one in `part` items of each user, rounded down; `users` stand one after the other."""
    _, numbers, counts = np.unique(users, return_inverse=True, return_counts=True)
    place = np.arange(len(users)) - (counts.cumsum() - counts)[numbers]
    return place >= (counts - counts // part)[numbers]


def numbered(
    user_ids: NDArray[np.int64],
    item_ids: NDArray[np.int64],
    held_out: NDArray[np.bool_],
    name: str,
    validation: bool = False,
) -> Interactions:
    """Numbers users and items in the order of their ids.

    With `validation` what is held out is dropped, and the newest tenth of each user's other items takes its place.

    Raises:
        SetupError: a user with nothing to train on, or nobody with anything held out.
    """
    known_items = np.unique(item_ids[~held_out])  # with validation, too: the items' numbers stay
    if validation:
        user_ids, item_ids = user_ids[~held_out], item_ids[~held_out]
        held_out = newest(user_ids, VALIDATION)
    if not held_out.any():
        raise SetupError(f"{name}: expected items to hold out, found users with {HELD_OUT - 1} or fewer items")
    known_users, users = np.unique(user_ids, return_inverse=True)
    in_training = np.bincount(users[~held_out], minlength=len(known_users))
    if in_training.min() < 1:
        raise SetupError(f"{name}: expected something to train on of user {known_users[in_training.argmin()]}")
    place = np.searchsorted(known_items, item_ids).clip(max=len(known_items) - 1)
    items = np.where(known_items[place] == item_ids, place + 1, 0)
    return Interactions(users, items, held_out, known_items, len(known_users), len(known_items) + 1)
