"""Object reconstruction (AIBench component 13): the 32^3 voxels of an object from one picture of it.

python -m reference.object_reconstruction_3d.train                            embedded: objects made by code
python -m reference.object_reconstruction_3d.train --profile smoke            seconds
python -m reference.object_reconstruction_3d.train --profile full --data-dir DIR --device cuda     ShapeNet
python -m reference.object_reconstruction_3d.train --samples DIR              also writes a sheet of shapes
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

from . import baselines, data, metric, model, samples


@dataclass(frozen=True)
class Settings:
    """All numbers of a run. The defaults are the full profile's."""

    held_out: str = "evaluation"  # what is evaluated; validation: other objects, to tune on
    image_size: int = 64  # pixels: side of a picture
    eval_views: int = 4  # pictures of an object that is judged: the mean of their IoUs counts
    mirrored: bool = True  # half of the training objects are seen in a mirror
    encoder_filters: tuple[int, ...] = (64, 128, 256)  # channels of the strided convolutions
    encoder_kernel: int = 5  # side of their kernels
    hidden_sizes: tuple[int, ...] = (1024, 1024)  # widths of the linear layers before the code
    code_size: int = 512  # width of the code
    decoder_filters: tuple[int, ...] = (512, 256, 96)  # channels at 4^3, 8^3 and 16^3 voxels
    decoder_kernels: tuple[int, ...] = (4, 5, 6)  # sides of the transposed convolutions' kernels
    batch_norm: bool = False  # after each layer but the last
    filled_share: float = 0.05  # of the voxels, as the last layer's bias assumes it at first
    filled_weight: float = 1.0  # of a filled voxel in the loss, beside 1 of an empty one
    overlap_weight: float = 0.0  # of the smooth IoU's distance from 1 in the loss, beside the cross-entropy's mean
    average_decay: float = 0.0  # of the running mean of the weights that is evaluated; 0: the weights themselves
    opt_name: str = "adam"
    opt_base_learning_rate: float = 1e-4
    opt_weight_decay: float = 1e-3  # added to the gradient
    opt_learning_rate_warmup_steps: int = 0  # steps from 0 to the base rate
    lr_decay_start_epoch: float = 20.0  # epochs after which the rate falls, linearly to 0 at max_epochs
    global_batch_size: int = 64  # pictures a step
    max_epochs: int = 40  # budget


SMALL = Settings(
    image_size=32,
    encoder_filters=(32, 64, 128, 256),
    encoder_kernel=3,
    hidden_sizes=(),
    code_size=384,
    decoder_filters=(64, 48, 8),
    decoder_kernels=(4, 2, 2),
    batch_norm=True,
    filled_weight=1.5,
    overlap_weight=1.0,
    average_decay=0.985,
    opt_base_learning_rate=5e-3,
    opt_weight_decay=0.0,
    opt_learning_rate_warmup_steps=20,
    lr_decay_start_epoch=9.0,
    global_batch_size=24,
    max_epochs=48,
)
PROFILES = {
    "full": Settings(),
    "embedded": SMALL,
    "smoke": Settings(
        **{
            **vars(SMALL),
            "filled_weight": 10.0,
            "opt_learning_rate_warmup_steps": 2,
            "global_batch_size": 6,
            "max_epochs": 2,
        }
    ),
}
EVAL_BATCH = 50  # objects reconstructed at once; changes no result


def learning_rate(hp: Settings, step: int, steps_an_epoch: int) -> float:
    """The rate of the step with this number, from 1: a linear rise, a plateau, a linear fall to 0 at the end."""
    if step <= hp.opt_learning_rate_warmup_steps:
        return hp.opt_base_learning_rate * step / hp.opt_learning_rate_warmup_steps
    fallen = (step - 1) / steps_an_epoch - hp.lr_decay_start_epoch
    span = max(hp.max_epochs - hp.lr_decay_start_epoch, 1e-9)
    return hp.opt_base_learning_rate * (1 - min(max(fallen / span, 0.0), 1.0))


def build(run: runs.Run) -> tuple[model.Reconstructor, model.Average, torch.optim.Adam]:
    """The network, the average of its weights and its optimizer. Raises SetupError for settings that make no sense."""
    hp: Settings = run.settings
    if hp.opt_name != "adam" or min(hp.global_batch_size, hp.max_epochs) < 1:
        raise runs.SetupError("known is adam; --global-batch-size and --max-epochs must be at least 1")
    if not 0 < hp.filled_share < 1:
        raise runs.SetupError(f"--filled-share must lie between 0 and 1, not {hp.filled_share}")
    try:
        net = model.Reconstructor(
            hp.image_size,
            hp.encoder_filters,
            hp.encoder_kernel,
            hp.hidden_sizes,
            hp.code_size,
            hp.decoder_filters,
            hp.decoder_kernels,
            hp.batch_norm,
        )
        net.start_from(hp.filled_share)
        net = net.to(run.device)
        optimizer = torch.optim.Adam(net.parameters(), hp.opt_base_learning_rate, weight_decay=hp.opt_weight_decay)
        return net, model.Average(net, hp.average_decay), optimizer
    except ValueError as error:
        raise runs.SetupError(f"settings: {error}") from None


def train(run: runs.Run) -> None:
    hp: Settings = run.settings
    net, average, optimizer = build(run)
    net.train()
    step = 0

    with run.timed():
        train_set, held_out = data.load(run)
        steps_an_epoch = -(-len(train_set) // hp.global_batch_size)
        filled_weight = torch.tensor(hp.filled_weight, device=run.device)
        for _ in run.epochs(hp.max_epochs):
            batches = train_set.batches(hp.global_batch_size, hp.mirrored)
            for pictures, voxels in run.progress(batches, total=steps_an_epoch):
                step += 1
                optimizer.param_groups[0]["lr"] = learning_rate(hp, step, steps_an_epoch)
                logits = net(pictures)
                loss = F.binary_cross_entropy_with_logits(logits, voxels, pos_weight=filled_weight)
                if hp.overlap_weight:
                    loss = loss + hp.overlap_weight * (1 - model.smooth_iou(logits, voxels).mean())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                average.update(net)

            if not run.evaluation_due:
                continue
            with run.evaluation():
                pairs = held_out.evaluation(EVAL_BATCH, hp.eval_views)
                value, each, evaluated = metric.mean_iou(average.net, run.progress(pairs))
                if not run.rehearsing:
                    run.log("mean_iou_by_class", metric.by_class(each, held_out.classes))
                reached = run.reached(value, evaluated)
            if reached:
                break
    if run.samples_dir is not None:
        samples.write(run, average.net, held_out)


def naive_baselines(run: runs.Run) -> dict[str, float]:
    """Mean IoU of voxels that no network made."""
    return baselines.scores(*data.load(run), run.settings.eval_views)


def main(argv: Sequence[str] | None = None) -> int:
    with runs.start(__file__, PROFILES, argv) as run:
        train(run.rehearsal())
        run.baselines(naive_baselines(run))
        train(run)
    return run.exit_status


if __name__ == "__main__":
    sys.exit(main())
