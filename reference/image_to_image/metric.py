"""How well label maps fit the true ones: per-pixel accuracy and mean intersection over union."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

VOID = 255  # in a true label map: a pixel that no score counts


class Confusion:
    """Pixels counted by true and by predicted class: `counts[true, predicted]`, over all images that were added."""

    def __init__(self, classes: int) -> None:
        self.counts = torch.zeros(classes, classes, dtype=torch.int64)
        self.images = 0

    def add(self, predicted: Tensor, true: Tensor) -> None:
        """Count images: class numbers (n, height, width) of integers; VOID in `true` is left out."""
        classes = len(self.counts)
        judged = true != VOID
        pairs = true[judged].long() * classes + predicted[judged].long()
        self.counts += torch.bincount(pairs, minlength=classes * classes).view(classes, classes).cpu()
        self.images += len(true)

    def pixel_accuracy(self) -> float:
        """The share of the judged pixels that have their true class. ValueError when there are none."""
        if not self.counts.any():
            raise ValueError("no pixels to evaluate")
        return float(self.counts.diagonal().sum() / self.counts.sum())

    def mean_iou(self) -> float:
        """The mean over classes of intersection / union of the true and the predicted pixels of the whole set.

        A class that is neither there nor predicted anywhere has no union and is left out. ValueError without pixels.
        """
        if not self.counts.any():
            raise ValueError("no pixels to evaluate")
        both = self.counts.diagonal().double()
        union = self.counts.sum(dim=0) + self.counts.sum(dim=1) - self.counts.diagonal()
        return float((both / union)[union > 0].mean())

    def scores(self) -> dict[str, float]:
        """Both, by the name they have in benchmark.toml and in the log."""
        return {"pixel_accuracy": self.pixel_accuracy(), "mean_iou": self.mean_iou()}


def classes_of(pictures: Tensor, palette: Tensor) -> Tensor:
    """The class whose colour is nearest to each pixel, the first one in a tie.

    pictures (n, 3, h, w), palette (classes, 3), on the same scale -> (n, h, w) int64.
    """
    best = torch.full_like(pictures[:, 0], float("inf"))
    chosen = torch.zeros(best.shape, dtype=torch.int64, device=pictures.device)
    for number, colour in enumerate(palette):
        distance = (pictures - colour.view(1, 3, 1, 1)).square().sum(dim=1)
        nearer = distance < best
        chosen[nearer] = number
        best = torch.minimum(best, distance)
    return chosen


@torch.no_grad()
def evaluate(
    to_labels: Callable[[Tensor], Tensor], palette: Tensor, batches: Iterable[tuple[Tensor, Tensor]]
) -> Confusion:
    """Translate photos to label pictures, read off the nearest label colours and count them against the truth.

    batches: (photos (n, 3, h, w), true classes (n, h, w)), any sizes. Raises ValueError when a picture that
    `to_labels` returns has values that are no numbers.
    """
    confusion = Confusion(len(palette))
    for photos, true in batches:
        pictures = to_labels(photos)
        if not pictures.isfinite().all():
            raise ValueError("a translated picture holds values that are not finite numbers: training has diverged")
        confusion.add(classes_of(pictures, palette), true)
    return confusion
