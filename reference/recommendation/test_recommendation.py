"""Recommendation: metric and model by hand, parameter count, reading, splitting, samplers; all data made up."""

from __future__ import annotations

import io
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from reference.common.errors import SetupError

from . import baselines, data, metric, model, train

CPU = torch.device("cpu")


def table(rows: list[tuple[int, int, int]], header: str = data.CSV_HEADER) -> io.StringIO:
    """A ratings file in memory from (user, item, time)."""
    comma = "," if header == data.CSV_HEADER else "\t"
    return io.StringIO("\n".join([header, *(comma.join(map(str, (u, i, 3.5, t))) for u, i, t in rows)]) + "\n")


def made_up(users: int = 60, items: int = 150) -> data.Ratings:
    return data.split(*data.read(io.StringIO(data.made_up_ratings(users, items)), "made up"), name="made up")


# ---- metric ----------------------------------------------------------------------------------------------------------


def test_rank_counts_ties_and_nan_against_the_model() -> None:
    scores = torch.tensor(
        [
            [5.0, 1.0, 2.0, 3.0],  # best: nobody before it
            [2.0, 1.0, 2.0, 3.0],  # one tie, one better
            [1.0, 1.0, 1.0, 1.0],  # all alike: last
            [float("nan"), 1.0, 2.0, 3.0],  # no order with NaN: last
            [2.0, float("nan"), 1.0, 1.0],  # a NaN before it
        ]
    )
    assert metric.rank(scores).tolist() == [0, 2, 3, 3, 1]


def test_hits_and_gains_by_hand() -> None:
    """12 negatives with scores 0 .. 11: the held-out item's score is chosen to stand at rank 0, 1, 9, 10 and 12."""
    negatives = torch.arange(12.0).repeat(5, 1)
    held_out = torch.tensor([99.0, 10.5, 2.5, 1.5, -1.0])[:, None]
    assert metric.rank(torch.cat((held_out, negatives), dim=1)).tolist() == [0, 1, 9, 10, 12]
    hits, gains = metric.totals(torch.cat((held_out, negatives), dim=1))
    assert hits == 3
    assert gains == pytest.approx(1 + 1 / np.log2(3) + 1 / np.log2(11))


def score_by_item(users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
    return -((items * 7 + users * 3) % 31).float()


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8])
def test_the_batch_size_of_an_evaluation_changes_nothing(size: int) -> None:
    """5 users: the last batch is smaller for 2 and 3, there is only one for 5 and 8."""
    generator = torch.Generator().manual_seed(3)
    held_out = data.EvalSet(torch.randint(0, 500, (5, 21), dtype=torch.int32, generator=generator))
    whole = metric.hit_rate(score_by_item, held_out.batches(5))
    assert metric.hit_rate(score_by_item, held_out.batches(size)) == pytest.approx(whole)
    assert whole[2] == 5
    assert 0 < whole[0] < 1  # else the comparison says nothing


def test_a_single_user_and_none() -> None:
    one = data.EvalSet(torch.tensor([[7, 1, 2]], dtype=torch.int32))
    assert metric.hit_rate(lambda users, items: (items == 7).float(), one.batches(4)) == (1.0, 1.0, 1)
    with pytest.raises(ValueError, match="no user"):
        metric.hit_rate(score_by_item, [])


# ---- model -----------------------------------------------------------------------------------------------------------


def test_parameter_count_of_the_full_model_and_one_step_of_it() -> None:
    """MLPerf v0.5's 31,832,577 parameters, with one optimizer step that moves every one of its tensors."""
    full, hp = data.DATA_SETS["full"], train.PROFILES["full"]
    net = model.NeuMF(full.users, full.items, hp.mf_dim, hp.mlp_layer_sizes)
    assert sum(p.numel() for p in net.parameters()) == 31_832_577
    before = [p.detach().clone() for p in net.parameters()]
    optimizer = torch.optim.Adam(net.parameters(), lr=hp.opt_base_learning_rate, fused=True)
    users, items = torch.tensor([0, full.users - 1]), torch.tensor([0, full.items - 1])
    logits = net(users, items)
    assert logits.shape == (2,)
    torch.nn.functional.binary_cross_entropy_with_logits(logits, torch.tensor([1.0, 0.0])).backward()
    optimizer.step()
    assert not any(torch.equal(old, p) for old, p in zip(before, net.parameters(), strict=True))


def test_the_score_is_the_two_paths_weighed_by_one_layer() -> None:
    """Against the formula written out for one pair."""
    torch.manual_seed(0)
    net = model.NeuMF(5, 7, factors=3, layers=(4, 6, 2))
    user, item = 2, 6
    hidden = torch.cat((net.user_mlp.weight[user], net.item_mlp.weight[item]))
    for layer in net.hidden:
        hidden = torch.relu(layer.weight @ hidden + layer.bias)
    both = torch.cat((net.user_factors.weight[user] * net.item_factors.weight[item], hidden))
    expected = net.score.weight[0] @ both + net.score.bias
    torch.testing.assert_close(net(torch.tensor([user]), torch.tensor([item])), expected)


@pytest.mark.parametrize("layers", [(4,), (5, 2), (4, 0)])
def test_widths_that_cannot_be_built_are_refused(layers: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="even first width"):
        model.NeuMF(5, 7, 3, layers)


# ---- reading and splitting -------------------------------------------------------------------------------------------

ROWS = [(10, 5, 100), (10, 900, 300), (10, 7, 300), (4, 7, 50), (4, 5, 40), (4, 6, 10)]


@pytest.mark.parametrize("header", [data.CSV_HEADER, data.INTER_HEADER])
def test_leave_the_last_one_out(header: str) -> None:
    """User 4 (number 0) leaves out item 7; user 10 (number 1) has a tie at 300 and leaves out the lower row, item 7."""
    got = data.split(*data.read(table(ROWS, header), "x"), name="x")
    assert (got.n_users, got.n_items) == (2, 4)
    assert got.users.tolist() == [0, 0, 0, 1, 1, 1]
    assert got.items.tolist() == [0, 1, 2, 0, 2, 3]  # ids 5, 6, 7 and 5, 7, 900
    assert got.held_out.tolist() == [False, False, True, False, True, False]


def test_validation_holds_out_the_last_but_one_and_drops_the_last() -> None:
    got = data.split(*data.read(table(ROWS), "x"), name="x", validation=True)
    assert got.n_items == 4  # the item numbers stay
    assert got.users.tolist() == [0, 0, 1, 1]
    assert got.items.tolist() == [0, 1, 0, 3]
    assert got.held_out.tolist() == [True, False, False, True]


def test_a_ratings_csv_on_disk(tmp_path: Path) -> None:
    path = tmp_path / "ratings.csv"
    path.write_bytes(table(ROWS).getvalue().replace("\n", "\r\n").encode())
    assert [column.tolist() for column in data.read(path, "x")] == [list(column) for column in zip(*ROWS, strict=True)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user,item\n1,2\n", "expected the header 'userId,movieId,rating,timestamp', found 'user,item'"),
        (f"{data.CSV_HEADER}\n1,2,3.5,x\n", "expected whole numbers.*'x'.*row 0"),
        (f"{data.CSV_HEADER}\n1,2,3.5\n", "expected whole numbers"),
        (f"{data.CSV_HEADER}\n", "found none"),
        (table([(1, 2, 3), (1, 3, 4), (1, 2, 5)]).getvalue(), "found two of 2 by user 1"),
        (table([(1, 2, 3), (1, 3, 4), (8, 2, 5)]).getvalue(), "expected 2 ratings or more.*found 1 of user 8"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*input contained no data")
def test_damaged_files_are_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "ratings.csv"
    path.write_text(text)
    with pytest.raises(SetupError, match=f"x: .*{message}"):
        data.split(*data.read(path, "x"), name="x")


def test_reading_is_array_code() -> None:
    """400,000 ratings within 3 CPU seconds: 20 million must not take an hour."""
    rows = np.arange(400_000)
    start = time.process_time()
    ratings = data.split(rows % 2000, rows // 2000 * 5 + rows % 5, (rows * 7919) % 100_003, name="x")
    data.prepare(ratings, 50, CPU)
    assert time.process_time() - start < 3
    assert ratings.held_out.sum() == ratings.n_users == 2000


# ---- samplers --------------------------------------------------------------------------------------------------------


def test_unrated_items_are_numbered_without_gaps() -> None:
    """Every number of every user gives another unrated item, in order; checked against a plain loop."""
    ratings = made_up(8, 150)
    users, items = torch.from_numpy(ratings.users), torch.from_numpy(ratings.items)
    unrated = data.Unrated(users, items, ratings.n_users, ratings.n_items)
    for user in range(ratings.n_users):
        expected = [item for item in range(ratings.n_items) if item not in set(items[users == user].tolist())]
        ranks = torch.arange(int(unrated.sizes[user]))
        assert unrated.item(torch.full_like(ranks, user), ranks).tolist() == expected


def test_fixed_negatives_are_distinct_unrated_and_always_the_same() -> None:
    ratings = made_up()
    _, held_out = data.prepare(ratings, 99, CPU)
    torch.manual_seed(12345)
    np.random.seed(12345)
    assert torch.equal(held_out.candidates, data.prepare(ratings, 99, CPU)[1].candidates)
    assert held_out.candidates.shape == (60, 100)
    for user, (positive, *negatives) in enumerate(held_out.candidates.tolist()):
        rated = set(ratings.items[ratings.users == user].tolist())
        assert positive == ratings.items[(ratings.users == user) & ratings.held_out].item()
        assert len(set(negatives)) == 99
        assert not rated & set(negatives)


def test_fixed_negatives_are_spread_evenly_and_may_be_all_there_are() -> None:
    users, items = torch.arange(3000), torch.zeros(3000, dtype=torch.int64)  # everybody rated item 0 of 41
    drawn = data.fixed_negatives(data.Unrated(users, items, 3000, 41), 10)
    counts = torch.bincount(drawn.flatten().long(), minlength=41)[1:]
    assert int(counts.sum()) == 30_000
    assert ((counts - 750).abs() < 5 * (750 * 0.75) ** 0.5).all()  # 5 standard deviations
    everything = data.fixed_negatives(data.Unrated(users[:5], items[:5], 5, 41), 40)
    assert everything.tolist() == [list(range(1, 41))] * 5
    with pytest.raises(SetupError, match="expected 41 or more unrated items for every user, found 40"):
        data.fixed_negatives(data.Unrated(users[:5], items[:5], 5, 41), 41)


def test_an_epoch_holds_every_pair_once_and_fresh_negatives() -> None:
    ratings = made_up()
    training, _ = data.prepare(ratings, 99, CPU)
    rated = set(zip(training.users.tolist(), training.items.tolist(), strict=True))
    epoch = data.Epoch(training, batch=64, negatives=4, generator=torch.Generator().manual_seed(1))
    drawn = []
    for _ in range(2):
        batches = list(epoch)
        assert len(batches) == len(epoch)
        assert {len(users) for users, _, _ in batches[:-1]} == {64}
        assert 0 < len(batches[-1][0]) < 64  # the last, partial batch is not dropped
        users, items, labels = (torch.cat(column) for column in zip(*batches, strict=True))
        pairs = list(zip(users.tolist(), items.tolist(), strict=True))
        positives = [pair for pair, label in zip(pairs, labels, strict=True) if label]
        negatives = [pair for pair, label in zip(pairs, labels, strict=True) if not label]
        assert sorted(positives) == sorted(rated)
        assert len(negatives) == 4 * len(rated)
        assert not rated & set(negatives)
        drawn.append(negatives)
    assert sorted(drawn[0]) != sorted(drawn[1])


def test_the_held_out_item_occurs_among_training_negatives() -> None:
    """Were it left out, the model could tell it by its never being a negative."""
    ratings = made_up(20, 150)
    training, held_out = data.prepare(ratings, 99, CPU)
    users = torch.arange(20).repeat_interleave(3000)
    items = training.unrated.draw(users, torch.Generator().manual_seed(0)).view(20, 3000)
    share = (items == held_out.candidates[:, :1]).float().mean(dim=1)
    assert torch.allclose(share, 1 / training.unrated.sizes.float(), atol=0.01)
    assert share.min() > 0


# ---- baselines -------------------------------------------------------------------------------------------------------


def test_popularity_and_neighbours_by_hand() -> None:
    """Items 0 and 1 are rated by the same two users: cosine 1. Item 2 shares one of its two users with both: 1/2."""
    users, items = torch.tensor([0, 0, 1, 1, 1, 2]), torch.tensor([0, 1, 0, 1, 2, 2])
    assert baselines.popularity(items, 4)(torch.tensor([0, 0, 2]), torch.tensor([2, 3, 0])).tolist() == [2, 0, 2]
    for neighbours, expected in ((10, [1.0, 0.0, 0.5, 0.5]), (1, [0.5, 0.0, 0.0, 0.0])):
        knn = baselines.ItemNeighbours(users, items, 3, 4, neighbours)
        pairs = torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([2, 3, 2, 3, 0, 1])
        got = knn(*pairs)[[0, 1, 4, 5]]
        assert got.tolist() == pytest.approx(expected)
