"""Image compression (AIBench component 12): a recurrent codec whose every step adds bits to what is still missing.

python -m reference.image_compression.train                            embedded: scanned digits, 64 bits each
python -m reference.image_compression.train --profile smoke            seconds
python -m reference.image_compression.train --profile full --data-dir DIR --device cuda     ImageNet
python -m reference.image_compression.train --samples DIR              also writes a sheet of decoded pictures
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

import numpy as np
import torch
from torch import Tensor, nn

from reference.common import pictures, runs

from . import baselines, data, metric, model


@dataclass(frozen=True)
class Settings:
    """All numbers of a run. The defaults are the full profile's."""

    held_out: str = "evaluation"  # what is evaluated; validation: pictures out of the training set, to tune on
    crop_size: int = 32  # pixels of a training crop
    channels: int = 3  # of a picture
    encoder_widths: tuple[int, ...] = (64, 256, 512, 512)  # channels of a convolution and of the LSTMs after it
    decoder_widths: tuple[int, ...] = (512, 512, 256, 128)  # channels of its LSTMs
    decoder_hidden_kernels: tuple[int, ...] = (1, 1, 3, 3)  # sides of the kernels over their own last output
    bits_per_cell: int = 32  # that a step adds to each cell: 16x16 pixels, where the encoder halves four times
    coding_steps: int = 16  # of training and of the judged picture
    stochastic_bits: bool = True  # in training a bit is drawn, with the mean that the encoder gives
    shortcut: bool = False  # a 1x1 convolution past each LSTM
    value_gain: float = 0.0  # start of the kernels with variance 1 / fan-in, those of new values times this; 0: torch's
    loss: str = "absolute"  # of what is missing after each step, averaged over steps; or squared
    opt_name: str = "adam"
    opt_base_learning_rate: float = 5e-4
    opt_adam_beta_2: float = 0.999  # decay of the average of the gradient's square
    opt_learning_rate_warmup_steps: int = 0  # steps from 0 to the base rate
    opt_learning_rate_decay_boundary_epochs: tuple[int, ...] = (3, 10, 20, 50, 100)  # after which it falls
    opt_learning_rate_decay_factor: float = 0.5  # to this part
    opt_gradient_clip_norm: float = 0.0  # largest norm of the whole gradient; 0: any
    average_decay: float = 0.0  # what is evaluated is an average of the codec over steps; 0: the codec itself
    global_batch_size: int = 32  # pictures or crops a step
    max_epochs: int = 20  # budget


SMALL = Settings(
    crop_size=16,
    channels=1,
    encoder_widths=(48, 64, 96),
    decoder_widths=(96, 96, 32),
    decoder_hidden_kernels=(1, 1, 1),
    bits_per_cell=8,
    coding_steps=2,
    stochastic_bits=False,
    shortcut=True,
    value_gain=2.0,
    loss="squared",
    opt_base_learning_rate=5e-3,
    opt_adam_beta_2=0.99,
    opt_learning_rate_warmup_steps=20,
    opt_learning_rate_decay_boundary_epochs=(6, 8, 9, 10, 11),
    opt_gradient_clip_norm=1.0,
    average_decay=0.995,
    global_batch_size=16,
    max_epochs=12,
)
PROFILES = {
    "full": Settings(),
    "embedded": SMALL,
    "smoke": Settings(**{**vars(SMALL), "encoder_widths": (8, 8, 8), "decoder_widths": (8, 8, 8), "max_epochs": 2}),
}
EVAL_BATCH = 100  # pictures coded at once; changes no result
FIT_BATCHES = 200  # of training pictures, at most, that the baselines are fitted to
LOSSES = {"absolute": Tensor.abs, "squared": Tensor.square}


def learning_rate(hp: Settings, step: int, epoch: int) -> float:
    """The rate of this step, from 1, in this epoch, from 1: a linear rise, then the base rate with its falls."""
    if step <= hp.opt_learning_rate_warmup_steps:
        return hp.opt_base_learning_rate * step / hp.opt_learning_rate_warmup_steps
    passed = sum(epoch > boundary for boundary in hp.opt_learning_rate_decay_boundary_epochs)
    return hp.opt_base_learning_rate * hp.opt_learning_rate_decay_factor**passed


def build(hp: Settings) -> model.Codec:
    """The codec; raises SetupError for settings that make none."""
    if hp.loss not in LOSSES:
        raise runs.SetupError(f"--loss is absolute or squared, not {hp.loss}")
    if not len(hp.encoder_widths) == len(hp.decoder_widths) == len(hp.decoder_hidden_kernels):
        raise runs.SetupError("--encoder-widths, --decoder-widths and --decoder-hidden-kernels need the same length")
    if any(width % 4 for width in hp.decoder_widths):
        raise runs.SetupError(f"--decoder-widths must be multiples of 4, not {hp.decoder_widths}")
    kernels = hp.decoder_hidden_kernels
    widths = hp.encoder_widths, hp.decoder_widths
    codec = model.Codec(hp.channels, *widths, kernels, hp.bits_per_cell, hp.stochastic_bits, hp.shortcut)
    if hp.crop_size % codec.cell:
        raise runs.SetupError(f"--crop-size {hp.crop_size} is no multiple of a cell's {codec.cell} pixels")
    if hp.value_gain:
        codec.start_with(hp.value_gain)
    return codec


def train(run: runs.Run) -> None:
    hp: Settings = run.settings
    codec = build(hp).to(run.device)
    average = deepcopy(codec).requires_grad_(False).eval()  # what is evaluated
    optimizer = torch.optim.Adam(codec.parameters(), betas=(0.9, hp.opt_adam_beta_2))
    size_of = LOSSES[hp.loss]
    step = 0

    with run.timed():
        found = data.load(run)
        batches = -(-len(found.train) // hp.global_batch_size)
        for epoch in run.epochs(hp.max_epochs):
            for raw in run.progress(found.train.batches(hp.global_batch_size, run.device), total=batches):
                step += 1
                for group in optimizer.param_groups:
                    group["lr"] = learning_rate(hp, step, epoch)
                true = raw.float() / 255 - 0.5
                decoded = codec(true, hp.coding_steps)
                loss = torch.stack([size_of(true - picture).mean() for picture in decoded]).mean()
                optimizer.zero_grad()
                loss.backward()
                if hp.opt_gradient_clip_norm:
                    nn.utils.clip_grad_norm_(codec.parameters(), hp.opt_gradient_clip_norm)
                optimizer.step()
                model.follow(average, codec, min(hp.average_decay, 1 - 1 / step))

            with run.evaluation():
                held_out = found.held_out.split(EVAL_BATCH)
                if run.rehearsing:  # pages must be full
                    held_out = (found.held_out[: found.layout[0] * found.layout[1]],)
                scores = metric.evaluate(average, hp.coding_steps, run.progress(held_out), found.layout)
                run.log("psnr", scores[-1].psnr())
                run.log("bits_per_pixel", scores[-1].bits_per_pixel())
                run.log("bits_per_pixel_by_step", [score.bits_per_pixel() for score in scores])
                run.log("ms_ssim_by_step", [score.ms_ssim() for score in scores])
                run.log("psnr_by_step", [score.psnr() for score in scores])
                reached = run.reached(scores[-1].ms_ssim(), scores[-1].pictures)
            if reached:
                break
    if run.samples_dir is not None:
        write_samples(run, found, average)


@torch.no_grad()
def write_samples(run: runs.Run, found: data.Found, codec: model.Codec) -> None:
    """A sheet of 12 columns: the pictures, and below them what is decoded after each step."""
    true = found.held_out[:12].float() / 255 - 0.5
    rows = [true, *codec.decode(codec.encode(true, run.settings.coding_steps))]
    rows = [2 * row.expand(-1, 3, -1, -1) for row in rows]
    path = run.samples_dir / f"{run.profile.name}_seed{run.seed}.png"
    pictures.write_sheet(path, rows, max(64 // true.shape[-1], 1))


def naive_baselines(run: runs.Run) -> dict[str, float]:
    """MS-SSIM of codecs without a network that spend the same bits; their PSNR is logged beside it."""
    hp: Settings = run.settings
    found, codec = data.load(run), build(hp)
    side = hp.crop_size
    budget = hp.bits_per_cell * hp.coding_steps * (side // codec.cell) ** 2
    fit = []
    for number, batch in enumerate(found.train.batches(hp.global_batch_size, run.device)):
        fit.append(data.tiles(batch, side))
        if number == FIT_BATCHES:
            break
    values = {}
    for name, code in baselines.codecs(np.concatenate(fit), budget, side).items():
        score = metric.Scores()
        for true in found.held_out.split(EVAL_BATCH):
            score.add(true, data.pictures_of(code(data.tiles(true, side)), true, side), found.layout)
        values[name] = score.ms_ssim()
        run.run_log.event("baseline_psnr", score.psnr(), {"name": name})
    return values


def main(argv: Sequence[str] | None = None) -> int:
    with runs.start(__file__, PROFILES, argv) as run:
        train(run.rehearsal())
        run.baselines(naive_baselines(run))
        train(run)
    return run.exit_status


if __name__ == "__main__":
    sys.exit(main())
