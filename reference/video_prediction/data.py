"""Clips with actions: pushing made by code, or BAIR's robot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from reference.common import runs, sources

from . import pushing, robot

TRAIN_SEED, EVAL_SEED, VALIDATION_SEED = 1, 2, 3
COUNTS = {"embedded": (800, 100), "smoke": (16, 8)}  # clips of the training and of the evaluation set
CONTEXT, PREDICTED = 2, 8  # frames that are seen, and that are judged
VALIDATION_EVERY = 20  # BAIR: every so many training clips one is taken out and evaluated instead
SIZES = {"full": (4, 3), "embedded": (2, 2), "smoke": (2, 2)}  # numbers of an action and of a state

Batch = tuple[Tensor, Tensor, Tensor]


class Store(Protocol):
    """Clips, read when they are wanted: see `robot.Records.read`."""

    def __len__(self) -> int: ...

    def read(self, rows: np.ndarray, draws: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...


@dataclass(frozen=True)
class Held:
    """Clips that are in memory, as long as they are wanted."""

    clips: pushing.Clips

    def __len__(self) -> int:
        return len(self.clips.frames)

    def read(self, rows: np.ndarray, draws: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        del draws  # there is nothing to choose: a clip has as many frames as are used
        return self.clips.frames[rows], self.clips.actions[rows], self.clips.states[rows]


@dataclass(frozen=True)
class Part:
    """The clips of one part, on their way to the device."""

    store: Store
    device: torch.device

    def __len__(self) -> int:
        return len(self.store)

    def batches(self, batch_size: int, flipped: bool) -> Iterator[Batch]:
        """One pass in a new order: frames (n, t, 3, h, w), 0..1, actions (n, t, a), states (n, t, s).

        flipped: each clip is turned over left to right and top to bottom, each half the time, with its first two
        action and state numbers, x and y. The last batch may be smaller.
        """
        for rows in torch.randperm(len(self)).split(batch_size):
            frames, actions, states = self._read(rows.numpy(), torch.rand(len(rows)).numpy())
            if flipped:
                for axis in range(2):
                    turned = (torch.rand(len(rows)) < 0.5).to(self.device)
                    frames = torch.where(turned.view(-1, 1, 1, 1, 1), frames.flip(4 - axis), frames)
                    sign = torch.where(turned, -1.0, 1.0).unsqueeze(1)
                    actions[:, :, axis] *= sign
                    states[:, :, axis] *= sign
            yield frames, actions, states

    def evaluation(self, batch_size: int) -> Iterator[Batch]:
        """All clips once, from their beginning."""
        for rows in np.split(np.arange(len(self)), range(batch_size, len(self), batch_size)):
            yield self._read(rows, None)

    def _read(self, rows: np.ndarray, draws: np.ndarray | None) -> Batch:
        frames, actions, states = (torch.from_numpy(part).to(self.device) for part in self.store.read(rows, draws))
        return frames.permute(0, 1, 4, 2, 3).float() / 255, actions, states


def load(run: runs.Run) -> tuple[Part, Part]:
    """Training and evaluation part of the run's profile. With --held-out validation, other clips are evaluated."""
    hp = run.settings
    if hp.held_out not in ("evaluation", "validation"):
        raise runs.SetupError(f"--held-out is evaluation or validation, not {hp.held_out}")
    validation, length = hp.held_out == "validation", CONTEXT + PREDICTED
    if run.profile.name == "full":
        train, held_out, found = _robot(run, validation, length)
    else:
        counts, seeds = COUNTS[run.profile.name], (TRAIN_SEED, VALIDATION_SEED if validation else EVAL_SEED)
        made = [pushing.clips(count, length, hp.image_size, seed) for count, seed in zip(counts, seeds, strict=True)]
        _check_disjoint(made[0].frames, made[1].frames)
        arrays = [array for part in made for array in (part.frames, part.actions, part.states)]
        found = [sources.generated(pushing.NAME, pushing.VERSION, *arrays)]
        train, held_out = (Held(part) for part in made)
    run.describe_data(len(train), len(held_out), found)
    return Part(train, run.device), Part(held_out, run.device)


def _robot(run: runs.Run, validation: bool, length: int) -> tuple[Store, Store, list[sources.Source]]:
    folder, size = run.require_data_dir(robot.LAYOUT), run.settings.image_size
    train, source = robot.part(folder, "train", size, length)
    if not validation:
        held_out, other = robot.part(folder, "test", size, length)
        return train, held_out, [source, other]
    taken = np.arange(len(train)) % VALIDATION_EVERY == 0
    return train.part(np.flatnonzero(~taken)), train.part(np.flatnonzero(taken)), [source]


def _check_disjoint(train: np.ndarray, held_out: np.ndarray) -> None:
    """Raise ValueError when a clip that is judged begins as a training clip does. Made clips only."""
    if {clip[:2].tobytes() for clip in train} & {clip[:2].tobytes() for clip in held_out}:
        raise ValueError("a clip is in the training set and in the evaluation set")
