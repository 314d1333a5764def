"""Sheets of pictures as PNG files, for a person to look at."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from reference.common import runs


def write_sheet(path: Path, rows: Sequence[Tensor], zoom: int = 1) -> None:
    """Write pictures side by side: each row is (n, 3, h, w), -1..1; one pixel becomes `zoom` x `zoom`.

    Makes the folder. Raises SetupError when the file cannot be written.
    """
    sheet = torch.cat([torch.cat(list(row), dim=2) for row in rows], dim=1)
    sheet = ((sheet.clamp(-1, 1) + 1) * 127.5).round().byte().permute(1, 2, 0)
    sheet = sheet.repeat_interleave(zoom, dim=0).repeat_interleave(zoom, dim=1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(sheet.cpu().numpy()))
    except OSError as error:
        raise runs.SetupError(f"cannot write the samples {path}: {error.strerror}") from None


def png(image: np.ndarray) -> bytes:
    """The PNG file of an image (height, width, 3) uint8: 8-bit RGB, no filter, zlib."""
    height, width, _ = image.shape
    lines = np.concatenate([np.zeros((height, 1), np.uint8), image.reshape(height, -1)], axis=1)

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(lines.tobytes())), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
