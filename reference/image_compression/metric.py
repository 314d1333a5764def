"""Multi-scale structural similarity, peak signal-to-noise ratio, and the bits that a picture takes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)  # of the five scales, the finest first (Wang et al. 2003)
WINDOW, SIGMA = 11, 1.5  # pixels
C1, C2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
SMALLEST = WINDOW * 2 ** (len(WEIGHTS) - 1)  # pixels: the coarsest scale still holds one window


def ms_ssim(first: Tensor, second: Tensor) -> Tensor:
    """MS-SSIM of each pair of pictures (n, channels, h, w), 0..255: (n,), the mean over channels.

    Five scales, each half the last one (means of 2x2 pixels); windows that lie whole inside the picture; contrast and
    structure of every scale, luminance of the coarsest. A scale's mean below 0 counts as 0. Raises ValueError for
    pictures of a side below `SMALLEST`.
    """
    if min(first.shape[-2:]) < SMALLEST:
        raise ValueError(f"five scales need pictures of {SMALLEST} pixels a side, not {tuple(first.shape[-2:])}")
    first, second = first.double(), second.double()
    value = first.new_ones(first.shape[:2])
    for scale, weight in enumerate(WEIGHTS):
        if scale:
            first, second = F.avg_pool2d(first, 2), F.avg_pool2d(second, 2)
        similarity, structure = _similarity(first, second)
        part = similarity if scale == len(WEIGHTS) - 1 else structure
        value = value * part.clamp(min=0) ** weight
    return value.mean(dim=1)


def _similarity(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Mean SSIM and mean of its contrast-and-structure factor, each (n, channels)."""
    mean_1, mean_2 = blurred(first), blurred(second)
    variance_1 = blurred(first * first) - mean_1**2
    variance_2 = blurred(second * second) - mean_2**2
    covariance = blurred(first * second) - mean_1 * mean_2
    structure = (2 * covariance + C2) / (variance_1 + variance_2 + C2)
    luminance = (2 * mean_1 * mean_2 + C1) / (mean_1**2 + mean_2**2 + C1)
    return (luminance * structure).mean(dim=(2, 3)), structure.mean(dim=(2, 3))


def blurred(x: Tensor) -> Tensor:
    """The Gaussian window's weighted mean at every place where it lies inside, channel by channel."""
    places = torch.arange(WINDOW, dtype=x.dtype, device=x.device) - WINDOW // 2
    row = torch.exp(-(places**2) / (2 * SIGMA**2))
    row = (row / row.sum()).expand(x.shape[1], 1, 1, WINDOW)
    return F.conv2d(F.conv2d(x, row, groups=x.shape[1]), row.transpose(2, 3), groups=x.shape[1])


def assembled(pictures: Tensor, layout: tuple[int, int]) -> Tensor:
    """Pages of rows x columns pictures each, in reading order: (n, c, h, w) -> (n / page, c, rows * h, columns * w)."""
    rows, columns = layout
    count, channels, height, width = pictures.shape
    if count % (rows * columns):
        raise ValueError(f"{count} pictures don't fill pages of {rows} x {columns}")
    pages = pictures.view(-1, rows, columns, channels, height, width).permute(0, 3, 1, 4, 2, 5)
    return pages.reshape(-1, channels, rows * height, columns * width)


class Coder(Protocol):
    """Pictures (n, c, h, w), -0.5..0.5, and steps -> booleans (n, steps, ...), and these -> a picture of each step."""

    def encode(self, pictures: Tensor, steps: int) -> Tensor: ...
    def decode(self, bits: Tensor) -> list[Tensor]: ...


@dataclass
class Scores:
    """Sums over an evaluation set: pictures that were coded, and the pages that they were judged on."""

    pictures: int = 0
    pages: int = 0
    similarity: float = 0.0
    squared_error: float = 0.0
    values: int = 0
    bits: int = 0
    pixels: int = 0
    waiting: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    def add(self, true: Tensor, decoded: Tensor, layout: tuple[int, int]) -> None:
        """Count uint8 pictures (n, c, h, w); pages are judged as soon as they are full."""
        self.pictures += len(true)
        self.squared_error += float((true.double() - decoded.double()).square().sum())
        self.values += true.numel()
        self.pixels += true[:, 0].numel()
        self.waiting.append((true, decoded))
        true, decoded = (torch.cat(part) for part in zip(*self.waiting, strict=True))
        full = len(true) - len(true) % math.prod(layout)
        self.waiting = [(true[full:], decoded[full:])] if full < len(true) else []
        if full:
            similar = ms_ssim(assembled(true[:full], layout), assembled(decoded[:full], layout))
            self.similarity += float(similar.sum())
            self.pages += len(similar)

    def ms_ssim(self) -> float:
        """The mean over pages. ValueError when pictures are left that fill no page, or without any."""
        if self.waiting or not self.pages:
            raise ValueError(f"{sum(len(true) for true, _ in self.waiting)} pictures fill no page")
        return self.similarity / self.pages

    def psnr(self) -> float:
        """Peak signal-to-noise ratio, dB, of the mean squared error over all pictures; 100 dB without any error."""
        return 10 * math.log10(255**2 / max(self.squared_error / self.values, 255**2 * 1e-10))

    def bits_per_pixel(self) -> float:
        return self.bits / self.pixels


def to_bytes(pictures: Tensor) -> Tensor:
    """-0.5..0.5 to 0..255, uint8; values beyond are cut off."""
    return ((pictures + 0.5) * 255).round().clamp(0, 255).byte()


def packed(bits: Tensor) -> list[bytes]:
    """What would be stored of each picture: its bits (n, ...) of booleans, eight in a byte, the last one filled up."""
    return [row.tobytes() for row in np.packbits(bits.flatten(1).cpu().numpy(), axis=1)]


def unpacked(stored: Iterable[bytes], shape: tuple[int, ...]) -> Tensor:
    """`packed`'s inverse for pictures whose bits have `shape`: booleans (n, *shape)."""
    rows = np.stack([np.frombuffer(row, dtype=np.uint8) for row in stored])
    return torch.from_numpy(np.unpackbits(rows, axis=1, count=math.prod(shape))).bool().view(-1, *shape)


@torch.no_grad()
def evaluate(codec: Coder, steps: int, batches: Iterable[Tensor], layout: tuple[int, int]) -> list[Scores]:
    """Code each picture to bytes and decode it from nothing but these: the scores after each step.

    batches: uint8 pictures (n, c, h, w). The bits of step k are those of the bytes up to it. Raises ValueError when a
    decoded picture isn't finite.
    """
    scores: list[Scores] = []
    for pictures in batches:
        bits = codec.encode(pictures.float() / 255 - 0.5, steps)
        stored = packed(bits)
        decoded = codec.decode(unpacked(stored, tuple(bits.shape[1:])).to(pictures.device))
        scores = scores or [Scores() for _ in decoded]
        for step, (score, picture) in enumerate(zip(scores, decoded, strict=True), start=1):
            if not picture.isfinite().all():
                raise ValueError("a decoded picture holds values that are not finite numbers: training has diverged")
            score.add(pictures, to_bytes(picture), layout)
            score.bits += 8 * sum(len(row) for row in packed(bits[:, :step]))
    return scores
