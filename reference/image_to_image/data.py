"""Photos and label maps that are not paired: street scenes made by code, or Cityscapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reference.common import runs, sources

from . import cityscapes, metric, scenes

# Seeds of the scenes: the training photos' and the training label maps' differ, so nothing is paired.
PHOTO_SEED, MAP_SEED, EVAL_SEED, VALIDATION_SEED = 1, 2, 3, 4
COUNTS = {"embedded": (240, 200), "smoke": (16, 8)}  # training pictures of each kind, evaluation pairs
VALIDATION_EVERY = 10  # Cityscapes: every tenth training pair is taken out and evaluated instead


@dataclass(frozen=True)
class Pictures:
    """Training photos and label maps, evaluation photos and their true label maps: uint8, on the run's device.

    photos (n, 3, s, s), maps (m, s, s), eval_photos (k, 3, size, size), eval_maps (k, size, size). Maps hold class
    numbers, 255 for void; `palette` (classes, 3) is -1..1. s may exceed `size`: training pictures are cropped to it.
    """

    photos: Tensor
    maps: Tensor
    eval_photos: Tensor
    eval_maps: Tensor
    palette: Tensor
    size: int

    def batches(self, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """One pass: photos and label pictures (n, 3, size, size), -1..1, in orders independent of each other.

        Each picture is cropped at a random place and mirrored half the time. The last batch may be smaller.
        """
        orders = (torch.randperm(len(pictures))[: len(self)] for pictures in (self.photos, self.maps))
        for photos, maps in zip(*(order.split(batch_size) for order in orders), strict=True):
            yield scaled(self._cropped(self.photos, photos)), self.coloured(self._cropped(self.maps, maps))

    def evaluation(self, batch_size: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All evaluation pairs once: photos (n, 3, size, size), -1..1, and true class numbers (n, size, size)."""
        for photos, maps in zip(self.eval_photos.split(batch_size), self.eval_maps.split(batch_size), strict=True):
            yield scaled(photos), maps

    def coloured(self, maps: Tensor) -> Tensor:
        """Label pictures (n, 3, h, w), -1..1, of class numbers (n, h, w); void is black."""
        colours = torch.cat([self.palette, self.palette.new_full((1, 3), -1.0)])
        numbers = torch.where(maps == metric.VOID, len(self.palette), maps.long())
        return colours[numbers].permute(0, 3, 1, 2).contiguous()

    def __len__(self) -> int:
        """Pictures of each kind in one pass."""
        return min(len(self.photos), len(self.maps))

    def _cropped(self, pictures: Tensor, rows: Tensor) -> Tensor:
        room = pictures.shape[-1] - self.size
        out = []
        for row, top, left, mirror in zip(
            rows.tolist(),
            torch.randint(room + 1, (len(rows),)).tolist(),
            torch.randint(room + 1, (len(rows),)).tolist(),
            (torch.rand(len(rows)) < 0.5).tolist(),
            strict=True,
        ):
            crop = pictures[row, ..., top : top + self.size, left : left + self.size]
            out.append(crop.flip(-1) if mirror else crop)
        return torch.stack(out)


def scaled(photos: Tensor) -> Tensor:
    """0..255 to -1..1."""
    return photos.float() / 127.5 - 1


def load(run: runs.Run) -> Pictures:
    """The data set of the run's profile. With --held-out validation, other pictures stand in for the evaluation's."""
    hp = run.settings
    if hp.held_out not in ("evaluation", "validation"):
        raise runs.SetupError(f"--held-out is evaluation or validation, not {hp.held_out}")
    validation = hp.held_out == "validation"
    if run.profile.name == "full":
        train, held_out, found = _cityscapes(run, hp.load_size, hp.image_size, validation)
        palette = cityscapes.PALETTE
    else:
        count, eval_count = COUNTS[run.profile.name]
        train = scenes.scenes(count, hp.load_size, PHOTO_SEED)[0], scenes.scenes(count, hp.load_size, MAP_SEED)[1]
        held_out = scenes.scenes(eval_count, hp.image_size, VALIDATION_SEED if validation else EVAL_SEED)
        palette = scenes.PALETTE
        found = [sources.generated(scenes.NAME, scenes.VERSION, *train, *held_out)]
    _check_disjoint(train[0], held_out[0])
    run.describe_data(len(train[0]), len(held_out[0]), found)
    photos, maps, eval_photos, eval_maps = (torch.from_numpy(array).to(run.device) for array in (*train, *held_out))
    colours = scaled(torch.tensor(palette, device=run.device))
    return Pictures(_planes(photos), maps, _planes(eval_photos), eval_maps, colours, hp.image_size)


def _cityscapes(
    run: runs.Run, load_size: int, size: int, validation: bool
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray], list[sources.Source]]:
    folder = run.require_data_dir(cityscapes.LAYOUT)
    photos, maps, found = cityscapes.part(folder, "train", load_size)
    if not validation:
        eval_photos, eval_maps, more = cityscapes.part(folder, "val", size)
        return (photos, maps), (eval_photos, eval_maps), [*found, *more]
    taken = np.arange(len(photos)) % VALIDATION_EVERY == 0
    eval_photos, eval_maps, _ = cityscapes.part(folder, "train", size)
    return (photos[~taken], maps[~taken]), (eval_photos[taken], eval_maps[taken]), found


def _planes(photos: Tensor) -> Tensor:
    return photos.permute(0, 3, 1, 2).contiguous()


def _check_disjoint(train: np.ndarray, held_out: np.ndarray) -> None:
    """Raise ValueError when an evaluation photo is a training photo (of the same size, which a cropped one isn't)."""
    if {photo.tobytes() for photo in train} & {photo.tobytes() for photo in held_out}:
        raise ValueError("a photo is in the training set and in the evaluation set")
