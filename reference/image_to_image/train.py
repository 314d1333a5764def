"""Image to image (AIBench component 5): translate street photos to label maps with CycleGAN, without pairs.

python -m reference.image_to_image.train                            embedded: street scenes made by code
python -m reference.image_to_image.train --profile smoke            seconds
python -m reference.image_to_image.train --profile full --data-dir DIR --device cuda     Cityscapes
python -m reference.image_to_image.train --samples DIR              also writes a sheet of translated pictures
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a script: python reference/<task>/train.py
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("", "logging")]
    __package__ = f"reference.{Path(__file__).resolve().parent.name}"

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from reference.common import pictures, runs

from . import baselines, data, metric, model


@dataclass(frozen=True)
class Settings:
    """All numbers of a run. The defaults are the full profile's: CycleGAN's own settings for 256-pixel pictures."""

    held_out: str = "evaluation"  # what is evaluated; validation: other pictures, to tune on
    load_size: int = 286  # pixels: training pictures are read at this size
    image_size: int = 256  # pixels: and cropped to this one, at which the evaluation's are read
    generator_filters: int = 64  # channels of its first layer
    generator_downsamplings: int = 2  # each halves the side and doubles the channels
    residual_blocks: int = 9  # between
    outer_kernel: int = 7  # side of the first and last kernel
    strided_kernel: int = 3  # side of the kernels that change the size
    discriminator_filters: int = 64  # channels of its first layer
    discriminator_layers: int = 3  # that halve the side
    discriminator_head_kernel: int = 4  # side of its last two kernels
    affine_norm: bool = False  # instance normalisation learns a scale and an offset
    cycle_weight_photos: float = 10.0  # of the absolute error of photo -> labels -> photo
    cycle_weight_labels: float = 10.0  # of the absolute error of labels -> photo -> labels
    identity_weight: float = 5.0  # of the change that a generator makes to a picture of the kind that it makes
    history_size: int = 50  # made-up pictures kept for each discriminator
    average_decay: float = 0.0  # what is evaluated is an average of the generator over steps; 0: the generator itself
    opt_name: str = "adam"  # for all four networks
    opt_base_learning_rate: float = 2e-4  # of all four
    opt_adam_beta_1: float = 0.5  # decay of the gradient's average
    opt_adam_beta_2: float = 0.999  # decay of its square's average
    opt_learning_rate_warmup_steps: int = 0  # steps from 0 to the base rate
    lr_decay_start_epoch: float = 100.0  # epochs after which the rate falls, linearly to 0 at max_epochs
    global_batch_size: int = 1  # pictures of each kind a step
    max_epochs: int = 200  # budget


SMALL = Settings(
    load_size=32,
    image_size=32,
    generator_filters=16,
    generator_downsamplings=1,
    residual_blocks=4,
    outer_kernel=5,
    strided_kernel=4,
    discriminator_filters=24,
    discriminator_layers=2,
    discriminator_head_kernel=3,
    affine_norm=True,
    cycle_weight_photos=1.0,
    identity_weight=2.0,
    average_decay=0.995,
    opt_base_learning_rate=5e-4,
    opt_learning_rate_warmup_steps=20,
    lr_decay_start_epoch=2.5,
    max_epochs=7,
)
PROFILES = {
    "full": Settings(),
    "embedded": SMALL,
    "smoke": Settings(**{**vars(SMALL), "residual_blocks": 1, "opt_learning_rate_warmup_steps": 2, "max_epochs": 2}),
}
EVAL_BATCH = 50  # pictures translated at once; changes no result


def learning_rate(hp: Settings, step: int, steps_an_epoch: int) -> float:
    """The rate of the step with this number, from 1: a linear rise, a plateau, a linear fall to 0 at the end."""
    if step <= hp.opt_learning_rate_warmup_steps:
        return hp.opt_base_learning_rate * step / hp.opt_learning_rate_warmup_steps
    fallen = (step - 1) / steps_an_epoch - hp.lr_decay_start_epoch
    span = max(hp.max_epochs - hp.lr_decay_start_epoch, 1e-9)
    return hp.opt_base_learning_rate * (1 - min(max(fallen / span, 0.0), 1.0))


def train(run: runs.Run) -> None:
    hp: Settings = run.settings
    to_labels, to_photos = generator(hp).to(run.device), generator(hp).to(run.device)
    label_critic, photo_critic = discriminator(hp).to(run.device), discriminator(hp).to(run.device)
    average = deepcopy(to_labels).requires_grad_(False)  # what is evaluated
    made_labels, made_photos = model.History(hp.history_size), model.History(hp.history_size)
    generators, critics = nn.ModuleList([to_labels, to_photos]), nn.ModuleList([label_critic, photo_critic])
    betas = hp.opt_adam_beta_1, hp.opt_adam_beta_2
    optimizers = [torch.optim.Adam(nets.parameters(), betas=betas) for nets in (generators, critics)]
    step = 0

    with run.timed():
        found = data.load(run)
        steps_an_epoch = -(-len(found) // hp.global_batch_size)
        for _ in run.epochs(hp.max_epochs):
            for photos, labels in run.progress(found.batches(hp.global_batch_size), total=steps_an_epoch):
                step += 1
                for group in (*optimizers[0].param_groups, *optimizers[1].param_groups):
                    group["lr"] = learning_rate(hp, step, steps_an_epoch)

                critics.requires_grad_(False)
                fake_labels, same_labels = to_labels(torch.cat([photos, labels])).chunk(2)
                fake_photos, same_photos = to_photos(torch.cat([labels, photos])).chunk(2)
                loss = judged(label_critic(fake_labels), real=True) + judged(photo_critic(fake_photos), real=True)
                loss = loss + hp.cycle_weight_photos * F.l1_loss(to_photos(fake_labels), photos)
                loss = loss + hp.cycle_weight_labels * F.l1_loss(to_labels(fake_photos), labels)
                identity = F.l1_loss(same_labels, labels) + F.l1_loss(same_photos, photos)
                loss = loss + hp.identity_weight * identity
                optimizers[0].zero_grad()
                loss.backward()
                optimizers[0].step()
                model.follow(average, to_labels, hp.average_decay)

                critics.requires_grad_(True)
                loss = judged(label_critic(labels), real=True) + judged(photo_critic(photos), real=True)
                loss = loss + judged(label_critic(made_labels.mixed(fake_labels)), real=False)
                loss = loss + judged(photo_critic(made_photos.mixed(fake_photos)), real=False)
                optimizers[1].zero_grad()
                (0.5 * loss).backward()
                optimizers[1].step()

            with run.evaluation():
                pairs = found.evaluation(EVAL_BATCH)
                confusion = metric.evaluate(average, found.palette, run.progress(pairs))
                for name, value in confusion.scores().items():
                    run.log(name, value)
                reached = run.reached(confusion.scores()[run.profile.quality_metric], confusion.images)
            if reached:
                break
    if run.samples_dir is not None:
        write_samples(run, found, average, to_photos)


def generator(hp: Settings) -> model.Generator:
    return model.Generator(
        hp.generator_filters,
        hp.generator_downsamplings,
        hp.residual_blocks,
        hp.outer_kernel,
        hp.strided_kernel,
        hp.affine_norm,
    )


def discriminator(hp: Settings) -> model.Discriminator:
    return model.Discriminator(
        hp.discriminator_filters, hp.discriminator_layers, hp.discriminator_head_kernel, hp.affine_norm
    )


def judged(verdicts: Tensor, real: bool) -> Tensor:
    """Least-squares loss of a discriminator's verdicts against 1, for `real`, or 0."""
    return F.mse_loss(verdicts, torch.full_like(verdicts, float(real)))


@torch.no_grad()
def write_samples(run: runs.Run, found: data.Pictures, to_labels: nn.Module, to_photos: nn.Module) -> None:
    """A sheet of 12 columns: photo, its translation, the true labels, and those translated to a photo."""
    photos, maps = next(found.evaluation(12))
    truth = found.coloured(maps)
    rows = [photos, to_labels(photos), truth, to_photos(truth)]
    pictures.write_sheet(run.samples_dir / f"{run.profile.name}_seed{run.seed}.png", rows, max(128 // found.size, 1))


def naive_baselines(run: runs.Run) -> dict[str, float]:
    found = data.load(run)
    train_photos = data.scaled(found.photos[: baselines.FIT_IMAGES, :, : found.size, : found.size])
    maps = found.maps[: baselines.FIT_IMAGES, : found.size, : found.size]
    held_out = data.scaled(found.eval_photos), found.eval_maps
    return baselines.scores(train_photos, maps, held_out, found.palette, run.profile.quality_metric)


def main(argv: Sequence[str] | None = None) -> int:
    with runs.start(__file__, PROFILES, argv) as run:
        train(run.rehearsal())
        run.baselines(naive_baselines(run))
        train(run)
    return run.exit_status


if __name__ == "__main__":
    sys.exit(main())
