"""MovieLens-100K as click prediction: did the user rate this film 4 or 5? (embedded profile)

The three files come from the data folder inside the recbole wheel (or from --data-dir): tab-separated text whose header
names each column as `name:type`.
"""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reference.common.errors import SetupError

from .samples import Samples

FILES = ("ml-100k.inter", "ml-100k.item", "ml-100k.user")
FIELDS = ("user", "item", "occupation", "gender", "zip digit", "first genre")  # one table each
NUMBERS = ("age", "release year", "log ratings of the user", "log ratings of the item", "time")
CLICK = 4.0  # a rating from here on is a click


def read_columns(path: Path, wanted: tuple[str, ...]) -> dict[str, list[str]]:
    """The `wanted` columns of a recbole atomic file, as text. Column types in the header are not needed.

    Raises SetupError, naming file and line, for a missing column or a row with too few or too many fields.
    """
    with open(path, encoding="utf-8", errors="replace", newline="") as lines:
        rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        header = [name.partition(":")[0] for name in next(rows, [])]
        missing = [name for name in wanted if name not in header]
        if missing:
            raise SetupError(
                f"{path.name}: no column {', '.join(missing)}; found {', '.join(header) or 'an empty file'}"
            )
        places = [header.index(name) for name in wanted]
        columns: list[list[str]] = [[] for _ in wanted]
        for row in rows:
            if len(row) != len(header):
                raise SetupError(f"{path.name}:{rows.line_num}: expected {len(header)} fields, found {len(row)}")
            for column, place in zip(columns, places, strict=True):
                column.append(row[place])
    return dict(zip(wanted, columns, strict=True))


def split(users: list[str], items: list[str]) -> NDArray[np.intp]:
    """Row numbers in the order of the MD5 of "user item": a random order that no library version can change.

    Random and not by time on purpose: on the last fifth of the time a DLRM does not beat the mean of each item.
    """
    digests = [hashlib.md5(f"{user} {item}".encode()).digest() for user, item in zip(users, items, strict=True)]
    return np.array(sorted(range(len(digests)), key=digests.__getitem__), dtype=np.intp)


def indices(names: list[str], known: list[str]) -> NDArray[np.int64]:
    """Index of each name in the sorted set of `known` names, from 1; 0 stands for one that is not known."""
    place = {name: number for number, name in enumerate(sorted(set(known)), start=1)}
    return np.array([place.get(name, 0) for name in names], dtype=np.int64)


def load(folder: Path, held_out: str) -> tuple[Samples, Samples]:
    """Training and held-out samples of the data set in `folder`.

    `held_out` is "evaluation" (the first fifth in the order of `split`) or "validation" (the next tenth, taken out of
    what is then left to train on): settings are tuned on the second and never on the first.
    Counts, means and deviations are those of the training rows alone.
    """
    ratings = read_columns(folder / FILES[0], ("user_id", "item_id", "rating", "timestamp"))
    users, items = read_people_and_films(folder)
    stars, when = numbers(ratings["rating"]), numbers(ratings["timestamp"])
    bad = np.flatnonzero(np.isnan(stars) | np.isnan(when))
    if len(bad):
        raise SetupError(f"{FILES[0]}:{bad[0] + 2}: rating and timestamp must be numbers")
    if len(stars) < 10:
        raise SetupError(f"{FILES[0]}: {len(stars)} ratings are too few to split")
    order = split(ratings["user_id"], ratings["item_id"])
    fifth = len(order) // 5
    evaluation, training = order[:fifth], order[fifth:]
    if held_out == "validation":
        evaluation, training = training[: fifth // 2], training[fifth // 2 :]
    if set(evaluation) & set(training):
        raise AssertionError("a rating is in both the training and the held-out samples")

    user_row = rows_of(ratings["user_id"], users["user_id"], FILES[2])
    item_row = rows_of(ratings["item_id"], items["item_id"], FILES[1])
    by_user = {name: [users[name][row] for row in user_row] for name in ("age", "gender", "occupation", "zip_code")}
    by_item = {name: [items[name][row] for row in item_row] for name in ("release_year", "class")}

    known = fields(users, items)
    named = fields({"user_id": ratings["user_id"], **by_user}, {"item_id": ratings["item_id"], **by_item})
    categories = np.stack([indices(names, all_names) for names, all_names in zip(named, known, strict=True)], axis=1)
    rows = rows_for(known)
    counts = [np.log1p(np.bincount(categories[training, field], minlength=rows[field])) for field in (0, 1)]
    dense = np.stack(
        [
            numbers(by_user["age"]),
            numbers(by_item["release_year"]),
            counts[0][categories[:, 0]],
            counts[1][categories[:, 1]],
            when,
        ],
        axis=1,
    )
    dense = standardised(dense, training)
    labels = (stars >= CLICK).astype(np.float32)
    whole = Samples(labels, dense, categories, rows)
    return whole.take(training), whole.take(evaluation)


def table_rows(folder: Path) -> tuple[int, ...]:
    """Rows of each table, from the files of users and films alone."""
    return rows_for(fields(*read_people_and_films(folder)))


def read_people_and_films(folder: Path) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The columns used of users and of films, one row each."""
    items = read_columns(folder / FILES[1], ("item_id", "release_year", "class"))
    users = read_columns(folder / FILES[2], ("user_id", "age", "gender", "occupation", "zip_code"))
    return users, items


def fields(users: dict[str, list[str]], items: dict[str, list[str]]) -> list[list[str]]:
    """The six categories of FIELDS: a column of names each."""
    zip_digits = [code[:1] for code in users["zip_code"]]
    genres = [names.partition(" ")[0] for names in items["class"]]
    return [users["user_id"], items["item_id"], users["occupation"], users["gender"], zip_digits, genres]


def rows_for(known: list[list[str]]) -> tuple[int, ...]:
    """Rows of the table of each field: one for each known name, and row 0 for unknown ones."""
    return tuple(len(set(names)) + 1 for names in known)


def rows_of(names: list[str], known: list[str], file: str) -> list[int]:
    """Where each name stands in `known`. Raises SetupError for one that `file` does not describe."""
    place = {name: row for row, name in enumerate(known)}
    missing = next((name for name in names if name not in place), None)
    if missing is not None:
        raise SetupError(f"{file}: no row for {missing!r}, which {FILES[0]} rates")
    return [place[name] for name in names]


def numbers(texts: list[str]) -> NDArray[np.float64]:
    """Texts as numbers; NaN for what is not one (some films have no year)."""

    def number(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            return float("nan")

    return np.array([number(text) for text in texts])


def standardised(columns: NDArray[np.float64], training: NDArray[np.intp]) -> NDArray[np.float32]:
    """Columns with mean 0 and deviation 1 over the training rows; a missing number becomes 0, the mean."""
    mean = np.nanmean(columns[training], axis=0)
    deviation = np.nanstd(columns[training], axis=0)
    return np.nan_to_num((columns - mean) / np.where(deviation > 0, deviation, 1.0)).astype(np.float32)
