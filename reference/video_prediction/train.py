"""Video prediction (AIBench component 11): the next eight frames of a robot that pushes objects, by CDNA.

python -m reference.video_prediction.train                            embedded: pushing made by code
python -m reference.video_prediction.train --profile smoke            seconds
python -m reference.video_prediction.train --profile full --data-dir DIR --device cuda     BAIR's robot
python -m reference.video_prediction.train --samples DIR              also writes predicted clips, as a GIF
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a script: python reference/<task>/train.py
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("", "logging")]
    __package__ = f"reference.{Path(__file__).resolve().parent.name}"

import torch
from torch import Tensor
from torch.nn import functional as F

from reference.common import runs

from . import baselines, data, metric, model, pushing, samples


@dataclass(frozen=True)
class Settings:
    """All numbers of a run. The defaults are the full profile's."""

    held_out: str = "evaluation"  # what is evaluated; validation: other clips, to tune on
    image_size: int = 64  # pixels: side of a frame
    flipped: bool = False  # training clips are turned over left to right and top to bottom, each half the time
    filters: tuple[int, ...] = (32, 32, 64)  # channels of the strided convolutions
    lstms: tuple[int, ...] = (2, 2, 1)  # convolutional LSTMs after each of them
    lstm_filters: tuple[int, ...] = (32, 64, 128)  # their channels
    decoder_lstms: tuple[int, ...] = (64, 32)  # channels of the LSTMs between the transposed ones; 0: none
    lstm_kernel: int = 5  # side of the LSTMs' kernels
    cdna_kernels: int = 10  # that move the last frame
    cdna_kernel_size: int = 5  # their side
    scheduled_sampling_k: float = 900.0  # steps: true frames are fed with probability k / (k + exp(step / k))
    first_horizon: int = 8  # frames predicted in the first training steps
    full_horizon_epoch: float = 0.0  # epochs after which all are predicted; between, linearly more
    state_weight: float = 1e-4  # of the squared error of the robot's predicted state
    opt_name: str = "adam"
    opt_base_learning_rate: float = 1e-3
    opt_gradient_clip_norm: float = 1e9  # of all gradients together
    opt_learning_rate_warmup_steps: int = 0  # steps from 0 to the base rate
    lr_decay_start_epoch: float = 74.0  # epochs after which the rate falls, linearly to 0 at max_epochs
    global_batch_size: int = 32  # clips a step
    max_epochs: int = 74  # budget: 100,000 steps


SMALL = Settings(
    image_size=24,
    flipped=True,
    filters=(12, 24),
    lstms=(0, 2),
    lstm_filters=(12, 24),
    decoder_lstms=(0,),
    lstm_kernel=3,
    cdna_kernels=6,
    scheduled_sampling_k=20.0,
    first_horizon=2,
    full_horizon_epoch=5.0,
    opt_base_learning_rate=4e-3,
    opt_gradient_clip_norm=0.1,
    opt_learning_rate_warmup_steps=30,
    lr_decay_start_epoch=4.0,
    global_batch_size=16,
    max_epochs=12,
)
PROFILES = {
    "full": Settings(),
    "embedded": SMALL,
    "smoke": Settings(
        **{**vars(SMALL), "opt_learning_rate_warmup_steps": 2, "full_horizon_epoch": 1.0, "max_epochs": 2}
    ),
}
EVAL_BATCH = 50  # clips predicted at once; changes no result


def learning_rate(hp: Settings, step: int, steps_an_epoch: int) -> float:
    """The rate of the step with this number, from 1: a linear rise, a plateau, a linear fall to 0 at the end."""
    if step <= hp.opt_learning_rate_warmup_steps:
        return hp.opt_base_learning_rate * step / hp.opt_learning_rate_warmup_steps
    fallen = (step - 1) / steps_an_epoch - hp.lr_decay_start_epoch
    span = max(hp.max_epochs - hp.lr_decay_start_epoch, 1e-9)
    return hp.opt_base_learning_rate * (1 - min(max(fallen / span, 0.0), 1.0))


def true_share(k: float, step: int) -> float:
    """Scheduled sampling: how often a true frame is fed at the step with this number, from 1."""
    return k / (k + math.exp(min((step - 1) / k, 700.0)))


def horizon(hp: Settings, step: int, steps_an_epoch: int) -> int:
    """How many frames are predicted at the step with this number, from 1."""
    part = (step - 1) / max(hp.full_horizon_epoch * steps_an_epoch, 1e-9)
    return min(hp.first_horizon + int(part * (data.PREDICTED - hp.first_horizon + 1)), data.PREDICTED)


def build(run: runs.Run) -> tuple[model.CDNA, torch.optim.Adam]:
    """The network and its optimizer on the run's device. Raises SetupError for settings that make no sense."""
    hp: Settings = run.settings
    if hp.opt_name != "adam" or min(hp.global_batch_size, hp.max_epochs, hp.cdna_kernels) < 1:
        raise runs.SetupError("known is adam; --global-batch-size, --max-epochs, --cdna-kernels must be at least 1")
    if not 1 <= hp.first_horizon <= data.PREDICTED or hp.scheduled_sampling_k <= 0:
        raise runs.SetupError(f"--first-horizon must be 1 to {data.PREDICTED}, --scheduled-sampling-k above 0")
    try:
        sizes = (hp.image_size, *data.SIZES[run.profile.name], hp.filters, hp.lstms, hp.lstm_filters)
        net = model.CDNA(*sizes, hp.decoder_lstms, hp.lstm_kernel, hp.cdna_kernels, hp.cdna_kernel_size)
        net = net.to(run.device)
        return net, torch.optim.Adam(net.parameters(), hp.opt_base_learning_rate)
    except ValueError as error:
        raise runs.SetupError(f"settings: {error}") from None


def train(run: runs.Run) -> None:
    hp: Settings = run.settings
    net, optimizer = build(run)
    step = 0

    with run.timed():
        train_set, held_out = data.load(run)
        steps_an_epoch = -(-len(train_set) // hp.global_batch_size)
        for _ in run.epochs(hp.max_epochs):
            batches = train_set.batches(hp.global_batch_size, hp.flipped)
            for frames, actions, states in run.progress(batches, total=steps_an_epoch):
                step += 1
                optimizer.param_groups[0]["lr"] = learning_rate(hp, step, steps_an_epoch)
                ahead = data.PREDICTED if run.rehearsing else horizon(hp, step, steps_an_epoch)
                share = true_share(hp.scheduled_sampling_k, step)
                made, followed = model.rollout(net, frames, actions, states, data.CONTEXT, ahead, share)
                until = data.CONTEXT + ahead
                loss = F.mse_loss(made, frames[:, data.CONTEXT : until])
                loss = loss + hp.state_weight * F.mse_loss(followed, states[:, data.CONTEXT : until])
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(net.parameters(), hp.opt_gradient_clip_norm)
                optimizer.step()

            with run.evaluation():
                errors = metric.total(predictions(net, run.progress(held_out.evaluation(EVAL_BATCH))))
                run.log("psnr", errors.psnr())
                run.log("mse_by_step", errors.mse_by_step())
                run.log("moving_psnr", metric.decibels(errors.moving_mse()))
                reached = run.reached(errors.mse_per_frame(), errors.clips)
            if reached:
                break
    swapped = metric.total(predictions(net, run.progress(held_out.evaluation(EVAL_BATCH)), swapped=True))
    run.log("mse_with_swapped_actions", swapped.mse_per_frame())
    if run.samples_dir is not None:
        write_samples(run, net, held_out)


@torch.no_grad()
def predictions(
    net: model.CDNA, batches: Iterator[data.Batch], swapped: bool = False
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Predicted frames, true ones and the last one seen. swapped: each clip gets the actions of another one."""
    for frames, actions, states in batches:
        given = actions.roll(1, 0) if swapped else actions
        made, _ = model.rollout(net, frames[:, : data.CONTEXT], given, states[:, :1], data.CONTEXT, data.PREDICTED)
        yield made, frames[:, data.CONTEXT :], frames[:, data.CONTEXT - 1]


def write_samples(run: runs.Run, net: model.CDNA, held_out: data.Part) -> None:
    frames, actions, states = next(held_out.evaluation(samples.CLIPS))
    path = run.samples_dir / f"{run.profile.name}_seed{run.seed}.gif"
    samples.write(path, frames, lambda _: next(predictions(net, iter([(frames, actions, states)])))[0])


def naive_baselines(run: runs.Run) -> dict[str, float]:
    """The squared error per frame of predictions that no network made."""
    _, held_out = data.load(run)
    frames, actions, states = (torch.cat(parts) for parts in zip(*held_out.evaluation(EVAL_BATCH), strict=True))
    gripper = None if run.profile.name == "full" else (pushing.GRIPPER, pushing.UNIT)
    return baselines.scores(frames, states, actions, data.CONTEXT, gripper)


def main(argv: Sequence[str] | None = None) -> int:
    with runs.start(__file__, PROFILES, argv) as run:
        train(run.rehearsal())
        run.baselines(naive_baselines(run))
        train(run)
    return run.exit_status


if __name__ == "__main__":
    sys.exit(main())
