"""Recommendation: train NeuMF to rank each user's last film, until its hit rate at 10 reaches the target.

    python -m reference.recommendation.train                                       embedded: MovieLens-100K
    python -m reference.recommendation.train --profile smoke                       seconds, on made-up ratings
    python -m reference.recommendation.train --profile full --data-dir ml-20m      MovieLens-20M, on a GPU

An epoch-based benchmark: evaluated after every pass over the training ratings.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a script: python reference/<task>/train.py
    sys.path[:0] = [str(Path(__file__).resolve().parents[2])]
    __package__ = f"reference.{Path(__file__).resolve().parent.name}"

import torch
from torch.nn import functional as F

from reference.common import runs
from reference.common.errors import SetupError

from . import baselines, data, metric, model


@dataclass(frozen=True)
class Settings:
    """All numbers of a run. The defaults are the full profile's: the configuration of MLPerf v0.5's fastest results."""

    held_out: str = "evaluation"  # what is ranked; validation: the last but one of the training data, for tuning
    global_batch_size: int = 1_048_576  # examples a step, rated and not
    opt_name: str = "adam"  # dense: every row of every table moves in every step
    opt_base_learning_rate: float = 0.0045  # constant
    opt_adam_beta_1: float = 0.25  # decay of the gradient's average
    opt_adam_beta_2: float = 0.5  # decay of its square's average
    opt_adam_epsilon: float = 1e-8  # added to the root of the latter
    mf_dim: int = 64  # width of the factorization path
    mlp_layer_sizes: tuple[int, ...] = (256, 256, 128, 64)  # the perceptron's input and layers
    train_negatives: int = 4  # for every rated film of an epoch, redrawn in each
    max_epochs: int = 30  # budget


PROFILES = {
    "full": Settings(),
    "embedded": Settings(
        global_batch_size=2048,
        opt_base_learning_rate=0.001,
        opt_adam_beta_1=0.9,
        opt_adam_beta_2=0.999,
        mlp_layer_sizes=(64, 32, 16),
    ),
    "smoke": Settings(
        global_batch_size=1024,
        opt_base_learning_rate=0.004,
        opt_adam_beta_1=0.9,
        opt_adam_beta_2=0.999,
        mlp_layer_sizes=(64, 32, 16),
        max_epochs=3,
    ),
}
EVAL_USERS = 1024  # ranked at once; changes no result


def build(run: runs.Run) -> tuple[model.NeuMF, torch.optim.Adam]:
    """The network and its optimizer on the run's device. Raises SetupError for settings that make no sense."""
    hp: Settings = run.settings
    if hp.opt_name != "adam" or hp.held_out not in ("evaluation", "validation"):
        raise SetupError(f"known are adam and evaluation or validation, not {hp.opt_name} and {hp.held_out}")
    if min(hp.global_batch_size, hp.train_negatives, hp.max_epochs) < 1:
        raise SetupError("--global-batch-size, --train-negatives and --max-epochs must be at least 1")
    tables = data.DATA_SETS[run.profile.name]
    try:
        with run.device:  # the tables are made where they stay
            net = model.NeuMF(tables.users, tables.items, hp.mf_dim, hp.mlp_layer_sizes)
        betas = (hp.opt_adam_beta_1, hp.opt_adam_beta_2)
        lr, eps = hp.opt_base_learning_rate, hp.opt_adam_epsilon
        return net, torch.optim.Adam(net.parameters(), lr=lr, betas=betas, eps=eps, fused=True)
    except ValueError as error:
        raise SetupError(f"settings: {error}") from None


def train(run: runs.Run) -> None:
    hp: Settings = run.settings
    net, optimizer = build(run)
    generator = torch.Generator(run.device).manual_seed(run.seed)

    with run.timed():
        train_set, held_out = data.load(run)
        for _ in run.epochs(hp.max_epochs):
            examples = data.Epoch(train_set, hp.global_batch_size, hp.train_negatives, generator)
            for users, items, rated in run.progress(examples):
                loss = F.binary_cross_entropy_with_logits(net(users, items), rated)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

            with run.evaluation():
                hits, ndcg, evaluated = metric.hit_rate(net, run.progress(held_out.batches(EVAL_USERS)))
                run.log("ndcg_at_10", ndcg)
                reached = run.reached(hits, evaluated)
            if reached:
                break


def naive_baselines(run: runs.Run) -> dict[str, float]:
    """HR@10 of rankings without a gradient, over the same candidates."""
    train_set, held_out = data.load(run)
    rankings = baselines.rankings(train_set, len(held_out.candidates), data.DATA_SETS[run.profile.name].items)
    return {name: metric.hit_rate(scorer, held_out.batches(EVAL_USERS))[0] for name, scorer in rankings.items()}


def main(argv: Sequence[str] | None = None) -> int:
    with runs.start(__file__, PROFILES, argv) as run:
        train(run.rehearsal())
        run.baselines(naive_baselines(run))
        train(run)
    return run.exit_status


if __name__ == "__main__":
    sys.exit(main())
