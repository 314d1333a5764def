"""Learning to rank: the split, moments, negatives, the loaders and the baselines, on made-up data."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pytest
import torch

from reference.common.errors import SetupError

from . import baselines, data, gowalla, made_up, movielens
from .interactions import newest, numbered

CPU = torch.device("cpu")


def made_up_sets(users: int = 30, items: int = 60, length: int = 5) -> tuple[data.TrainSet, data.EvalSet]:
    found = movielens.read(io.StringIO(made_up.ratings(users, items)), "made up")
    return data.prepare(numbered(*found, name="made up"), length, CPU)


# ---- data ------------------------------------------------------------------------------------------------------------


def table(rows: list[tuple[int, int, int]]) -> io.StringIO:
    """An .inter file in memory from (user, item, time)."""
    return io.StringIO("\n".join([movielens.HEADER, *(f"{u}\t{i}\t3\t{t}" for u, i, t in rows)]) + "\n")


def test_the_newest_fifth_is_held_out() -> None:
    """User 4 has 5 items and leaves out the newest. User 10 has 6, two of them in one second: the lower row."""
    rows = [(10, 30 + k, 100 + k) for k in range(4)] + [(10, 7, 500), (4, 5, 9), (10, 6, 500)]
    rows += [(4, 30 + k, 8 - k) for k in range(4)]
    users, items, held_out = movielens.read(table(rows), "x")
    assert users.tolist() == [4] * 5 + [10] * 6
    assert items.tolist() == [33, 32, 31, 30, 5, 30, 31, 32, 33, 7, 6]
    assert items[held_out].tolist() == [5, 6]
    got = numbered(users, items, held_out, "x")
    assert got.item_ids.tolist() == [7, 30, 31, 32, 33]
    assert got.items.tolist() == [5, 4, 3, 2, 0, 2, 3, 4, 5, 1, 0]  # nobody took 5 or 6 in training
    assert (got.n_users, got.n_items) == (2, 6)


def test_validation_is_a_part_of_the_training_items() -> None:
    found = movielens.read(io.StringIO(made_up.ratings(20, 60)), "x")
    judged, tuned = numbered(*found, name="x"), numbered(*found, name="x", validation=True)
    assert tuned.n_items == judged.n_items
    for user in range(20):
        training = judged.items[(judged.users == user) & ~judged.held_out].tolist()
        again = tuned.items[tuned.users == user].tolist()
        assert again == training
        held_out = tuned.items[(tuned.users == user) & tuned.held_out].tolist()
        assert held_out == training[-(len(training) // 10) :]


def test_moments_and_newest_items_by_hand() -> None:
    """User 0 has four items and histories of 2; user 1 has two items, fewer than a full moment needs."""
    users, items = np.array([0, 0, 0, 0, 1, 1]), np.array([5, 6, 7, 8, 3, 4])
    who, histories, targets = data.moments(users, items, 2)
    assert who.tolist() == [0, 0, 1]
    assert histories.tolist() == [[5, 6], [6, 7], [0, 3]]
    assert targets.tolist() == [7, 8, 4]
    assert data.newest_items(users, items, 3).tolist() == [[6, 7, 8], [0, 3, 4]]


def test_sets_of_one_user_by_hand() -> None:
    """Ids 10 .. 14 in order, 13 and 14 held out, and 14 unknown in training: it counts and can't be found."""
    ids = np.array([10, 11, 12, 13, 14, 13])
    found = numbered(np.array([1, 1, 1, 1, 1, 2]), ids, np.array([False] * 3 + [True, True, False]), "x")
    training, held_out = data.prepare(found, 2, CPU)
    assert training.taken[0].tolist() == [True, True, True, True, False]  # the padding first
    assert held_out.relevant[0].tolist() == [False] * 4 + [True]
    assert held_out.n_relevant.tolist() == [2, 0]
    assert held_out.users.tolist() == [0]
    assert held_out.histories.tolist() == [[2, 3], [0, 4]]
    assert training.counts.tolist() == [0, 1, 1, 1, 1]


def test_negatives_were_not_taken_in_training_and_may_be_held_out() -> None:
    training, held_out = made_up_sets(8, 60)
    users = torch.arange(8).repeat_interleave(500)
    drawn = training.draw(users, 3, torch.Generator().manual_seed(0))
    assert not training.taken[users[:, None], drawn].any()
    for user in range(8):
        left = set((~training.taken[user]).nonzero().squeeze(1).tolist())
        assert set(drawn[users == user].flatten().tolist()) == left
        assert set(held_out.relevant[user].nonzero().squeeze(1).tolist()) <= left


def test_an_epoch_holds_every_moment_once_in_a_new_order() -> None:
    batches = data.Batches(10, 4, torch.Generator().manual_seed(0))
    first, second = ([batch.tolist() for batch in batches] for _ in range(2))
    assert [len(batch) for batch in first] == [4, 4, 2]
    assert len(batches) == 3
    assert sorted(sum(first, [])) == sorted(sum(second, [])) == list(range(10))
    assert first != second


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user\titem\n1\t2\n", "expected the header"),
        (f"{movielens.HEADER}\n", "found none"),
        (f"{movielens.HEADER}\n1\tx\t3\t4\n", "expected whole numbers"),
        (table([(1, item, item) for item in range(4)]).getvalue(), "4 or fewer"),
    ],
)
def test_damaged_ratings_are_named(text: str, message: str) -> None:
    with pytest.raises(SetupError, match=f"x: .*{message}"):
        numbered(*movielens.read(io.StringIO(text), "x"), name="x")


# ---- Gowalla ---------------------------------------------------------------------------------------------------------


def test_prepared_lines(tmp_path: Path) -> None:
    """Item 6 of user 3 stands in both files and counts as trained on; lines of users needn't be together."""
    (tmp_path / "train.txt").write_text("3 5 1\n1 9 1\n3 6 1\n3 5 1\n")
    (tmp_path / "test.txt").write_text("3 6 1\n3 8 1\n1 2 1\n")
    users, items, held_out = gowalla.read(gowalla.files(tmp_path))
    assert users.tolist() == [1, 1, 3, 3, 3]
    assert items.tolist() == [9, 2, 5, 6, 8]
    assert held_out.tolist() == [False, True, False, False, True]


@pytest.mark.parametrize("packed", [True, False])
def test_snap_s_check_ins(tmp_path: Path, packed: bool) -> None:
    """The walks come back: repeated visits dropped, order restored, users and places with few visits gone."""
    text = made_up.check_ins(60, 40)
    path = tmp_path / gowalla.CHECK_INS[0 if packed else 1]
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    users, items, held_out = gowalla.read(gowalla.files(tmp_path))
    assert len(users) > 1000
    for user, own in enumerate(made_up.walks(60, 40)):
        kept = set(items.tolist())
        assert items[users == user].tolist() == [item for item in own if item in kept]
    assert held_out.tolist() == newest(users, 5).tolist()
    assert min(np.unique(items, return_counts=True)[1].min(), np.unique(users, return_counts=True)[1].min()) >= 16


def test_rare_users_and_places_are_dropped_until_none_is_left() -> None:
    """Item 9 has one user; without it user 3 has one item and goes, too."""
    users, items = np.array([1, 1, 2, 2, 3, 3]), np.array([5, 6, 5, 6, 6, 9])
    got = gowalla.often(users, items, 2)
    assert [column.tolist() for column in got] == [[1, 1, 2, 2], [5, 6, 5, 6]]
    assert len(gowalla.often(users, items, 3)[0]) == 0


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "expected DIR/train.txt .* found nothing"),
        ({"train.txt": "1 2 1\n"}, "found train.txt"),
        ({"train.txt": "1 2 1\n", "test.txt": "1 x 1\n"}, "test.txt: expected lines 'user item 1'"),
        ({"train.txt": "1 2 1\n", "test.txt": ""}, "test.txt: .*found none"),
        ({gowalla.CHECK_INS[1]: "0\t2010-10-19T23:55:27Z\t30.2\t-97.7\t22847\n0\tx\n"}, "txt:2: expected user, time"),
        ({gowalla.CHECK_INS[1]: "0\t2010-10-19T23:55:27Z\t30.2\t-97.7\t22847\n"}, "no user has 16 places"),
    ],
)
def test_damaged_check_ins_are_named(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(SetupError, match=message):
        gowalla.read(gowalla.files(tmp_path))


# ---- baselines -------------------------------------------------------------------------------------------------------


def test_baselines_by_hand() -> None:
    """Items 1 and 2 are taken by the same two users: cosine 1. Item 3 shares one of its two users with both: 1/2."""
    ids = np.array([1, 2, 1, 2, 3, 3, 4])
    found = numbered(np.array([0, 0, 1, 1, 1, 2, 2]), ids, np.array([False] * 6 + [True]), "x")
    training, _ = data.prepare(found, 2, CPU)
    rankings = baselines.rankings(training)
    users, histories = torch.tensor([0, 2]), torch.tensor([[0, 2], [0, 3]])
    assert rankings["popularity"](users, histories).tolist() == [[0, 2, 2, 2]] * 2
    assert rankings["item_knn"](users, histories).tolist() == [
        pytest.approx([0, 1, 1, 1]),
        pytest.approx([0, 0.5, 0.5, 0]),
    ]
    assert rankings["recent_items"](users, histories)[0].tolist() == pytest.approx([0, 1, 0, 0.5])
