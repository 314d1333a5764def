"""People's pictures of colour and depth to train on and to judge by: heads made by code, or a data set on disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from reference.common import runs, seeds, sources

from . import heads, rgbd

TRAIN_SEED, EVAL_SEED, VALIDATION_SEED = 1, 2, 3
PLANES = {"rgbd": (0, 1, 2, 3), "rgb": (0, 1, 2), "depth": (3,)}  # by the setting `planes`


@dataclass(frozen=True)
class Size:
    """How much is made: people and pictures of each to train on; people of the evaluation, pictures in the gallery."""

    identities: int
    pictures: int
    eval_identities: int
    gallery: int
    probes: int


SIZES = {"embedded": Size(400, 10, 60, 2, 8), "smoke": Size(12, 4, 10, 1, 2)}


class Pictures(Protocol):
    """Pictures by their rows: a list of rows -> (n, 4, side, side) float32, -1..1."""

    def __len__(self) -> int: ...
    def __getitem__(self, rows: Sequence[int]) -> Tensor: ...


class Made:
    """Pictures held in memory: (n, side, side, 4) uint8."""

    def __init__(self, pixels: np.ndarray) -> None:
        self.pixels = torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous()

    def __len__(self) -> int:
        return len(self.pixels)

    def __getitem__(self, rows: Sequence[int]) -> Tensor:
        return scaled(self.pixels[list(rows)])


class Files:
    """Pictures read from disk when they are asked for."""

    def __init__(self, samples: Sequence[rgbd.Sample], side: int) -> None:
        self.samples, self.side = list(samples), side

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, rows: Sequence[int]) -> Tensor:
        with ThreadPoolExecutor(max_workers=4) as pool:  # Pillow decodes outside the interpreter's lock
            pixels = list(pool.map(lambda row: rgbd.read(self.samples[row], self.side), rows))
        return scaled(torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).contiguous())


@dataclass(frozen=True)
class Labelled:
    """Pictures and their people's numbers (n,) int64, from 0."""

    pictures: Pictures
    labels: Tensor

    def in_turn(self, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All pictures in their order, with their labels."""
        for start in range(0, len(self.labels), batch_size):
            rows = range(start, min(start + batch_size, len(self.labels)))
            yield self.pictures[rows], self.labels[rows.start : rows.stop]


@dataclass(frozen=True)
class People:
    """`gallery` shows the people of the evaluation; it is None where they are the training's own."""

    train: Labelled
    gallery: Labelled | None
    probes: Labelled


def scaled(pixels: Tensor) -> Tensor:
    """0..255 to -1..1."""
    return pixels.float() / 127.5 - 1


class _Augmented:
    """Item [rows] is (pictures, labels), the pictures mirrored half the time and moved by up to `shift` pixels."""

    def __init__(self, found: Labelled, shift: int, gain: float) -> None:
        self.found, self.shift, self.gain = found, shift, gain

    def __len__(self) -> int:
        return len(self.found.labels)

    def __getitem__(self, rows: list[int]) -> tuple[Tensor, Tensor]:
        return augmented(self.found.pictures[rows], self.shift, self.gain), self.found.labels[rows]


def augmented(pictures: Tensor, shift: int, gain: float) -> Tensor:
    """Pictures (n, 4, side, side), mirrored half the time and moved, what moves in repeating the edge.

    Each colour's brightness, counted from black, is multiplied by 1 +- gain.
    """
    count, side = len(pictures), pictures.shape[-1]
    columns = torch.arange(side).expand(count, side)
    columns = torch.where(torch.rand(count, 1) < 0.5, columns.flip(1), columns)
    across, down = torch.randint(-shift, shift + 1, (2, count, 1))
    columns, lines = (columns + across).clamp(0, side - 1), (torch.arange(side) + down).clamp(0, side - 1)
    places = torch.arange(count)[:, None, None], slice(None), lines[:, :, None], columns[:, None, :]
    moved = pictures[places].permute(0, 3, 1, 2)  # a view: channels lie last in memory
    if gain:
        moved[:, :3] = (moved[:, :3] + 1) * (1 + gain * (2 * torch.rand(count, 3, 1, 1) - 1)) - 1
    return moved


def only(pictures: Tensor, planes: str) -> Tensor:
    """Pictures (n, 4, side, side) whose other planes are 0."""
    if planes == "rgbd":
        return pictures
    kept = torch.zeros_like(pictures)
    rows = list(PLANES[planes])
    kept[:, rows] = pictures[:, rows]
    return kept


def batches(
    found: Labelled, batch_size: int, shift: int, gain: float, workers: int, device: torch.device
) -> DataLoader:
    """One pass over the training pictures in random order: (pictures, labels); the last batch may be smaller."""
    return DataLoader(
        _Augmented(found, shift, gain),
        batch_size=None,
        sampler=BatchSampler(RandomSampler(found.labels), batch_size, drop_last=False),
        num_workers=workers,
        worker_init_fn=seeds.seed_worker,
        pin_memory=device.type == "cuda",
        persistent_workers=workers > 0,
    )


def load(run: runs.Run) -> People:
    """The data set of the run's profile. With --held-out validation, others stand in for the evaluation's pictures."""
    hp = run.settings
    if hp.held_out not in ("evaluation", "validation"):
        raise runs.SetupError(f"--held-out is evaluation or validation, not {hp.held_out}")
    validation = hp.held_out == "validation"
    if run.profile.name == "full":
        train, valid, test, used = rgbd.listed(run.require_data_dir(rgbd.LAYOUT), hp.classes)
        found = People(_files(train, hp.image_size), None, _files(valid if validation else test, hp.image_size))
    else:
        seed = VALIDATION_SEED if validation else EVAL_SEED
        found, used = _made(SIZES[run.profile.name], hp.image_size, seed)
    count = int(found.train.labels.max()) + 1
    if count != hp.classes:
        raise runs.SetupError(f"--classes {hp.classes}: the training set has {count} people")
    run.describe_data(len(found.train.labels), len(found.probes.labels), used)
    return found


def _files(samples: Sequence[rgbd.Sample], size: int) -> Labelled:
    return Labelled(Files(samples, size), torch.tensor([label for _, _, label in samples], dtype=torch.int64))


def _made(size: Size, side: int, held_out_seed: int) -> tuple[People, list[sources.Source]]:
    """Training people, and others for the evaluation: of each, the first pictures are the gallery, the rest probes."""
    train, labels, who = heads.heads(size.identities, size.pictures, side, TRAIN_SEED)
    each = size.gallery + size.probes
    held_out, people, other = heads.heads(size.eval_identities, each, side, held_out_seed)
    check_disjoint({row.tobytes() for row in who}, {row.tobytes() for row in other})
    in_gallery = np.arange(len(people)) % each < size.gallery
    parts = [
        Labelled(Made(pixels), torch.from_numpy(numbers))
        for pixels, numbers in (
            (train, labels),
            (held_out[in_gallery], people[in_gallery]),
            (held_out[~in_gallery], people[~in_gallery]),
        )
    ]
    return People(*parts), [sources.generated(heads.NAME, heads.VERSION, train, labels, held_out)]


def check_disjoint(train: set, held_out: set) -> None:
    """Raise ValueError when somebody is to be trained on and evaluated."""
    both = train & held_out
    if both:
        raise ValueError(f"{len(both)} people are in the training set and in the evaluation set")
