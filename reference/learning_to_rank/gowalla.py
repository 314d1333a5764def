"""Gowalla: check-ins at places, as prepared train and test lines or as SNAP publishes them."""

from __future__ import annotations

import gzip
import io
from array import array
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reference.common.errors import SetupError

from .interactions import HELD_OUT, in_order, newest

PREPARED = ("train.txt", "test.txt")
CHECK_INS = ("loc-gowalla_totalCheckins.txt.gz", "loc-gowalla_totalCheckins.txt")
LAYOUT = (
    "DIR/train.txt and DIR/test.txt (a line 'user item 1' for each check-in, a user's in order of time), or "
    "DIR/loc-gowalla_totalCheckins.txt[.gz] from SNAP (6,442,890 check-ins)"
)
FEWEST = 16  # places a user went to, and users who went to a place, for either to stay; SNAP's file only

Columns = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]  # user ids, item ids, held out


def files(folder: Path) -> list[Path]:
    """The files to read: the prepared pair, or SNAP's one. Raises SetupError when the folder has neither."""
    pair = [folder / name for name in PREPARED]
    if all(path.is_file() for path in pair):
        return pair
    for name in CHECK_INS:
        if (folder / name).is_file():
            return [folder / name]
    found = ", ".join(sorted(path.name for path in folder.iterdir())[:8]) or "nothing"
    raise SetupError(f"--data-dir {folder}: expected {LAYOUT}; found {found}")


def read(found: list[Path]) -> Columns:
    """User ids, item ids and whether each is held out, one user after the other, each in order of time."""
    return read_prepared(*found) if len(found) == 2 else read_check_ins(found[0])


def read_prepared(train: Path, test: Path) -> Columns:
    """The prepared lines: what is in `test` is held out. An item that a user has again is dropped.

    Raises:
        SetupError: a line that isn't 'user item 1' in whole numbers.
    """
    parts = []
    for path in (train, test):
        text = path.read_text(encoding="utf-8", errors="replace")
        try:
            pairs = np.loadtxt(io.StringIO(text), dtype=np.int64, usecols=(0, 1), ndmin=2) if text.strip() else None
        except ValueError as error:
            raise SetupError(f"{path.name}: expected lines 'user item 1' in whole numbers; {error}") from None
        if pairs is None:
            raise SetupError(f"{path.name}: expected lines 'user item 1', found none")
        parts.append(pairs)
    both = np.concatenate(parts)
    held_out = np.arange(len(both)) >= len(parts[0])
    rows = in_order(both[:, 0], both[:, 1], np.arange(len(both)))
    return both[rows, 0], both[rows, 1], held_out[rows]


def read_check_ins(path: Path) -> Columns:
    """SNAP's file: user, time, latitude, longitude and place between tabs, the newest first.

    A user's first check-in at a place counts. Users with fewer than FEWEST places and places with fewer than FEWEST
    users are dropped until none is left; the newest fifth of each user's is held out.

    Raises:
        SetupError: a line of another form, or nothing left.
    """
    users, times, places = array("q"), array("q"), array("q")
    digits = str.maketrans("", "", "-:TZ")
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        for number, line in enumerate(lines, start=1):
            try:
                user, time, _, _, place = line.split("\t")
                row = int(user), int(time.translate(digits)), int(place)
            except ValueError:
                raise SetupError(f"{path.name}:{number}: expected user, time, latitude, longitude and place") from None
            for column, value in zip((users, times, places), row, strict=True):
                column.append(value)
    user_ids, item_ids, when = (np.frombuffer(column, dtype=np.int64) for column in (users, places, times))
    rows = in_order(user_ids, item_ids, when)
    user_ids, item_ids = often(user_ids[rows], item_ids[rows], FEWEST)
    if not len(user_ids):
        raise SetupError(f"{path.name}: no user has {FEWEST} places that {FEWEST} users went to")
    return user_ids, item_ids, newest(user_ids, HELD_OUT)


def often(
    users: NDArray[np.int64], items: NDArray[np.int64], fewest: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The pairs that are left when users and items with fewer than `fewest` pairs are dropped again and again."""
    while True:
        kept = np.ones(len(users), dtype=bool)
        for ids in (users, items):
            _, numbers, counts = np.unique(ids, return_inverse=True, return_counts=True)
            kept &= counts[numbers] >= fewest
        if kept.all():
            return users, items
        users, items = users[kept], items[kept]
