"""Learning to rank: the split, moments, negatives, loaders, made-up check-ins and baselines, on made-up data."""

from __future__ import annotations

import dataclasses
import gzip
import io
from pathlib import Path

import numpy as np
import pytest
import torch

from reference.common.errors import SetupError

from . import baselines, check_ins, data, gowalla, made_up, movielens, train
from .interactions import HELD_OUT, newest, numbered

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


# ---- made-up check-ins ---------------------------------------------------------------------------------------------


def test_check_ins_are_the_same_again_and_other_ones_with_another_seed() -> None:
    first, again, other = (check_ins.visits(40, check_ins.places(200, 7), seed) for seed in (1, 1, 2))
    assert all(np.array_equal(one, two) for one, two in zip(first, again, strict=True))
    assert not np.array_equal(first[1][:20], other[1][:20])
    assert len({*check_ins.PEOPLES.values()}) == len(check_ins.PEOPLES) == 2


def test_check_ins_are_visits_of_different_places() -> None:
    """Nobody goes anywhere twice, so that nothing held out was trained on; people have FEWEST to MOST visits."""
    users, items = check_ins.visits(60, check_ins.places(150, 7), 3)
    assert (np.diff(users) >= 0).all()
    assert (items.min(), items.max()) >= (1, 100)
    assert items.max() <= 150
    counts = np.bincount(users)
    assert len(counts) == 60
    assert (counts.min(), counts.max()) >= (check_ins.FEWEST, check_ins.FEWEST + 5)
    assert counts.max() <= check_ins.MOST
    assert len(np.unique(users * 1000 + items)) == len(items)
    held_out = newest(users, 5)
    training, judged = data.prepare(numbered(users, items, held_out, "x"), 5, CPU)
    assert not (training.taken & judged.relevant).any()


def test_the_way_leads_on_from_the_last_two_places() -> None:
    """The direction of a step tells that of the next one, which no count of pairs can know."""
    known = check_ins.places(1500, 4)
    users, items = check_ins.visits(200, known, 5)
    where = known.location[items - 1]
    step = np.diff(where, axis=0)[np.diff(users) == 0]
    same = (users[2:] == users[:-2])[: len(step) - 1]
    before, after = step[:-1][same[: len(step) - 1]], step[1:][same[: len(step) - 1]]
    cosine = (before * after).sum(1) / np.maximum(np.linalg.norm(before, axis=1) * np.linalg.norm(after, axis=1), 1e-9)
    assert cosine.mean() > 0.15


def test_ways_turn_back_at_the_borders() -> None:
    at, heading = np.array([[0.99, 0.5], [0.5, 0.01], [0.5, 0.5]]), np.array([0.0, -np.pi / 2, 0.0])
    goal, turned = check_ins.ahead(at, heading)
    assert goal == pytest.approx(np.array([[0.91, 0.5], [0.5, 0.09], [0.58, 0.5]]))
    assert turned == pytest.approx([np.pi, np.pi / 2, 0.0])


def test_places_are_drawn_by_their_weights() -> None:
    """Weights 1 : 0 : 3, so a quarter goes to the first column and nobody to the second."""
    logits = np.log(np.array([[1.0, 0.0, 3.0]]) + 1e-300)
    logits[0, 1] = -np.inf
    got = check_ins.drawn(np.repeat(logits, 4000, axis=0), np.random.default_rng(0))
    shares = np.bincount(got, minlength=3) / 4000
    assert shares == pytest.approx([0.25, 0, 0.75], abs=0.03)
    assert shares[1] == 0


def test_a_model_sees_visits_and_nothing_of_what_they_were_drawn_from() -> None:
    """What is trained on holds whole numbers and marks of who took what, and places' numbers say nothing of where.

    Neighbours by number are as far from one another as any two places.
    """
    users, items = check_ins.visits(60, check_ins.places(150, 7), 3)
    training, judged = data.prepare(numbered(users, items, newest(users, 5), "x"), 5, CPU)
    for part in (training, judged):
        assert {value.dtype for value in vars(part).values()} <= {torch.int64, torch.bool}
    location = check_ins.places(2000, 5).location
    beside = np.linalg.norm(location[1:] - location[:-1], axis=1).mean()
    anywhere = np.linalg.norm(location - location[np.random.default_rng(6).permutation(2000)], axis=1).mean()
    assert beside == pytest.approx(anywhere, rel=0.05)


@pytest.mark.parametrize("held_out", check_ins.PEOPLES)
def test_the_embedded_check_ins_are_the_declared_ones(held_out: str) -> None:
    """Their counts, and that they are sparse as Gowalla is: nearly all pairs of places never follow one another."""
    settings = dataclasses.replace(train.PROFILES["embedded"], held_out=held_out)
    expected, facts = (
        data.expected(settings),
        train.runs.benchmarks.load(Path(__file__).resolve().parent).profiles["embedded"],
    )
    assert expected.name.startswith(facts.dataset)
    country = check_ins.places(check_ins.PLACES, check_ins.COUNTRY)
    users, items = check_ins.visits(check_ins.PEOPLE, country, check_ins.PEOPLES[held_out])
    found = numbered(users, items, newest(users, HELD_OUT), "x")
    assert (found.n_users, found.n_items) == (expected.users, expected.rows)
    training, judged = data.prepare(found, 5, CPU)
    assert len(judged.users) == facts.eval_samples
    if held_out == "evaluation":
        assert len(training.users) == facts.train_samples
    assert 25 < len(training.order) / expected.users < 32
    assert 25 < len(training.order) / expected.rows < 32
    assert len(torch.unique(torch.stack(baselines.pairs_apart(training, 1)), dim=1)[0]) < 0.011 * expected.rows**2


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
    both, ago = rankings["recent_and_all"](users, torch.tensor([[1, 2], [0, 3]])), baselines.LONG_AGO
    older = baselines.RECENT_DECAY  # of item 1, with cosines 0, 1, 1/2 to the three, beside item 2's 1, 0, 1/2
    assert both[0].tolist() == pytest.approx([0, 1 + ago, older + ago, 0.5 + 0.5 * older + ago])
    assert both[1].tolist() == pytest.approx([0, 0.5 + 0.5 * ago, 0.5 + 0.5 * ago, 0])


def test_transitions_by_hand() -> None:
    """User 0 took 1 2 3, user 1 took 1 2 4, user 2 took 5 2. After 2 came 3 and 4, once each; two after 1, too."""
    ids = np.array([1, 2, 3, 1, 2, 4, 5, 2])
    found = numbered(np.array([0, 0, 0, 1, 1, 1, 2, 2]), ids, np.array([False] * 7 + [True]), "x")
    training, _ = data.prepare(found, 2, CPU)
    rankings = baselines.rankings(training)
    users, histories = torch.tensor([0, 1, 2]), torch.tensor([[1, 2], [0, 1], [0, 5]])
    popularity = [share * baselines.BACK_OFF / 7 for share in (0, 2, 2, 1, 1, 1)]
    last = [[0, 0, 0, 0.5, 0.5, 0], [0, 0, 1, 0, 0, 0], [0] * 6]  # nothing follows 5: popularity alone
    got = rankings["last_transition"](users, histories)
    assert got.tolist() == [pytest.approx([a + b for a, b in zip(row, popularity, strict=True)]) for row in last]
    both = rankings["transitions_by_position"](users, histories)
    second = 0.5 * (1 + baselines.POSITION_DECAY)
    expected = [a + b for a, b in zip([0, 0, 0, second, second, 0], popularity, strict=True)]
    assert both[0].tolist() == pytest.approx(expected)
    assert both[1].tolist() == pytest.approx(got[1].tolist())


def test_near_visits_by_hand() -> None:
    """One user took 1 2 3: 2 stands one from both others, 3 two from 1; each was taken once, 2 twice in all."""
    found = numbered(np.array([0, 0, 0, 1, 1]), np.array([1, 2, 3, 2, 4]), np.array([False] * 4 + [True]), "x")
    training, _ = data.prepare(found, 2, CPU)
    got = baselines.rankings(training)["near_visits"](torch.tensor([0, 0]), torch.tensor([[0, 1], [1, 2]]))
    decay, half = baselines.POSITION_DECAY, 0.5**0.5
    assert got[0].tolist() == pytest.approx([0, 0, half, decay])
    assert got[1].tolist() == pytest.approx([0, half, decay * half, half + decay * decay])
