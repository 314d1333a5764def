"""Face embedding: metric and mining by hand, parameter counts, batches, drawn faces, and short runs through train.py.

All faces here are made up.
"""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from . import baselines, data, faces, lfw, metric, model, train, triplets

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FULL, SMALL = train.PROFILES["full"], train.PROFILES["embedded"]


# ---- metric ----------------------------------------------------------------------------------------------------------


def test_the_best_threshold_by_hand() -> None:
    """Right answers of the thresholds between .1 | .2 | .3 | .4: 2, 3, 2, 3, 2; the first of the two best counts."""
    distances = torch.tensor([0.3, 0.1, 0.4, 0.2])
    same = torch.tensor([True, True, False, False])
    assert metric.best_threshold(distances, same) == pytest.approx(0.15)
    assert metric.best_threshold(distances, torch.ones(4, dtype=torch.bool)) > 0.4
    assert metric.best_threshold(distances, torch.zeros(4, dtype=torch.bool)) < 0.1


def test_equal_distances_cannot_be_parted() -> None:
    """Whatever the order of the two at .2, a threshold accepts both or none."""
    distances = torch.tensor([0.2, 0.2])
    for same in ([True, False], [False, True]):
        threshold = metric.best_threshold(distances, torch.tensor(same))
        assert threshold < 0.2 or threshold > 0.2
        accepted = distances.double() < threshold
        assert int((accepted == torch.tensor(same)).sum()) == 1


def test_a_fold_is_judged_by_the_threshold_of_the_others() -> None:
    """Fold 0's own best threshold (.5) would make it perfect; fold 1's, .25, gets one of its two right."""
    rows = torch.zeros(4, 2, dtype=torch.int64)
    pairs = metric.Pairs(rows, torch.tensor([True, False, True, False]), torch.tensor([0, 0, 1, 1]))
    distances = torch.tensor([0.4, 0.6, 0.2, 0.3])
    assert metric.accuracy(distances, pairs) == pytest.approx((1 / 2 + 1 / 2) / 2)
    assert metric.accuracy(torch.tensor([0.2, 0.3, 0.2, 0.3]), pairs) == 1
    assert metric.accuracy(torch.full((4,), 0.3), pairs) == 0.5  # a collapsed embedding


def test_what_cannot_be_judged_is_refused() -> None:
    pairs = metric.Pairs(torch.zeros(2, 2, dtype=torch.int64), torch.tensor([True, False]), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match="diverged"):
        metric.accuracy(torch.tensor([0.1, float("nan")]), pairs)
    with pytest.raises(ValueError, match="cannot be judged"):
        metric.accuracy(torch.tensor([0.1]), pairs)
    one = metric.Pairs(pairs.rows, pairs.same, torch.tensor([0, 0]))
    with pytest.raises(ValueError, match="1 folds"):
        metric.accuracy(torch.tensor([0.1, 0.2]), one)
    with pytest.raises(ValueError, match="no pictures"):
        metric.embeddings(torch.nn.Identity(), [])


def test_true_accepts_at_a_false_accept_rate_by_hand() -> None:
    """Four different pairs at .2 .4 .6 .8; at a rate of .25 one of them may be accepted, so the limit is .4."""
    distances = torch.tensor([0.2, 0.4, 0.6, 0.8, 0.1, 0.3, 0.4, 0.5])
    same = torch.tensor([False] * 4 + [True] * 4)
    assert metric.true_accept_rate(distances, same, 0.25) == 0.5
    assert metric.true_accept_rate(distances, same, 0.0) == 0.25
    assert metric.true_accept_rate(distances, same, 1.0) == 1.0


def test_verification_and_spread() -> None:
    points = F.normalize(torch.tensor([[1.0, 0.0], [1.0, 0.1], [-1.0, 0.0], [-1.0, 0.1]]), dim=1)
    rows = torch.tensor([[0, 1], [0, 2], [2, 3], [1, 3]])
    pairs = metric.Pairs(rows, torch.tensor([True, False, True, False]), torch.tensor([0, 0, 1, 1]))
    found = metric.verify(points, pairs, 0.1)
    assert (found.accuracy, found.true_accepts, found.pairs) == (1.0, 1.0, 4)
    assert found.spread > 0.9
    collapsed = metric.verify(points[:1].expand(4, 2), pairs, 0.1)
    assert (collapsed.accuracy, collapsed.spread) == (0.5, pytest.approx(0))


@pytest.mark.parametrize("size", [1, 4, 7])
def test_the_batch_size_of_an_evaluation_changes_nothing(size: int) -> None:
    torch.manual_seed(0)
    net = train.build(train.PROFILES["smoke"])
    images = torch.randn(7, 3, 32, 32)
    found = metric.embeddings(net, images.split(size))
    assert found.shape == (7, 64)
    assert torch.allclose(found, metric.embeddings(net, [images]), atol=1e-5)
    assert net.training


# ---- triplets --------------------------------------------------------------------------------------------------------


def test_mining_by_hand() -> None:
    """Distances from picture 0 (person 0): 1 to its positive, to person 1's pictures .5, 1.2 and 2.

    1.2 is the nearest beyond the positive. From picture 1 all negatives are nearer than the positive: the farthest.
    """
    labels = torch.tensor([0, 0, 1, 1, 1])
    distances = torch.full((5, 5), 9.0)
    distances[0] = torch.tensor([0.0, 1.0, 0.5, 1.2, 2.0])
    distances[1] = torch.tensor([1.0, 0.0, 0.3, 0.9, 0.5])
    found = triplets.semi_hard(distances, labels)
    chosen = {(int(a), int(p)): int(n) for a, p, n in zip(*found, strict=True)}
    assert len(chosen) == 2 + 6  # every ordered pair of one person
    assert chosen[0, 1] == 3
    assert chosen[1, 0] == 3
    assert all(labels[a] == labels[p] != labels[n] for (a, p), n in chosen.items())


def test_the_loss_by_hand() -> None:
    """Points at 0, 60 and 90 degrees, squared distances 1, 2 and .268: triplets (0, 1, 2) and (1, 0, 2), margin .5."""
    angles = torch.tensor([0.0, 60.0, 90.0]).deg2rad()
    points = torch.stack([angles.cos(), angles.sin()], dim=1).requires_grad_()
    labels = torch.tensor([0, 0, 1])
    near = 2 - 2 * np.cos(np.pi / 6)
    value, broken = triplets.loss(points, labels, 0.5)
    assert value.item() == pytest.approx(1 - near + 0.5, abs=1e-5)  # (0, 1, 2): 1 - 2 + .5 < 0
    assert float(broken) == 0.5
    value.backward()
    assert points.grad.abs().sum() > 0
    value, broken = triplets.loss(points, labels, 1.5)
    assert value.item() == pytest.approx((0.5 + 1 - near + 1.5) / 2, abs=1e-5)
    assert float(broken) == 1.0


def test_without_triplets_the_loss_is_nothing() -> None:
    points = F.normalize(torch.randn(4, 3), dim=1).requires_grad_()
    for labels in (torch.zeros(4, dtype=torch.int64), torch.arange(4)):
        value, broken = triplets.loss(points, labels, 0.2)
        value.backward()
        assert (value.item(), float(broken), float(points.grad.abs().sum())) == (0, 0, 0)


# ---- network ---------------------------------------------------------------------------------------------------------


def test_parameter_counts() -> None:
    net = model.full()
    assert sum(p.numel() for p in net.parameters()) == 24_934_096
    assert net.embed.in_features == 512 * 6 * 6
    assert sum(p.numel() for p in net.classifier.parameters()) == 1_290_000  # in no loss, here as in AIBench's
    assert sum(p.numel() for p in train.build(SMALL).parameters()) == 142_992


def test_embeddings_have_length_1() -> None:
    torch.manual_seed(0)
    for side in (32, 33):
        found = model.small(side, 4, 16)(torch.randn(5, 3, side, side))
        assert torch.allclose(found.norm(dim=1), torch.ones(5), atol=1e-5)


def test_a_step_of_the_full_network_moves_every_tensor_in_the_loss() -> None:
    torch.manual_seed(0)
    net = train.build(FULL)
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    value, _ = triplets.loss(net(torch.randn(4, 3, 182, 182)), torch.tensor([0, 0, 1, 1]), 2.0)
    value.backward()
    optimizer.step()
    still = {name for name, p in net.named_parameters() if torch.equal(p, before[name])}
    assert still == {"classifier.weight", "classifier.bias"}


def test_the_learning_rate_by_hand() -> None:
    hp = train.Settings(
        opt_base_learning_rate=1.0,
        opt_learning_rate_warmup_steps=4,
        opt_learning_rate_decay_boundary_epochs=(2, 3),
        opt_learning_rate_decay_factor=0.5,
    )
    rates = [train.learning_rate(hp, step, epoch) for step, epoch in ((1, 1), (4, 1), (9, 2), (10, 3), (15, 4))]
    assert rates == pytest.approx([0.25, 1, 1, 0.5, 0.25])
    assert train.learning_rate(FULL, 1, 1) == 1e-3


# ---- data ------------------------------------------------------------------------------------------------------------


def test_a_batch_has_people_and_pictures_of_each_and_a_pass_shows_all() -> None:
    torch.manual_seed(0)
    labels = torch.arange(10).repeat_interleave(4)
    groups = data.Groups(labels, batch_size=8, pictures=2, rounds=2)
    batches = list(groups)
    assert len(batches) == len(groups) == 6
    for rows in batches:
        people = labels[rows].bincount()
        assert set(people[people > 0].tolist()) == {2}
    assert sorted(row for rows in batches for row in rows) == list(range(40))
    assert list(groups) != batches


def test_a_last_batch_of_one_person_is_left_out_and_few_pictures_are_shown_again() -> None:
    groups = data.Groups(torch.tensor([0, 0, 1, 1, 2, 2]), batch_size=4, pictures=2, rounds=2)
    batches = list(groups)
    assert len(batches) == len(groups) == 2
    again = list(data.Groups(torch.tensor([0, 0, 1, 1, 1]), batch_size=8, pictures=4, rounds=1))
    assert sorted(again[0])[:4] == [0, 0, 1, 1]


def test_augmentation_mirrors_and_moves() -> None:
    torch.manual_seed(0)
    images = torch.arange(25.0).view(1, 1, 5, 5).expand(200, 3, 5, 5)
    assert data.augmented(images, 0).shape == images.shape
    whole = images[0], images[0].flip(-1)
    kinds = [next(i for i, kind in enumerate(whole) if torch.equal(kind, image)) for image in data.augmented(images, 0)]
    assert 60 < sum(kinds) < 140
    assert len({image.numpy().tobytes() for image in data.augmented(images, 1)}) == 18


def test_faces_are_what_they_say() -> None:
    pixels, labels, who = faces.faces(6, 3, 32, 9)
    again, _, _ = faces.faces(2, 3, 32, 9)
    assert np.array_equal(pixels[:6], again)
    assert not np.array_equal(pixels[:6], faces.faces(2, 3, 32, 10)[0])
    assert labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5]
    assert len({row.tobytes() for row in who}) == 6
    assert pixels.std(axis=0).min() > 10  # no pixel is the same everywhere


@pytest.mark.parametrize("name", list(faces.IDENTITY))
def test_each_proportion_is_seen(name: str) -> None:
    """Two faces that differ in one proportion only make different pictures, all else in the middle."""
    middle, half = np.array(list(faces.IDENTITY.values()), np.float32).T
    of = np.stack([middle, middle])
    at = list(faces.IDENTITY).index(name)
    of[:, at] += half[at] * np.array([-1, 1], np.float32)
    still = np.zeros((2, len(faces.PICTURE)), np.float32)
    pictures = faces.paint(of, still, faces.HAIR_TONES[[1, 1]], np.zeros((2, 32, 32, 3), np.float32))
    assert (np.abs(pictures[0].astype(int) - pictures[1]).max(axis=2) > 20).sum() >= 2


def test_pairs_are_drawn_without_repetition_and_folds_share_nobody() -> None:
    labels = np.repeat(np.arange(20), 4)
    pairs = lfw.drawn(labels, folds=5, per_fold=10, seed=1)
    people = torch.from_numpy(labels)[pairs.rows]
    assert torch.equal(people[:, 0] == people[:, 1], pairs.same)
    assert len({tuple(row) for row in pairs.rows.tolist()}) == len(pairs) == 100
    of_fold = [set(people[pairs.fold == fold].flatten().tolist()) for fold in range(5)]
    assert sum(map(len, of_fold)) == len(set().union(*of_fold))
    assert [int(pairs.same[pairs.fold == fold].sum()) for fold in range(5)] == [10] * 5
    with pytest.raises(ValueError, match="has 24 of 25 pairs"):
        lfw.drawn(labels, folds=5, per_fold=25, seed=1)


def test_somebody_in_both_sets_is_refused() -> None:
    data.check_disjoint({"a"}, {"b"})
    with pytest.raises(ValueError, match="1 people are in the training set and in the evaluation set"):
        data.check_disjoint({"a", "b"}, {"b"})


# ---- baselines -------------------------------------------------------------------------------------------------------


def test_fisherfaces_find_the_direction_that_tells_people_apart() -> None:
    """People differ in number 0 by less than anybody's pictures differ in number 1."""
    torch.manual_seed(0)
    labels = torch.arange(30).repeat_interleave(6)
    features = torch.randn(180, 4) * torch.tensor([0.05, 10.0, 0.05, 0.05])
    features[:, :2] += torch.randn(30, 2)[labels] * torch.tensor([1.0, 0.0])
    found = baselines.fisherfaces(features, features, labels)
    like = found @ found.T
    same = (labels[:, None] == labels) & ~torch.eye(180, dtype=torch.bool)
    assert like[same].mean() > like[labels[:, None] != labels].mean() + 0.3


def test_edge_histograms_see_directions_and_no_brightness() -> None:
    ramp = torch.linspace(-1, 1, 32)
    across, down = ramp.expand(1, 3, 32, 32), ramp[:, None].expand(1, 3, 32, 32)
    found = baselines.edge_histograms(torch.cat([across, 0.5 * across - 0.2, down]))
    assert torch.allclose(found[0], found[1], atol=1e-5)
    assert (found[0] * found[2]).sum() < 0.5


# ---- runs ------------------------------------------------------------------------------------------------------------


def run_smoke(log: Path, *flags: str) -> list[dict]:
    """The events of a smoke run, in this process."""
    assert train.main(["--profile", "smoke", "--log", str(log), "--device", "cpu", *flags]) == 0
    return events(log)


def events(log: Path) -> list[dict]:
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in log.read_text().splitlines()]


def values(log: list[dict], key: str) -> list:
    return [event["value"] for event in log if event["key"] == key]


def test_a_smoke_run_its_log_and_its_samples(tmp_path: Path) -> None:
    log = run_smoke(tmp_path / "a.txt", "--seed", "7", "--samples", str(tmp_path / "sheets"))
    assert values(log, "submission_benchmark") == [HERE.name]
    assert values(log, "train_samples") == [48]
    assert values(log, "eval_samples") == [200]
    for key in ("eval_accuracy", "true_accept_rate", "embedding_spread", "triplets_that_break_the_margin"):
        assert len(values(log, key)) == 2
    assert all(0 < spread <= 1 for spread in values(log, "embedding_spread"))
    assert [event["metadata"]["samples_count"] for event in log if event["key"] == "epoch_stop"] == [48, 48]
    named = {event["metadata"]["name"] for event in log if event["key"] == "baseline"}
    assert {"pixels", "colour_histogram", "fisherfaces", "fisher_edge_histograms"} <= named
    (sheet,) = (tmp_path / "sheets").iterdir()
    assert struct.unpack(">II", sheet.read_bytes()[16:24]) == (8 * 96, 16 * 96)
    command = [sys.executable, "-m", "compliance.check", str(tmp_path / "a.txt")]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout


def test_training_learns(tmp_path: Path) -> None:
    """Few people, told apart well after some epochs, which an untrained or mislabelled network doesn't do."""
    log = run_smoke(tmp_path / "a.txt", "--max-epochs", "12", "--network-width", "16")
    assert values(log, "triplets_that_break_the_margin")[-1] < 0.75
    assert max(values(log, "eval_accuracy")[-3:]) > 0.55


def test_the_seed_decides_every_value(tmp_path: Path) -> None:
    first, second, other = (
        run_smoke(tmp_path / f"{name}.txt", "--seed", seed) for name, seed in (("a", "3"), ("b", "3"), ("c", "4"))
    )
    for key in ("embedding_spread", "eval_accuracy", "baseline", "data_source"):
        assert values(first, key) == values(second, key)
    for key in ("baseline", "data_source"):  # the faces know no seed
        assert values(first, key) == values(other, key)
    assert values(first, "embedding_spread") != values(other, "embedding_spread")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--held-out", "validation"], "closed division: held_out is"),
        (["--division", "open", "--held-out", "test"], "--held-out is evaluation or validation"),
        (["--division", "open", "--network", "vgg"], "expected resnet34 or small"),
        (["--division", "open", "--opt-name", "sgd"], "expected adam"),
        (["--global-batch-size", "26"], "multiple of --pictures-per-identity"),
        (["--global-batch-size", "4"], "at least two people"),
    ],
)
def test_settings_without_sense_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run_smoke(tmp_path / "a.txt", *flags)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
