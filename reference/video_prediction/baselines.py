"""What frames are worth that no network made. The oracle, which sees the true future, may only show a still picture."""

from __future__ import annotations

import torch
from torch import Tensor

from . import metric


def scores(
    frames: Tensor, states: Tensor, actions: Tensor, context: int, gripper: tuple[float, float] | None
) -> dict[str, float]:
    """The squared error per frame of each method over all clips.

    frames (n, t, 3, h, w), 0..1; states and actions (n, t, 2). gripper: its radius and the length of an
    action of 1, where it is white and a state says where it is: then it is also moved by hand.
    """
    seen, true = frames[:, :context], frames[:, context:]
    last, steps = seen[:, -1:], torch.arange(1, true.shape[1] + 1, device=frames.device).view(1, -1, 1, 1, 1)
    before = seen[:, -2:-1] if context > 1 else last
    predictions = {
        "copy_last": last,
        "mean_of_context": seen.mean(1, keepdim=True),
        "linear_extrapolation": (last + steps * (last - before)).clamp(0, 1),
        "motionless_oracle": true.mean(1, keepdim=True),
    }
    if gripper is not None:
        predictions["gripper_moved_by_hand"] = moved_gripper(
            last[:, 0], states, actions * gripper[1], context, gripper[0]
        )
    found = {}
    for name, predicted in predictions.items():
        errors = metric.Errors()
        errors.add(predicted.expand_as(true), true, last[:, 0])
        found[name] = errors.mse_per_frame()
    return found


def moved_gripper(last: Tensor, states: Tensor, actions: Tensor, context: int, radius: float) -> Tensor:
    """The last seen frame (n, 3, h, w) with the gripper erased and painted where the actions take it; all else stays.

    Erased means: the ground's colour, the frame's most frequent one, in its place. Returns (n, steps, 3, h, w).
    """
    size, wall = last.shape[-1], 1 - 2 * radius
    start = states[:, 0]
    track = [start]
    for step in range(states.shape[1] - 1):
        track.append((track[-1] + actions[:, step]).clamp(-wall, wall))
    ground = last.flatten(2).mode(2).values[:, :, None, None]
    here = cover(track[context - 1], radius + 1 / size, size)
    empty = here * ground + (1 - here) * last
    out = []
    for place in track[context:]:
        here = cover(place, radius, size)
        out.append(here + (1 - here) * empty)
    return torch.stack(out, 1)


def cover(place: Tensor, radius: float, size: int) -> Tensor:
    """How much of each pixel a disc covers, (n, 1, size, size): the renderer's own softened edge."""
    at = (torch.arange(size, device=place.device) + 0.5) / size
    x, y = ((at - (place[:, axis, None] + 1) / 2).square() for axis in range(2))
    distance = (y[:, :, None] + x[:, None, :]).sqrt()
    return ((radius - distance) * size + 0.5).clamp(0, 1).unsqueeze(1)
