"""Objects as pictures and voxels: made by code, or ShapeNet's renderings and binvox files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from reference.common import runs, sources

from . import render, shapenet, shapes

TRAIN_SEED, EVAL_SEED, VALIDATION_SEED = 1, 2, 3  # of the objects and of their pictures
COUNTS = {"embedded": (800, 240), "smoke": (48, 12)}  # objects of the training and of the evaluation set
VIEWS = 4  # pictures of a made object; ShapeNet has 24
VALIDATION_EVERY = 10  # ShapeNet: every tenth training object is taken out and evaluated instead


class Pictures(Protocol):
    """Pictures of many objects, several views of each."""

    views: int

    def read(self, objects: np.ndarray, views: np.ndarray) -> np.ndarray:
        """One picture of each object, (k, size, size, 3) uint8."""
        ...


@dataclass(frozen=True)
class Held:
    """Pictures that are in memory: (n, views, size, size, 3) uint8."""

    pictures: np.ndarray

    @property
    def views(self) -> int:
        return self.pictures.shape[1]

    def read(self, objects: np.ndarray, views: np.ndarray) -> np.ndarray:
        return self.pictures[objects, views]


@dataclass(frozen=True)
class Part:
    """The objects of one part: their pictures, their voxels as bits (n, 4096) uint8, and class numbers (n,) int64."""

    pictures: Pictures
    bits: np.ndarray
    classes: np.ndarray
    device: torch.device

    def __len__(self) -> int:
        return len(self.bits)

    def batches(self, batch_size: int, mirrored: bool) -> Iterator[tuple[Tensor, Tensor]]:
        """One pass: pictures (n, 3, s, s), -1..1, a view drawn for each object; voxels (n, 32, 32, 32) float, 0 or 1.

        mirrored: half of the objects are seen in a mirror, left and right exchanged in picture and voxels. The last
        batch may be smaller.
        """
        for rows in torch.randperm(len(self)).split(batch_size):
            views = torch.randint(self.pictures.views, (len(rows),))
            pictures = self._pictures(rows.numpy(), views.numpy())
            voxels = self.voxels(rows.numpy())
            if mirrored:
                chosen = (torch.rand(len(rows)) < 0.5).to(self.device).view(-1, 1, 1, 1)
                pictures = torch.where(chosen, pictures.flip(3), pictures)
                voxels = torch.where(chosen, voxels.flip(1), voxels)
            yield pictures, voxels.float()

    def evaluation(self, batch_size: int, views: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All objects once: pictures (n, views, 3, s, s), views evenly apart, and voxels (n, 32, 32, 32) bool."""
        numbers = np.arange(views) * self.pictures.views // views
        for rows in np.split(np.arange(len(self)), range(batch_size, len(self), batch_size)):
            pictures = self._pictures(rows.repeat(views), np.tile(numbers, len(rows)))
            yield pictures.unflatten(0, (len(rows), views)), self.voxels(rows)

    def voxels(self, rows: np.ndarray) -> Tensor:
        """Voxels of these objects, (k, 32, 32, 32) bool."""
        side = shapes.SIDE
        unpacked = np.unpackbits(self.bits[rows], axis=1).reshape(-1, side, side, side)
        return torch.from_numpy(unpacked).to(self.device).bool()

    def _pictures(self, rows: np.ndarray, views: np.ndarray) -> Tensor:
        read = torch.from_numpy(self.pictures.read(rows, views)).to(self.device)
        return read.permute(0, 3, 1, 2).float() / 127.5 - 1


def load(run: runs.Run) -> tuple[Part, Part]:
    """Training and evaluation part of the run's profile. With --held-out validation, other objects are evaluated."""
    hp = run.settings
    if hp.held_out not in ("evaluation", "validation"):
        raise runs.SetupError(f"--held-out is evaluation or validation, not {hp.held_out}")
    validation = hp.held_out == "validation"
    if run.profile.name == "full":
        train, held_out, found = _shapenet(run, validation)
    else:
        train, held_out, found = _made(run, validation)
    if not 1 <= hp.eval_views <= held_out.pictures.views:
        raise runs.SetupError(f"--eval-views must be 1 to {held_out.pictures.views}, not {hp.eval_views}")
    run.describe_data(len(train), len(held_out), found)
    return train, held_out


def _made(run: runs.Run, validation: bool) -> tuple[Part, Part, list[sources.Source]]:
    parts, arrays = [], []
    seeds = TRAIN_SEED, VALIDATION_SEED if validation else EVAL_SEED
    for count, seed in zip(COUNTS[run.profile.name], seeds, strict=True):
        voxels, classes = shapes.objects(count, seed)
        bits = np.packbits(voxels.reshape(count, -1), axis=1)
        pictures = render.photos(voxels, VIEWS, run.settings.image_size, seed)
        parts.append(Part(Held(pictures), bits, classes, run.device))
        arrays += [bits, pictures]
    _check_disjoint(parts[0].bits, parts[1].bits)
    return parts[0], parts[1], [sources.generated(shapes.NAME, shapes.VERSION, *arrays)]


def _shapenet(run: runs.Run, validation: bool) -> tuple[Part, Part, list[sources.Source]]:
    folder = run.require_data_dir(shapenet.LAYOUT)
    found = shapenet.read(folder, run.settings.image_size)
    train, held_out = found.training, ~found.training
    if validation:
        chosen = np.zeros(len(train), bool)
        chosen[np.flatnonzero(train)[::VALIDATION_EVERY]] = True
        train, held_out = train & ~chosen, chosen
    parts = [
        Part(found.renderings.part(rows), found.bits[rows], found.classes[rows], run.device)
        for rows in (np.flatnonzero(train), np.flatnonzero(held_out))
    ]
    return parts[0], parts[1], [found.source]


def _check_disjoint(train: np.ndarray, held_out: np.ndarray) -> None:
    """Raise ValueError when a shape that is judged is a training shape, voxel by voxel. Made objects only."""
    if {bits.tobytes() for bits in train} & {bits.tobytes() for bits in held_out}:
        raise ValueError("a shape is in the training set and in the evaluation set")
