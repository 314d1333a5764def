"""PASCAL VOC2007 as its owners publish it: trainval to train on, test to evaluate on."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from reference.common import runs, sources

from .metric import Objects

CLASSES = (
    *("aeroplane", "bicycle", "bird", "boat", "bottle", "bus", "car", "cat", "chair", "cow", "diningtable", "dog"),
    *("horse", "motorbike", "person", "pottedplant", "sheep", "sofa", "train", "tvmonitor"),
)
ROOT = Path("VOCdevkit") / "VOC2007"
COUNTS = {"trainval": 5011, "test": 4952}
WEIGHTS = "resnet101.pth"
LAYOUT = (
    f"DIR/{ROOT.as_posix()}/ with Annotations/*.xml, ImageSets/Main/trainval.txt and test.txt, JPEGImages/*.jpg; "
    f"and DIR/{WEIGHTS}, ResNet-101's ImageNet weights as a state dict with torchvision's names"
)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet: what the weights were trained with


class Pictures:
    """The pictures of one image set, read from disk when they are asked for.

    Resized so that the short side is `short` pixels, or less where the long side would exceed `long`. `flip`: half of
    them, at random, are mirrored.
    """

    classes = CLASSES

    def __init__(self, folder: Path, image_set: str, short: int, long: int, flip: bool) -> None:
        self.folder, self.short, self.long, self.flip = folder, short, long, flip
        self.names = _names(folder, image_set)
        self.objects: Sequence[Objects] = [annotation(folder / "Annotations" / f"{name}.xml") for name in self.names]
        missing = [name for name in self.names if not (folder / "JPEGImages" / f"{name}.jpg").is_file()]
        if missing:
            raise runs.SetupError(
                f"{folder}/JPEGImages lacks {len(missing)} pictures of {image_set}, the first of them {missing[0]}.jpg"
            )

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> tuple[Tensor, Objects]:
        from PIL import Image

        path = self.folder / "JPEGImages" / f"{self.names[index]}.jpg"
        boxes, labels, difficult = self.objects[index]
        try:
            with Image.open(path) as picture:
                width, height = picture.size
                scale = min(self.short / min(width, height), self.long / max(width, height))
                size = (round(width * scale), round(height * scale))
                pixels = np.asarray(picture.convert("RGB").resize(size, Image.Resampling.BILINEAR))
        except OSError as error:
            raise runs.SetupError(f"{path}: cannot be read: {error}") from None
        image = (torch.from_numpy(pixels.copy()).permute(2, 0, 1) / 255 - _column(MEAN)) / _column(STD)
        boxes = boxes * torch.tensor([size[0] / width, size[1] / height]).repeat(2)
        if self.flip and float(torch.rand(())) < 0.5:
            image, boxes = (
                image.flip(2),
                torch.stack([size[0] - boxes[:, 2], boxes[:, 1], size[0] - boxes[:, 0], boxes[:, 3]], dim=1),
            )
        return image, Objects(boxes, labels, difficult)


def load(data_dir: Path, short: int, long: int) -> tuple[Pictures, Pictures, list[sources.Source]]:
    """trainval and test. The source's hash is over the image sets and the annotations, not over the pictures.

    Raises SetupError, saying what was expected and found, where a part is missing or of another size.
    """
    folder = data_dir / ROOT
    train, held_out = Pictures(folder, "trainval", short, long, True), Pictures(folder, "test", short, long, False)
    for name, pictures in (("trainval", train), ("test", held_out)):
        if len(pictures) != COUNTS[name]:
            raise runs.SetupError(f"{folder}: {name} has {len(pictures)} pictures, expected {COUNTS[name]:,}")
    both = set(train.names) & set(held_out.names)
    if both:
        raise runs.SetupError(f"{folder}: {len(both)} pictures are in trainval and in test, such as {min(both)}")
    files = [folder / "ImageSets" / "Main" / f"{name}.txt" for name in ("trainval", "test")]
    files += [folder / "Annotations" / f"{name}.xml" for name in (*train.names, *held_out.names)]
    found = [sources.data_folder(folder, "voc2007", "image sets and annotations", files)]
    weights = weights_file(data_dir)
    return train, held_out, [*found, sources.data_file(weights, "resnet101", "imagenet", data_dir)]


def weights_file(data_dir: Path) -> Path:
    path = data_dir / WEIGHTS
    if not path.is_file():
        raise runs.SetupError(f"no {WEIGHTS} in {data_dir}\n  expected: {LAYOUT}")
    return path


def annotation(path: Path) -> Objects:
    """The objects of one annotation file. VOC counts pixels from 1 and includes the last: 1 .. 1 becomes 0 .. 1.

    Raises SetupError, naming the file, for a box that is empty or outside the picture, and for an unknown class.
    """
    try:
        root = ElementTree.parse(path).getroot()
        width, height = (int(root.findtext(f"size/{side}", "")) for side in ("width", "height"))
        boxes, labels, difficult = [], [], []
        for item in root.iter("object"):
            x0, y0, x1, y1 = (float(item.findtext(f"bndbox/{edge}", "")) for edge in ("xmin", "ymin", "xmax", "ymax"))
            if not (1 <= x0 <= x1 <= width and 1 <= y0 <= y1 <= height):
                raise ValueError(f"a box of {x0:g} {y0:g} {x1:g} {y1:g} in a picture of {width} x {height}")
            boxes.append((x0 - 1, y0 - 1, x1, y1))
            labels.append(CLASSES.index(item.findtext("name", "")))
            difficult.append(item.findtext("difficult", "0").strip() == "1")
    except OSError as error:
        raise runs.SetupError(f"{path}: cannot be read: {error.strerror}\n  expected: {LAYOUT}") from None
    except (ElementTree.ParseError, ValueError) as error:
        raise runs.SetupError(f"{path}: not a VOC annotation: {error}") from None
    return Objects(
        torch.tensor(boxes, dtype=torch.float32).view(-1, 4),
        torch.tensor(labels, dtype=torch.long),
        torch.tensor(difficult, dtype=torch.bool),
    )


def _names(folder: Path, image_set: str) -> list[str]:
    path = folder / "ImageSets" / "Main" / f"{image_set}.txt"
    try:
        names = path.read_text(encoding="ascii").split()
    except (OSError, UnicodeDecodeError) as error:
        raise runs.SetupError(f"{path}: cannot be read: {error}\n  expected: {LAYOUT}") from None
    if not names:
        raise runs.SetupError(f"{path}: names no picture")
    return names


def _column(values: Sequence[float]) -> Tensor:
    return torch.tensor(values).view(3, 1, 1)
