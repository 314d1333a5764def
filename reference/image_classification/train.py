"""Image classification (AIBench component 1): train ResNet-50 v1.5 until it names pictures well enough.

python -m reference.image_classification.train                               # embedded: 5,000 real digits
python -m reference.image_classification.train --profile smoke               # seconds, no package needed
python -m reference.image_classification.train --profile full --data-dir D   # ImageNet-1k
python -m reference.image_classification.train --profile full --data-dir D --opt-name lars \\
    --global-batch-size 4096 --opt-base-learning-rate 10 --opt-weight-decay 2e-4 --max-epochs 42 \\
    --opt-learning-rate-warmup-epochs 5 --opt-learning-rate-decay-schedule poly --label-smoothing 0.1
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if __name__ == "__main__" and not __package__:  # python reference/<task>/train.py
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("", "logging")]
    __package__ = ".".join(Path(__file__).resolve().parts[-3:-1])

import torch
import torch.nn.functional as F

from reference.common import runs

from . import data, digits, metric, model, optimizer


@dataclass(frozen=True)
class Settings:
    """The full profile's values; PROFILES says what the others change."""

    network: str = "resnet50"  # resnet50 or small
    held_out: str = "evaluation"  # what is evaluated; validation: other training digits, to tune on
    global_batch_size: int = 256  # pictures a step
    eval_batch_size: int = 256  # pictures at a time in an evaluation, does not change the result
    data_workers: int = 8  # processes that read pictures
    label_smoothing: float = 0.0  # share of the label's weight that all classes get
    opt_name: str = "sgd"  # sgd or lars
    opt_base_learning_rate: float = 0.1  # after warm-up
    opt_momentum: float = 0.9  # of either optimizer
    nesterov: bool = False  # sgd's momentum looks ahead
    opt_weight_decay: float = 0.0001  # of all parameters; lars: of weights only
    lars_eta: float = 0.001  # lars: step in units of the weights' norm
    lars_epsilon: float = 0.0  # lars: added to the gradient's norm
    opt_learning_rate_warmup_epochs: int = 0  # epochs from 0 to the base learning rate
    opt_learning_rate_decay_schedule: str = "step"  # at each boundary, or poly: (1 - share of the budget) squared
    opt_learning_rate_decay_boundary_epochs: tuple[int, ...] = (30, 60)  # step: epochs
    opt_learning_rate_decay_factor: float = 0.1  # step: at each boundary
    max_epochs: int = 90  # the budget: without the target by then, the run is aborted


PROFILES = {
    "full": Settings(),
    "embedded": Settings(
        network="small",
        global_batch_size=32,
        eval_batch_size=500,
        data_workers=0,
        opt_base_learning_rate=0.03,
        nesterov=True,
        opt_learning_rate_warmup_epochs=1,
        opt_learning_rate_decay_schedule="poly",
        max_epochs=8,
    ),
    "smoke": Settings(
        network="small",
        global_batch_size=16,
        eval_batch_size=64,
        data_workers=0,
        opt_base_learning_rate=0.03,
        nesterov=True,
        opt_learning_rate_decay_schedule="poly",
        max_epochs=2,
    ),
}


CHOICES = {
    "network": ("resnet50", "small"),
    "opt_name": ("sgd", "lars"),
    "opt_learning_rate_decay_schedule": ("step", "poly"),
}


def check(hp: Settings) -> None:
    """Raise SetupError for settings that mean nothing here, whatever the division."""
    for name, allowed in CHOICES.items():
        if getattr(hp, name) not in allowed:
            flag = "--" + name.replace("_", "-")
            raise runs.SetupError(f"{flag} {getattr(hp, name)}: expected one of {', '.join(allowed)}")
    if hp.opt_learning_rate_decay_schedule == "poly" and hp.opt_learning_rate_warmup_epochs >= hp.max_epochs:
        raise runs.SetupError("--opt-learning-rate-warmup-epochs: poly decay needs epochs after it within --max-epochs")


def learning_rate(hp: Settings, epochs: float) -> float:
    """The learning rate after this many epochs, a fraction inside an epoch."""
    rate, warmup = hp.opt_base_learning_rate, hp.opt_learning_rate_warmup_epochs
    if epochs < warmup:
        return rate * epochs / warmup
    if hp.opt_learning_rate_decay_schedule == "poly":
        return rate * (1 - (epochs - warmup) / (hp.max_epochs - warmup)) ** 2
    passed = sum(epochs >= boundary for boundary in hp.opt_learning_rate_decay_boundary_epochs)
    return rate * hp.opt_learning_rate_decay_factor**passed


def build(run: runs.Run) -> tuple[model.ResNet, torch.optim.Optimizer]:
    hp: Settings = run.settings
    net = model.resnet50() if hp.network == "resnet50" else model.small(digits.CLASSES)
    net = net.to(run.device)
    made = optimizer.make(
        net,
        hp.opt_name,
        hp.opt_base_learning_rate,
        hp.opt_momentum,
        hp.nesterov,
        hp.opt_weight_decay,
        hp.lars_eta,
        hp.lars_epsilon,
    )
    return net, made


def train(run: runs.Run) -> None:
    hp: Settings = run.settings
    check(hp)
    net, solver = build(run)
    step = 0

    with run.timed():
        train_set, held_out = data.load(run)
        batches = data.batches(train_set, hp.global_batch_size, True, hp.data_workers, run.device)
        held_out_batches = data.batches(held_out, hp.eval_batch_size, False, hp.data_workers, run.device)
        for epoch in run.epochs(hp.max_epochs):
            net.train()
            for images, labels in run.progress(batches):
                logits = net(images.to(run.device))
                loss = F.cross_entropy(logits, labels.to(run.device), label_smoothing=hp.label_smoothing)
                step += 1
                for group in solver.param_groups:
                    group["lr"] = learning_rate(hp, step / len(batches))
                solver.zero_grad()
                loss.backward()
                solver.step()
            if not math.isfinite(loss.item()):  # parameters that are NaN stay so
                raise runs.SetupError(f"training diverged in epoch {epoch}; a lower --opt-base-learning-rate may help")
            if run.evaluation_due:
                with run.evaluation():
                    score = metric.accuracy(net, run.progress(held_out_batches), run.device)
                    run.log("top5_accuracy", score.top5)
                    reached = run.reached(score.top1, score.images)
                if reached:
                    break


def naive_baselines(run: runs.Run) -> dict[str, float]:
    """Accuracy without a network. For ImageNet only that of a constant answer."""
    train_set, held_out = data.load(run)
    values = {"most_frequent_class": metric.most_frequent_class(train_set.labels, held_out.labels)}
    if isinstance(train_set, digits.Digits) and isinstance(held_out, digits.Digits):
        pairs = (train_set.images, train_set.labels), (held_out.images, held_out.labels)
        values["nearest_class_mean"] = metric.nearest_class_mean(*pairs)
        values["logistic_regression"] = metric.logistic_regression(*pairs)
    return values


def main(argv: Sequence[str] | None = None) -> int:
    with runs.start(__file__, PROFILES, argv) as run:
        train(run.rehearsal())
        run.baselines(naive_baselines(run))
        train(run)
    return run.exit_status


if __name__ == "__main__":
    raise SystemExit(main())
