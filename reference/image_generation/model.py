"""DCGAN's networks as WGAN uses them (Arjovsky et al., 2017, arXiv:1701.07875): a generator and a critic.

The same classes make the full networks (64 pixels) and the small ones (32). Images are (n, channels, side, side) in
-1..1.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


class Generator(nn.Module):
    """Latent vectors (n, latent) -> images; the side is 4 * 2 ** len(widths).

    The first transposed convolution makes 4x4 maps of widths[0] channels; each one after it doubles the side.
    The defaults have 3,576,704 parameters and make images of 64 pixels.
    """

    def __init__(self, latent: int = 100, widths: Sequence[int] = (512, 256, 128, 64), channels: int = 3) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.ConvTranspose2d(latent, widths[0], 4, bias=False)]
        for width, narrower in zip(widths, (*widths[1:], channels), strict=True):
            layers += [nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            layers += [nn.ConvTranspose2d(width, narrower, 4, stride=2, padding=1, bias=False)]
        self.layers = nn.Sequential(*layers, nn.Tanh())
        self.apply(initialise)

    def forward(self, latent: Tensor) -> Tensor:
        return self.layers(latent[:, :, None, None])


class Critic(nn.Module):
    """Images -> scores (n,), without bound: their mean difference between real and made-up images is the estimate.

    widths: channels of the strided 4x4 convolutions; each halves the side, down to 4 pixels.
    The defaults have 2,765,568 parameters and take images of 64 pixels.
    """

    def __init__(self, widths: Sequence[int] = (64, 128, 256, 512), channels: int = 3) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for number, (width, wider) in enumerate(zip((channels, *widths[:-1]), widths, strict=True)):
            layers += [nn.Conv2d(width, wider, 4, stride=2, padding=1, bias=False)]
            layers += [nn.BatchNorm2d(wider)] if number else []
            layers += [nn.LeakyReLU(0.2, inplace=True)]
        self.layers = nn.Sequential(*layers, nn.Conv2d(widths[-1], 1, 4, bias=False))
        self.apply(initialise)

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images).flatten()

    @torch.no_grad()
    def clip(self, bound: float) -> None:
        """Force every parameter into -bound..bound, those of the normalisations too: the paper's Lipschitz bound."""
        for parameter in self.parameters():
            parameter.clamp_(-bound, bound)


def initialise(module: nn.Module) -> None:
    """Weights of convolutions N(0, 0.02), scales of normalisations N(1, 0.02), offsets 0."""
    if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
        nn.init.normal_(module.weight, 0.0, 0.02)
    elif isinstance(module, nn.BatchNorm2d):
        nn.init.normal_(module.weight, 1.0, 0.02)
        nn.init.zeros_(module.bias)


@torch.no_grad()
def follow(average: nn.Module, net: nn.Module, decay: float) -> None:
    """Move parameters and running statistics of `average` a step towards those of `net`; a decay of 0 copies them."""
    for mean, value in zip(average.state_dict().values(), net.state_dict().values(), strict=True):
        if mean.is_floating_point():
            mean.lerp_(value, 1 - decay)
        else:
            mean.copy_(value)
