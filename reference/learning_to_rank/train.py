"""Learning to rank: distil a large Caser into a small one, until the small one's precision at 10 reaches the target.

    python -m reference.learning_to_rank.train                                    embedded: made-up check-ins
    python -m reference.learning_to_rank.train --profile smoke                    seconds, on made-up ratings
    python -m reference.learning_to_rank.train --profile full --data-dir DIR      Gowalla, on a GPU

An epoch-based benchmark. The epochs are the student's; before them, and inside the clock, the teacher is trained.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a script: python reference/<task>/train.py
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("", "logging")]
    __package__ = f"reference.{Path(__file__).resolve().parent.name}"

import torch

from reference.common import runs
from reference.common.errors import SetupError

from . import baselines, data, distillation, metric, model, samples


@dataclass(frozen=True)
class Settings:
    """All numbers of a run. The defaults are the full profile's: AIBench's, but for the teacher's epochs."""

    dataset: str = "gowalla"  # or check-ins, movielens-100k, walks
    held_out: str = "evaluation"  # what is ranked; validation, for tuning: other check-ins, else a part of training
    global_batch_size: int = 512  # moments a step, of teacher and student
    opt_name: str = "adam"  # for teacher and student
    opt_base_learning_rate: float = 0.001  # the student's; falls to 0 in a straight line over its epochs
    opt_weight_decay: float = 1e-6  # the student's; added to the gradient
    alone_learning_rate: float = 0.001  # of the student without a teacher, a baseline
    alone_weight_decay: float = 1e-6  # its, too
    student_dim: int = 50  # width of the student's embeddings
    student_dropout: float = 0.5  # of what its filters find
    teacher_learning_rate: float = 0.001  # falls to 0 in a straight line
    teacher_weight_decay: float = 1e-6  # as the student's
    teacher_dim: int = 100  # width of the teacher's embeddings
    teacher_dropout: float = 0.5  # as the student's
    teacher_epochs: int = 50  # before the student's first
    history_length: int = 5  # items that the next one is told from
    vertical_filters: int = 2  # of both models
    horizontal_filters: int = 16  # of both models, for each height
    first_spread: float = 1.0  # standard deviation of the tables' first values, times the width; of both models
    train_negatives: int = 3  # for every item taken, redrawn in each step
    distill_items: int = 10  # length of the teacher's lists
    distill_crossed: bool = False  # lists at histories beside other users than their own
    distill_confident: bool = False  # a listed item is a positive as far as the teacher is confident of it
    distill_negatives: int = 0  # items drawn against each list
    distill_weight: float = 1.0  # of the lists' loss beside that of what was taken
    distill_place_scale: float = 1.0  # places over which a list's weights fall by a factor e
    distill_rank_scale: float = 0.1  # of the difference between the student's and the teacher's place
    distill_rank_samples: int = 100  # items drawn to estimate the student's place
    distill_rank_start_epoch: int = 10  # epochs with weights by the teacher's place alone
    max_epochs: int = 50  # budget, the student's


PROFILES = {
    "full": Settings(),
    "embedded": Settings(
        dataset="check-ins",
        global_batch_size=256,
        opt_base_learning_rate=0.05,
        opt_weight_decay=2e-5,
        alone_learning_rate=0.05,
        alone_weight_decay=2e-5,
        student_dim=8,
        student_dropout=0.0,
        teacher_learning_rate=0.02,
        teacher_weight_decay=3e-5,
        teacher_dim=32,
        teacher_dropout=0.1,
        teacher_epochs=8,
        horizontal_filters=4,
        first_spread=4.0,
        train_negatives=10,
        distill_crossed=True,
        distill_confident=True,
        distill_negatives=20,
        distill_weight=4.0,
        distill_place_scale=10.0,
        distill_rank_start_epoch=5,  # never
        max_epochs=5,
    ),
    "smoke": Settings(
        dataset="walks",
        global_batch_size=64,
        opt_base_learning_rate=0.02,
        alone_learning_rate=0.02,
        student_dim=8,
        student_dropout=0.1,
        teacher_learning_rate=0.02,
        teacher_dim=16,
        teacher_dropout=0.1,
        teacher_epochs=4,
        horizontal_filters=4,
        distill_crossed=True,
        distill_confident=True,
        distill_negatives=3,
        distill_rank_start_epoch=1,
        max_epochs=2,
    ),
}
EVAL_USERS, LISTED_MOMENTS = 1024, 2048  # at once; change no result


def build(run: runs.Run) -> tuple[model.Caser, model.Caser]:
    """Teacher and student on the run's device. Raises SetupError for settings that make no sense."""
    hp: Settings = run.settings
    if hp.opt_name != "adam" or hp.held_out not in ("evaluation", "validation"):
        raise SetupError(f"known are adam and evaluation or validation, not {hp.opt_name} and {hp.held_out}")
    counted = hp.global_batch_size, hp.train_negatives, hp.distill_items, hp.distill_rank_samples
    counted += hp.teacher_epochs, hp.max_epochs
    if min(*counted, hp.distill_negatives + 1) < 1 or min(hp.distill_place_scale, hp.distill_rank_scale) <= 0:
        raise SetupError("batch size, negatives, items, samples, scales and epochs must be above 0")
    expected = data.expected(hp)
    if hp.distill_items > (left := expected.rows - hp.history_length - 2):
        raise SetupError(f"--distill-items {hp.distill_items}: at most {left} are left")
    size = hp.history_length, hp.vertical_filters, hp.horizontal_filters
    try:
        with run.device:
            teacher, student = (
                model.Caser(expected.users, expected.rows, dim, *size, dropout, hp.first_spread)
                for dim, dropout in ((hp.teacher_dim, hp.teacher_dropout), (hp.student_dim, hp.student_dropout))
            )
    except ValueError as error:
        raise SetupError(f"settings: {error}") from None
    return teacher, student


def adam(
    net: model.Caser, lr: float, weight_decay: float, steps: int
) -> tuple[torch.optim.Adam, torch.optim.lr_scheduler.LinearLR]:
    """The optimizer, and the schedule that takes its learning rate to 0 in a straight line of `steps`."""
    optimizer = torch.optim.Adam(net.parameters(), lr=lr, weight_decay=weight_decay, fused=True)
    return optimizer, torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps)


def train(run: runs.Run) -> None:
    hp: Settings = run.settings
    teacher, student = build(run)
    generator = torch.Generator(run.device).manual_seed(run.seed)

    with run.timed():
        train_set, held_out = data.load(run)
        with run.run_log.interval("teacher", {"epochs": hp.teacher_epochs}):
            settings = hp.teacher_learning_rate, hp.teacher_weight_decay, hp.teacher_epochs
            for _ in learning(run, teacher, *settings, train_set, generator):
                pass
            found, _ = metric.evaluate(scorer(teacher), held_out, held_out.batches(EVAL_USERS))
            run.run_log.event(f"teacher_{metric.JUDGED}", found[metric.JUDGED])
        every = torch.arange(len(train_set.users), device=run.device).split(LISTED_MOMENTS)
        lists = distillation.lists(teacher, train_set, run.progress(every), hp, generator)

        batches = train_set.batches(hp.global_batch_size, generator)
        steps = hp.max_epochs * len(batches)
        optimizer, schedule = adam(student, hp.opt_base_learning_rate, hp.opt_weight_decay, steps)
        for epoch in run.epochs(hp.max_epochs):
            student.train()
            for moments in run.progress(batches):
                loss = distillation.student_loss(student, train_set, moments, lists, epoch, hp, generator)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()

            with run.evaluation():
                users = run.progress(held_out.batches(EVAL_USERS))
                found, evaluated = metric.evaluate(scorer(student), held_out, users)
                precision = found.pop(metric.JUDGED)
                for name, value in found.items():
                    run.log(name, value)
                reached = run.reached(precision, evaluated)
            if reached:
                break
    if run.samples_dir is not None:
        path = run.samples_dir / f"{run.profile.name}_seed{run.seed}.txt"
        samples.write(path, {"teacher": scorer(teacher), "student": scorer(student)}, held_out, data.names(run))


def learning(
    run: runs.Run,
    net: model.Caser,
    lr: float,
    weight_decay: float,
    epochs: int,
    train_set: data.TrainSet,
    generator: torch.Generator,
) -> Iterator[int]:
    """Trains `net`, the teacher or a student without one, from what was taken; yields each epoch when it ends."""
    hp: Settings = run.settings
    batches = train_set.batches(hp.global_batch_size, generator)
    optimizer, schedule = adam(net, lr, weight_decay, epochs * len(batches))
    for epoch in range(1, (1 if run.rehearsing else epochs) + 1):
        net.train()
        for moments in run.progress(batches):
            loss = distillation.plain_loss(net, train_set, moments, hp.train_negatives, generator)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        yield epoch


def scorer(net: model.Caser) -> metric.Scorer:
    """The network as a ranking of all items."""
    return lambda users, histories: net.eval().score_all(net.represent(users, histories))


def naive_baselines(run: runs.Run) -> dict[str, float]:
    """Precision at 10 of rankings without a gradient, and of the student without a teacher."""
    train_set, held_out = data.load(run)
    values = {
        name: metric.evaluate(ranking, held_out, held_out.batches(EVAL_USERS))[0][metric.JUDGED]
        for name, ranking in baselines.rankings(train_set).items()
    }
    return {**values, "student_alone": student_alone(run, train_set, held_out)}


def student_alone(run: runs.Run, train_set: data.TrainSet, held_out: data.EvalSet) -> float:
    """The best precision at 10, over its epochs, of a student that learns alone, with settings of its own."""
    hp: Settings = run.settings
    _, student = build(run)
    generator = torch.Generator(run.device).manual_seed(run.seed)
    settings = hp.alone_learning_rate, hp.alone_weight_decay, hp.max_epochs
    best = 0.0
    for epoch in learning(run, student, *settings, train_set, generator):
        found, _ = metric.evaluate(scorer(student), held_out, held_out.batches(EVAL_USERS))
        run.run_log.event(f"student_alone_{metric.JUDGED}", found[metric.JUDGED], {"epochs": epoch})
        best = max(best, found[metric.JUDGED])
    return best


def main(argv: Sequence[str] | None = None) -> int:
    with runs.start(__file__, PROFILES, argv) as run:
        train(run.rehearsal())
        run.baselines(naive_baselines(run))
        train(run)
    return run.exit_status


if __name__ == "__main__":
    sys.exit(main())
