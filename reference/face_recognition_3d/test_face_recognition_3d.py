"""3D face recognition: metric by hand, networks, rendered heads, and short runs through train.py.

All people here are made up.
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

from . import baselines, data, heads, metric, model, train

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CPU = torch.device("cpu")
FULL, SMALL = train.PROFILES["full"], train.PROFILES["embedded"]


# ---- metric ----------------------------------------------------------------------------------------------------------


def test_hits_by_hand() -> None:
    """First; second; a tie, which counts against it; all alike; no number; a rival that is no number."""
    nan = float("nan")
    rows = [[2.0, 1, 0], [1, 2, 0], [2, 2, 0], [1, 1, 1], [nan, 1, 0], [2, nan, 0]]
    for row, expected in zip(rows, (1, 0, 0, 0, 0, 0), strict=True):
        assert metric.hits(torch.tensor([row]), torch.tensor([0])) == expected
    assert metric.hits(torch.tensor(rows), torch.tensor([0, 1, 0, 0, 1, 0])) == 2


def test_templates_are_means_of_directions() -> None:
    """Person 0's pictures point along x and y, one of them far longer: the template lies between. Person 1 has one."""
    features = torch.tensor([[100.0, 0.0], [0.0, -3.0], [0.0, 1.0]])
    found = metric.templates(features, torch.tensor([0, 1, 0]))
    assert torch.allclose(found, torch.tensor([[0.5**0.5, 0.5**0.5], [0.0, -1.0]]))


@pytest.mark.parametrize("size", [1, 3, 8])
def test_identification_counts_all_pictures_once(size: int) -> None:
    """Seven pictures whose scores are their first row; four right. A mean of batches' shares would differ."""
    pictures = torch.zeros(7, 4, 3, 3)
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0])
    pictures[torch.arange(7), 0, 0, torch.tensor([0, 1, 2, 0, 0, 0, 1])] = 1
    batches = zip(pictures.split(size), labels.split(size), strict=True)
    assert metric.identification(lambda x: x[:, 0, 0], batches, CPU) == (4 / 7, 7)
    with pytest.raises(ValueError, match="no pictures"):
        metric.identification(lambda x: x, [], CPU)


# ---- networks --------------------------------------------------------------------------------------------------------


def test_parameter_counts() -> None:
    assert sum(p.numel() for p in model.resnet50(1200).parameters()) == 25_969_968
    assert sum(p.numel() for p in train.build(SMALL)[0].parameters()) == 127_992


def test_logits_are_cosines_with_a_margin_or_linear() -> None:
    torch.manual_seed(0)
    net = model.small(5, 4, 8, scale=10.0)
    features, labels = torch.randn(3, 8), torch.tensor([4, 0, 2])
    plain, strict = net.logits(features), net.logits(features, labels, 0.25)
    assert plain[1, 3].item() == pytest.approx(10 * F.cosine_similarity(features[1], net.fc.weight[3], dim=0).item())
    assert torch.allclose(plain - strict, 2.5 * F.one_hot(labels, 5), atol=1e-5)
    linear = model.resnet50(7)
    wide = torch.randn(2, 2048)
    assert torch.allclose(linear.logits(wide, torch.tensor([0, 1]), 0.25), linear.fc(wide))


@pytest.mark.parametrize("name", ["resnet50", "small"])
def test_colour_and_depth_both_carry_gradient(name: str) -> None:
    """To the first layer's weights and to the pictures; and a step moves every tensor of the network."""
    torch.manual_seed(0)
    hp = FULL if name == "resnet50" else SMALL
    net, optimizer = train.build(hp)
    before = {key: p.detach().clone() for key, p in net.named_parameters()}
    pixels, labels, _ = heads.heads(3, 2, 32, 5)
    pictures = data.Made(pixels)[range(6)].requires_grad_()
    F.cross_entropy(net(pictures), torch.from_numpy(labels)).backward()
    for gradient in (net.conv1.weight.grad, pictures.grad):
        shares = gradient.abs().sum(dim=(0, 2, 3))
        assert (shares > 0.02 * shares.sum()).all(), shares
    optimizer.step()
    assert not [key for key, p in net.named_parameters() if torch.equal(p, before[key])]


def test_planes_that_are_not_shown_are_zero() -> None:
    pictures = torch.ones(2, 4, 3, 3)
    for planes, kept in (("rgbd", [1, 1, 1, 1]), ("rgb", [1, 1, 1, 0]), ("depth", [0, 0, 0, 1])):
        assert data.only(pictures, planes)[0, :, 0, 0].tolist() == kept


def test_the_learning_rate_by_hand() -> None:
    hp = train.Settings(
        opt_base_learning_rate=1.0,
        opt_learning_rate_warmup_steps=4,
        opt_learning_rate_decay_boundary_epochs=(2, 3),
        opt_learning_rate_decay_factor=0.5,
    )
    rates = [train.learning_rate(hp, step, epoch) for step, epoch in ((1, 1), (4, 1), (9, 2), (10, 3), (15, 4))]
    assert rates == pytest.approx([0.25, 1, 1, 0.5, 0.25])
    assert train.learning_rate(FULL, 1, 1) == 0.01


# ---- heads -----------------------------------------------------------------------------------------------------------


def test_heads_are_what_they_say() -> None:
    pixels, labels, who = heads.heads(6, 3, 32, 9)
    again, _, _ = heads.heads(2, 3, 32, 9)
    assert np.array_equal(pixels[:6], again)
    assert not np.array_equal(pixels[:6], heads.heads(2, 3, 32, 10)[0])
    assert labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5]
    assert len({row.tobytes() for row in who}) == 6
    depth = pixels[..., 3]
    assert (depth[:, 16, 16] > 0).mean() > 0.7  # a head in the middle, some pixels lost
    assert (depth[:, 0, 0] == 0).mean() > 0.7  # nothing behind it
    assert pixels[..., :3].std(axis=0).min() > 10


def rendered(drawn: dict[int, float], colour: bool = False) -> np.ndarray:
    """A middling head, with some of a picture's numbers changed: its colours or its depth, (32, 32)."""
    who = np.zeros((1, heads.SHAPE_NUMBERS + heads.MARKS + 1), np.float32)
    now = np.zeros((1, 24), np.float32)
    for at, value in drawn.items():
        now[0, at] = value
    picture = heads.render(heads.surfaces(who), heads.albedo(who), now, np.zeros((1, 32, 32, 5), np.float32))
    return picture[0, ..., :3].mean(axis=2) if colour else picture[0, ..., 3].astype(float)


def test_the_nearest_point_is_seen() -> None:
    """Two points of one pixel: the nearer one. A pixel between four others is filled."""
    rows, columns = np.array([[1, 1, 3, 3, 2, 4]]), np.array([[1, 1, 2, 4, 3, 3]])
    near = np.array([[0.1, 0.5, 0.2, 0.2, 0.3, 0.2]], np.float32)
    found = heads._nearest_points(rows, columns, near, 6).reshape(6, 6)
    assert found[1, 1] == 1
    assert found[3, 3] == 4
    assert found[0, 0] == -1
    outside = heads._nearest_points(rows - 9, columns, near, 6)
    assert (outside == -1).all()


def test_a_middling_head_is_symmetric_and_its_nose_is_nearest() -> None:
    depth = rendered({})
    assert np.abs(depth - depth[:, ::-1]).mean() < 6
    rows, columns = np.unravel_index(depth.argmax(), depth.shape)
    assert 16 <= rows <= 21
    assert 14 <= columns <= 17


def test_poses_turn_the_head_and_light_changes_colour_only() -> None:
    for at in (3, 4):  # yaw, pitch
        one, other = (rendered({at: value}) for value in (-1, 1))
        assert np.abs(one - other).mean() > 5
    first, second = (np.unravel_index(rendered({3: value}).argmax(), (32, 32)) for value in (-1, 1))
    assert first[1] < 12 or second[1] < 12  # the nose points to one side, then to the other
    assert first[1] > 19 or second[1] > 19
    assert np.array_equal(rendered({6: 1.0}), rendered({6: -1.0}))
    assert np.abs(rendered({6: 1.0}, colour=True) - rendered({6: -1.0}, colour=True)).mean() > 5
    assert np.abs(rendered({0: 1.0}) - rendered({0: -1.0})).mean() > 0.1  # the mouth opens
    hidden = rendered({23: -1.0})
    assert (hidden == hidden.max()).sum() > 20  # something nearer than the head


def test_a_nose_is_in_the_depth() -> None:
    who = np.zeros((2, heads.SHAPE_NUMBERS + heads.MARKS + 1), np.float32)
    tip = len(heads.HEAD) + 5 * [name for name, *_ in heads.BUMPS].index("tip") + 4
    who[:, tip] = (-1, 1)
    shapes = heads.surfaces(who)
    assert (shapes[1, 2] - shapes[0, 2]).max() == pytest.approx(0.2, abs=0.02)
    assert np.array_equal(shapes[0, :2], shapes[1, :2])


# ---- data ------------------------------------------------------------------------------------------------------------


def test_gallery_and_probes_show_the_same_strangers() -> None:
    found, _ = data._made(data.SIZES["smoke"], 32, data.EVAL_SEED)
    assert found.gallery.labels.tolist() == list(range(10))
    assert found.probes.labels.tolist() == [number for number in range(10) for _ in range(2)]
    rows = torch.cat([found.gallery.pictures[range(10)], found.probes.pictures[range(20)]])
    assert len({row.numpy().tobytes() for row in rows}) == 30
    with pytest.raises(ValueError, match="1 people are in the training set and in the evaluation set"):
        data.check_disjoint({"a", "b"}, {"b"})


def test_augmentation_mirrors_moves_and_leaves_depth_its_values() -> None:
    torch.manual_seed(0)
    pictures = (torch.arange(25.0).view(1, 1, 5, 5) / 25 - 0.5).expand(200, 4, 5, 5)
    moved = data.augmented(pictures, 1, 0.5)
    assert len({picture[3].numpy().tobytes() for picture in moved}) == 18
    assert set(moved[:, 3].unique().tolist()) <= set(pictures.unique().tolist())
    assert torch.equal(data.augmented(pictures, 0, 0.0)[:, 0].sort(dim=2).values, pictures[:, 0])
    gains = (data.augmented(pictures[:, :, :1, :1], 0, 0.5)[:, :3, 0, 0] + 1) / (pictures[0, 0, 0, 0] + 1)
    assert 0.5 <= gains.min() < 0.6 < 1.4 < gains.max() <= 1.5


# ---- baselines -------------------------------------------------------------------------------------------------------


def test_the_nearest_neighbour_by_hand() -> None:
    """Person 0 is shown at 0 and 10, person 1 at 4. Probes of persons 0, 0, 1 at 1, 6 and 5."""
    shown, people = torch.tensor([[0.0], [10.0], [4.0]]), torch.tensor([0, 0, 1])
    found = baselines.nearest(shown, people, torch.tensor([[1.0], [6.0], [5.0]]), torch.tensor([0, 0, 1]))
    assert found == pytest.approx(2 / 3)


def test_discriminants_find_what_tells_people_apart() -> None:
    torch.manual_seed(0)
    labels = torch.arange(30).repeat_interleave(6)
    features = torch.randn(180, 4) * torch.tensor([0.05, 10.0, 0.05, 0.05])
    features[:, :2] += torch.randn(30, 2)[labels] * torch.tensor([1.0, 0.0])
    state = torch.random.get_rng_state()
    found = baselines.Fisher(features, labels)(features)
    assert torch.equal(state, torch.random.get_rng_state())
    like = found @ found.T
    same = (labels[:, None] == labels) & ~torch.eye(180, dtype=torch.bool)
    assert like[same].mean() > like[labels[:, None] != labels].mean() + 0.3


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
    assert values(log, "quality_metric") == ["rank1_accuracy"]
    assert values(log, "train_samples") == [48]
    assert values(log, "eval_samples") == [20]
    assert len(values(log, "eval_accuracy")) == 2
    assert [event["metadata"]["samples_count"] for event in log if event["key"] == "epoch_stop"] == [48, 48]
    named = {event["metadata"]["name"] for event in log if event["key"] == "baseline"}
    assert named == {"mean_colour", "colour", "depth", "colour_and_depth", "fisherfaces", "fisher_edges"}
    (sheet,) = (tmp_path / "sheets").iterdir()
    assert struct.unpack(">II", sheet.read_bytes()[16:24]) == (6 * 96, 2 * 12 * 96)
    command = [sys.executable, "-m", "compliance.check", str(tmp_path / "a.txt")]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout


def test_the_seed_decides_every_value(tmp_path: Path) -> None:
    runs = [
        run_smoke(tmp_path / f"{name}.txt", "--seed", seed, "--max-epochs", "4")
        for name, seed in (("a", "3"), ("b", "3"), ("c", "4"))
    ]
    for key in ("eval_accuracy", "baseline", "data_source"):
        assert values(runs[0], key) == values(runs[1], key)
    for key in ("baseline", "data_source"):  # the heads know no seed
        assert values(runs[0], key) == values(runs[2], key)
    assert values(runs[0], "eval_accuracy") != values(runs[2], "eval_accuracy")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--held-out", "validation"], "closed division: held_out is"),
        (["--planes", "rgb"], "closed division: planes is"),
        (["--division", "open", "--held-out", "test"], "--held-out is evaluation or validation"),
        (["--division", "open", "--planes", "d"], "expected one of rgbd, rgb, depth"),
        (["--division", "open", "--opt-name", "adam"], "expected one of sgd, adamw"),
        (["--classes", "13"], "--classes 13: the training set has 12 people"),
        (["--embedding-size", "0"], "needs at least 1"),
    ],
)
def test_settings_without_sense_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run_smoke(tmp_path / "a.txt", *flags)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
