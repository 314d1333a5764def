"""The network: convolutions read a picture to a code, transposed 3D convolutions write voxels from it.

Its form is the encoder-decoder of Perspective Transformer Nets (Yan et al., NIPS 2016, arXiv:1612.00814), trained on
voxels. The same class makes the full network and the small ones.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor, nn

START = 4  # side of the grid that the decoder starts from; doubled three times
SIDE = 32


class Reconstructor(nn.Module):
    """Pictures (n, 3, size, size), -1..1, to the logits of voxels (n, 32, 32, 32), [x, y, z].

    size              side of the pictures, a multiple of 8
    encoder_filters   channels of the strided convolutions, each of which halves the side
    encoder_kernel    side of their kernels, odd
    hidden            widths of the linear layers before the code
    code              width of the code
    decoder_filters   channels of the 4^3 grid and after the first and the second transposed convolution
    decoder_kernels   sides of the three transposed convolutions' kernels, each of which doubles the side
    batch_norm        after each layer but the last
    The defaults have 47,673,569 parameters, for pictures of 64 pixels.
    """

    def __init__(
        self,
        size: int = 64,
        encoder_filters: Sequence[int] = (64, 128, 256),
        encoder_kernel: int = 5,
        hidden: Sequence[int] = (1024, 1024),
        code: int = 512,
        decoder_filters: Sequence[int] = (512, 256, 96),
        decoder_kernels: Sequence[int] = (4, 5, 6),
        batch_norm: bool = False,
    ) -> None:
        super().__init__()
        if size % 2 ** len(encoder_filters) or encoder_kernel % 2 == 0:
            raise ValueError(f"pictures of {size} pixels cannot be halved {len(encoder_filters)} times by odd kernels")
        if len(decoder_filters) != 3 or len(decoder_kernels) != 3 or min(decoder_kernels) < 2:
            raise ValueError("the decoder has three widths and three kernels of side 2 or more")
        layers: list[nn.Module] = []
        for before, width in zip((3, *encoder_filters), encoder_filters, strict=False):
            conv = nn.Conv2d(before, width, encoder_kernel, 2, encoder_kernel // 2, bias=not batch_norm)
            layers += [conv, *_after(nn.BatchNorm2d(width), batch_norm)]
        layers.append(nn.Flatten())
        flat = encoder_filters[-1] * (size // 2 ** len(encoder_filters)) ** 2
        for before, width in zip((flat, *hidden), (*hidden, code), strict=True):
            layers += [nn.Linear(before, width, bias=not batch_norm), *_after(nn.BatchNorm1d(width), batch_norm)]
        self.encoder = nn.Sequential(*layers)

        grid = decoder_filters[0] * START**3
        layers = [nn.Linear(code, grid, bias=not batch_norm), *_after(nn.BatchNorm1d(grid), batch_norm)]
        layers.append(nn.Unflatten(1, (decoder_filters[0], START, START, START)))
        for number, kernel in enumerate(decoder_kernels):
            before, width = (*decoder_filters, 1)[number : number + 2]
            last = number == 2
            layers.append(
                nn.ConvTranspose3d(before, width, kernel, 2, (kernel - 1) // 2, kernel % 2, bias=last or not batch_norm)
            )
            layers += [] if last else _after(nn.BatchNorm3d(width), batch_norm)
        self.decoder = nn.Sequential(*layers)

    def forward(self, pictures: Tensor) -> Tensor:
        return self.decoder(self.encoder(pictures)).squeeze(1)

    @torch.no_grad()
    def start_from(self, share: float) -> None:
        """Set the last bias so that about this share of the voxels is taken for filled before any training."""
        self.decoder[-1].bias.fill_(torch.logit(torch.tensor(share)).item())


def _after(norm: nn.Module, batch_norm: bool) -> list[nn.Module]:
    return [norm, nn.ReLU(inplace=True)] if batch_norm else [nn.ReLU(inplace=True)]


class Average:
    """A running mean of a network's weights and of its normalisation statistics, which is evaluated in its stead.

    decay  how much of the mean a step keeps, 0 (the network itself) to below 1; (1 + steps) / (10 + steps) at first
    """

    def __init__(self, net: Reconstructor, decay: float) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"the average keeps a share from 0 to below 1 of itself, not {decay}")
        self.net = copy.deepcopy(net).eval()
        self.decay, self.steps = decay, 0

    @torch.no_grad()
    def update(self, net: Reconstructor) -> None:
        """Move the mean towards the network's present state, after a step."""
        self.steps += 1
        keep = min(self.decay, (1 + self.steps) / (10 + self.steps))
        for mean, now in zip(self.net.state_dict().values(), net.state_dict().values(), strict=True):
            mean.lerp_(now, 1 - keep) if mean.is_floating_point() else mean.copy_(now)


def smooth_iou(logits: Tensor, voxels: Tensor) -> Tensor:
    """Intersection over union of probabilities, (n,): products summed over the sum of what is in either.

    logits and voxels (0 or 1) are (n, x, y, z).
    """
    probability = logits.sigmoid().flatten(1)
    true = voxels.flatten(1)
    both = (probability * true).sum(1)
    return both / (probability.sum(1) + true.sum(1) - both + 1e-6)
