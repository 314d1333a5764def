"""Residual networks of bottleneck blocks (He et al., 2015, arXiv:1512.03385), version 1.5: the stride is in the 3x3."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

EXPANSION = 4  # a block's output channels, in units of its width


class Bottleneck(nn.Module):
    """(n, inputs, h, w) -> (n, 4 * width, h / stride, w / stride): 1x1, 3x3, 1x1, and the input added."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = EXPANSION * width
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module | None = None
        if stride > 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """images (n, channels, h, w), normalised -> logits (n, classes). Parameters are named as torchvision names them.

    Args:
        blocks: how many each stage has; each stage after the first halves the map.
        width: of the first stage's blocks; each further stage doubles it.
        stem: the side of the first convolution, which has stride 2; 7 is followed by max-pooling, as in the paper.
        identity: blocks start as the identity, their last batch normalisation at 0 (Goyal et al., 2017,
            arXiv:1706.02677): it helps large batches, and slows the first epochs of small networks.
    """

    def __init__(
        self, channels: int, classes: int, blocks: Sequence[int], width: int, stem: int, identity: bool
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, stem, stride=2, padding=stem // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1) if stem == 7 else nn.Identity()
        inputs = width
        self.stages: list[str] = []
        for number, count in enumerate(blocks):
            own = width * 2**number
            first = Bottleneck(inputs, own, stride=1 if number == 0 else 2)
            inputs = EXPANSION * own
            name = f"layer{number + 1}"
            self.add_module(name, nn.Sequential(first, *(Bottleneck(inputs, own, 1) for _ in range(count - 1))))
            self.stages.append(name)
        self.fc = nn.Linear(inputs, classes)
        self._initialise(identity)

    def forward(self, images: Tensor) -> Tensor:
        x = self.pool(F.relu(self.bn1(self.conv1(images))))
        for name in self.stages:
            x = self.get_submodule(name)(x)
        return self.fc(x.mean(dim=(2, 3)))

    def _initialise(self, identity: bool) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, Bottleneck) and identity:
                nn.init.zeros_(module.bn3.weight)
        nn.init.normal_(self.fc.weight, std=0.01)
        nn.init.zeros_(self.fc.bias)


def resnet50(classes: int = 1000) -> ResNet:
    """25,557,032 parameters with 1,000 classes."""
    return ResNet(3, classes, (3, 4, 6, 3), width=64, stem=7, identity=True)


def small(classes: int) -> ResNet:
    """For images of one channel and 28 x 28 pixels: six blocks in three stages."""
    return ResNet(1, classes, (2, 2, 2), width=16, stem=3, identity=False)
