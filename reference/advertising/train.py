"""Advertising: train DLRM to predict clicks, until its ROC AUC reaches the target.

    python -m reference.advertising.train                              embedded: MovieLens-100K as clicks
    python -m reference.advertising.train --profile smoke              seconds, on generated data
    python -m reference.advertising.train --profile full --data-dir DIR --device cuda     Criteo's 1 TB logs

An iteration-based benchmark: it has no epochs. Progress, evaluations and the budget are counted in samples.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a script: python reference/<task>/train.py
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("", "logging")]
    __package__ = f"reference.{Path(__file__).resolve().parent.name}"

import torch
from torch.nn import functional as F

from reference.common import runs
from reference.common.errors import SetupError

from . import baselines, data, metric, model


@dataclass(frozen=True)
class Settings:
    """All numbers of a run. The defaults are the full profile's: MLPerf v0.7's reference run of DLRM."""

    dataset: str = "criteo"  # criteo, movielens-100k, or criteo-synthetic
    held_out: str = "evaluation"  # what is evaluated; validation: a part of movielens-100k to tune on
    global_batch_size: int = 2048  # samples a step
    eval_batch_size: int = 16384  # samples at a time in an evaluation; changes no result
    max_samples: int = 4_194_304_000  # budget; in the full profile 20 evaluations, one pass over the data
    opt_name: str = "sgd"  # plain SGD, for tables and networks alike
    opt_base_learning_rate: float = 1.0  # of the mean log loss of a batch
    opt_learning_rate_warmup_steps: int = 0  # steps from 0 to the base learning rate
    lr_decay_start_steps: int = 0  # the step from which the learning rate falls
    sgd_opt_learning_rate_decay_steps: int = 0  # steps it falls for, to 0; none: it stays
    sgd_opt_learning_rate_decay_poly_power: int = 2  # how it falls: (1 - share of those steps) to this power
    embedding_dim: int = 128  # width of every table
    bottom_widths: tuple[int, ...] = (512, 256)  # hidden layers between the numbers and their vector
    top_widths: tuple[int, ...] = (1024, 1024, 512, 256)  # hidden layers between the dot products and the logit
    embedding_init_bound: float = 0.0  # tables start uniform within this; 0: within 1 / sqrt(rows)
    max_ind_range: int = 40_000_000  # Criteo: codes are taken modulo this; less makes smaller tables
    generated_train_samples: int = 80_000  # criteo-synthetic: how many to generate
    generated_eval_samples: int = 20_000  # criteo-synthetic: the same for the held-out ones


PROFILES = {
    "full": Settings(),
    "embedded": Settings(
        dataset="movielens-100k",
        global_batch_size=100,
        max_samples=480_000,
        opt_base_learning_rate=0.5,
        sgd_opt_learning_rate_decay_steps=4_800,
        embedding_dim=16,
        bottom_widths=(64,),
        top_widths=(64, 32),
        embedding_init_bound=0.02,
    ),
    "smoke": Settings(
        dataset="criteo-synthetic",
        global_batch_size=100,
        max_samples=6_000,
        embedding_dim=8,
        bottom_widths=(16,),
        top_widths=(32, 16),
        generated_train_samples=4_000,
        generated_eval_samples=2_000,
    ),
}


def learning_rate(hp: Settings, step: int) -> float:
    """The learning rate of the step with this number, from 1: a linear rise, a plateau, a polynomial fall to 0."""
    if step < hp.opt_learning_rate_warmup_steps:
        return hp.opt_base_learning_rate * step / hp.opt_learning_rate_warmup_steps
    if hp.sgd_opt_learning_rate_decay_steps == 0 or step <= hp.lr_decay_start_steps:
        return hp.opt_base_learning_rate
    fallen = min(1.0, (step - hp.lr_decay_start_steps) / hp.sgd_opt_learning_rate_decay_steps)
    return hp.opt_base_learning_rate * (1.0 - fallen) ** hp.sgd_opt_learning_rate_decay_poly_power


def train(run: runs.Run) -> None:
    hp: Settings = run.settings
    numbers, table_rows = data.shape(run)
    with run.device:  # the tables are made where they stay
        net = model.DLRM(
            numbers, table_rows, hp.embedding_dim, hp.bottom_widths, hp.top_widths, hp.embedding_init_bound
        )
    if hp.opt_name != "sgd":
        raise SetupError(f"--opt-name {hp.opt_name}: this task has plain sgd only, which sparse gradients allow")
    optimizer = torch.optim.SGD(net.parameters(), lr=hp.opt_base_learning_rate)

    with run.timed():
        clicks = data.load(run)
        for step, batch in enumerate(run.samples(data.stream(clicks, run), hp.max_samples), start=1):
            labels, dense, categories = batch
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(hp, step)
            loss = F.binary_cross_entropy_with_logits(net(dense, categories), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

            if run.evaluation_due:
                with run.evaluation():
                    auc, log_loss, evaluated = metric.evaluate(net, run.progress(data.evaluation_batches(clicks, run)))
                    run.log("eval_loss", log_loss)
                    reached = run.reached(auc, evaluated)
                if reached:
                    break


def naive_baselines(run: runs.Run) -> dict[str, float]:
    """AUC of predictions without a deep network. None for Criteo's logs: each would read the terabyte once more."""
    if run.settings.dataset == "criteo":
        return {}
    clicks = data.load(run)
    (train_set,), (held_out,) = clicks.train(), clicks.held_out()
    predictions = {
        "field mean": baselines.best_field_mean(train_set, held_out),
        "logistic regression": baselines.logistic_regression(train_set, held_out),
    }
    if clicks.click_probability is not None:
        predictions["true click probability (the best possible)"] = clicks.click_probability
    return {name: metric.roc_auc(held_out.labels, scores) for name, scores in predictions.items()}


def main(argv: Sequence[str] | None = None) -> int:
    with runs.start(__file__, PROFILES, argv) as run:
        train(run.rehearsal())
        run.baselines(naive_baselines(run))
        train(run)
    return run.exit_status


if __name__ == "__main__":
    sys.exit(main())
