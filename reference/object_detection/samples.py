"""Pictures of what was found, for a person to look at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from reference.common import runs

from .metric import Detections

MIN_SCORE = 0.5  # of the detections that are drawn
SIDE = 256  # pixels, at least, of a picture's short side: small ones are enlarged


def write(folder: Path, items: Iterable[tuple[Tensor, Detections]], classes: Sequence[str]) -> None:
    """Write 00.png, 01.png ... to `folder`: images (3, h, w) in any range, stretched to black and white."""
    try:
        from PIL import Image, ImageDraw
    except ImportError:
        raise runs.SetupError("--samples draws with pillow, which is not installed: pip install pillow") from None
    folder.mkdir(parents=True, exist_ok=True)
    for number, (image, found) in enumerate(items):
        image = image - image.min()
        pixels = (image / image.max().clamp(min=1e-6) * 255).to(torch.uint8).permute(1, 2, 0).numpy()
        scale = max(1, -(-SIDE // min(pixels.shape[:2])))
        picture = Image.fromarray(np.repeat(np.repeat(pixels, scale, axis=0), scale, axis=1))
        draw = ImageDraw.Draw(picture)
        for box, score, label in zip(*(part.tolist() for part in found), strict=True):
            if score >= MIN_SCORE:
                x0, y0, x1, y1 = (edge * scale for edge in box)
                draw.rectangle((x0, y0, x1, y1), outline=(255, 64, 64), width=2)
                draw.text(
                    (x0 + 3, y0 + 1),
                    f"{classes[label]} {score:.2f}",
                    fill=(255, 255, 0),
                    stroke_width=1,
                    stroke_fill=(0, 0, 0),
                )
        picture.save(folder / f"{number:02d}.png")
