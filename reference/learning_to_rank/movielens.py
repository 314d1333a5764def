"""MovieLens-100K as items taken in order: a rating is one, whatever its stars."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reference.common.errors import SetupError

from .interactions import HELD_OUT, in_order, newest

FILE = "ml-100k.inter"
HEADER = "user_id:token\titem_id:token\trating:float\ttimestamp:float"  # recbole's atomic file
SHA256 = "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff"


def read(file: Path | io.StringIO, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """User ids, item ids and whether each is held out: the newest fifth of every user's ratings.

    Of equal timestamps the row further down counts as later. Ties are common; their order is arbitrary but fixed.

    Raises:
        SetupError: another header, or a row that isn't numbers.
    """
    text = file.read_text(encoding="utf-8", errors="replace") if isinstance(file, Path) else file.getvalue()
    header, _, rows = text.partition("\n")
    if header.rstrip("\r") != HEADER:
        raise SetupError(f"{name}: expected the header {HEADER!r}, found {header[:80]!r}")
    if not rows.strip():
        raise SetupError(f"{name}: expected ratings after the header, found none")
    try:
        columns = np.loadtxt(io.StringIO(rows), delimiter="\t", usecols=(0, 1, 3), dtype=np.int64, ndmin=2)
    except ValueError as error:
        raise SetupError(f"{name}: expected whole numbers for user, item and timestamp; {error}") from None
    kept = in_order(*columns.T)
    users, items = columns[kept, 0], columns[kept, 1]
    return users, items, newest(users, HELD_OUT)


def titles(ratings: Path) -> dict[int, str]:
    """Film titles by item id from the .item file beside the ratings; none where there is no such file."""
    path = ratings.with_suffix(".item")
    if not path.is_file():
        return {}
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8", errors="replace").splitlines()[1:]]
    return {int(row[0]): f"{row[1]} ({row[2]})" for row in rows if len(row) > 2 and row[0].isdecimal()}
