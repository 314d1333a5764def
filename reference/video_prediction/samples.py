"""Predicted clips as moving pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from reference.common import runs

CLIPS = 6
PAUSE_MS = 300  # a frame


@torch.no_grad()
def write(path: Path, frames: Tensor, predict: Callable[[Tensor], Tensor]) -> None:
    """A GIF of the first clips, each a column: above what happened, below what was predicted, after the seen frames.

    frames (n, t, 3, h, w), 0..1; predict: these frames -> (n, steps, 3, h, w). Makes the folder. Raises SetupError
    when the file cannot be written, or without Pillow.
    """
    try:
        from PIL import Image
    except ImportError:
        raise runs.SetupError(
            "--samples writes clips with Pillow, which is not installed: pip install pillow"
        ) from None
    predicted = predict(frames)
    below = torch.cat([frames[:, : frames.shape[1] - predicted.shape[1]], predicted], 1)
    both = (torch.cat([frames, below], 3).clamp(0, 1) * 255).round().byte()  # (n, t, 3, 2 h, w)
    wide = torch.cat(list(both), 3).permute(0, 2, 3, 1)  # (t, 2 h, n * w, 3)
    zoom = max(96 // frames.shape[-1], 1)
    pictures = [
        Image.fromarray(frame.repeat_interleave(zoom, 0).repeat_interleave(zoom, 1).cpu().numpy()) for frame in wide
    ]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=PAUSE_MS, loop=0)
    except OSError as error:
        raise runs.SetupError(f"cannot write the samples {path}: {error.strerror or error}") from None
