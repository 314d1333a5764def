"""Object detection: VOC2007's layout, on made-up pictures, and the full profile on it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from reference.common.errors import SetupError

from . import backbone, data, train, voc


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


def events(log: Path) -> list[dict]:
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in log.read_text().splitlines()]


def values(log: list[dict], key: str) -> list:
    return [event["value"] for event in log if event["key"] == key]


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
