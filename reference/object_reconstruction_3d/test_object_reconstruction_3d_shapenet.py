"""Object reconstruction: binvox files and ShapeNet's layout, written here with made-up objects."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from reference.common.errors import SetupError

from . import data, render, shapenet, shapes

CPU = torch.device("cpu")


def write_binvox(path: Path, voxels: np.ndarray) -> None:
    """Written voxel by voxel, in the order that the format's description gives: x, then z, then y."""
    order = [bool(voxels[x, y, z]) for x in range(len(voxels)) for z in range(len(voxels)) for y in range(len(voxels))]
    body, start = b"", 0
    for place in range(1, len(order) + 1):
        if place == len(order) or order[place] != order[start] or place - start == 255:
            body += struct.pack("BB", order[start], place - start)
            start = place
    side = len(voxels)
    head = f"#binvox 1\ndim {side} {side} {side}\ntranslate 0 0 0\nscale 1\ndata\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(head.encode() + body)


def test_binvox_there_and_back(tmp_path: Path) -> None:
    voxels = shapes.objects(6, 2)[0][4]
    write_binvox(tmp_path / "a.binvox", voxels)
    assert np.array_equal(shapenet.read_binvox(tmp_path / "a.binvox"), voxels)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"binvox", "not a binvox file"),
        (b"#binvox 2\ndim 1 1 1\ndata\n\x01\x01", "not a binvox file of version 1"),
        (b"#binvox 1\ndim 1 x 1\ndata\n\x01\x01", "dim is not three numbers"),
        (b"#binvox 1\ndim 2 2 2\ndata\n\x01\x07", "voxels are damaged"),
        (b"#binvox 1\ndim 2 2 2\ndata\n\x01\x08\x00", "voxels are damaged"),
        (b"#binvox 1\ndim 2 2 2\ndata\n\x02\x08", "voxels are damaged"),
    ],
)
def test_a_damaged_binvox_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.binvox").write_bytes(content)
    with pytest.raises(SetupError, match=message):
        shapenet.read_binvox(tmp_path / "a.binvox")


def made_up_shapenet(folder: Path, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Six objects in two categories, four views each, in the real layout. Returns their voxels."""
    image = pytest.importorskip("PIL.Image", reason="needs pillow")
    monkeypatch.setattr(shapenet, "OBJECTS", 6)
    monkeypatch.setattr(shapenet, "VIEWS", 4)
    voxels, _ = shapes.objects(6, 3)
    pictures = render.photos(voxels, 4, 137, 3)
    for row, (category, name) in enumerate((c, f"object{n}") for c in ("02691156", "03001627") for n in range(3)):
        write_binvox(folder / "ShapeNetVox32" / category / name / "model.binvox", voxels[row])
        where = folder / "ShapeNetRendering" / category / name / "rendering"
        where.mkdir(parents=True)
        for view in range(4):
            alpha = np.full((137, 137, 1), 255 * (view != 1), np.uint8)
            rgba = image.fromarray(np.concatenate([pictures[row, view], alpha], axis=2))
            rgba.save(where / f"{view:02d}.png")
    return voxels


def test_shapenet_is_read_and_divided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    voxels = made_up_shapenet(tmp_path, monkeypatch)
    found = shapenet.read(tmp_path, 64)
    assert found.training.tolist() == [True, True, False] * 2  # 8 tenths of three, rounded down
    assert found.classes.tolist() == [0] * 3 + [4] * 3
    part = data.Part(found.renderings, found.bits, found.classes, CPU)
    assert np.array_equal(part.voxels(np.arange(6)).numpy(), voxels)
    pictures, _ = next(part.evaluation(6, 4))
    assert pictures.shape == (6, 4, 3, 64, 64)
    assert (pictures[:, 1] == 1).all()  # what is transparent shows the white ground
    assert (pictures[:, 0] < 0.5).any()


def test_shapenet_that_is_not_whole_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up_shapenet(tmp_path, monkeypatch)
    picture = tmp_path / "ShapeNetRendering" / "03001627" / "object1" / "rendering" / "02.png"
    content = picture.read_bytes()
    picture.write_bytes(content[:60])
    with pytest.raises(SetupError, match="not a readable picture"):
        shapenet.picture(picture, 64)
    picture.unlink()
    with pytest.raises(SetupError, match="object1.* has no 02.png"):
        shapenet.read(tmp_path, 64)
    picture.write_bytes(content)
    write_binvox(tmp_path / "ShapeNetVox32" / "03001627" / "object1" / "model.binvox", np.zeros((4, 4, 4), bool))
    with pytest.raises(SetupError, match="expected 32x32x32"):
        shapenet.read(tmp_path, 64)
    shutil.rmtree(tmp_path / "ShapeNetVox32" / "02691156")
    with pytest.raises(SetupError, match="expected 6 binvox files, found 3"):
        shapenet.read(tmp_path, 64)
