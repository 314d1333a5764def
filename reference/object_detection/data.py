"""The data of each profile, and the batches that are made of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader

from reference.common import runs, seeds

from . import digits, voc
from .metric import Objects


class Scenes(Protocol):
    """A set of pictures. Item i is (image (3, h, w) float32 normalised, its objects), in pixels of that image.

    `classes` names the classes; `objects` are those of all pictures as they are kept, before any resizing.
    """

    classes: Sequence[str]
    objects: Sequence[Objects]

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> tuple[Tensor, Objects]: ...


class Batch(NamedTuple):
    """n pictures, padded below and to the right, with at most g objects each; sizes are (height, width) unpadded."""

    images: Tensor  # (n, 3, h, w)
    sizes: Tensor  # (n, 2) int64
    boxes: Tensor  # (n, g, 4)
    labels: Tensor  # (n, g) int64, -1 where there is no object
    difficult: Tensor  # (n, g) bool

    def to(self, device: torch.device) -> Batch:
        return Batch(*(part.to(device) for part in self))

    def objects(self) -> list[Objects]:
        """The objects of each picture, on the CPU, without padding."""
        real = self.labels >= 0
        parts = zip(self.boxes, self.labels, self.difficult, real, strict=True)
        return [Objects(b[r].cpu(), c[r].cpu(), d[r].cpu()) for b, c, d, r in parts]


def load(run: runs.Run) -> tuple[Scenes, Scenes]:
    """The training set and the evaluation set of the run's profile. Training pictures come augmented."""
    profile, hp = run.profile, run.settings
    if profile.name == "full":
        if hp.held_out != "evaluation":
            raise runs.SetupError(f"--held-out {hp.held_out}: the full profile has an evaluation set only")
        train, held_out, found = voc.load(run.require_data_dir(voc.LAYOUT), hp.short_side, hp.long_side)
    else:
        make = digits.on_photos if profile.name == "embedded" else digits.on_gradients
        train, held_out, found = make(profile.train_samples, profile.eval_samples, hp.held_out)
    run.describe_data(len(train), len(held_out), found)
    return train, held_out


def class_names(profile: str) -> Sequence[str]:
    return voc.CLASSES if profile == "full" else digits.CLASSES


def batches(scenes: Scenes, size: int, shuffle: bool, workers: int) -> DataLoader:
    """All pictures in batches of `size`, the last one the rest; shuffled by torch's generator."""
    return DataLoader(
        scenes,
        batch_size=size,
        shuffle=shuffle,
        num_workers=workers,
        collate_fn=collate,
        worker_init_fn=seeds.seed_worker,
        drop_last=False,
    )


def collate(items: Sequence[tuple[Tensor, Objects]]) -> Batch:
    sizes = torch.tensor([image.shape[1:] for image, _ in items])
    height, width = sizes.amax(dim=0).tolist()
    most = max(len(objects.labels) for _, objects in items)
    images = [F.pad(image, (0, width - image.shape[2], 0, height - image.shape[1])) for image, _ in items]
    return Batch(
        torch.stack(images),
        sizes,
        torch.stack([_padded(objects.boxes, most, 0) for _, objects in items]),
        torch.stack([_padded(objects.labels, most, -1) for _, objects in items]),
        torch.stack([_padded(objects.difficult, most, False) for _, objects in items]),
    )


def _padded(values: Tensor, length: int, fill: int | bool) -> Tensor:
    padding = values.new_full((length - len(values), *values.shape[1:]), fill)
    return torch.cat([values, padding])
