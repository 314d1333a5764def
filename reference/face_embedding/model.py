"""A residual network of plain blocks (He et al., 2015, arXiv:1512.03385) whose last map is embedded on a sphere."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn


class Block(nn.Module):
    """(n, inputs, h, w) -> (n, width, h / stride, w / stride): two 3x3 convolutions, and the input added."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample: nn.Module | None = None
        if stride > 1 or inputs != width:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, width, 1, stride, bias=False), nn.BatchNorm2d(width))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class FaceNet(nn.Module):
    """images (n, 3, side, side), -1..1 -> embeddings (n, embedding_size) of length 1.

    Args:
        side: of the pictures, in pixels; the last map is embedded whole, so that it is fixed.
        blocks: how many each stage has; each stage after the first halves the map and doubles the width.
        stem: the side of the first convolution, which has stride 2; 7 is followed by max-pooling, as in the paper.
        identities: outputs of a classifier behind the embedding, which AIBench's network has and uses in no loss. It
            is no part of `forward` and is here for the published number of parameters; 0 leaves it out.
    """

    def __init__(
        self, side: int, blocks: Sequence[int], width: int, stem: int, embedding_size: int, identities: int = 0
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, stem, stride=2, padding=stem // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1) if stem == 7 else nn.Identity()
        side = -(-side // (4 if stem == 7 else 2))
        inputs = width
        layers: list[nn.Module] = []
        for number, count in enumerate(blocks):
            own = width * 2**number
            side = side if number == 0 else -(-side // 2)
            for place in range(count):
                layers.append(Block(inputs, own, 2 if number and place == 0 else 1))
                inputs = own
        self.layers = nn.Sequential(*layers)
        self.embed = nn.Linear(inputs * side * side, embedding_size)
        self.classifier = nn.Linear(embedding_size, identities) if identities else None
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Tensor) -> Tensor:
        x = self.pool(F.relu(self.bn1(self.conv1(images))))
        return F.normalize(self.embed(self.layers(x).flatten(1)), dim=1)


def full(side: int = 182, embedding_size: int = 128) -> FaceNet:
    """ResNet-34's layers and AIBench's two linear ones: 24,934,096 parameters at 182 pixels."""
    return FaceNet(side, (3, 4, 6, 3), 64, 7, embedding_size, identities=10_000)


def small(side: int, width: int, embedding_size: int) -> FaceNet:
    """Three stages of one block each."""
    return FaceNet(side, (1, 1, 1), width, 3, embedding_size)
