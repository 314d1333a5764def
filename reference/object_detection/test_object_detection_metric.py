"""Object detection: geometry and metric against cases worked by hand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from . import boxes, metric


def rows(*values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float32).view(-1, 4)


# ---- boxes -----------------------------------------------------------------------------------------------------------


def test_overlap_by_hand() -> None:
    first = rows([0, 0, 2, 2], [5, 5, 5, 5])
    second = rows([0, 0, 2, 2], [1, 1, 3, 3], [2, 0, 4, 2], [0, 0, 1, 2], [5, 5, 5, 5])
    assert boxes.iou(first, second).tolist() == [pytest.approx([1, 1 / 7, 0, 1 / 2, 0]), [0, 0, 0, 0, 0]]


def test_suppression_by_hand() -> None:
    """B overlaps A by 0.6 and goes; C overlaps B by more than half, but B is gone, so C stays; D is far away."""
    four = rows([0, 0, 10, 10], [0, 2.5, 10, 12.5], [0, 5, 10, 15], [50, 50, 60, 60])
    scores = torch.tensor([0.9, 0.8, 0.7, 0.95])
    assert boxes.iou(four, four)[0, 1].item() == pytest.approx(0.6)
    assert boxes.nms(four, scores, 0.5).tolist() == [3, 0, 2]
    assert boxes.nms(four, scores, 0.5, keep_at_most=2).tolist() == [3, 0]
    assert boxes.nms(four, scores, 0.6).tolist() == [3, 0, 1, 2]  # overlapping by just the threshold is allowed
    assert boxes.nms(four[:0], scores[:0], 0.5).tolist() == []
    same = torch.tensor([0.5, 0.5, 0.5, 0.5])
    assert boxes.nms(four, same, 0.5).tolist() == [0, 2, 3]  # of equal scores the first is the better one
    assert boxes.nms_by_class(four, scores, torch.tensor([0, 1, 0, 1]), 0.2).tolist() == [3, 0, 1]


def test_suppression_in_blocks_is_that_of_one_after_the_other() -> None:
    generator = torch.Generator().manual_seed(5)
    corner = torch.rand(2500, 2, generator=generator) * 300
    many = torch.cat([corner, corner + 10 + 30 * torch.rand(2500, 2, generator=generator)], dim=1)
    scores = torch.rand(2500, generator=generator).mul(500).round()  # with ties
    overlaps = (boxes.iou(many, many) > 0.4).numpy()
    kept: list[int] = []
    for index in scores.argsort(descending=True, stable=True).tolist():
        if not any(overlaps[index, other] for other in kept):
            kept.append(index)
    assert boxes.nms(many, scores, 0.4).tolist() == kept
    assert 100 < len(kept) < 2000  # else the comparison says little


def test_box_coding_by_hand_and_back() -> None:
    anchor, box = rows([0, 0, 10, 20]), rows([5, 5, 25, 15])  # centres (5, 10) and (15, 10), sizes 10 x 20 and 20 x 10
    assert boxes.encode(box, anchor)[0].tolist() == pytest.approx([1.0, 0.0, np.log(2), -np.log(2)])
    assert boxes.decode(boxes.encode(box, anchor), anchor)[0].tolist() == pytest.approx([5, 5, 25, 15], abs=1e-5)
    assert boxes.clip(rows([-3, -2, 50, 9])[None], torch.tensor([[8, 30]]))[0, 0].tolist() == [0, 0, 30, 8]


def test_anchors_by_hand() -> None:
    made = boxes.anchors(height=1, width=2, stride=16, sizes=(8, 16), ratios=(1.0, 4.0))
    assert made.shape == (8, 4)
    assert made[0].tolist() == [4, 4, 12, 12]
    assert made[1].tolist() == [6, 0, 10, 16]  # 4 wide, 16 high
    assert made[4].tolist() == [20, 4, 28, 12]  # the next cell


def test_regions_are_aligned_by_hand() -> None:
    """A map whose value is its own column, plus 100 times its row: at pixel x it is x / stride - 1/2."""
    y, x = torch.meshgrid(torch.arange(8.0), torch.arange(10.0), indexing="ij")
    ramp = (x + 100 * y)[None, None]
    region = rows([4, 8, 20, 24])[None]  # 16 pixels = 4 cells of 4, cut into 2 x 2 parts of 8 pixels
    for samples in (1, 2, 3):  # the mean of a ramp over a part is its middle, however many points
        cut = boxes.roi_align(ramp, region, stride=4, side=2, samples=samples)
        assert cut.shape == (1, 1, 2, 2)
        assert cut.flatten().tolist() == pytest.approx([251.5, 253.5, 451.5, 453.5], abs=1e-3)
    beyond = boxes.roi_align(ramp, rows([-40, -40, -8, -8])[None], stride=4, side=1, samples=2)
    assert beyond.item() == pytest.approx(0.0)  # the corner's value goes on


def test_each_image_is_cut_from_its_own_map() -> None:
    maps = torch.stack([torch.full((2, 6, 6), 3.0), torch.full((2, 6, 6), 7.0)])
    cut = boxes.roi_align(maps, rows([0, 0, 8, 8], [8, 8, 20, 20]).expand(2, 2, 4), stride=4, side=3, samples=2)
    assert cut.mean(dim=(1, 2, 3)).tolist() == pytest.approx([3, 3, 7, 7])


# ---- metric ----------------------------------------------------------------------------------------------------------


def there(*items: tuple[Sequence[float], int, bool]) -> metric.Objects:
    given = [torch.tensor([item[1] for item in items]).long(), torch.tensor([item[2] for item in items]).bool()]
    return metric.Objects(rows(*(item[0] for item in items)), *given)


def seen(*items: tuple[Sequence[float], float, int]) -> metric.Detections:
    scores, labels = torch.tensor([item[1] for item in items]), torch.tensor([item[2] for item in items]).long()
    return metric.Detections(rows(*(item[0] for item in items)), scores, labels)


A, B, C, FAR = [0, 0, 10, 10], [20, 0, 30, 10], [0, 20, 10, 30], [70, 70, 80, 80]


def test_both_precisions_by_hand() -> None:
    """Found, error, found, of three objects: precision 1, 1/2, 2/3 at recall 1/3, 1/3, 2/3."""
    pictures = [
        (seen((A, 0.9, 0), (FAR, 0.8, 0)), there((A, 0, False), (B, 0, False))),
        (seen((C, 0.7, 0)), there((C, 0, False))),
    ]
    score = metric.evaluate(pictures, classes=2)  # the class without objects is left out
    assert score.eleven_point == pytest.approx((4 * 1 + 3 * 2 / 3) / 11)
    assert score.all_point == pytest.approx((1 + 2 / 3) / 3)
    assert score.images == 2


def test_an_object_is_found_once_and_by_its_class_only() -> None:
    near = [1, 0, 11, 10]  # overlaps A by 9/11
    one = there((A, 0, False))
    assert metric.evaluate([(seen((A, 0.9, 0), (near, 0.8, 0)), one)], 2).all_point == 1.0
    assert metric.judge(rows(A, near), torch.tensor([0.8, 0.9]), rows(A), torch.tensor([False])).tolist() == [
        [pytest.approx(0.9), 1.0],
        [pytest.approx(0.8), 0.0],
    ]
    assert metric.evaluate([(seen((A, 0.9, 1)), one)], 2).all_point == 0.0
    half, less = [0, 0, 10, 5], [0, 0, 10, 4.9]
    assert metric.evaluate([(seen((half, 0.9, 0)), one)], 1).all_point == 1.0  # IoU of 0.5 is enough
    assert metric.evaluate([(seen((less, 0.9, 0)), one)], 1).all_point == 0.0


def test_difficult_objects_are_neither_wanted_nor_wrong() -> None:
    picture = there((A, 0, False), (B, 0, True))
    both, only = seen((A, 0.5, 0), (B, 0.9, 0)), seen((A, 0.5, 0))
    assert metric.evaluate([(both, picture)], 1) == metric.evaluate([(only, picture)], 1) == (1.0, 1.0, 1)
    with pytest.raises(ValueError, match="no object to be found in 1 images"):
        metric.evaluate([(only, there((A, 0, True)))], 1)


def test_pictures_without_objects_and_without_detections_count() -> None:
    picture, nothing = (seen((A, 0.5, 0)), there((A, 0, False))), (seen(), there())
    assert metric.evaluate([picture, nothing], 1) == (1.0, 1.0, 2)
    wrong = (seen((A, 0.9, 0)), there())  # a better score on an empty picture halves the precision
    assert metric.evaluate([picture, wrong], 1).all_point == 0.5
    assert metric.evaluate([(seen(), there((A, 0, False)))], 1) == (0.0, 0.0, 1)


def test_equal_scores_count_together_whatever_their_order() -> None:
    right, wrong = (A, 0.5, 0), (FAR, 0.5, 0)
    for order in ((right, wrong), (wrong, right)):
        assert metric.evaluate([(seen(*order), there((A, 0, False)))], 1).all_point == 0.5


def test_true_boxes_without_recognition_by_hand() -> None:
    pictures = [there((A, 0, False), (B, 1, False)), there((C, 1, False), (B, 1, True))]
    assert metric.true_boxes(pictures, 2, give_all=True) == pytest.approx((1 / 4 + 2 / 3) / 2)
    assert metric.true_boxes(pictures, 2, give_all=False) == pytest.approx((0 + 2 / 3) / 2)
