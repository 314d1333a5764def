"""Mean average precision at IoU 0.5, as PASCAL VOC counts it.

Two readings of one precision-recall curve: VOC2007's 11-point mean, which is the judged one, and the area under the
whole curve (VOC2010 and later). `difficult` objects are left out: they needn't be found, and finding them is no error.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from . import boxes as geometry

MIN_IOU = 0.5  # of a detection with the object that it finds


class Detections(NamedTuple):
    """What was found in one image: boxes (k, 4) in pixels, scores (k,), labels (k,) int64 from 0."""

    boxes: Tensor
    scores: Tensor
    labels: Tensor


class Objects(NamedTuple):
    """What there is in one image: boxes (k, 4) in pixels, labels (k,) int64 from 0, difficult (k,) bool."""

    boxes: Tensor
    labels: Tensor
    difficult: Tensor


class Score(NamedTuple):
    """Means over the classes that have objects; `images` is how many were looked at."""

    eleven_point: float
    all_point: float
    images: int


def evaluate(images: Iterable[tuple[Detections, Objects]], classes: int) -> Score:
    """Mean average precision of all images together. Raises ValueError when there is no object to be found."""
    marks: list[list[Tensor]] = [[] for _ in range(classes)]  # (k, 2): score, and 1 for found or 0 for an error
    wanted = [0] * classes
    seen = 0
    for found, there in images:
        seen += 1
        for label in torch.cat([found.labels, there.labels]).unique().tolist():
            mine, own = found.labels == label, there.labels == label
            wanted[label] += int((own & ~there.difficult).sum())
            marks[label].append(judge(found.boxes[mine], found.scores[mine], there.boxes[own], there.difficult[own]))
    curves = [precision_recall(torch.cat(m) if m else torch.zeros(0, 2), n) for m, n in zip(marks, wanted, strict=True)]
    curves = [curve for curve, n in zip(curves, wanted, strict=True) if n]
    if not curves:
        raise ValueError(f"no object to be found in {seen} images")
    return Score(_mean([eleven_point(*c) for c in curves]), _mean([all_point(*c) for c in curves]), seen)


def judge(boxes: Tensor, scores: Tensor, objects: Tensor, difficult: Tensor) -> Tensor:
    """The detections of one class in one image: (k, 2) scores and 1.0 for a hit, 0.0 for an error; ignored ones go.

    In the order of their scores, each detection is compared with the object that it overlaps most. IoU below 0.5: an
    error. That object is difficult: ignored. Already found by a better detection: an error.
    """
    order = scores.argsort(descending=True, stable=True)
    taken: set[int] = set()
    marks = []
    overlaps = geometry.iou(boxes[order], objects)
    for row, score in zip(overlaps, scores[order].tolist(), strict=True):
        best = int(row.argmax()) if len(row) else -1
        if best < 0 or float(row[best]) < MIN_IOU:
            marks.append((score, 0.0))
        elif not difficult[best]:
            marks.append((score, 0.0 if best in taken else 1.0))
            taken.add(best)
    return torch.tensor(marks, dtype=torch.float64).view(-1, 2)


def precision_recall(marks: Tensor, wanted: int) -> tuple[Tensor, Tensor]:
    """Precision and recall (float64) after each distinct score, from the highest down: equal scores count together.

    marks (k, 2) as `judge` gives them, of all images; `wanted` is how many objects there are.
    """
    marks = marks[marks[:, 0].argsort(descending=True)]
    hits = marks[:, 1].cumsum(0)
    last = torch.ones(len(marks), dtype=torch.bool)
    last[:-1] = marks[1:, 0] != marks[:-1, 0]
    rank = torch.arange(1, len(marks) + 1, dtype=torch.float64)
    return (hits / rank)[last], (hits / max(wanted, 1))[last]


def eleven_point(precision: Tensor, recall: Tensor) -> float:
    """The mean, over recall 0, 0.1 ... 1, of the best precision at that recall or beyond (0 where there is none)."""
    best = []
    for tenth in range(11):
        reached = precision[recall >= tenth / 10 - 1e-12]
        best.append(float(reached.max()) if len(reached) else 0.0)
    return _mean(best)


def all_point(precision: Tensor, recall: Tensor) -> float:
    """The area under the curve after each precision was raised to the best one at that recall or beyond."""
    envelope = precision.flip(0).cummax(0).values.flip(0) if len(precision) else precision
    steps = torch.diff(recall, prepend=recall.new_zeros(1))
    return float((envelope * steps).sum())


def true_boxes(images: Sequence[Objects], classes: int, give_all: bool) -> float:
    """What perfect boxes without any recognition are worth: 11-point mAP of the true boxes, each with score 1.

    give_all: every box is reported with every class; otherwise with the most frequent class only.
    """
    counts = torch.bincount(torch.cat([there.labels for there in images]), minlength=classes)
    given = torch.arange(classes) if give_all else counts.argmax()[None]

    def reported(there: Objects) -> Detections:
        k = len(there.labels)
        labels = given.repeat(k)
        return Detections(there.boxes.repeat_interleave(len(given), dim=0), torch.ones(len(labels)), labels)

    return evaluate([(reported(there), there) for there in images], classes).eleven_point


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
