"""Cityscapes in its owners' layout: leftImg8bit (photos) and gtFine (label maps), read with Pillow."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from reference.common import runs, sources

LAYOUT = (
    "leftImg8bit/{train,val}/<city>/*_leftImg8bit.png (2,975 and 500 files) and "
    "gtFine/{train,val}/<city>/*_gtFine_labelIds.png (as many), of leftImg8bit_trainvaltest.zip and "
    "gtFine_trainvaltest.zip"
)
COUNTS = {"train": 2975, "val": 500}
PHOTO, LABELS = "_leftImg8bit.png", "_gtFine_labelIds.png"

# The 19 classes that are evaluated: name, number in the labelIds files, colour. Every other number is void.
CLASSES = (
    ("road", 7, (128, 64, 128)),
    ("sidewalk", 8, (244, 35, 232)),
    ("building", 11, (70, 70, 70)),
    ("wall", 12, (102, 102, 156)),
    ("fence", 13, (190, 153, 153)),
    ("pole", 17, (153, 153, 153)),
    ("traffic light", 19, (250, 170, 30)),
    ("traffic sign", 20, (220, 220, 0)),
    ("vegetation", 21, (107, 142, 35)),
    ("terrain", 22, (152, 251, 152)),
    ("sky", 23, (70, 130, 180)),
    ("person", 24, (220, 20, 60)),
    ("rider", 25, (255, 0, 0)),
    ("car", 26, (0, 0, 142)),
    ("truck", 27, (0, 0, 70)),
    ("bus", 28, (0, 60, 100)),
    ("train", 31, (0, 80, 100)),
    ("motorcycle", 32, (0, 0, 230)),
    ("bicycle", 33, (119, 11, 32)),
)
PALETTE = tuple(colour for _, _, colour in CLASSES)
VOID = 255

# from a labelIds value to a class number
_NUMBERS = np.full(256, VOID, np.uint8)
for _number, (_, _id, _) in enumerate(CLASSES):
    _NUMBERS[_id] = _number


def part(data_dir: Path, name: str, size: int) -> tuple[np.ndarray, np.ndarray, list[sources.Source]]:
    """Photos (n, size, size, 3) and label maps (n, size, size), uint8, of the part `train` or `val`, by file name.

    The whole picture is squeezed to a square: photos bicubically, label maps by the nearest pixel, so that no colour
    between two classes arises. Raises SetupError for a missing, surplus or damaged file.
    """
    pairs = _pairs(data_dir, name)
    with ThreadPoolExecutor() as pool:  # Pillow decodes outside the interpreter's lock
        photos = list(pool.map(lambda pair: _photo(pair[0], size), pairs))
        labels = list(pool.map(lambda pair: _labels(pair[1], size), pairs))
    found = [
        sources.data_folder(
            data_dir / "leftImg8bit" / name, "cityscapes", f"leftImg8bit/{name}", [p for p, _ in pairs]
        ),
        sources.data_folder(
            data_dir / "gtFine" / name, "cityscapes", f"gtFine/{name}, labelIds", [m for _, m in pairs]
        ),
    ]
    return np.stack(photos), np.stack(labels), found


def _pairs(data_dir: Path, name: str) -> list[tuple[Path, Path]]:
    photos = sorted((data_dir / "leftImg8bit" / name).glob(f"*/*{PHOTO}"))
    if len(photos) != COUNTS[name]:
        where = data_dir / "leftImg8bit" / name
        raise runs.SetupError(f"{where}: expected {COUNTS[name]} photos, found {len(photos)}\n  expected: {LAYOUT}")
    pairs = []
    for photo in photos:
        stem = photo.name.removesuffix(PHOTO)
        labels = data_dir / "gtFine" / name / photo.parent.name / (stem + LABELS)
        if not labels.is_file():
            raise runs.SetupError(f"{photo} has no label map {labels}\n  expected: {LAYOUT}")
        pairs.append((photo, labels))
    return pairs


def _photo(path: Path, size: int) -> np.ndarray:
    image = _opened(path)
    return np.asarray(image.convert("RGB").resize((size, size), 3), np.uint8)  # 3: bicubic


def _labels(path: Path, size: int) -> np.ndarray:
    image = _opened(path)
    if image.mode not in ("L", "P"):
        raise runs.SetupError(f"{path}: expected class numbers in one channel, found an image of mode {image.mode}")
    return _NUMBERS[np.asarray(image.resize((size, size), 0), np.uint8)]  # 0: nearest


def _opened(path: Path) -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise runs.SetupError(
            "Cityscapes' pictures are read with Pillow, which is missing\n  pip install pillow"
        ) from None
    try:
        with Image.open(path) as image:
            image.load()
            return image
    except (OSError, SyntaxError, ValueError) as error:  # Pillow raises each of them for damaged files
        raise runs.SetupError(f"{path}: not a readable picture: {error}") from None
