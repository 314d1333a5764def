"""Learning to rank: metric and losses by hand, Caser, and short runs through train.py.

All data here is made up. The test that needs the installed MovieLens-100K is skipped where it is missing.
"""

from __future__ import annotations

import importlib.util
import io
import json
import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from . import baselines, data, distillation, gowalla, made_up, metric, model, movielens, train
from .interactions import numbered

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CPU = torch.device("cpu")
SIMILAR, COUNTED = ("item_knn", "recent_items", "recent_and_all"), ("last_transition", "transitions_by_position")
NAIVE = {"popularity", *SIMILAR, "near_visits", *COUNTED}


def made_up_sets(users: int = 30, items: int = 60, length: int = 5) -> tuple[data.TrainSet, data.EvalSet]:
    found = movielens.read(io.StringIO(made_up.ratings(users, items)), "made up")
    return data.prepare(numbered(*found, name="made up"), length, CPU)


# ---- metric ----------------------------------------------------------------------------------------------------------


def booleans(n_items: int, *rows: set[int]) -> torch.Tensor:
    return torch.tensor([[item in row for item in range(n_items)] for row in rows])


def test_precision_recall_and_ndcg_by_hand() -> None:
    """12 items scored 11, 10, ... 0, so item 0 would lead. User 0 took items 0 and 1 in training, user 1 none.

    User 0's places hold items 2 .. 11: its relevant ones, 2, 5 and 11, stand at places 1, 4 and 10.
    User 1's places hold items 0 .. 9: of its relevant ones, 1 and 11, the first stands at place 2, the other at 12.
    """
    scores = torch.arange(11.0, -1, -1).repeat(2, 1)
    seen, relevant = booleans(12, {0, 1}, set()), booleans(12, {2, 5, 11}, {1, 11})
    hit = metric.hits(scores, seen, relevant, 10)
    assert [row.nonzero().squeeze(1).tolist() for row in hit] == [[0, 3, 9], [1]]
    got = {name: float(value) for name, value in metric.quality(hit, torch.tensor([3, 2])).items()}
    assert got["precision_at_3"] == pytest.approx(1 / 3 + 1 / 3)
    assert got["precision_at_5"] == pytest.approx(2 / 5 + 1 / 5)
    assert got["precision_at_10"] == pytest.approx(3 / 10 + 1 / 10)
    assert got["recall_at_3"] == pytest.approx(1 / 3 + 1 / 2)
    assert got["recall_at_10"] == pytest.approx(1 + 1 / 2)
    second, fourth, tenth = (1 / math.log2(place + 1) for place in (2, 4, 10))
    best_of_3 = 1 + second + 1 / 2
    assert got["ndcg_at_3"] == pytest.approx(1 / best_of_3 + second / (1 + second))
    assert got["ndcg_at_10"] == pytest.approx((1 + fourth + tenth) / best_of_3 + second / (1 + second))


def test_a_perfect_ranking_of_many_relevant_items_has_ndcg_1() -> None:
    hit = metric.hits(torch.ones(1, 20), booleans(20, set()), booleans(20, set(range(20))), 10)
    got = metric.quality(hit, torch.tensor([20]))
    assert float(got["ndcg_at_10"]) == pytest.approx(1)
    assert float(got["recall_at_10"]) == pytest.approx(0.5)


def test_seen_items_and_nan_are_never_ranked() -> None:
    """Only items 3 and 4 of 12 are neither taken nor NaN: the places after them are misses, not leftovers."""
    scores = torch.full((1, 12), float("nan"))
    scores[0, :5] = 1.0
    scores[0, 2] = float("-inf")
    hit = metric.hits(scores, booleans(12, {0, 1}), booleans(12, set(range(12))), 10)
    assert hit[0].tolist() == [True, True] + [False] * 8
    with pytest.raises(ValueError, match="4 items cannot fill 10 places"):
        metric.hits(torch.ones(1, 4), booleans(4, set()), booleans(4, set()), 10)


@pytest.mark.parametrize("size", [1, 7, 30, 64])
def test_the_batch_size_of_an_evaluation_changes_nothing(size: int) -> None:
    """30 users: the last batch is smaller for 7, there is only one for 30 and 64."""
    training, held_out = made_up_sets()
    ranking = baselines.rankings(training)["recent_items"]
    whole, n_users = metric.evaluate(ranking, held_out, held_out.batches(30))
    assert n_users == 30
    assert 0 < whole[metric.JUDGED] < 1
    assert metric.evaluate(ranking, held_out, held_out.batches(size))[0] == pytest.approx(whole)
    with pytest.raises(ValueError, match="no user"):
        metric.evaluate(ranking, held_out, [])


# ---- model -----------------------------------------------------------------------------------------------------------


def test_parameter_count_of_the_full_teacher_and_one_step_of_both() -> None:
    """5,583,500 parameters as in AIBench's log; one optimizer step moves every tensor of teacher and student."""
    full, hp = data.DATA_SETS["gowalla"], train.Settings()
    size = hp.history_length, hp.vertical_filters, hp.horizontal_filters
    for dim, dropout, expected in ((hp.teacher_dim, hp.teacher_dropout, 5_583_500), (hp.student_dim, 0.5, 2_793_800)):
        net = model.Caser(full.users, full.rows, dim, *size, dropout)
        assert sum(p.numel() for p in net.parameters()) == expected
        before = [p.detach().clone() for p in net.parameters()]
        moment = net.represent(torch.tensor([0, 13_148]), torch.tensor([[0, 0, 3, 4, 5], [14_007, 2, 9, 8, 7]]))
        logits = net.score(moment, torch.tensor([[14_007, 4], [1, 2]]))
        distillation.ranking_loss(logits[:, 0], logits[:, 1:]).backward()
        optimizer, _schedule = train.adam(net, 1e-3, 1e-6, steps=1)
        optimizer.step()
        assert not any(torch.equal(old, p) for old, p in zip(before, net.parameters(), strict=True))
        assert not net.items.weight[0].any()  # the padding stays 0


def test_the_filters_are_convolutions() -> None:
    """As torch's own Conv2d has it with the weights copied: vertical (length, 1), horizontal (height, dim)."""
    torch.manual_seed(0)
    net = model.Caser(6, 9, dim=4, length=5, vertical=2, horizontal=3, dropout=0.5).eval()
    users, history = torch.tensor([0, 5]), torch.tensor([[0, 0, 1, 2, 3], [8, 7, 6, 5, 4]])
    image = net.items(history)[:, None]  # [batch, 1, length, dim]
    conv = torch.nn.functional.conv2d
    parts = [conv(image, net.vertical.weight[:, None, :, None], net.vertical.bias).flatten(1)]
    for height, layer in enumerate(net.horizontal, start=1):
        parts.append(conv(image, layer.weight.view(3, 1, height, 4), layer.bias).squeeze(3).amax(dim=2))
    taste = torch.sigmoid(net.taste(torch.cat(parts, dim=1)))
    moment = torch.cat((taste, net.users(users)), dim=1)
    torch.testing.assert_close(net.represent(users, history), moment)
    scores = net.score_all(moment)
    assert scores[:, 0].tolist() == [-math.inf, -math.inf]
    torch.testing.assert_close(net.score(moment, torch.arange(1, 9).repeat(2, 1)), scores[:, 1:])


def test_sizes_that_cannot_be_built_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        model.Caser(5, 7, 0, 5, 2, 16, 0.5)
    with pytest.raises(ValueError, match="above 0"):
        model.Caser(5, 7, 4, 5, 2, 16, 0.5, spread=0.0)


def test_the_first_values_spread_as_told() -> None:
    torch.manual_seed(0)
    for spread in (1.0, 4.0):
        net = model.Caser(500, 500, 10, 5, 2, 4, 0.5, spread)
        assert net.items.weight[1:].std().item() == pytest.approx(spread / 10, rel=0.05)
        assert net.output.weight.std().item() == pytest.approx(spread / 20, rel=0.05)


# ---- distillation ----------------------------------------------------------------------------------------------------


def test_losses_by_hand() -> None:
    taken, others = torch.tensor([0.0, 2.0]), torch.tensor([[0.0, -1.0], [3.0, 1.0]])
    positive = (math.log(2) + math.log1p(math.exp(-2))) / 2
    negative = sum(math.log1p(math.exp(x)) for x in (0.0, -1.0, 3.0, 1.0)) / 4
    assert float(distillation.ranking_loss(taken, others)) == pytest.approx(positive + negative)
    listed, weights = torch.tensor([[0.0, 1.0]]), torch.tensor([[0.75, 0.25]])
    expected = 0.75 * math.log(2) + 0.25 * math.log1p(math.exp(-1))
    assert float(distillation.distillation_loss(listed, weights, torch.ones(1, 2))) == pytest.approx(expected)
    unsure = torch.tensor([[1.0, 0.4]])  # the second item is a positive by 0.4 and a negative by 0.6
    expected = 0.75 * math.log(2) + 0.25 * (0.4 * math.log1p(math.exp(-1)) + 0.6 * math.log1p(math.exp(1)))
    assert float(distillation.distillation_loss(listed, weights, unsure)) == pytest.approx(expected)


def test_weights_by_place() -> None:
    """exp(-1/2), exp(-2/2), exp(-3/2) over their sum."""
    raw = [math.exp(-place / 2) for place in (1, 2, 3)]
    got = distillation.place_weights(3, 2.0, CPU)
    assert got.tolist() == pytest.approx([value / sum(raw) for value in raw])


def test_the_student_s_places_are_estimated_from_samples() -> None:
    """Of 4 items drawn from 100, none, half and all score above the listed ones: places 1, 51 and 101."""
    listed, sampled = torch.tensor([[9.0, 2.5, 0.0]]), torch.tensor([[4.0, 1.0, 3.0, 2.0]])
    assert distillation.estimated_places(listed, sampled, 100).tolist() == [[1, 51, 101]]


def test_weights_fall_on_what_the_student_has_too_low() -> None:
    by_place = torch.tensor([0.5, 0.3, 0.2])
    places = torch.tensor([[1.0, 12.0, 2.0], [1.0, 1.0, 1.0]])
    got = distillation.combined_weights(by_place, places, 0.1)
    assert got.tolist() == [pytest.approx([0, 1, 0]), [0, 0, 0]]
    both = distillation.combined_weights(by_place, torch.tensor([[11.0, 12.0, 1.0]]), 0.1)
    assert both[0].tolist() == pytest.approx([0.5 / 0.8, 0.3 / 0.8, 0])  # the same lag of 10 places


@pytest.mark.parametrize("crossed", [False, True])
def test_the_teacher_s_lists_hold_its_best_items_but_the_moment_s_own(crossed: bool) -> None:
    """Crossed, they are those of other users, each as often as before, and what a moment's own user took may stand."""
    training, _ = made_up_sets(8, 40)
    teacher = model.Caser(8, 41, 6, 5, 2, 4, dropout=0.5)
    every = torch.arange(len(training.users))
    hp = train.Settings(distill_items=4, distill_crossed=crossed, distill_confident=crossed)
    got = distillation.lists(teacher, training, every.split(16), hp, torch.Generator().manual_seed(0))
    assert torch.equal(got.users, training.users) != crossed
    assert torch.equal(got.users.sort().values, training.users.sort().values)
    scores = teacher.score_all(teacher.represent(got.users, training.histories))
    for moment in (0, 17, len(every) - 1):
        known = {*training.histories[moment].tolist(), *([] if crossed else [int(training.targets[moment])])}
        left = [item for item in range(1, 41) if item not in known]
        best = sorted(left, key=lambda item: -float(scores[moment, item].detach()))[:4]
        assert got.items[moment].tolist() == best
        expected = torch.sigmoid(scores[moment, best]) if crossed else torch.ones(4)
        torch.testing.assert_close(got.confidences[moment], expected)


def some_lists(training: data.TrainSet, confidence: float = 1.0) -> distillation.Lists:
    shape = len(training.users), 10
    return distillation.Lists(training.users.roll(40), torch.randint(1, 41, shape), torch.full(shape, confidence))


def gradient(student: model.Caser, training: data.TrainSet, lists: distillation.Lists, epoch: int = 1, **hp: object):
    """Of the student's output table for the first 16 moments."""
    student.zero_grad()
    generator, settings = torch.Generator().manual_seed(1), train.Settings(**hp)
    moments = torch.arange(16)
    distillation.student_loss(student, training, moments, lists, epoch, settings, generator).backward()
    return student.output.weight.grad.clone()


def test_a_list_teaches() -> None:
    """With the lists of a teacher the gradient differs; with weight 0 it is that of the student alone."""
    training, _ = made_up_sets(8, 40)
    student = model.Caser(8, 41, 6, 5, 2, 4, dropout=0.0)
    lists = some_lists(training)
    distillation.plain_loss(student, training, torch.arange(16), 3, torch.Generator().manual_seed(1)).backward()
    alone = student.output.weight.grad.clone()
    torch.testing.assert_close(gradient(student, training, lists, distill_weight=0.0), alone)
    by_place, by_rank = (gradient(student, training, lists, epoch) for epoch in (10, 11))
    assert not torch.allclose(by_place, alone)
    assert not torch.allclose(by_rank, by_place)  # from the 11th epoch on the student's places count


def test_each_setting_of_the_lists_changes_what_is_learned() -> None:
    """Crossed: the users of the lists learn, who are others than the moments'. Unsure: a listed item falls."""
    training, _ = made_up_sets(8, 40)
    student = model.Caser(8, 41, 6, 5, 2, 4, dropout=0.0)
    sure, unsure = some_lists(training), some_lists(training, confidence=0.0)
    own, others = set(training.users[:16].tolist()), set(sure.users[:16].tolist())
    assert not own & others
    plain = gradient(student, training, sure)
    learned = {int(user) for user in student.users.weight.grad.abs().sum(dim=1).nonzero()}
    assert learned == own
    crossed = gradient(student, training, sure, distill_crossed=True)
    learned = {int(user) for user in student.users.weight.grad.abs().sum(dim=1).nonzero()}
    assert learned == own | others
    assert not torch.allclose(crossed, plain)
    assert not torch.allclose(gradient(student, training, sure, distill_negatives=5), plain)

    def bias_pull(lists: distillation.Lists) -> float:
        gradient(student, training, lists, distill_weight=100.0)
        return float(student.bias.weight.grad.sum())

    assert bias_pull(sure) < 0 < bias_pull(unsure)  # a step against it raises what is listed, or lowers it


# ---- runs ------------------------------------------------------------------------------------------------------------


def run_smoke(log: Path, *flags: str) -> list[dict]:
    """The events of a smoke run, in this process."""
    assert train.main(["--profile", "smoke", "--log", str(log), "--device", "cpu", *flags]) == 0
    return events(log)


def events(log: Path) -> list[dict]:
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in log.read_text().splitlines()]


def values(log: list[dict], key: str) -> list:
    return [event["value"] for event in log if event["key"] == key]


def test_a_smoke_run_and_its_log(tmp_path: Path) -> None:
    log = run_smoke(tmp_path / "a.txt", "--seed", "7", "--samples", str(tmp_path / "samples"))
    facts = train.runs.benchmarks.load(HERE).profiles["smoke"]
    assert values(log, "submission_benchmark") == [HERE.name]
    assert values(log, "seed") == [7]
    assert (values(log, "train_samples"), values(log, "eval_samples")) == ([facts.train_samples], [120])
    named = {event["metadata"]["name"]: event["value"] for event in log if event["key"] == "baseline"}
    assert named.keys() == {*NAIVE, "student_alone"}
    assert all(0 < value < 1 for value in named.values())
    keys = [event["key"] for event in log]
    teacher = [keys.index(key) for key in ("teacher_start", "teacher_precision_at_10", "teacher_stop")]
    assert keys.index("run_start") < teacher[0] < teacher[1] < teacher[2] < keys.index("epoch_start")
    evaluations = [event for event in log if event["key"] == "eval_accuracy"]
    assert [event["metadata"]["epoch_num"] for event in evaluations] == [1, 2]
    assert {event["metadata"]["evaluated_samples"] for event in evaluations} == {120}
    for name in ("precision_at_3", "recall_at_10", "ndcg_at_10"):
        assert len(values(log, name)) == 2
    moments = [event["metadata"]["samples_count"] for event in log if event["key"] == "epoch_stop"]
    assert moments == [facts.train_samples] * 2  # the student's, not the teacher's
    lists = (tmp_path / "samples" / "smoke_seed7.txt").read_text()
    assert lists.count("student: ") == lists.count("teacher: ") == 6
    command = [sys.executable, "-m", "compliance.check", str(tmp_path / "a.txt")]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout


def test_training_learns(tmp_path: Path) -> None:
    """Eight epochs on made-up walks beat popularity by far, which an untrained or mislabelled model doesn't."""
    log = run_smoke(tmp_path / "a.txt", "--max-epochs", "8")
    popularity = next(event["value"] for event in log if event["key"] == "baseline")
    assert values(log, "teacher_precision_at_10")[0] > popularity + 0.15
    assert max(values(log, "eval_accuracy")) > popularity + 0.15


def test_the_seed_decides_every_value(tmp_path: Path) -> None:
    first, second, other = (
        run_smoke(tmp_path / f"{name}.txt", "--seed", seed) for name, seed in (("a", "3"), ("b", "3"), ("c", "4"))
    )
    for key in ("ndcg_at_10", "eval_accuracy", "baseline", "teacher_precision_at_10", "data_source"):
        assert values(first, key) == values(second, key)
    assert values(first, "data_source") == values(other, "data_source")
    assert values(first, "ndcg_at_10") != values(other, "ndcg_at_10")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--history-length", "6", "--train-negatives", "2"], "history_length is 6.*train_negatives is 2"),
        (["--division", "open", "--opt-name", "sgd"], "not sgd"),
        (["--division", "open", "--held-out", "test"], "not adam and test"),
        (["--division", "open", "--dataset", "foursquare"], "known are gowalla, check-ins, movielens-100k, walks"),
        (["--division", "open", "--teacher-epochs", "0"], "must be above 0"),
        (["--division", "open", "--student-dim", "0"], "sizes must be at least 1"),
        (["--division", "open", "--teacher-dropout", "2"], "dropout probability"),
        (["--division", "open", "--distill-items", "5000"], "at most"),
    ],
)
def test_settings_without_sense_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run_smoke(tmp_path / "a.txt", *flags)
    assert stopped.value.code == 2
    assert re.search(message, capsys.readouterr().err)


def test_the_full_profile_says_what_it_expects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for name, text in zip(gowalla.PREPARED, made_up.prepared(40, 60), strict=True):
        (other / name).write_text(text)
    for folder, message in (
        (None, "give --data-dir"),
        (tmp_path, "expected DIR/train.txt"),
        (other, "expected gowalla with 13149 users and 14007 items in training, found 40 and 60"),
    ):
        with pytest.raises(SystemExit) as stopped:
            where = [] if folder is None else ["--data-dir", str(folder)]
            train.main(["--profile", "full", "--log", str(tmp_path / "log.txt"), "--device", "cpu", *where])
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "log.txt").exists()


def test_the_full_profile_reads_its_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One epoch of the full settings on tiny made-up train and test lines, which the loader is told to expect."""
    for name, text in zip(gowalla.PREPARED, made_up.prepared(40, 60), strict=True):
        (tmp_path / name).write_text(text)
    monkeypatch.setitem(data.DATA_SETS, "gowalla", data.DataSet("gowalla", 40, 61))
    flags = ["--profile", "full", "--data-dir", str(tmp_path), "--log", str(tmp_path / "log.txt"), "--device", "cpu"]
    status = train.main([*flags, "--max-epochs", "1", "--teacher-epochs", "1"])
    log = events(tmp_path / "log.txt")
    assert status == (0 if values(log, "eval_accuracy")[0] >= 0.14 else 1)
    assert (values(log, "teacher_dim"), values(log, "student_dim")) == ([100], [50])
    assert [source["file"] for source in values(log, "data_source")] == ["train.txt", "test.txt"]


@pytest.mark.skipif(importlib.util.find_spec("recbole") is None, reason="needs the package recbole==1.2.1 (its data)")
def test_movielens_100k_can_be_chosen(tmp_path: Path) -> None:
    """One epoch of teacher and student on the real data, and the naive baselines; its logs aren't the benchmark's."""
    epochs = ["--max-epochs", "1", "--teacher-epochs", "1", "--global-batch-size", "4096"]
    flags = ["--log", str(tmp_path / "log.txt"), "--device", "cpu", *epochs]
    train.main(["--division", "open", "--dataset", "movielens-100k", *flags])
    log = events(tmp_path / "log.txt")
    assert (values(log, "train_samples"), values(log, "eval_samples")) == ([75_652], [943])
    named = {event["metadata"]["name"]: event["value"] for event in log if event["key"] == "baseline"}
    assert named["popularity"] == pytest.approx(0.104, abs=0.001)
    assert named["recent_items"] == pytest.approx(0.197, abs=0.001)
    assert [source["name"] for source in values(log, "data_source")] == ["recbole"]
