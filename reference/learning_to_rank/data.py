"""What a run trains on and what it is judged by: moments, negatives and held-out items of the run's data set."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from reference.common import runs, sources
from reference.common.errors import SetupError

from . import check_ins, gowalla, made_up, movielens
from .interactions import HELD_OUT, Interactions, newest, numbered


@dataclass(frozen=True)
class DataSet:
    """What is expected of a data set: users, and rows of the items' tables (the items of training, and the padding)."""

    name: str
    users: int
    rows: int


DATA_SETS = {
    "gowalla": DataSet("gowalla", 13_149, 14_008),
    "check-ins": DataSet("made-up check-ins", check_ins.PEOPLE, 1_893),
    "movielens-100k": DataSet("movielens-100k", 943, 1_616),
    "walks": DataSet("made-up walks", 120, 121),
}
OTHER_PEOPLE = DataSet("made-up check-ins for tuning", check_ins.PEOPLE, 1_921)


def expected(settings: Any) -> DataSet:
    """What the settings' data set must be. Raises SetupError for an unknown one."""
    if settings.dataset not in DATA_SETS:
        raise SetupError(f"--dataset {settings.dataset}: known are {', '.join(DATA_SETS)}")
    if settings.dataset == "check-ins" and settings.held_out == "validation":
        return OTHER_PEOPLE
    return DATA_SETS[settings.dataset]


@dataclass(frozen=True)
class TrainSet:
    """Every training moment: who, after which items, took which one.

    Attributes:
        users, targets: int64 [moments].
        histories: int64 [moments, length], the newest last; 0 in front of a user's first item.
        taken: bool [n_users, n_items], what each user took in training; True for the padding.
        counts: int64 [n_items], how often an item was taken in training.
        order, owners: int64 [interactions], the training items, one user after the other in order of time, and whose.
    """

    users: Tensor
    histories: Tensor
    targets: Tensor
    taken: Tensor
    counts: Tensor
    order: Tensor
    owners: Tensor

    def draw(self, users: Tensor, count: int, generator: torch.Generator) -> Tensor:
        """Items that each user did not take in training, each equally likely; int64 [len(users), count].

        What is held out is among them: were it left out, a model could tell it by its never being a negative.
        """
        n_items = self.taken.shape[1]
        items = torch.randint(1, n_items, (len(users), count), generator=generator, device=users.device)
        while True:
            rows, columns = torch.nonzero(self.taken[users[:, None], items], as_tuple=True)
            if not len(rows):
                return items
            items[rows, columns] = torch.randint(1, n_items, (len(rows),), generator=generator, device=users.device)

    def batches(self, size: int, generator: torch.Generator) -> Batches:
        """All moments in random order."""
        return Batches(len(self.users), size, generator)


@dataclass(frozen=True)
class Batches:
    """The numbers 0 .. `total` - 1 in a new random order at each pass, `size` at a time, fewer in the last."""

    total: int
    size: int
    generator: torch.Generator

    def __len__(self) -> int:
        return -(-self.total // self.size)

    def __iter__(self) -> Iterator[Tensor]:
        order = torch.randperm(self.total, generator=self.generator, device=self.generator.device)
        return iter(order.split(self.size))


@dataclass(frozen=True)
class EvalSet:
    """What is ranked: for every user with something held out, all items not taken in training.

    Attributes:
        users: int64 [evaluated].
        histories: int64 [n_users, length], the newest training items.
        taken: bool [n_users, n_items], as in training.
        relevant: bool [n_users, n_items], the held-out items.
        n_relevant: int64 [n_users], their number with those that nobody took in training, which count as missed.
    """

    users: Tensor
    histories: Tensor
    taken: Tensor
    relevant: Tensor
    n_relevant: Tensor

    def batches(self, size: int) -> Iterator[Tensor]:
        """The users in order, `size` at a time, fewer in the last."""
        return iter(self.users.split(size))

    def of(self, users: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Histories, taken items, relevant items and their number, a row for each of `users`."""
        return self.histories[users], self.taken[users], self.relevant[users], self.n_relevant[users]


def moments(
    users: NDArray[np.int64], items: NDArray[np.int64], length: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """All moments of users' items: users [m], histories [m, length], targets [m].

    A moment has `length` items before it. A user with too few for that has one: the last item, after what there is
    before it, with 0 in front.

    Args:
        users, items: int64 [n], one user after the other, numbered from 0 without gaps, each in order of time.
    """
    counts = np.bincount(users)
    place = np.arange(len(users)) - (counts.cumsum() - counts)[users]
    short = (counts[users] <= length) & (place == counts[users] - 1)
    chosen = np.flatnonzero((place >= length) | short)
    back = np.arange(length, 0, -1)
    histories = items[np.maximum(chosen[:, None] - back, 0)]
    return users[chosen], np.where(place[chosen, None] >= back, histories, 0), items[chosen]


def newest_items(users: NDArray[np.int64], items: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    """The newest `length` items of each user, the newest last, 0 in front where there are fewer."""
    counts = np.bincount(users)
    back = np.arange(length, 0, -1)
    where = np.maximum(counts.cumsum()[:, None] - back, 0)
    return np.where(counts[:, None] >= back, items[where], 0)


def prepare(found: Interactions, length: int, device: torch.device) -> tuple[TrainSet, EvalSet]:
    """The tensors that training and evaluation work on, on `device`; histories of `length` items."""

    def there(array: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(device)

    early, late = ~found.held_out, found.held_out
    owners, order = there(found.users[early]), there(found.items[early])
    taken = torch.zeros(found.n_users, found.n_items, dtype=torch.bool, device=device)
    relevant = torch.zeros_like(taken)
    taken[owners, order] = True
    relevant[there(found.users[late]), there(found.items[late])] = True
    taken[:, 0], relevant[:, 0] = True, False
    users, histories, targets = map(there, moments(found.users[early], found.items[early], length))
    counts = torch.bincount(order, minlength=found.n_items)
    n_relevant = there(np.bincount(found.users[late], minlength=found.n_users))
    last = there(newest_items(found.users[early], found.items[early], length))
    train = TrainSet(users, histories, targets, taken, counts, order, owners)
    return train, EvalSet(n_relevant.nonzero().squeeze(1), last, taken, relevant, n_relevant)


Found = tuple[Interactions, list[sources.Source], dict[int, str]]


def find(run: runs.Run) -> Found:
    """The interactions of the run's data set, what the log says about them, and names of items where there are any.

    Raises:
        SetupError: an unknown data set; the package, the folder or a file is missing, or it isn't the published one.
    """
    name, validation = expected(run.settings).name, run.settings.held_out == "validation"
    if run.settings.dataset == "gowalla":
        folder = run.require_data_dir(gowalla.LAYOUT)
        paths = gowalla.files(folder)
        found = [sources.data_file(path, "gowalla", "", folder) for path in paths]
        return numbered(*gowalla.read(paths), paths[0].name, validation), found, {}
    if run.settings.dataset == "movielens-100k":
        return find_movielens(run, validation)
    if run.settings.dataset == "walks":
        text = made_up.ratings(*made_up.SIZE)
        source = sources.generated("made_up_ratings", "1", np.frombuffer(text.encode(), np.uint8))
        return numbered(*movielens.read(io.StringIO(text), source.name), source.name, validation), [source], {}
    country, people = check_ins.COUNTRY, check_ins.PEOPLES[run.settings.held_out]
    users, items = check_ins.visits(check_ins.PEOPLE, check_ins.places(check_ins.PLACES, country), people)
    source = sources.generated(f"check_ins(country {country}, people {people})", "1", users, items)
    return numbered(users, items, newest(users, HELD_OUT), name), [source], {}


def find_movielens(run: runs.Run, validation: bool) -> Found:
    """MovieLens-100K from the package recbole or from --data-dir, with the films' titles. Raises as `find` does."""
    if run.data_dir is None:
        path, source = sources.package_file("recbole", "1.2.1", f"dataset_example/ml-100k/{movielens.FILE}")
    else:
        layout = f"DIR/{movielens.FILE}, as in the package recbole==1.2.1"
        folder = run.require_data_dir(layout)
        path = folder / movielens.FILE
        if not path.is_file():
            raise SetupError(f"--data-dir {folder}: expected {layout}; found no {movielens.FILE}")
        source = sources.data_file(path, "movielens-100k", "", folder)
    if source.sha256 != movielens.SHA256:
        raise SetupError(f"{source.file}: expected SHA-256 {movielens.SHA256}, found {source.sha256}")
    return numbered(*movielens.read(path, source.file), source.file, validation), [source], movielens.titles(path)


def load(run: runs.Run) -> tuple[TrainSet, EvalSet]:
    """Reads, or makes, and splits the run's data; all of it, every time.

    Raises:
        SetupError: data other than the benchmark's, with what was expected and what was found.
    """
    wanted = expected(run.settings)
    found, read_from, _ = find(run)
    train, held_out = prepare(found, run.settings.history_length, run.device)
    if bool((held_out.relevant & train.taken).any()):
        raise AssertionError("an item is both trained on and held out")
    if (found.n_users, found.n_items) != (wanted.users, wanted.rows):
        raise SetupError(
            f"{read_from[0].file or read_from[0].name}: expected {wanted.name} with {wanted.users} users and "
            f"{wanted.rows - 1} items in training, found {found.n_users} and {found.n_items - 1}"
        )
    run.describe_data(len(train.users), len(held_out.users), read_from)
    return train, held_out


def names(run: runs.Run) -> dict[int, str]:
    """What a person calls each item, by its number: the film's title, or the item's id."""
    found, _, titles = find(run)
    return {number: titles.get(item, f"item {item}") for number, item in enumerate(found.item_ids.tolist(), start=1)}
