"""How far predicted frames are from the true ones: squared error per frame, by step, and where something moved."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

MOVED = 0.1  # a pixel moves in a frame when a channel differs by more from the last frame that was seen, 0..1


@dataclass
class Errors:
    """Sums over the clips that were added. All predictions have the same number of frames.

    by_step   squared error of each predicted step, summed over clips, pixels and channels
    values    pixels and channels of a frame
    """

    clips: int = 0
    values: int = 0
    by_step: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.float64))
    moving_error: float = 0.0
    moving_pixels: int = 0
    channels: int = 3

    def add(self, predicted: Tensor, true: Tensor, last: Tensor) -> None:
        """predicted and true (n, steps, 3, h, w), the last seen frame (n, 3, h, w), all 0..1.

        Raises ValueError for values that are no numbers.
        """
        if not predicted.isfinite().all():
            raise ValueError("a predicted frame holds values that are not finite numbers: training has diverged")
        squared = (predicted - true).square()
        by_step = squared.double().sum((0, 2, 3, 4)).cpu()
        self.by_step = by_step if self.clips == 0 else self.by_step + by_step
        moving = (true - last.unsqueeze(1)).abs().amax(2) > MOVED
        self.moving_error += (squared.sum(2) * moving).double().sum().item()
        self.moving_pixels += int(moving.sum())
        self.clips += len(true)
        self.channels, self.values = true.shape[2], true[0, 0].numel()

    def mse_per_frame(self) -> float:
        """Squared error summed over a frame's pixels and channels, the mean over frames and clips."""
        if self.clips == 0:
            raise ValueError("no clips to evaluate")
        return (self.by_step.sum() / (self.clips * len(self.by_step))).item()

    def mse_by_step(self) -> list[float]:
        """The same for each predicted frame in turn."""
        return (self.by_step / self.clips).tolist()

    def psnr(self) -> float:
        """Peak signal to noise in dB, of the mean error of all values (not the mean of the clips' PSNR)."""
        return decibels(self.mse_per_frame() / self.values)

    def moving_mse(self) -> float:
        """The mean squared error of a value where something moved; 0 where nothing did."""
        return self.moving_error / (self.moving_pixels * self.channels) if self.moving_pixels else 0.0


def decibels(mean_squared_error: float) -> float:
    """PSNR of values from 0 to 1; 100 where there is no error."""
    return min(-10 * math.log10(max(mean_squared_error, 1e-10)), 100.0)


def total(parts: Iterable[tuple[Tensor, Tensor, Tensor]]) -> Errors:
    """The errors of (predicted, true, last seen) batches, any sizes."""
    errors = Errors()
    for predicted, true, last in parts:
        errors.add(predicted, true, last)
    return errors
