"""Spatial transformer (AIBench component 15): train a classifier that first learns where to look.

python -m reference.spatial_transformer.train                               # embedded: 5,000 real digits, distorted
python -m reference.spatial_transformer.train --profile full --data-dir D   # MNIST, D/MNIST/raw/*-ubyte
python -m reference.spatial_transformer.train --profile smoke               # seconds, no data needed
python -m reference.spatial_transformer.train --no-transformer --division open   # what the transformer is worth
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

if __name__ == "__main__" and not __package__:  # python reference/<task>/train.py
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    __package__ = ".".join(Path(__file__).resolve().parts[-3:-1])

import torch
import torch.nn.functional as F

from reference.common import runs

from . import data, metric, model


@dataclass(frozen=True)
class Settings:
    """The full profile's values; PROFILES says what the others change."""

    image_size: int = 28  # pixels, the side of the images
    transformer: bool = True  # without it the classifier sees the whole image: open division
    dropout: float = 0.5  # probability, after the second convolution and the hidden layer
    opt_name: str = "sgd"  # sgd or adamw
    opt_base_learning_rate: float = 0.01  # constant after the warm-up
    opt_learning_rate_warmup_steps: int = 0  # steps from 0 to the base rate, linearly
    localiser_learning_rate_factor: float = 1.0  # of the base rate; a localiser that runs ahead loses the digit
    opt_weight_decay: float = 0.0  # decoupled in adamw
    global_batch_size: int = 64  # images a step
    eval_batch_size: int = 500  # images, does not change the result
    max_epochs: int = 39  # the budget: without the target by then, the run is aborted


EMBEDDED = Settings(
    image_size=40,
    dropout=0.0,
    opt_name="adamw",
    opt_base_learning_rate=4e-3,
    opt_learning_rate_warmup_steps=125,
    localiser_learning_rate_factor=0.25,
    opt_weight_decay=0.01,
    max_epochs=16,
)
PROFILES = {"full": Settings(), "embedded": EMBEDDED, "smoke": replace(EMBEDDED, max_epochs=2)}


def train(run: runs.Run) -> None:
    hp: Settings = run.settings
    net = model.SpatialTransformer(hp.image_size, hp.dropout, hp.transformer)
    net = net.to(run.device, memory_format=torch.channels_last)  # a third faster on a CPU, by its pooling
    optimizer = make_optimizer(net, hp)
    scheduler = warmup(optimizer, hp)

    with run.timed():
        train_set, held_out = data.load(run)
        for _epoch in run.epochs(hp.max_epochs):
            net.train()
            for images, labels in run.progress(data.batches(train_set, hp.global_batch_size, shuffle=True)):
                loss = F.nll_loss(net(images), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                scheduler.step()
            with run.evaluation():
                batches = data.batches(held_out, hp.eval_batch_size, shuffle=False)
                quality = metric.evaluate(net, run.progress(batches))
                run.log("eval_loss", quality.loss)
                reached = run.reached(quality.accuracy, quality.samples)
            if reached:
                break


def make_optimizer(net: model.SpatialTransformer, hp: Settings) -> torch.optim.Optimizer:
    groups = [{"params": net.classifier.parameters()}]
    if net.localiser is not None:
        rate = hp.opt_base_learning_rate * hp.localiser_learning_rate_factor
        groups.append({"params": net.localiser.parameters(), "lr": rate})
    kind = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW}[hp.opt_name]
    return kind(groups, lr=hp.opt_base_learning_rate, weight_decay=hp.opt_weight_decay, fused=True)


def warmup(optimizer: torch.optim.Optimizer, hp: Settings) -> torch.optim.lr_scheduler.LambdaLR:
    steps = hp.opt_learning_rate_warmup_steps
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / (steps + 1)))


def measure_baselines(run: runs.Run) -> None:
    train_set, held_out = data.load(run)
    found = {
        "nearest_class_mean": metric.nearest_class_mean(train_set, held_out),
        "logistic_regression": metric.logistic_regression(train_set, held_out),
    }
    run.baselines(found)


def main(argv: Sequence[str] | None = None) -> int:
    with runs.start(__file__, PROFILES, argv) as run:
        train(run.rehearsal())
        measure_baselines(run)
        train(run)
    return run.exit_status


if __name__ == "__main__":
    raise SystemExit(main())
