"""Top-1 and top-5 accuracy over the evaluation set, and the baselines that they are read against."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Accuracy(NamedTuple):
    """Shares of the images, and how many images they are shares of."""

    top1: float
    top5: float
    images: int


@torch.no_grad()
def accuracy(net: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], device: torch.device) -> Accuracy:
    """How often the label is the most probable class, and one of the five most probable.

    batches: (images (n, c, h, w), labels (n,)), any sizes: hits are summed over all images and divided once. `net` is
    in evaluation mode meanwhile. Raises ValueError when there are no images.
    """
    training = net.training
    net.eval()
    first = five = seen = 0
    for images, labels in batches:
        one, upto = hits(net(images.to(device)), labels.to(device))
        first, five, seen = first + one, five + upto, seen + len(labels)
    net.train(training)
    if seen == 0:
        raise ValueError("no images to evaluate")
    return Accuracy(first / seen, five / seen, seen)


def hits(logits: Tensor, labels: Tensor) -> tuple[int, int]:
    """How many rows of logits (n, classes) have their label first, and among the first five.

    Other classes with the label's own logit stand before it, so that a network which answers everything alike scores
    nothing; and so does one that answers NaN.
    """
    own = logits.gather(1, labels[:, None])
    before = (~(logits < own)).sum(dim=1) - 1  # the label itself is not less than itself
    before = torch.where(own[:, 0].isnan(), logits.shape[1], before)
    return int((before == 0).sum()), int((before < 5).sum())


def most_frequent_class(train_labels: Tensor, labels: Tensor) -> float:
    """Accuracy of the class that is the most frequent in training, for every image."""
    return float((labels == train_labels.bincount().argmax()).double().mean())


def nearest_class_mean(train: tuple[Tensor, Tensor], held_out: tuple[Tensor, Tensor]) -> float:
    """Accuracy of choosing the class whose mean training image is the nearest. images (n, ...), labels (n,)."""
    images, labels = train[0].flatten(1), train[1]
    means = torch.stack([images[labels == label].mean(dim=0) for label in labels.unique()])
    chosen = labels.unique()[torch.cdist(held_out[0].flatten(1), means).argmin(dim=1)]
    return float((chosen == held_out[1]).double().mean())


def logistic_regression(train: tuple[Tensor, Tensor], held_out: tuple[Tensor, Tensor], iterations: int = 40) -> float:
    """Accuracy of multinomial logistic regression on the pixels: L-BFGS, L2 penalty 1e-3 on the mean loss."""
    images, labels = train[0].flatten(1), train[1]
    weight = torch.zeros(images.shape[1], int(labels.max()) + 1, requires_grad=True)
    bias = torch.zeros(weight.shape[1], requires_grad=True)
    solver = torch.optim.LBFGS([weight, bias], max_iter=iterations, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        solver.zero_grad()
        value = F.cross_entropy(images @ weight + bias, labels) + 1e-3 * weight.square().sum()
        value.backward()
        return value

    solver.step(loss)
    chosen = (held_out[0].flatten(1) @ weight + bias).argmax(dim=1)
    return float((chosen == held_out[1]).double().mean())
