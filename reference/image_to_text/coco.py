"""MS COCO 2014 captions as its owners publish them: two annotation files and two folders of pictures."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from reference.common import runs, sources

LAYOUT = (
    "DIR/annotations/captions_train2014.json (82,783 pictures, 414,113 captions) and captions_val2014.json (40,504, "
    "202,654); DIR/train2014/*.jpg and DIR/val2014/*.jpg"
)
COUNTS = {"train": (82_783, 414_113), "val": (40_504, 202_654)}  # pictures, captions
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of the pictures that the encoder was trained on, in 0..1
MARGIN = 256 / 224  # short side over crop
VALIDATION_EVERY = 20  # with --held-out validation: every 20th training picture is taken out and judged instead

Side = tuple["Files", list[list[str]]]  # pictures and each one's captions


@dataclass(frozen=True)
class Files:
    """JPEG files; a picture is a crop of `side` pixels: at random, mirrored half the time, or the middle."""

    paths: list[Path]
    side: int

    def __len__(self) -> int:
        return len(self.paths)

    def picture(self, index: int, training: bool) -> Tensor:
        from PIL import Image

        path = self.paths[index]
        try:
            with Image.open(path) as opened:
                colour = opened.convert("RGB")
        except OSError as error:
            raise runs.SetupError(f"{path}: cannot be read: {error}") from None
        scale = self.side * MARGIN / min(colour.size)
        width, height = (max(self.side, round(length * scale)) for length in colour.size)
        pixels = torch.from_numpy(np.array(colour.resize((width, height), Image.Resampling.BILINEAR)))
        down, right = height - self.side, width - self.side
        if training:
            top, left = int(torch.randint(down + 1, ())), int(torch.randint(right + 1, ()))
        else:
            top, left = down // 2, right // 2
        crop = pixels[top : top + self.side, left : left + self.side].permute(2, 0, 1) / 255
        if training and float(torch.rand(())) < 0.5:
            crop = crop.flip(2)
        return (crop - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


def load(data_dir: Path, side: int, validation: bool) -> tuple[Side, Side, list[sources.Source]]:
    """Training and evaluation pictures with their captions; pictures in the order of their numbers.

    The sources are the two annotation files; pictures are read when they are needed and not hashed. Raises SetupError,
    saying what was expected and found, for a part that is missing, damaged or of another size.
    """
    parts, found = {}, []
    for part, expected in COUNTS.items():
        path = data_dir / "annotations" / f"captions_{part}2014.json"
        pictures, captions = _told(path)
        counts = len(pictures), sum(map(len, captions.values()))
        if counts != expected:
            raise runs.SetupError(
                f"{path}: expected {expected[0]:,} pictures and {expected[1]:,} captions, found {counts[0]:,} and "
                f"{counts[1]:,}\n  expected: {LAYOUT}"
            )
        numbers = sorted(pictures)
        paths = [data_dir / f"{part}2014" / pictures[number] for number in numbers]
        missing = [file for file in paths if not file.is_file()]
        if missing:
            raise runs.SetupError(
                f"{missing[0].parent}: {len(missing):,} of {len(paths):,} pictures are missing, {missing[0].name} for "
                f"one\n  expected: {LAYOUT}"
            )
        parts[part] = Files(paths, side), [captions[number] for number in numbers]
        found.append(sources.data_file(path, "coco", "2014", data_dir))
    train, held_out = parts["train"], parts["val"]
    if validation:
        taken = [number % VALIDATION_EVERY == 0 for number in range(len(train[0]))]
        train, held_out = _chosen(train, [not own for own in taken]), _chosen(train, taken)
    return train, held_out, found


def _chosen(part: Side, keep: list[bool]) -> Side:
    files, captions = part
    paths = [path for path, kept in zip(files.paths, keep, strict=True) if kept]
    return Files(paths, files.side), [own for own, kept in zip(captions, keep, strict=True) if kept]


def _told(path: Path) -> tuple[dict[int, str], dict[int, list[str]]]:
    """File names and captions by picture number, of pictures that have a caption."""
    try:
        facts: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        names = {int(image["id"]): str(image["file_name"]) for image in facts["images"]}
        captions: dict[int, list[str]] = {}
        for one in sorted(facts["annotations"], key=lambda annotation: annotation["id"]):
            captions.setdefault(int(one["image_id"]), []).append(str(one["caption"]))
    except OSError as error:
        raise runs.SetupError(f"{path}: cannot be read: {error.strerror}\n  expected: {LAYOUT}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise runs.SetupError(f"{path}: not COCO's caption annotations: {error!r}") from None
    unknown = captions.keys() - names.keys()
    if unknown:
        raise runs.SetupError(f"{path}: captions of pictures that it doesn't list: {min(unknown)}, for one")
    return {number: names[number] for number in captions}, captions
