"""A sheet of reconstructed shapes to look at."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from reference.common import pictures, runs

from . import data, metric, model, render

COLUMNS = 12
SIDE = 96  # pixels of a picture of voxels


@torch.no_grad()
def write(run: runs.Run, net: model.Reconstructor, held_out: data.Part) -> None:
    """12 columns of evaluation objects: the picture, its reconstruction and the true shape, both seen from one side."""
    photos, true = next(held_out.evaluation(COLUMNS, run.settings.eval_views))
    predicted = net(photos[:, 0]).sigmoid() > metric.THRESHOLD
    rows = [F.interpolate(photos[:, 0], (SIDE, SIDE)).cpu(), drawn(predicted), drawn(true)]
    pictures.write_sheet(run.samples_dir / f"{run.profile.name}_seed{run.seed}.png", rows)


def drawn(voxels: Tensor) -> Tensor:
    """Voxels (n, x, y, z) bool as grey pictures (n, 3, 96, 96), -1..1, each seen from the front, right and above."""
    count = len(voxels)
    axes = render.camera(np.full((count, 1), 35.0), np.full((count, 1), 25.0))
    light = axes[..., 2, :] - 0.6 * axes[..., 0, :]
    light = light / np.linalg.norm(light, axis=-1, keepdims=True)
    fine = voxels.cpu().numpy().repeat(3, 1).repeat(3, 2).repeat(3, 3)  # so that no hole opens between two voxels
    seen = torch.from_numpy(render.shades(fine, axes, light, SIDE)[:, 0])
    grey = torch.where(seen > 0, seen, 255).float() / 127.5 - 1
    return grey.unsqueeze(1).expand(-1, 3, -1, -1)
