"""ImageNet-1k (ILSVRC2012) as it lies on disk once its owners' archives are unpacked."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from reference.common import runs, sources

LAYOUT = (
    "DIR/train/<wnid>/*.JPEG (1,000 folders, 1,281,167 pictures) and DIR/val/<wnid>/*.JPEG (50,000); or val/ without "
    "folders beside DIR/val.txt, each line a file name and its class, as a wnid or as the folders' number from 0"
)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of the training pictures' channels, in 0..1
COUNTS = {"classes": 1000, "train": 1_281_167, "val": 50_000}
SHORT_SIDE, SIDE = 256, 224  # pixels: an evaluation picture is resized to the one, its middle cut to the other

Listed = list[tuple[Path, int]]  # files with their classes


class Pictures:
    """Pictures of a list, read when they are asked for: item i is (image (3, 224, 224) float32 normalised, class).

    `augment`: a random part of 8 to 100 % of the area, 3:4 to 4:3 in shape, mirrored half the time; otherwise the
    middle of the whole picture.
    """

    def __init__(self, listed: Listed, augment: bool) -> None:
        self.listed, self.augment = listed, augment
        self.labels = torch.tensor([label for _, label in listed])

    def __len__(self) -> int:
        return len(self.listed)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        from PIL import Image

        path, _ = self.listed[index]
        try:
            with Image.open(path) as picture:
                colour = picture.convert("RGB")
                box = random_part(*colour.size) if self.augment else middle(*colour.size)
                pixels = np.asarray(colour.resize((SIDE, SIDE), Image.Resampling.BILINEAR, box=box))
        except OSError as error:
            raise runs.SetupError(f"{path}: cannot be read: {error}") from None
        image = (torch.from_numpy(pixels.copy()).permute(2, 0, 1) / 255 - _column(MEAN)) / _column(STD)
        if self.augment and float(torch.rand(())) < 0.5:
            image = image.flip(2)
        return image, self.labels[index]


def middle(width: int, height: int) -> tuple[float, float, float, float]:
    """The square part of a picture that a resize of its short side to 256 and a cut of 224 would show."""
    side = min(width, height) * SIDE / SHORT_SIDE
    left, top = (width - side) / 2, (height - side) / 2
    return left, top, left + side, top + side


def random_part(width: int, height: int) -> tuple[int, int, int, int]:
    """A random part of a picture, drawn by torch's generator; the largest square after ten that didn't fit."""
    for _ in range(10):
        area, shape = torch.rand(2).tolist()
        pixels = width * height * (0.08 + 0.92 * area)
        ratio = math.exp((2 * shape - 1) * math.log(4 / 3))
        w, h = round(math.sqrt(pixels * ratio)), round(math.sqrt(pixels / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(torch.randint(width - w + 1, ())), int(torch.randint(height - h + 1, ()))
            return left, top, left + w, top + h
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


def load(data_dir: Path) -> tuple[Pictures, Pictures, list[sources.Source]]:
    """Training and validation pictures. The sources' hashes are over names and classes, not over the pictures.

    Raises SetupError, saying what was expected and found, where a part is missing or of another size.
    """
    classes = _folders(data_dir / "train")
    train = _in_folders(data_dir / "train", classes)
    flat = data_dir / "val.txt"
    held_out = _from_list(flat, classes) if flat.is_file() else _in_folders(data_dir / "val", classes)
    counts = {"classes": len(classes), "train": len(train), "val": len(held_out)}
    if counts != COUNTS:
        raise runs.SetupError(f"{data_dir}: expected {_told(COUNTS)}; found {_told(counts)}\n  expected: {LAYOUT}")
    found = [_source(listed, part, data_dir) for listed, part in ((train, "train"), (held_out, "val"))]
    return Pictures(train, augment=True), Pictures(held_out, augment=False), found


def _folders(folder: Path) -> list[str]:
    """The names of the class folders, sorted: a class is numbered by its place."""
    names = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if not names:
        raise runs.SetupError(f"{folder} has no class folders\n  expected: {LAYOUT}")
    return names


def _in_folders(folder: Path, classes: Sequence[str]) -> Listed:
    if _folders(folder) != list(classes):
        different = min(set(_folders(folder)) ^ set(classes))
        raise runs.SetupError(f"{folder} has other class folders than train: {different}, for one")
    listed = [(path, label) for label, name in enumerate(classes) for path in sorted((folder / name).glob("*.JPEG"))]
    if not listed:
        raise runs.SetupError(f"{folder} has no *.JPEG in its class folders\n  expected: {LAYOUT}")
    return listed


def _from_list(path: Path, classes: Sequence[str]) -> Listed:
    """Lines of "file class". Raises SetupError, naming the line, for an unknown class and for a missing file."""
    numbers = {name: number for number, name in enumerate(classes)} | {str(n): n for n in range(len(classes))}
    listed = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        name, _, label = line.strip().partition(" ")
        if label.strip() not in numbers:
            raise runs.SetupError(f"{path}:{number}: expected a file name and one of {len(classes)} classes: {line!r}")
        listed.append((path.parent / "val" / name, numbers[label.strip()]))
    missing = [file for file, _ in listed if not file.is_file()]
    if missing or not listed:
        raise runs.SetupError(f"{path} lists {len(listed)} files, of which {len(missing)} are missing: {missing[:1]}")
    return listed


def _source(listed: Listed, part: str, data_dir: Path) -> sources.Source:
    total = hashlib.sha256()
    for path, label in listed:
        total.update(f"{path.relative_to(data_dir).as_posix()} {label}\n".encode())
    return sources.Source("imagenet-1k", "names and classes", part, total.hexdigest())


def _told(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items())


def _column(values: Sequence[float]) -> Tensor:
    return torch.tensor(values).view(3, 1, 1)
