"""Pictures of ImageNet-1k (ILSVRC2012): a random crop of each training picture, the middle of validation pictures."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from reference.common import runs, seeds, sources

LAYOUT = (
    "DIR/train/<wnid>/*.JPEG (1,281,167 pictures) and DIR/val/*.JPEG (50,000), the latter in folders or without; of "
    "val, every 50th by name is read"
)
COUNTS = {"train": 1_281_167, "val": 50_000}
EVAL_SIDE, EVAL_EVERY = 256, 50  # pixels; pictures of the sorted names
VALIDATION_EVERY = 1281  # with --held-out validation: every 1281st training picture is taken out and judged instead
WORKERS = 8  # processes that decode JPEG


class Crops:
    """Item i is a random square of `side` pixels of training picture i, (3, side, side) uint8, mirrored half the time.

    A picture smaller than that is enlarged first.
    """

    def __init__(self, files: list[Path], side: int, workers: int = WORKERS) -> None:
        self.files, self.side, self.workers = files, side, workers

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> Tensor:
        pixels = read(self.files[index], self.side)
        height, width, _ = pixels.shape
        top, left = int(torch.randint(height - self.side + 1, ())), int(torch.randint(width - self.side + 1, ()))
        crop = torch.from_numpy(pixels[top : top + self.side, left : left + self.side].copy()).permute(2, 0, 1)
        return crop.flip(2) if float(torch.rand(())) < 0.5 else crop

    def batches(self, size: int, device: torch.device) -> Iterator[Tensor]:
        loader = DataLoader(
            self,
            batch_size=size,
            shuffle=True,
            num_workers=self.workers,
            worker_init_fn=seeds.seed_worker,
            pin_memory=device.type == "cuda",
        )
        return (crops.to(device) for crops in loader)


def load(data_dir: Path, side: int, validation: bool) -> tuple[Crops, Tensor, list[sources.Source]]:
    """Training crops, and the evaluation's pictures (n, 3, 256, 256) uint8: short side 256, the middle.

    The sources' hashes are over names and sizes, not over the pictures. Raises SetupError where a part is missing or of
    another size.
    """
    files, found = {}, []
    for part, count in COUNTS.items():
        folder = data_dir / part
        files[part] = sorted(folder.rglob("*.JPEG"), key=lambda path: (path.name, path)) if folder.is_dir() else []
        if len(files[part]) != count:
            raise runs.SetupError(
                f"{folder}: expected {count:,} pictures (*.JPEG), found {len(files[part]):,}\n  expected: {LAYOUT}"
            )
        found.append(_source(files[part], part, data_dir))
    train, judged = files["train"], files["val"][::EVAL_EVERY]
    if validation:
        judged = train[::VALIDATION_EVERY]
        train = [path for number, path in enumerate(train) if number % VALIDATION_EVERY]
    pictures = torch.stack([torch.from_numpy(middle(path)).permute(2, 0, 1) for path in judged])
    return Crops(train, side), pictures, found


def read(path: Path, smallest: int) -> np.ndarray:
    """A picture (h, w, 3) uint8, its short side enlarged to `smallest` pixels where it is shorter."""
    from PIL import Image

    try:
        with Image.open(path) as picture:
            colour = picture.convert("RGB")
            if min(colour.size) < smallest:
                scale = smallest / min(colour.size)
                size = [max(smallest, round(side * scale)) for side in colour.size]
                colour = colour.resize(size, Image.Resampling.BICUBIC)
            return np.asarray(colour)
    except OSError as error:
        raise runs.SetupError(f"{path}: cannot be read: {error}") from None


def middle(path: Path) -> np.ndarray:
    """The middle of a picture whose short side is made EVAL_SIDE pixels, (256, 256, 3) uint8."""
    from PIL import Image

    colour = Image.fromarray(read(path, 1))
    width, height = colour.size
    side = min(width, height)
    left, top = (width - side) / 2, (height - side) / 2
    box = (left, top, left + side, top + side)
    return np.array(colour.resize((EVAL_SIDE, EVAL_SIDE), Image.Resampling.BICUBIC, box=box))


def _source(files: list[Path], part: str, data_dir: Path) -> sources.Source:
    total = hashlib.sha256()
    for path in files:
        total.update(f"{path.relative_to(data_dir).as_posix()}\0{path.stat().st_size}\n".encode())
    return sources.Source("imagenet-1k", "names and sizes", part, total.hexdigest())
