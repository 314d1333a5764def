"""MovieLens as implicit feedback: reading, the leave-one-out split, and both samplers of negatives.

A rating counts as an interaction, whatever its stars. Each user's last rating is held out for evaluation, all others
are for training. All of it is array code: nothing here loops over ratings or users.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from reference.common import runs, sources
from reference.common.errors import SetupError

CSV_HEADER = "userId,movieId,rating,timestamp"  # ratings.csv, as GroupLens publishes it
INTER_HEADER = "user_id:token\titem_id:token\trating:float\ttimestamp:float"  # recbole's atomic file
EVAL_SEED = 20  # of the fixed negatives; never a run's seed
EVAL_BLOCK = 4096  # users whose fixed negatives are drawn at once; part of the stream's definition
SAMPLER = "1"  # version of `fixed_negatives`: another stream is another benchmark


@dataclass(frozen=True)
class DataSet:
    """What a profile trains on, with the counts that are checked when it is read.

    `negatives` is how many unrated items each held-out one is ranked among; `sha256` is the ratings file's, where its
    content is fixed by a package's version, and `negatives_sha256` that of the resulting fixed negatives.
    """

    name: str
    users: int
    items: int
    ratings: int
    negatives: int
    sha256: str | None = None
    negatives_sha256: str | None = None


DATA_SETS = {
    "full": DataSet("movielens-20m", 138_493, 26_744, 20_000_263, negatives=999),
    # 999 distinct negatives don't exist here: the most active user has rated 737 of the 1,682 films. 99 is the paper's.
    "embedded": DataSet(
        "movielens-100k",
        943,
        1_682,
        100_000,
        negatives=99,
        sha256="4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff",
        negatives_sha256="b64f04eb3b5df20366f513797e6c17a6709df6a1e30217b01aa545f10755fb65",
    ),
    "smoke": DataSet("generated", 200, 400, 5_890, negatives=99),
}
ORIGINS = {
    "ratings.csv": f"20,000,263 rows under the header {CSV_HEADER}, from GroupLens's ml-20m.zip",
    "ml-100k.inter": "as in the package recbole==1.2.1",
}


@dataclass(frozen=True)
class Ratings:
    """Who rated what, users and items numbered from 0 in the order of their ids; sorted by (user, item).

    Attributes:
        users, items: int64 [ratings].
        held_out: bool [ratings], True at each user's last rating.
    """

    users: np.ndarray
    items: np.ndarray
    held_out: np.ndarray
    n_users: int
    n_items: int


def read(file: Path | io.StringIO, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """User ids, item ids and timestamps (int64 [ratings] each, rows as in the file); the header says which format.

    Raises:
        SetupError: another header, a row that isn't numbers, or no rows.
    """
    if isinstance(file, Path):
        with file.open(encoding="utf-8", errors="replace") as opened:
            header = opened.readline().rstrip("\r\n")
    else:
        header = file.getvalue().partition("\n")[0]
    if header not in (CSV_HEADER, INTER_HEADER):
        raise SetupError(f"{name}: expected the header {CSV_HEADER!r}, found {header[:80]!r}")
    delimiter = "," if header == CSV_HEADER else "\t"
    try:
        columns = np.loadtxt(file, delimiter=delimiter, skiprows=1, usecols=(0, 1, 3), dtype=np.int64, ndmin=2)
    except ValueError as error:
        raise SetupError(f"{name}: expected whole numbers for user, item and timestamp; {error}") from None
    if not len(columns):
        raise SetupError(f"{name}: expected ratings after the header, found none")
    return columns[:, 0], columns[:, 1], columns[:, 2]


def last_rows(users: np.ndarray, times: np.ndarray) -> np.ndarray:
    """True at each user's last rating: the latest timestamp, and of equal ones the row further down; bool [ratings].

    Ties are common: 44 % of MovieLens-100K's users rated several films in their last second.

    Args:
        users: int64 [ratings], numbered from 0 without gaps.
    """
    latest = np.full(users.max() + 1, np.iinfo(np.int64).min)
    np.maximum.at(latest, users, times)
    last = np.zeros(len(latest), dtype=np.int64)
    candidates = np.flatnonzero(times == latest[users])
    np.maximum.at(last, users[candidates], candidates)
    marks = np.zeros(len(users), dtype=bool)
    marks[last] = True
    return marks


def split(
    user_ids: np.ndarray, item_ids: np.ndarray, times: np.ndarray, name: str, validation: bool = False
) -> Ratings:
    """Numbers users and items and marks each user's last rating as held out.

    With `validation` the last ratings are dropped and the last but one are held out: a split of the training data, on
    which settings are chosen.

    Raises:
        SetupError: a pair that occurs twice, or a user without a rating left to train on.
    """
    known_users, known_items = np.unique(user_ids), np.unique(item_ids)
    users, items = np.searchsorted(known_users, user_ids), np.searchsorted(known_items, item_ids)
    counts = np.bincount(users)
    fewest = 3 if validation else 2
    if counts.min() < fewest:
        raise SetupError(
            f"{name}: expected {fewest} ratings or more of every user, found {counts.min()} of user "
            f"{known_users[counts.argmin()]}"
        )
    held_out = last_rows(users, times)
    if validation:
        users, items, times = users[~held_out], items[~held_out], times[~held_out]
        held_out = last_rows(users, times)
    pairs = users * len(known_items) + items
    order = np.argsort(pairs, kind="stable")  # linear on ratings.csv, which is sorted so
    pairs = pairs[order]
    twice = order[:-1][pairs[1:] == pairs[:-1]]
    if len(twice):
        user, item = known_users[users[twice[0]]], known_items[items[twice[0]]]
        raise SetupError(f"{name}: expected at most one rating of a film by a user, found two of {item} by user {user}")
    return Ratings(users[order], items[order], held_out[order], len(known_users), len(known_items))


class Unrated:
    """The items each user has not rated, addressable by number without listing them.

    If a user's rated items are p[0] < p[1] < ..., then r + c is the r-th unrated one, where c counts the j with
    p[j] - j <= r. Those differences are kept sorted over all users, so one binary search maps any number of (user, r)
    pairs: exact, no rejection, never a rated item.

    Args:
        users, items: int64 [n], sorted by (user, item), no pair twice; every user occurs.
    """

    def __init__(self, users: Tensor, items: Tensor, n_users: int, n_items: int) -> None:
        counts = torch.bincount(users, minlength=n_users)
        self.n_items = n_items
        self.first = counts.cumsum(0) - counts
        self.sizes = n_items - counts  # int64 [n_users]
        place = torch.arange(len(users), device=users.device) - self.first[users]
        self.gaps = users * n_items + items - place

    def item(self, users: Tensor, ranks: Tensor) -> Tensor:
        """The item with number `ranks`[k] (0 to `sizes`[user] - 1) of those that `users`[k] has not rated."""
        rated_before = torch.searchsorted(self.gaps, users * self.n_items + ranks, right=True) - self.first[users]
        return ranks + rated_before

    def draw(self, users: Tensor, generator: torch.Generator) -> Tensor:
        """One unrated item a user, each equally likely; int64 of `users`' shape."""
        uniform = torch.rand(users.shape, generator=generator, dtype=torch.float64, device=users.device)
        return self.item(users, (uniform * self.sizes[users]).long())


def fixed_negatives(unrated: Unrated, count: int, seed: int = EVAL_SEED) -> Tensor:
    """`count` distinct unrated items for every user, the same on every machine and in every run.

    Drawn from the raw stream of numpy's PCG64, whose values numpy guarantees, with integers from there on: numbers are
    drawn for a block of users, sorted, and every number that a user has twice is drawn again until none is left.

    Returns:
        int32 [n_users, count], ascending in each row.

    Raises:
        SetupError: a user has fewer unrated items than `count`.
    """
    fewest = int(unrated.sizes.min())
    if fewest < count:
        raise SetupError(f"expected {count} or more unrated items for every user, found {fewest} for one")
    raw = np.random.PCG64(seed).random_raw
    device, n_users = unrated.sizes.device, len(unrated.sizes)
    chosen = torch.empty(n_users, count, dtype=torch.int32, device=device)
    for start in range(0, n_users, EVAL_BLOCK):
        rows = torch.arange(start, min(start + EVAL_BLOCK, n_users), device=device)
        ranks = torch.empty(len(rows), count, dtype=torch.int64, device=device)
        missing = torch.ones_like(ranks, dtype=torch.bool)
        while len(rows):
            sizes = unrated.sizes[rows][:, None].expand_as(ranks)[missing]
            uniform = torch.from_numpy((raw(len(sizes)) >> np.uint64(11)) * 2.0**-53).to(device)
            ranks[missing] = (uniform * sizes).long()
            ranks = ranks.sort(dim=1).values
            missing[:, 0], missing[:, 1:] = False, ranks[:, 1:] == ranks[:, :-1]
            open_rows = missing.any(dim=1)
            done = rows[~open_rows]
            chosen[done] = unrated.item(done[:, None].expand(-1, count), ranks[~open_rows]).int()
            rows, ranks, missing = rows[open_rows], ranks[open_rows], missing[open_rows]
    return chosen


class Epoch:
    """One pass over the training pairs, each once, with negatives drawn for this pass; batches in random order.

    An epoch holds `negatives` negative examples for every positive one. A negative is a uniform draw from the items
    that the user has not rated in the *training* data. The held-out item is among those: leaving it out would tell
    the model which item never occurs as a negative.

    Yields:
        users int64 [batch], items int64 [batch], labels float32 [batch] (1 rated, 0 not); the last batch is smaller.
    """

    def __init__(self, train: TrainSet, batch: int, negatives: int, generator: torch.Generator) -> None:
        self.train, self.batch, self.generator = train, batch, generator
        self.examples = len(train.users) * (1 + negatives)

    def __len__(self) -> int:
        """Number of batches."""
        return -(-self.examples // self.batch)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        train, n_rated = self.train, len(self.train.users)
        order = torch.randperm(self.examples, generator=self.generator, device=train.users.device)
        for picked in order.split(self.batch):
            rated, row = picked < n_rated, picked % n_rated
            users = train.users[row]
            items = torch.where(rated, train.items[row], train.unrated.draw(users, self.generator))
            yield users, items, rated.float()


@dataclass(frozen=True)
class TrainSet:
    """The training pairs (int64 [n] each, sorted by user and item) and the sampler of what is left."""

    users: Tensor
    items: Tensor
    unrated: Unrated


@dataclass(frozen=True)
class EvalSet:
    """What is ranked: candidates int32 [n_users, 1 + negatives], each user's held-out item in column 0."""

    candidates: Tensor

    def batches(self, users: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Users int64 [n] and their candidates [n, 1 + negatives], n = `users` but in the last."""
        numbers = torch.arange(len(self.candidates), device=self.candidates.device)
        return zip(numbers.split(users), self.candidates.split(users), strict=True)


def prepare(ratings: Ratings, negatives: int, device: torch.device) -> tuple[TrainSet, EvalSet]:
    """The tensors that training and evaluation work on, on `device`; `negatives` a held-out item."""
    users, items = torch.from_numpy(ratings.users).to(device), torch.from_numpy(ratings.items).to(device)
    held_out = torch.from_numpy(ratings.held_out).to(device)
    n_users, n_items = ratings.n_users, ratings.n_items
    kept = ~held_out
    train = TrainSet(users[kept], items[kept], Unrated(users[kept], items[kept], n_users, n_items))
    chosen = fixed_negatives(Unrated(users, items, n_users, n_items), negatives)
    return train, EvalSet(torch.cat((items[held_out].int()[:, None], chosen), dim=1))


def made_up_ratings(users: int, items: int) -> str:
    """A ratings.csv of users with hidden tastes, for the smoke profile and the tests: the layout, not the content.

    User u rates 15 + 7u mod 30 films: those with the best sum of a hidden match, a popularity and noise. Film i is
    always rated by user i mod `users`, so none is left out.
    """
    rng = np.random.default_rng(0)
    taste, kind = rng.normal(size=(users, 4)), rng.normal(size=(items, 4))
    liking = taste @ kind.T + rng.normal(size=items) + rng.gumbel(size=(users, items))
    liking[np.arange(items) % users, np.arange(items)] = np.inf
    lines = [CSV_HEADER]
    for user, order in enumerate(np.argsort(-liking, axis=1, kind="stable")):
        for item in np.sort(order[: 15 + 7 * user % 30]):
            lines.append(f"{user + 1},{2 * item + 1},{rng.integers(1, 11) / 2},{rng.integers(10**9, 10**9 + 5000)}")
    return "\n".join(lines) + "\n"


def find(run: runs.Run) -> tuple[Path | io.StringIO, sources.Source]:
    """The ratings of the run's profile, and what the log says about them.

    Raises:
        SetupError: the package, the folder or the file is missing, or the file isn't the published one.
    """
    expected = DATA_SETS[run.profile.name]
    if run.profile.name == "smoke":
        text = made_up_ratings(expected.users, expected.items)
        return io.StringIO(text), sources.generated("made_up_ratings", "1", np.frombuffer(text.encode(), np.uint8))
    if run.profile.name == "embedded" and run.data_dir is None:
        path, source = sources.package_file("recbole", "1.2.1", "dataset_example/ml-100k/ml-100k.inter")
    else:
        name = "ml-100k.inter" if run.profile.name == "embedded" else "ratings.csv"
        layout = f"DIR/{name}, {ORIGINS[name]}"
        folder = run.require_data_dir(layout)
        path = folder / name
        if not path.is_file():
            raise SetupError(f"--data-dir {folder}: expected {layout}; found no {name}")
        source = sources.data_file(path, expected.name, "", folder)
    if expected.sha256 not in (None, source.sha256):
        raise SetupError(f"{source.file}: expected SHA-256 {expected.sha256}, found {source.sha256}")
    return path, source


def load(run: runs.Run) -> tuple[TrainSet, EvalSet]:
    """Reads the profile's ratings and draws the fixed negatives; all of it, every time.

    Raises:
        SetupError: data other than the benchmark's, with what was expected and what was found.
    """
    expected = DATA_SETS[run.profile.name]
    file, source = find(run)
    columns = read(file, source.file or source.name)
    ratings = split(*columns, name=source.file or source.name, validation=run.settings.held_out == "validation")
    found = (ratings.n_users, ratings.n_items, len(columns[0]))
    if found != (expected.users, expected.items, expected.ratings):
        raise SetupError(
            f"{source.file or source.name}: expected {expected.name} with {expected.users} users, {expected.items} "
            f"films and {expected.ratings} ratings, found {found[0]}, {found[1]} and {found[2]}"
        )
    train, held_out = prepare(ratings, expected.negatives, run.device)
    drawn = sources.generated("fixed_negatives", SAMPLER, held_out.candidates[:, 1:].cpu().numpy())
    if run.settings.held_out == "evaluation" and expected.negatives_sha256 not in (None, drawn.sha256):
        raise SetupError(f"fixed negatives: expected SHA-256 {expected.negatives_sha256}, found {drawn.sha256}")
    run.describe_data(len(train.users), len(held_out.candidates), [source, drawn])
    return train, held_out
