"""CycleGAN's networks (Zhu et al., 2017, arXiv:1703.10593): a residual generator, a PatchGAN discriminator.

Pictures are (n, 3, height, width), -1..1. The same classes make the full networks and the small ones.
"""

from __future__ import annotations

import random

import torch
from torch import Tensor, nn


class Residual(nn.Module):
    """Two 3x3 convolutions, reflected at the edges, around which the input is added."""

    def __init__(self, width: int, affine: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.ReflectionPad2d(1), nn.Conv2d(width, width, 3), nn.InstanceNorm2d(width, affine=affine)),
            nn.ReLU(inplace=True),
            *(nn.ReflectionPad2d(1), nn.Conv2d(width, width, 3), nn.InstanceNorm2d(width, affine=affine)),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x)


class Generator(nn.Module):
    """Pictures -> pictures of the other kind, of the same size; sides must be multiples of 2 ** downsamplings.

    filters         channels after the first convolution, doubled by each downsampling
    downsamplings   strided convolutions, and as many transposed ones at the end
    blocks          residual blocks between
    outer_kernel    side of the first and the last convolution's kernel, odd
    strided_kernel  side of the strided ones' kernels: 3, or 4
    affine          whether instance normalisation has a learned scale and offset
    The defaults have 11,378,179 parameters: 9 blocks, for pictures of 256 pixels.
    """

    def __init__(
        self,
        filters: int = 64,
        downsamplings: int = 2,
        blocks: int = 9,
        outer_kernel: int = 7,
        strided_kernel: int = 3,
        affine: bool = False,
    ) -> None:
        super().__init__()
        edge = outer_kernel // 2
        layers = [nn.ReflectionPad2d(edge), nn.Conv2d(3, filters, outer_kernel)]
        layers += [nn.InstanceNorm2d(filters, affine=affine), nn.ReLU(inplace=True)]
        width = filters
        for _ in range(downsamplings):
            layers += [nn.Conv2d(width, 2 * width, strided_kernel, stride=2, padding=1)]
            width *= 2
            layers += [nn.InstanceNorm2d(width, affine=affine), nn.ReLU(inplace=True)]
        layers += [Residual(width, affine) for _ in range(blocks)]
        for _ in range(downsamplings):
            rest = 4 - strided_kernel  # so that the side exactly doubles
            layers += [nn.ConvTranspose2d(width, width // 2, strided_kernel, 2, padding=1, output_padding=rest)]
            width //= 2
            layers += [nn.InstanceNorm2d(width, affine=affine), nn.ReLU(inplace=True)]
        layers += [nn.ReflectionPad2d(edge), nn.Conv2d(width, 3, outer_kernel), nn.Tanh()]
        self.layers = nn.Sequential(*layers)
        self.apply(initialise)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.layers(pictures)


class Discriminator(nn.Module):
    """Pictures -> a map (n, 1, rows, columns), each value about one patch: 1 real, 0 made up.

    filters      channels of the first layer, doubled by each one after it, up to 8 times
    layers       4x4 convolutions of stride 2, before two of stride 1
    head_kernel  side of the latter's kernels
    affine       as in the generator
    The defaults have 2,764,737 parameters and see patches of 70x70 pixels.
    """

    def __init__(self, filters: int = 64, layers: int = 3, head_kernel: int = 4, affine: bool = False) -> None:
        super().__init__()
        parts = [nn.Conv2d(3, filters, 4, stride=2, padding=1), nn.LeakyReLU(0.2, inplace=True)]
        width = filters
        for number in range(1, layers + 1):
            wider = filters * min(2**number, 8)
            kernel, stride = (4, 2) if number < layers else (head_kernel, 1)
            parts += [nn.Conv2d(width, wider, kernel, stride, padding=1), nn.InstanceNorm2d(wider, affine=affine)]
            parts += [nn.LeakyReLU(0.2, inplace=True)]
            width = wider
        parts += [nn.Conv2d(width, 1, head_kernel, padding=1)]
        self.layers = nn.Sequential(*parts)
        self.apply(initialise)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.layers(pictures)


def initialise(module: nn.Module) -> None:
    """Weights of convolutions N(0, 0.02), scales of normalisations N(1, 0.02), offsets 0."""
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(module.weight, 0.0, 0.02)
        nn.init.zeros_(module.bias)
    elif isinstance(module, nn.InstanceNorm2d) and module.affine:
        nn.init.normal_(module.weight, 1.0, 0.02)
        nn.init.zeros_(module.bias)


class History:
    """Made-up pictures of earlier steps: a discriminator that sees them too is not led in circles by the newest.

    Until `size` pictures are stored, all pass and are stored. Then each is swapped for a stored one with probability
    1/2. Size 0 stores none. Draws from Python's generator.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.stored: list[Tensor] = []

    def mixed(self, pictures: Tensor) -> Tensor:
        """As many pictures as `pictures` (n, 3, h, w), detached."""
        out = []
        for picture in pictures.detach():
            if len(self.stored) < self.size:
                self.stored.append(picture)
                out.append(picture)
            elif self.size and random.random() < 0.5:
                place = random.randrange(self.size)
                out.append(self.stored[place])
                self.stored[place] = picture
            else:
                out.append(picture)
        return torch.stack(out)


@torch.no_grad()
def follow(average: nn.Module, net: nn.Module, decay: float) -> None:
    """Move every parameter of `average` a step towards those of `net`; a decay of 0 copies them."""
    for mean, value in zip(average.parameters(), net.parameters(), strict=True):
        mean.lerp_(value, 1 - decay)
