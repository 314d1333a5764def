"""Object detection (AIBench component 9): train Faster R-CNN to find and name the objects in pictures.

python -m reference.object_detection.train                               # embedded: digits on photos
python -m reference.object_detection.train --samples out/                # the same, and pictures of what it finds
python -m reference.object_detection.train --profile smoke               # seconds, no package needed
python -m reference.object_detection.train --profile full --data-dir D   # PASCAL VOC2007, ResNet-101
"""

from __future__ import annotations

import math
import pickle
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

if __name__ == "__main__" and not __package__:  # python reference/<task>/train.py
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("", "logging")]
    __package__ = ".".join(Path(__file__).resolve().parts[-3:-1])

import torch
from torch import Tensor

from reference.common import runs

from . import backbone, data, loss, metric, model, samples, voc


@dataclass(frozen=True)
class Settings:
    """The full profile's values; PROFILES says what the others change."""

    network: str = "resnet101"  # resnet101 or small
    held_out: str = "evaluation"  # what is evaluated; validation: other training digits, to tune on
    short_side: int = 600  # pixels, VOC's pictures are resized to it,
    long_side: int = 1000  # unless their long side would become longer than this
    global_batch_size: int = 1  # pictures a step
    eval_batch_size: int = 1  # pictures at a time in an evaluation
    data_workers: int = 4  # processes that read pictures
    opt_name: str = "sgd"  # sgd or adamw
    opt_base_learning_rate: float = 0.001  # after warm-up
    opt_momentum: float = 0.9  # of sgd
    opt_weight_decay: float = 0.0001  # decoupled in adamw
    opt_gradient_clip_norm: float = 10.0  # of all gradients together
    opt_learning_rate_warmup_steps: int = 0  # steps from 0 to the base learning rate
    opt_learning_rate_decay_schedule: str = "step"  # at each boundary, or linear between two
    opt_learning_rate_decay_boundary_epochs: tuple[int, ...] = (10, 20)  # epochs
    opt_learning_rate_decay_factor: float = 0.1  # at each boundary, or what linear decay ends with
    proposals_before_nms: int = 12000  # of a picture in training
    proposals: int = 2000  # after it, at most
    eval_proposals_before_nms: int = 6000  # the same in an evaluation
    eval_proposals: int = 300  # the same in an evaluation
    rpn_batch_size: int = 256  # anchors of a picture that are trained on
    rpn_positives: float = 0.5  # share of them that hold objects, at most
    region_batch_size: int = 128  # regions of a picture that are trained on
    region_positives: float = 0.25  # share of them that hold objects, at most
    jittered_boxes: int = 0  # regions made of each true box, beside itself
    max_epochs: int = 24  # the budget: without the target by then, the run is aborted


SMALL = {
    "network": "small",
    "global_batch_size": 8,
    "eval_batch_size": 50,
    "data_workers": 0,
    "opt_name": "adamw",
    "opt_base_learning_rate": 0.002,
    "opt_weight_decay": 0.001,
    "opt_gradient_clip_norm": 5.0,
    "opt_learning_rate_decay_schedule": "linear",
    "proposals_before_nms": 40,
    "proposals": 10,
    "eval_proposals_before_nms": 40,
    "eval_proposals": 12,
    "rpn_batch_size": 64,
    "region_batch_size": 16,
    "region_positives": 0.6,
    "jittered_boxes": 2,
}
PROFILES = {
    "full": Settings(),
    "embedded": Settings(
        **SMALL,  # type: ignore[arg-type]
        opt_learning_rate_warmup_steps=50,
        opt_learning_rate_decay_boundary_epochs=(2, 7),
        opt_learning_rate_decay_factor=0.02,
        max_epochs=8,
    ),
    "smoke": Settings(
        **SMALL,  # type: ignore[arg-type]
        opt_learning_rate_warmup_steps=5,
        opt_learning_rate_decay_boundary_epochs=(1, 2),
        opt_learning_rate_decay_factor=0.1,
        max_epochs=2,
    ),
}
SAMPLES = 12  # pictures that --samples writes


CHOICES = {
    "network": ("resnet101", "small"),
    "opt_name": ("sgd", "adamw"),
    "opt_learning_rate_decay_schedule": ("step", "linear"),
}


def check(hp: Settings) -> None:
    """Raise SetupError for settings that mean nothing here, whatever the division."""
    for name, allowed in CHOICES.items():
        if getattr(hp, name) not in allowed:
            flag = "--" + name.replace("_", "-")
            raise runs.SetupError(f"{flag} {getattr(hp, name)}: expected one of {', '.join(allowed)}")
    start, *end = hp.opt_learning_rate_decay_boundary_epochs
    if hp.opt_learning_rate_decay_schedule == "linear" and (len(end) != 1 or start >= end[0]):
        raise runs.SetupError(
            "--opt-learning-rate-decay-boundary-epochs: linear decay has two, where it starts and ends"
        )


def learning_rate(hp: Settings, step: int, steps_per_epoch: int) -> float:
    """The learning rate of the step with this number, from 0."""
    rate = hp.opt_base_learning_rate
    if step < hp.opt_learning_rate_warmup_steps:
        return rate * (step + 1) / hp.opt_learning_rate_warmup_steps
    epochs, boundaries = step / steps_per_epoch, hp.opt_learning_rate_decay_boundary_epochs
    if hp.opt_learning_rate_decay_schedule == "step":
        return rate * hp.opt_learning_rate_decay_factor ** sum(epochs >= boundary for boundary in boundaries)
    share = (epochs - boundaries[0]) / (boundaries[1] - boundaries[0])
    return rate * (1 - min(max(share, 0.0), 1.0) * (1 - hp.opt_learning_rate_decay_factor))


def build(run: runs.Run) -> model.FasterRCNN:
    """The network, with ResNet-101's ImageNet weights where it is the full one."""
    classes = len(data.class_names(run.profile.name))
    if run.settings.network == "small":
        return model.FasterRCNN(backbone.small(), model.SMALL_C4, classes).to(run.device)
    parts = backbone.resnet101()
    path = voc.weights_file(run.require_data_dir(voc.LAYOUT))
    try:
        backbone.load_resnet(parts, torch.load(path, map_location="cpu", weights_only=True))
    except (OSError, ValueError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        first = str(error).splitlines()[0]
        raise runs.SetupError(f"{path}: cannot be used: {first}") from None
    return model.FasterRCNN(parts, model.RESNET101_C4, classes).to(run.device)


def optimizer_of(net: torch.nn.Module, hp: Settings) -> torch.optim.Optimizer:
    weights, rate, decay = model.trainable(net), hp.opt_base_learning_rate, hp.opt_weight_decay
    if hp.opt_name == "sgd":
        return torch.optim.SGD(weights, rate, momentum=hp.opt_momentum, weight_decay=decay)
    return torch.optim.AdamW(weights, rate, weight_decay=decay)


def train(run: runs.Run) -> None:
    hp: Settings = run.settings
    check(hp)
    net = build(run)
    optimizer = optimizer_of(net, hp)
    how = loss.Sampling(
        hp.proposals_before_nms,
        hp.proposals,
        hp.rpn_batch_size,
        hp.rpn_positives,
        hp.region_batch_size,
        hp.region_positives,
        hp.jittered_boxes,
    )
    step = 0

    with run.timed():
        train_set, held_out = data.load(run)
        batches = data.batches(train_set, hp.global_batch_size, shuffle=True, workers=hp.data_workers)
        held_out_batches = data.batches(held_out, hp.eval_batch_size, shuffle=False, workers=hp.data_workers)
        for epoch in run.epochs(hp.max_epochs):
            net.train()
            for batch in run.progress(batches):
                images, sizes, boxes, labels, difficult = batch.to(run.device)
                labels = labels.masked_fill(difficult, -1)  # not trained on
                total = loss.losses(net, images, sizes, boxes, labels, how).sum()
                if not math.isfinite(total.item()):
                    raise runs.SetupError(f"training diverged: the loss is {total.item()} in epoch {epoch}")
                for group in optimizer.param_groups:
                    group["lr"] = learning_rate(hp, step, len(batches))
                optimizer.zero_grad()
                total.backward()
                torch.nn.utils.clip_grad_norm_(model.trainable(net), hp.opt_gradient_clip_norm)
                optimizer.step()
                step += 1
            if run.evaluation_due:
                with run.evaluation():
                    score = metric.evaluate(found(net, run.progress(held_out_batches), hp), net.classes)
                    run.log("map_at_50_all_point", score.all_point)
                    reached = run.reached(score.eleven_point, score.images)
                if reached:
                    break
    if run.samples_dir is not None:
        samples.write(run.samples_dir, islice(pictured(net, held_out_batches, hp), SAMPLES), held_out.classes)


def found(
    net: model.FasterRCNN, batches: Iterable[data.Batch], hp: Settings
) -> Iterator[tuple[metric.Detections, metric.Objects]]:
    """What the network finds in each picture of `batches`, and what there is."""
    device = next(net.parameters()).device
    net.eval()
    for batch in batches:
        images, sizes, *_ = batch.to(device)
        detections = net.detect(images, sizes, hp.eval_proposals_before_nms, hp.eval_proposals)
        yield from zip(detections, batch.objects(), strict=True)


def pictured(
    net: model.FasterRCNN, batches: Iterable[data.Batch], hp: Settings
) -> Iterator[tuple[Tensor, metric.Detections]]:
    """Each picture without its padding, and what the network finds in it."""
    for batch in batches:
        for image, (height, width), (detections, _) in zip(
            batch.images, batch.sizes.tolist(), found(net, [batch], hp), strict=True
        ):
            yield image[:, :height, :width], detections


def naive_baselines(run: runs.Run) -> dict[str, float]:
    """What the true boxes are worth to somebody who recognises nothing."""
    _, held_out = data.load(run)
    classes = len(held_out.classes)
    return {
        "true_boxes_every_class": metric.true_boxes(held_out.objects, classes, give_all=True),
        "true_boxes_frequent_class": metric.true_boxes(held_out.objects, classes, give_all=False),
    }


def main(argv: Sequence[str] | None = None) -> int:
    with runs.start(__file__, PROFILES, argv) as run:
        train(run.rehearsal())
        run.baselines(naive_baselines(run))
        train(run)
    return run.exit_status


if __name__ == "__main__":
    raise SystemExit(main())
