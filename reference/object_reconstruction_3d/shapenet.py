"""ShapeNet as 3D-R2N2's authors publish it: ShapeNetRendering (24 pictures of each object), ShapeNetVox32 (binvox)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reference.common import runs, sources

from .shapes import SIDE

LAYOUT = (
    "ShapeNetVox32/<category>/<object>/model.binvox (13 categories, 43,783 objects) and "
    "ShapeNetRendering/<category>/<object>/rendering/00.png ... 23.png, of ShapeNetVox32.tgz and ShapeNetRendering.tgz"
)
CATEGORIES = {
    "02691156": "plane",
    "02828884": "bench",
    "02933112": "cabinet",
    "02958343": "car",
    "03001627": "chair",
    "03211117": "monitor",
    "03636649": "lamp",
    "03691459": "loudspeaker",
    "04090263": "rifle",
    "04256520": "sofa",
    "04379243": "table",
    "04401088": "telephone",
    "04530566": "watercraft",
}
OBJECTS = 43_783
VIEWS = 24
TRAIN_TENTHS = 8  # of each category, by name; the rest is evaluated


@dataclass(frozen=True)
class Renderings:
    """Pictures that are read from their files when they are wanted. `folders` hold 00.png, 01.png ..."""

    folders: list[Path]
    size: int

    @property
    def views(self) -> int:
        return VIEWS

    def part(self, rows: np.ndarray) -> Renderings:
        return Renderings([self.folders[row] for row in rows], self.size)

    def read(self, objects: np.ndarray, views: np.ndarray) -> np.ndarray:
        """One picture of each object, (k, size, size, 3) uint8."""
        paths = [self.folders[row] / f"{view:02d}.png" for row, view in zip(objects, views, strict=True)]
        with ThreadPoolExecutor() as pool:  # Pillow decodes outside the interpreter's lock
            return np.stack(list(pool.map(lambda path: picture(path, self.size), paths)))


@dataclass(frozen=True)
class Found:
    """All objects, by category and name: pictures, voxel bits (n, 4096), class numbers, which ones are trained on."""

    renderings: Renderings
    bits: np.ndarray
    classes: np.ndarray
    training: np.ndarray
    source: sources.Source


def read(data_dir: Path, size: int) -> Found:
    """Every object's voxels, and where its pictures are. Raises SetupError for missing, surplus or damaged files.

    The first 8 tenths of each category, sorted by name, are for training, as 3D-R2N2 divides them. The hash in the
    log is over the binvox files; of the pictures only the names are checked.
    """
    binvox: list[Path] = []
    folders, classes, training = [], [], []
    for number, category in enumerate(CATEGORIES):
        objects = sorted((data_dir / "ShapeNetVox32" / category).glob("*/model.binvox"))
        binvox += objects
        folders += [data_dir / "ShapeNetRendering" / category / path.parent.name / "rendering" for path in objects]
        classes += [number] * len(objects)
        training += [row < len(objects) * TRAIN_TENTHS // 10 for row in range(len(objects))]
    if len(binvox) != OBJECTS:
        where = data_dir / "ShapeNetVox32"
        raise runs.SetupError(f"{where}: expected {OBJECTS} binvox files, found {len(binvox)}\n  expected: {LAYOUT}")
    for folder in folders:
        missing = {f"{view:02d}.png" for view in range(VIEWS)} - {path.name for path in folder.glob("*.png")}
        if missing:
            raise runs.SetupError(f"{folder} has no {', '.join(sorted(missing)[:3])}\n  expected: {LAYOUT}")
    bits = np.empty((len(binvox), SIDE**3 // 8), np.uint8)
    for row, path in enumerate(binvox):
        voxels = read_binvox(path)
        if voxels.shape != (SIDE, SIDE, SIDE):
            raise runs.SetupError(f"{path}: expected {SIDE}x{SIDE}x{SIDE} voxels, found {voxels.shape}")
        bits[row] = np.packbits(voxels)
    source = sources.data_folder(data_dir / "ShapeNetVox32", "shapenet", "ShapeNetVox32, 13 categories", binvox)
    return Found(Renderings(folders, size), bits, np.array(classes), np.array(training), source)


def read_binvox(path: Path) -> np.ndarray:
    """The voxels of a binvox file (version 1), bool, [x, y, z] as the file's own axes name them.

    The file is a header of text lines up to `data`, then pairs of bytes: a value, 0 or 1, and how often it comes,
    1..255. y runs fastest, then z, then x. Raises SetupError, saying where, for anything else.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise runs.SetupError(f"{path}: cannot be read: {error.strerror}") from None
    head, found, body = content.partition(b"\ndata\n")
    lines = head.decode("ascii", "replace").splitlines()
    if not found or not lines or lines[0].split() != ["#binvox", "1"]:
        raise runs.SetupError(f"{path}: not a binvox file of version 1")
    sides = next((line.split()[1:] for line in lines if line.startswith("dim")), [])
    if len(sides) != 3 or not all(side.isdigit() and int(side) > 0 for side in sides):
        raise runs.SetupError(f"{path}: the header's dim is not three numbers")
    depth, width, height = (int(side) for side in sides)
    runs_ = np.frombuffer(body, np.uint8)
    values, counts = runs_[0::2], runs_[1::2]
    if len(runs_) % 2 or (values > 1).any() or int(counts.sum(dtype=np.int64)) != depth * width * height:
        raise runs.SetupError(
            f"{path}: the voxels are damaged: {len(runs_)} bytes do not make {'x'.join(sides)} of them"
        )
    return np.repeat(values.astype(bool), counts).reshape(depth, width, height).transpose(0, 2, 1)


def picture(path: Path, size: int) -> np.ndarray:
    """A rendering on white ground, squeezed to (size, size, 3) uint8."""
    try:
        from PIL import Image
    except ImportError:
        raise runs.SetupError(
            "ShapeNet's pictures are read with Pillow, which is missing\n  pip install pillow"
        ) from None
    try:
        with Image.open(path) as image:
            rgba = image.convert("RGBA")
    except (OSError, SyntaxError, ValueError) as error:  # Pillow raises each of them for damaged files
        raise runs.SetupError(f"{path}: not a readable picture: {error}") from None
    ground: Any = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
    ground.alpha_composite(rgba)
    return np.asarray(ground.convert("RGB").resize((size, size), 2), np.uint8)  # 2: bilinear
