"""The convolutions below and above the regions, in the C4 form: one feature map serves the RPN and the regions.

`body` makes the map, `head` turns each 7 x 7 region of it into a vector. ResNet-101 (He et al., 2015,
arXiv:1512.03385) is cut after its third stage; its fourth is the head. The small form has the same parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Backbone:
    """body: (n, 3, h, w) -> (n, channels, h / stride, w / stride). head: (r, channels, 7, 7) -> (r, width).

    `frozen` are the modules whose weights stay as they were loaded.
    """

    body: nn.Module
    head: nn.Module
    stride: int
    channels: int
    width: int
    frozen: tuple[nn.Module, ...] = ()


class Bottleneck(nn.Module):
    """1x1, 3x3 (with the stride), 1x1 to four times the width, and the input added."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample: nn.Module | None = None
        if stride > 1 or inputs != 4 * width:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Body(nn.Module):
    """ResNet's stem and its first three stages, with torchvision's parameter names."""

    def __init__(self, blocks: tuple[int, int, int]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = stage(64, 64, blocks[0], stride=1)
        self.layer2 = stage(256, 128, blocks[1], stride=2)
        self.layer3 = stage(512, 256, blocks[2], stride=2)

    def forward(self, images: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(images)))
        x = F.max_pool2d(x, 3, stride=2, padding=1)
        return self.layer3(self.layer2(self.layer1(x)))


class ResNetHead(nn.Module):
    """ResNet's fourth stage on every region, then the mean over its cells."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.layer4 = stage(1024, 512, blocks, stride=2)

    def forward(self, regions: Tensor) -> Tensor:
        return self.layer4(regions).mean(dim=(2, 3))


def stage(inputs: int, width: int, blocks: int, stride: int) -> nn.Sequential:
    rest = [Bottleneck(4 * width, width, 1) for _ in range(blocks - 1)]
    return nn.Sequential(Bottleneck(inputs, width, stride), *rest)


def resnet101() -> Backbone:
    """All of ResNet-101 but its classifier. Stem, first stage and every batch normalisation are frozen."""
    body, head = Body((3, 4, 23)), ResNetHead(3)
    norms = [module for part in (body, head) for module in part.modules() if isinstance(module, nn.BatchNorm2d)]
    return Backbone(body, head, 16, 1024, 2048, (body.conv1, body.layer1, *norms))


def small() -> Backbone:
    """Five convolutions to stride 4, and a head of one convolution and a hidden layer; everything is trained."""
    body = nn.Sequential(
        *conv_bn(3, 24, 2), *conv_bn(24, 32, 1), *conv_bn(32, 64, 2), *conv_bn(64, 64, 1), *conv_bn(64, 64, 1)
    )
    head = nn.Sequential(*conv_bn(64, 48, 1), nn.Flatten(), nn.Linear(48 * 7 * 7, 128), nn.ReLU())
    return Backbone(body, head, 4, 64, 128)


def conv_bn(inputs: int, outputs: int, stride: int) -> tuple[nn.Module, nn.Module, nn.Module]:
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()


def load_resnet(backbone: Backbone, weights: Mapping[str, Tensor]) -> None:
    """Copy ImageNet weights, named as torchvision names them; its classifier (`fc`) is passed over.

    Raises ValueError that names what is missing, unknown or of another shape.
    """
    expected = {**backbone.body.state_dict(), **backbone.head.state_dict()}
    given = {name: value for name, value in weights.items() if not name.startswith("fc.")}
    counters = {name for name in expected if name.endswith("num_batches_tracked")}  # older files lack them
    wrong = [name for name in expected if name not in given and name not in counters]
    wrong += [name for name in given if name not in expected or given[name].shape != expected[name].shape]
    if wrong:
        raise ValueError(f"{len(wrong)} parameters don't fit ResNet-101, the first of them {sorted(wrong)[0]!r}")
    for part in (backbone.body, backbone.head):
        part.load_state_dict({name: given.get(name, value) for name, value in part.state_dict().items()})
