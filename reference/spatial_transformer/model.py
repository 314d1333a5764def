"""A small convolutional classifier with a spatial transformer in front (Jaderberg et al., 2015, arXiv:1506.02025)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CLASSES = 10
GLIMPSE = 28  # pixels: the side of what the transformer shows to the classifier


class Localiser(nn.Module):
    """Looks at the whole image and says which part to look at, as an affine map.

    images (n, 1, size, size) -> (n, 2, 3): from coordinates of the glimpse to those of the image, both -1..1.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, kernel_size=7)
        self.conv2 = nn.Conv2d(8, 10, kernel_size=5)
        side = ((size - 6) // 2 - 4) // 2
        self.hidden = nn.Linear(10 * side * side, 32)
        self.theta = nn.Linear(32, 6)
        nn.init.zeros_(self.theta.weight)  # training starts from the identity: the whole image
        with torch.no_grad():
            self.theta.bias.copy_(torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0, 0.0]))

    def forward(self, images: Tensor) -> Tensor:
        x = F.relu(F.max_pool2d(self.conv1(images), 2))
        x = F.relu(F.max_pool2d(self.conv2(x), 2))
        return self.theta(F.relu(self.hidden(x.flatten(1)))).view(-1, 2, 3)


class Classifier(nn.Module):
    """images (n, 1, size, size) -> log probabilities (n, 10)."""

    def __init__(self, size: int, dropout: float) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 10, kernel_size=5)
        self.conv2 = nn.Conv2d(10, 20, kernel_size=5)
        side = ((size - 4) // 2 - 4) // 2
        self.hidden = nn.Linear(20 * side * side, 50)
        self.output = nn.Linear(50, CLASSES)
        self.dropout2d, self.dropout = nn.Dropout2d(dropout), nn.Dropout(dropout)

    def forward(self, images: Tensor) -> Tensor:
        x = F.relu(F.max_pool2d(self.conv1(images), 2))
        x = F.relu(F.max_pool2d(self.dropout2d(self.conv2(x)), 2))
        x = self.dropout(F.relu(self.hidden(x.flatten(1))))
        return F.log_softmax(self.output(x), dim=1)


class SpatialTransformer(nn.Module):
    """images (n, 1, size, size), normalised -> log probabilities (n, 10).

    size         side of the images, pixels: 28 in the full profile (27,360 parameters), 40 in the others
    dropout      probability, after the second convolution (whole channels) and the hidden layer
    transformer  False leaves the transformer out: the classifier sees the whole image (the comparison in the README)
    """

    def __init__(self, size: int = 28, dropout: float = 0.5, transformer: bool = True) -> None:
        super().__init__()
        self.localiser = Localiser(size) if transformer else None
        self.classifier = Classifier(GLIMPSE if transformer else size, dropout)

    def glimpse(self, images: Tensor) -> Tensor:
        """What the classifier sees: (n, 1, 28, 28), or the images themselves without a transformer."""
        if self.localiser is None:
            return images
        # align_corners is said in both calls: torch's default changed once, and results shifted silently
        grid = F.affine_grid(self.localiser(images), [len(images), 1, GLIMPSE, GLIMPSE], align_corners=False)
        return F.grid_sample(images, grid, mode="bilinear", padding_mode="zeros", align_corners=False)

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.glimpse(images))
