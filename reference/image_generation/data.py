"""Images to imitate: digits held in memory, or LSUN's bedrooms read as they are needed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reference.common import runs

from . import digits, lsun

HELD_OUT = {"full": 10_000, "embedded": 1_000, "smoke": 40}  # images of the evaluation
DRAWN_PER_CLASS = 20  # smoke
FIT_IMAGES = 100_000  # that the feature network and the baselines see, at most


@dataclass(frozen=True)
class Images:
    """Training images, read by their numbers, and the held-out ones.

    read       numbers -> images (n, channels, side, side), -1..1, on the run's device
    count      of training images
    labels     (count,) int64, or None where there are none
    held_out   (k, channels, side, side), -1..1
    """

    read: Callable[[Sequence[int]], Tensor]
    count: int
    labels: Tensor | None
    held_out: Tensor

    def batches(self, batch_size: int) -> Iterator[Tensor]:
        """One pass in a new random order; a last batch of fewer images is left to the next pass."""
        order = torch.randperm(self.count)
        for numbers in order[: self.count - self.count % batch_size].split(batch_size):
            yield self.read(numbers.tolist())

    def steps(self, batch_size: int) -> int:
        """Batches in one pass."""
        return self.count // batch_size

    def fitting(self) -> tuple[Tensor, Tensor | None]:
        """The first FIT_IMAGES training images and their labels, for the feature network and the baselines."""
        count = min(self.count, FIT_IMAGES)
        images = torch.cat([self.read(range(at, min(at + 1000, count))) for at in range(0, count, 1000)])
        return images, None if self.labels is None else self.labels[:count]


def load(run: runs.Run) -> Images:
    """The data set of the run's profile. With --held-out validation, training images stand in for the evaluation's."""
    if run.settings.held_out not in ("evaluation", "validation"):
        raise runs.SetupError(f"--held-out is evaluation or validation, not {run.settings.held_out}")
    validation = run.settings.held_out == "validation"
    if run.profile.name == "full":
        return _bedrooms(run, validation)
    if run.profile.name == "embedded":
        images, labels, found = digits.mnist_5k()
    else:
        images, labels, found = digits.drawn(DRAWN_PER_CLASS)
    train, test = split(images, HELD_OUT[run.profile.name], validation)
    run.describe_data(len(train), len(test), found)
    pixels = scaled(torch.from_numpy(images[train]).unsqueeze(1)).to(run.device)
    held_out = scaled(torch.from_numpy(images[test]).unsqueeze(1)).to(run.device)
    known = torch.from_numpy(labels[train]).long().to(run.device)
    return Images(lambda numbers: pixels[list(numbers)], len(train), known, held_out)


def scaled(images: Tensor) -> Tensor:
    """0..255 to -1..1."""
    return images.float() / 127.5 - 1


def split(images: np.ndarray, held_out: int, validation: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers of the training and of the evaluation images, chosen by the hash of their pixels.

    The images with the lowest hashes are the evaluation's; for `validation` those are dropped and the next ones are
    taken. Raises ValueError when one picture is in both.
    """
    names = [hashlib.md5(image.tobytes(), usedforsecurity=False).hexdigest() for image in images]
    order = np.array(sorted(range(len(images)), key=names.__getitem__))
    if validation:
        order = order[held_out:]
    test, train = order[:held_out], order[held_out:]
    if {names[row] for row in test} & {names[row] for row in train}:
        raise ValueError("an image is in the training set and in the evaluation set")
    return train, test


def _bedrooms(run: runs.Run, validation: bool) -> Images:
    """LSUN: the last pictures by key are the evaluation's; for `validation`, those before them."""
    found = lsun.Bedrooms(run.require_data_dir(lsun.LAYOUT), run.settings.image_size)
    held_out = HELD_OUT["full"]
    end = len(found) - held_out if validation else len(found)
    count = end - held_out

    def read(numbers: Sequence[int]) -> Tensor:
        pictures = torch.from_numpy(found.decoded(list(numbers))).to(run.device)
        return scaled(pictures.permute(0, 3, 1, 2)).contiguous()

    run.describe_data(count, held_out, [found.source()])
    return Images(
        read, count, None, torch.cat([read(range(at, min(at + 1000, end))) for at in range(count, end, 1000)])
    )
