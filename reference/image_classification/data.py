"""The data of each profile, and the batches that are made of it."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from reference.common import runs, seeds

from . import digits, imagenet


class Images(Protocol):
    """Item i is (image (c, h, w) float32 normalised, class () int64); `labels` (n,) are all of the classes."""

    labels: Tensor

    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]: ...


def load(run: runs.Run) -> tuple[Images, Images]:
    """The training set, which comes augmented, and the evaluation set of the run's profile."""
    profile = run.profile
    if profile.name == "full":
        if run.settings.held_out != "evaluation":
            raise runs.SetupError(f"--held-out {run.settings.held_out}: the full profile has an evaluation set only")
        train, held_out, found = imagenet.load(run.require_data_dir(imagenet.LAYOUT))
    else:
        train, held_out, found = digits.load(
            profile.name, profile.train_samples, profile.eval_samples, run.settings.held_out
        )
    run.describe_data(len(train), len(held_out), found)
    return train, held_out


def batches(images: Images, size: int, shuffle: bool, workers: int, device: torch.device) -> DataLoader:
    """All images in batches (images, labels) of `size`, the last one the rest; shuffled by torch's generator."""
    return DataLoader(
        images,
        batch_size=size,
        shuffle=shuffle,
        num_workers=workers,
        worker_init_fn=seeds.seed_worker,
        pin_memory=device.type == "cuda",
        persistent_workers=workers > 0,
        drop_last=False,
    )
