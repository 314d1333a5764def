"""Image generation (AIBench component 2): train a WGAN until what it makes is near enough to real images.

python -m reference.image_generation.train                          embedded: 5,000 real digits
python -m reference.image_generation.train --profile smoke          seconds, on drawn digits
python -m reference.image_generation.train --profile full --data-dir DIR --device cuda     LSUN bedrooms
python -m reference.image_generation.train --samples DIR            also writes a sheet of made-up images
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a script: python reference/<task>/train.py
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("", "logging")]
    __package__ = f"reference.{Path(__file__).resolve().parent.name}"

import torch
from torch import Tensor, nn

from reference.common import pictures, runs

from . import baselines, data, metric, model


@dataclass(frozen=True)
class Settings:
    """All numbers of a run. The defaults are the full profile's: WGAN's own settings for bedrooms of 64 pixels."""

    held_out: str = "evaluation"  # what is compared with; validation: training images, to tune on
    image_size: int = 64  # pixels: 4, doubled by each width
    latent_size: int = 100  # of the generator's input, normal
    generator_widths: tuple[int, ...] = (512, 256, 128, 64)  # channels before each of its doublings
    critic_widths: tuple[int, ...] = (64, 128, 256, 512)  # channels after each of its halvings
    clip: float = 0.01  # every parameter of the critic stays within this
    critic_steps: int = 5  # for each step of the generator
    critic_steps_boosted: int = 100  # for each of the generator's first steps, and now and then
    boosted_steps: int = 25  # how many first steps of the generator those are
    boosted_every: int = 500  # and every which step after them; 0: none
    average_decay: float = 0.0  # what is evaluated is an average of the generator over steps; 0: the generator itself
    opt_name: str = "rmsprop"  # of both networks
    opt_base_learning_rate: float = 5e-5  # of the generator
    critic_learning_rate: float = 5e-5  # of the critic
    lr_decay_start_epoch: float = 25.0  # epochs after which both fall, linearly to 0 at max_epochs
    global_batch_size: int = 64  # real images a step of the critic, and made-up ones a step of either
    max_epochs: int = 25  # budget


SMALL = Settings(
    image_size=32,
    latent_size=64,
    generator_widths=(32, 32, 16),
    critic_widths=(16, 32, 64),
    critic_steps=2,
    boosted_steps=0,
    boosted_every=0,
    average_decay=0.98,
    opt_base_learning_rate=2e-3,
    critic_learning_rate=5e-4,
    lr_decay_start_epoch=5.0,
    global_batch_size=32,
    max_epochs=26,
)
PROFILES = {
    "full": Settings(),
    "embedded": SMALL,
    "smoke": Settings(**{**vars(SMALL), "global_batch_size": 16, "lr_decay_start_epoch": 1.0, "max_epochs": 2}),
}
EVAL_BATCH = 500  # images made at once; changes no result
LATENT_SEED = 1  # of the latent vectors that every evaluation uses


def critic_steps_before(hp: Settings, step: int) -> int:
    """Steps of the critic before the generator's step with this number, from 0."""
    boosted = step < hp.boosted_steps or (hp.boosted_every > 0 and step % hp.boosted_every == 0)
    return hp.critic_steps_boosted if boosted else hp.critic_steps


def learning_rate_factor(hp: Settings, epochs: float) -> float:
    """What the base rates are multiplied with after so many epochs: 1, then a linear fall to 0 at the end."""
    span = max(hp.max_epochs - hp.lr_decay_start_epoch, 1e-9)
    return 1 - min(max((epochs - hp.lr_decay_start_epoch) / span, 0.0), 1.0)


def train(run: runs.Run, judge: metric.Judge) -> None:
    hp: Settings = run.settings
    channels = 3 if run.profile.name == "full" else 1
    generator = model.Generator(hp.latent_size, hp.generator_widths, channels).to(run.device)
    critic = model.Critic(hp.critic_widths, channels).to(run.device)
    average = deepcopy(generator).requires_grad_(False).eval()  # what is evaluated
    make_optimizer = {"rmsprop": torch.optim.RMSprop, "adam": torch.optim.Adam}[hp.opt_name]
    generator_optimizer = make_optimizer(generator.parameters(), hp.opt_base_learning_rate)
    critic_optimizer = make_optimizer(critic.parameters(), hp.critic_learning_rate)
    seen, step, due = 0, 0, critic_steps_before(hp, 0)

    def latent(count: int) -> Tensor:
        return torch.randn(count, hp.latent_size, device=run.device)

    with run.timed():
        images = data.load(run)
        steps_an_epoch = images.steps(hp.global_batch_size)
        for _ in run.epochs(hp.max_epochs):
            estimates = []
            for real in run.progress(images.batches(hp.global_batch_size), total=steps_an_epoch):
                factor = learning_rate_factor(hp, seen / steps_an_epoch)
                set_rate(critic_optimizer, factor * hp.critic_learning_rate)
                set_rate(generator_optimizer, factor * hp.opt_base_learning_rate)
                seen, due = seen + 1, due - 1

                critic.requires_grad_(True)
                with torch.no_grad():
                    made = generator(latent(len(real)))
                estimate = critic(real).mean() - critic(made).mean()  # apart: the two kinds have other statistics
                critic_optimizer.zero_grad()
                (-estimate).backward()
                critic_optimizer.step()
                critic.clip(hp.clip)
                estimates.append(estimate.detach())

                if due == 0 or run.rehearsing:
                    critic.requires_grad_(False)
                    loss = -critic(generator(latent(len(real)))).mean()
                    generator_optimizer.zero_grad()
                    loss.backward()
                    generator_optimizer.step()
                    model.follow(average, generator, hp.average_decay)
                    step += 1
                    due = critic_steps_before(hp, step)

            with run.evaluation():
                run.log("wasserstein_estimate", float(torch.stack(estimates).mean()))
                made_up = generated(average, hp.latent_size, len(images.held_out), run.device)
                reached = run.reached(
                    *judge.distance(run.progress(made_up, total=-(-len(images.held_out) // EVAL_BATCH)))
                )
            if reached:
                break
    if run.samples_dir is not None:
        sheet = torch.cat(list(generated(average, hp.latent_size, 160, run.device)))
        write_samples(run, [images.held_out[:32], *sheet.split(32)])


@torch.no_grad()
def generated(generator: nn.Module, latent_size: int, count: int, device: torch.device) -> Iterator[Tensor]:
    """`count` images from latent vectors that are the same in every evaluation of every run."""
    draws = torch.Generator().manual_seed(LATENT_SEED)
    for vectors in torch.randn(count, latent_size, generator=draws).split(EVAL_BATCH):
        yield generator(vectors.to(device))


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def write_samples(run: runs.Run, rows: Sequence[Tensor]) -> None:
    """A sheet: the first row is real, the others are made up."""
    coloured = [row.expand(-1, 3, -1, -1) for row in rows]
    pictures.write_sheet(run.samples_dir / f"{run.profile.name}_seed{run.seed}.png", coloured, zoom=2)


def main(argv: Sequence[str] | None = None) -> int:
    with runs.start(__file__, PROFILES, argv) as run:
        images = data.load(run)
        known, labels = images.fitting()
        judge = metric.Judge(metric.trained(known, labels), images.held_out)
        train(run.rehearsal(), judge)
        run.baselines(baselines.distances(judge, known, labels, len(images.held_out)))
        train(run, judge)
    return run.exit_status


if __name__ == "__main__":
    sys.exit(main())
