"""Training pictures in batches, and the pictures that a codec is judged on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from reference.common import runs

from . import digits, imagenet

# Pictures in rows and columns of the pages that small pictures are judged on: five scales need 176 pixels a side.
LAYOUTS = {"full": (1, 1), "embedded": (20, 20), "smoke": (12, 12)}


class Pictures(Protocol):
    """Training pictures; `batches` is one pass over all of them, uint8 (n, channels, h, w), in random order."""

    def __len__(self) -> int: ...
    def batches(self, size: int, device: torch.device) -> Iterator[Tensor]: ...


@dataclass(frozen=True)
class InMemory:
    """Pictures (n, channels, h, w) uint8 that are all there."""

    pictures: Tensor

    def __len__(self) -> int:
        return len(self.pictures)

    def batches(self, size: int, device: torch.device) -> Iterator[Tensor]:
        for rows in torch.randperm(len(self.pictures)).split(size):
            yield self.pictures[rows].to(device)


@dataclass(frozen=True)
class Found:
    """`held_out` (n, channels, h, w) uint8, on the run's device, judged on pages of `layout` rows x columns."""

    train: Pictures
    held_out: Tensor
    layout: tuple[int, int]


def load(run: runs.Run) -> Found:
    """The data set of the run's profile. --held-out validation: training pictures instead of the evaluation's."""
    hp, profile = run.settings, run.profile
    if hp.held_out not in ("evaluation", "validation"):
        raise runs.SetupError(f"--held-out is evaluation or validation, not {hp.held_out}")
    validation = hp.held_out == "validation"
    if profile.name == "full":
        train, held_out, found = imagenet.load(run.require_data_dir(imagenet.LAYOUT), hp.crop_size, validation)
    else:
        count, judged = profile.train_samples, profile.eval_samples
        images, found = digits.mnist_5k() if profile.name == "embedded" else digits.drawn(count + judged)
        own, other = split(images, count, judged)
        own, other = split(own, count - judged, judged) if validation else (own, other)
        train, held_out = InMemory(torch.from_numpy(own)), torch.from_numpy(other)
    run.describe_data(len(train), len(held_out), found)
    return Found(train, held_out.to(run.device), LAYOUTS[profile.name])


def split(images: np.ndarray, train: int, held_out: int) -> tuple[np.ndarray, np.ndarray]:
    """The first `train` and the last `held_out` images. Raises ValueError if that isn't all, or if one is in both."""
    if len(images) != train + held_out:
        raise ValueError(f"{len(images)} pictures are not {train} and {held_out}")
    first, last = images[:train], images[train:]
    if {image.tobytes() for image in first} & {image.tobytes() for image in last}:
        raise ValueError("a picture is in the training set and in the held-out set")
    return first, last


def tiles(pictures: Tensor, side: int) -> np.ndarray:
    """Pictures (n, c, h, w), sides multiples of `side`, cut to rows of pixels: float64 (tiles, c * side * side)."""
    cut = pictures.unfold(2, side, side).unfold(3, side, side).permute(0, 2, 3, 1, 4, 5)
    return cut.reshape(-1, pictures.shape[1] * side * side).cpu().numpy().astype(np.float64)


def pictures_of(cut: np.ndarray, like: Tensor, side: int) -> Tensor:
    """`tiles`' inverse: rows of pixels to uint8 pictures shaped as `like`."""
    count, channels, height, width = like.shape
    whole = torch.from_numpy(cut).view(count, height // side, width // side, channels, side, side)
    whole = whole.permute(0, 3, 1, 4, 2, 5).reshape(like.shape)
    return whole.round().clamp(0, 255).byte().to(like.device)
