"""Faster R-CNN (Ren et al., 2015, arXiv:1506.01497), with RoIAlign in place of RoI pooling.

One convolutional map of the image; a region proposal network (RPN) says for each anchor whether it holds an object and
how to move it; the best proposals are cut out of the map, classified, and moved once more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from . import boxes as geometry
from .backbone import Backbone
from .metric import Detections

PROPOSAL_NMS = 0.7  # overlap from which the lesser of two proposals goes
DETECTION_NMS = 0.3  # the same for two detections of one class
MIN_SCORE = 0.05  # a detection's
MAX_DETECTIONS = 100  # of an image
REGION_SIDE = 7  # cells, of a region that is cut out
DELTA_SCALE = (0.1, 0.1, 0.2, 0.2)  # of the regions' regression: they are trained to predict deltas / this


@dataclass(frozen=True)
class Design:
    """What distinguishes the detectors of the profiles. Sizes in pixels of the resized image."""

    anchor_sizes: tuple[float, ...]  # square roots of the anchors' areas
    anchor_ratios: tuple[float, ...]  # height / width
    rpn_width: int  # channels
    samples: int  # sampling points of RoIAlign along each side of a cell
    class_agnostic: bool  # one box a region, or one for each class


RESNET101_C4 = Design((128, 256, 512), (0.5, 1.0, 2.0), rpn_width=512, samples=2, class_agnostic=False)
SMALL_C4 = Design((15, 20, 26), (1.4, 2.5), rpn_width=64, samples=1, class_agnostic=True)


class RPN(nn.Module):
    """features (n, c, h, w) -> for each anchor the logit of being an object (n, a) and deltas (n, a, 4)."""

    def __init__(self, channels: int, width: int, anchors: int) -> None:
        super().__init__()
        self.hidden = nn.Conv2d(channels, width, 3, padding=1)
        self.objectness = nn.Conv2d(width, anchors, 1)
        self.deltas = nn.Conv2d(width, 4 * anchors, 1)
        for layer in (self.hidden, self.objectness, self.deltas):
            nn.init.normal_(layer.weight, std=0.01)
            nn.init.zeros_(layer.bias)

    def forward(self, features: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu(self.hidden(features))
        logits = self.objectness(x).permute(0, 2, 3, 1).flatten(1)
        return logits, self.deltas(x).permute(0, 2, 3, 1).reshape(len(x), -1, 4)


class FasterRCNN(nn.Module):
    """The detector. `classes` counts the objects' classes; in the outputs class 0 is the background."""

    def __init__(self, backbone: Backbone, design: Design, classes: int) -> None:
        super().__init__()
        self.body, self.head = backbone.body, backbone.head
        self.design, self.stride, self.classes = design, backbone.stride, classes
        anchors = len(design.anchor_sizes) * len(design.anchor_ratios)
        self.rpn = RPN(backbone.channels, design.rpn_width, anchors)
        self.classify = nn.Linear(backbone.width, classes + 1)
        self.move = nn.Linear(backbone.width, 4 if design.class_agnostic else 4 * (classes + 1))
        for layer, std in ((self.classify, 0.01), (self.move, 0.001)):
            nn.init.normal_(layer.weight, std=std)
            nn.init.zeros_(layer.bias)
        self._frozen = list(backbone.frozen)
        for module in self._frozen:
            module.requires_grad_(False)

    def train(self, mode: bool = True) -> FasterRCNN:
        """As in nn.Module, but frozen batch normalisation keeps its stored statistics."""
        super().train(mode)
        for module in self._frozen:
            module.eval()
        return self

    def anchors(self, features: Tensor) -> Tensor:
        """(a, 4) for a feature map (n, c, h, w)."""
        height, width = features.shape[2:]
        design = self.design
        made = geometry.anchors(height, width, self.stride, design.anchor_sizes, design.anchor_ratios)
        return made.to(features.device)

    @torch.no_grad()
    def propose(
        self, logits: Tensor, deltas: Tensor, anchors: Tensor, sizes: Tensor, before: int, after: int
    ) -> tuple[Tensor, Tensor]:
        """The proposals of each image: `before` of the best before and at most `after` after suppression.

        Returns boxes (n, after, 4) and which of them are there (n, after) bool; the rest is padding.
        """
        top = logits.topk(min(before, logits.shape[1]), dim=1)
        boxes = geometry.decode(deltas.gather(1, top.indices[..., None].expand(-1, -1, 4)), anchors[top.indices])
        boxes = geometry.clip(boxes, sizes)
        chosen, there = boxes.new_zeros(len(boxes), after, 4), boxes.new_zeros(len(boxes), after, dtype=torch.bool)
        for image, (own, scores) in enumerate(zip(boxes, top.values, strict=True)):
            whole = (own[:, 2:] - own[:, :2]).amin(dim=1) > 1  # pixel
            own, scores = own[whole], scores[whole]
            kept = geometry.nms(own, scores, PROPOSAL_NMS, after)
            chosen[image, : len(kept)], there[image, : len(kept)] = own[kept], True
        return chosen, there

    def regions(self, features: Tensor, boxes: Tensor) -> tuple[Tensor, Tensor]:
        """Classify and move boxes (n, m, 4): logits (n * m, classes + 1), deltas (n * m, 1 or classes + 1, 4)."""
        cut = geometry.roi_align(features, boxes, self.stride, REGION_SIDE, self.design.samples)
        vectors = self.head(cut)
        return self.classify(vectors), self.move(vectors).view(len(vectors), -1, 4)

    @torch.no_grad()
    def detect(self, images: Tensor, sizes: Tensor, before: int, after: int) -> list[Detections]:
        """What is found in each image. images (n, 3, h, w), sizes (n, 2) height and width without padding.

        `before` and `after` as in `propose`. Classes are counted from 0 here: the background is left out.
        """
        features = self.body(images)
        logits, deltas = self.rpn(features)
        boxes, there = self.propose(logits, deltas, self.anchors(features), sizes, before, after)
        logits, deltas = self.regions(features, boxes)
        n, m = there.shape
        scores = logits.softmax(dim=1)[:, 1:].view(n, m, self.classes) * there[..., None]
        scale = deltas.new_tensor(DELTA_SCALE)
        deltas = (deltas if self.design.class_agnostic else deltas[:, 1:]) * scale
        moved = geometry.decode(deltas, boxes.view(-1, 1, 4)).expand(-1, self.classes, -1)
        moved = geometry.clip(moved.reshape(n, -1, 4), sizes).view(n, m, self.classes, 4)
        return [_best(own, score) for own, score in zip(moved, scores, strict=True)]


def _best(boxes: Tensor, scores: Tensor) -> Detections:
    """boxes (m, classes, 4) and scores (m, classes) of one image, thinned out within each class."""
    region, label = (scores > MIN_SCORE).nonzero(as_tuple=True)
    boxes, scores = boxes[region, label], scores[region, label]
    kept = geometry.nms_by_class(boxes, scores, label, DETECTION_NMS)[:MAX_DETECTIONS]
    return Detections(boxes[kept].cpu(), scores[kept].cpu(), label[kept].cpu())


def trainable(net: nn.Module) -> Sequence[nn.Parameter]:
    return [parameter for parameter in net.parameters() if parameter.requires_grad]
