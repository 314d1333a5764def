"""A residual network of bottleneck blocks (He et al., 2015, arXiv:1512.03385) for pictures of colour and depth."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

EXPANSION = 4  # a block's output channels, in units of its width
CHANNELS = 4  # red, green, blue, depth


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


class RGBDResNet(nn.Module):
    """pictures (n, 4, h, w), -1..1 -> logits (n, classes); `features` gives what they are computed from.

    Args:
        blocks: how many each stage has; each stage after the first halves the map and doubles the width.
        stem: the side of the first convolution, which has stride 2; 7 is followed by max-pooling, as in the paper.
        embedding_size: 0: the last map's mean goes straight to the classes, as in the paper; otherwise it goes through
            a linear layer and a batch normalisation of this size, and the logits are cosines (`logits`).
        scale: what a cosine is multiplied by.
    """

    def __init__(
        self, classes: int, blocks: Sequence[int], width: int, stem: int, embedding_size: int = 0, scale: float = 1.0
    ) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(CHANNELS, width, stem, stride=2, padding=stem // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1) if stem == 7 else nn.Identity()
        inputs = width
        layers: list[nn.Module] = []
        for number, count in enumerate(blocks):
            for place in range(count):
                layers.append(Bottleneck(inputs, width * 2**number, 2 if number and place == 0 else 1))
                inputs = EXPANSION * width * 2**number
        self.layers = nn.Sequential(*layers)
        self.embed: nn.Module = nn.Identity()
        if embedding_size:
            self.embed = nn.Sequential(nn.Linear(inputs, embedding_size, bias=False), nn.BatchNorm1d(embedding_size))
            inputs = embedding_size
        self.cosine, self.scale = bool(embedding_size), scale
        self.fc = nn.Linear(inputs, classes, bias=not embedding_size)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def features(self, pictures: Tensor) -> Tensor:
        """(n, 4, h, w) -> (n, size)."""
        x = self.pool(F.relu(self.bn1(self.conv1(pictures))))
        return self.embed(self.layers(x).mean(dim=(2, 3)))

    def logits(self, features: Tensor, labels: Tensor | None = None, margin: float = 0.0) -> Tensor:
        """(n, size) -> (n, classes): linear, or scaled cosines; `margin` is taken off the cosine of each label (n,)."""
        if not self.cosine:
            return self.fc(features)
        cosines = F.normalize(features, dim=1) @ F.normalize(self.fc.weight, dim=1).T
        if labels is not None and margin:
            cosines = cosines - margin * F.one_hot(labels, cosines.shape[1])
        return self.scale * cosines

    def forward(self, pictures: Tensor) -> Tensor:
        return self.logits(self.features(pictures))


def resnet50(classes: int) -> RGBDResNet:
    """25,969,968 parameters with 1,200 classes."""
    return RGBDResNet(classes, (3, 4, 6, 3), 64, 7)


def small(classes: int, width: int, embedding_size: int, scale: float) -> RGBDResNet:
    """Three stages of one block each."""
    return RGBDResNet(classes, (1, 1, 1), width, 3, embedding_size, scale)
