"""Accuracy over the evaluation set, and the baselines that it is read against."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Quality(NamedTuple):
    """accuracy: the share of images whose most probable class is the label; loss: the mean negative log likelihood;
    samples: the images that were looked at."""

    accuracy: float
    loss: float
    samples: int


@torch.no_grad()
def evaluate(net: nn.Module, batches: Iterable[tuple[Tensor, Tensor]]) -> Quality:
    """Sums over all of the batches, whatever their sizes, divided once at the end.

    batches: (images (n, 1, h, w), labels (n,)). `net` gives log probabilities and is in evaluation mode meanwhile.
    Raises ValueError when there are no images.
    """
    training = net.training
    net.eval()
    correct, loss, seen = 0, 0.0, 0
    for images, labels in batches:
        scores = net(images)
        correct += int((scores.argmax(dim=1) == labels).sum())
        loss += float(F.nll_loss(scores, labels, reduction="sum"))
        seen += len(labels)
    net.train(training)
    if seen == 0:
        raise ValueError("no images to evaluate")
    return Quality(correct / seen, loss / seen, seen)


def nearest_class_mean(train: tuple[Tensor, Tensor], held_out: tuple[Tensor, Tensor]) -> float:
    """Accuracy of choosing the class whose mean training image is the nearest in squared distance."""
    images, labels = train[0].flatten(1), train[1]
    means = torch.stack([images[labels == label].mean(dim=0) for label in labels.unique()])
    chosen = labels.unique()[torch.cdist(held_out[0].flatten(1), means).argmin(dim=1)]
    return float((chosen == held_out[1]).double().mean())


def logistic_regression(train: tuple[Tensor, Tensor], held_out: tuple[Tensor, Tensor], iterations: int = 20) -> float:
    """Accuracy of multinomial logistic regression on the pixels: L-BFGS, L2 penalty 1e-3 on the mean loss."""
    images, labels = train[0].flatten(1), train[1]
    weight = torch.zeros(images.shape[1], int(labels.max()) + 1, device=images.device, requires_grad=True)
    bias = torch.zeros(weight.shape[1], device=images.device, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=iterations, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = F.cross_entropy(images @ weight + bias, labels) + 1e-3 * weight.square().sum()
        value.backward()
        return value

    optimizer.step(loss)
    chosen = (held_out[0].flatten(1) @ weight + bias).argmax(dim=1)
    return float((chosen == held_out[1]).double().mean())
