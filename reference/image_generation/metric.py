"""The Fréchet distance between the features of made-up and of real images, lower is better.

The features are the last hidden layer of a small classifier that is trained here, before the clock, from a seed of its
own on the training images: it is the same for every run. Where images have labels it learns those, else how an image
is turned. The distance is on the scale of this classifier: values of other feature networks cannot be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

SEED = 20170126  # of the classifier; the run's seed does not touch it
EPOCHS, BATCH, RATE, NOISE = 4, 64, 2e-3, 0.1
FEATURES = 64


class Features(nn.Module):
    """Images (n, channels, side, side), -1..1 -> features (n, 64), not negative."""

    def __init__(self, channels: int, side: int, classes: int) -> None:
        super().__init__()
        self.convolutions = nn.Sequential(
            *(nn.Conv2d(channels, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU()),
            *(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)),
            *(nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2)),
        )
        self.hidden = nn.Linear(64 * (side // 8) ** 2, FEATURES)
        self.classify = nn.Linear(FEATURES, classes)

    def forward(self, images: Tensor) -> Tensor:
        return F.relu(self.hidden(self.convolutions(images).flatten(1)))


def trained(images: Tensor, labels: Tensor | None) -> Features:
    """The feature network for these training images, always the same one; torch's generators are left as they were.

    images (n, channels, side, side), -1..1; labels (n,) of classes 0, 1, ..., or None: then it learns to tell by how
    many quarters an image is turned.
    """
    devices = [images.device] if images.is_cuda else []
    with torch.random.fork_rng(devices):
        torch.manual_seed(SEED)
        classes = 4 if labels is None else int(labels.max()) + 1
        net = Features(images.shape[1], images.shape[-1], classes).to(images.device)
        optimizer = torch.optim.Adam(net.parameters(), RATE)
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(images)).to(images.device).split(BATCH):
                batch, wanted = images[rows], None if labels is None else labels[rows]
                if wanted is None:
                    turns = torch.randint(4, (len(batch),)).tolist()
                    batch = torch.stack([image.rot90(k, (1, 2)) for image, k in zip(batch, turns, strict=True)])
                    wanted = torch.tensor(turns, device=batch.device)
                batch = batch + NOISE * torch.randn(batch.shape).to(batch.device)
                loss = F.cross_entropy(net.classify(net(batch)), wanted)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    return net.eval().requires_grad_(False)


class Moments:
    """Mean and covariance of feature vectors, from batches of any size."""

    def __init__(self) -> None:
        self.count = 0
        self.total = torch.zeros(FEATURES, dtype=torch.float64)
        self.products = torch.zeros(FEATURES, FEATURES, dtype=torch.float64)

    def add(self, features: Tensor) -> None:
        """Count features (n, 64). Raises ValueError for values that are not finite."""
        if not features.isfinite().all():
            raise ValueError("an image has features that are not finite numbers: training has diverged")
        exact = features.double().cpu()
        self.count += len(exact)
        self.total += exact.sum(dim=0)
        self.products += exact.T @ exact

    def mean(self) -> Tensor:
        return self.total / self.count

    def covariance(self) -> Tensor:
        """With divisor n - 1. Raises ValueError for fewer than two vectors."""
        if self.count < 2:
            raise ValueError(f"a covariance needs two images or more, not {self.count}")
        mean = self.mean()
        return (self.products - self.count * torch.outer(mean, mean)) / (self.count - 1)


def moments(net: Callable[[Tensor], Tensor], batches: Iterable[Tensor]) -> Moments:
    """Moments of the features of all images in `batches`."""
    found = Moments()
    with torch.no_grad():
        for images in batches:
            found.add(net(images))
    return found


def frechet_distance(a: Moments, b: Moments) -> float:
    """|mean difference|^2 + trace(A + B - 2 (A B)^(1/2)) of two Gaussians with these moments, at least 0."""
    first, second = a.covariance(), b.covariance()
    values, vectors = torch.linalg.eigh(first)
    root = vectors @ torch.diag(values.clamp(min=0).sqrt()) @ vectors.T
    shared = torch.linalg.eigvalsh(root @ second @ root).clamp(min=0).sqrt().sum()
    apart = (a.mean() - b.mean()).square().sum()
    return max(float(apart + first.trace() + second.trace() - 2 * shared), 0.0)


class Judge:
    """The fixed feature network and the moments of the held-out real images."""

    def __init__(self, net: Features, held_out: Tensor, batch_size: int = 500) -> None:
        self.net, self.batch_size = net, batch_size
        self.real = moments(net, held_out.split(batch_size))

    def distance(self, images: Iterable[Tensor]) -> tuple[float, int]:
        """The Fréchet distance of batches of images to the held-out ones, and how many images there were."""
        found = moments(self.net, images)
        return frechet_distance(found, self.real), found.count
