"""Sheets of pictures as files, for a person to look at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from reference.common.errors import SetupError


def write_sheet(path: Path, rows: Sequence[Tensor], zoom: int = 1) -> None:
    """Write pictures side by side: each row is (n, 3, h, w), -1..1; one pixel becomes `zoom` x `zoom`.

    The file's suffix names its format (.png). Makes the folder. Raises SetupError when the file cannot be written, or
    without Pillow.
    """
    try:
        from PIL import Image
    except ImportError:
        raise SetupError("--samples writes pictures with Pillow, which is not installed: pip install pillow") from None
    sheet = torch.cat([torch.cat(list(row), dim=2) for row in rows], dim=1)
    sheet = ((sheet.clamp(-1, 1) + 1) * 127.5).round().byte().permute(1, 2, 0)
    sheet = sheet.repeat_interleave(zoom, dim=0).repeat_interleave(zoom, dim=1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(sheet.cpu().numpy()).save(path)
    except OSError as error:
        raise SetupError(f"cannot write the samples {path}: {error.strerror or error}") from None
