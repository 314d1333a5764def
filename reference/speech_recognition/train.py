"""Speech recognition (AIBench component 6): train DeepSpeech 2 until its word error rate is down at the target.

    python -m reference.speech_recognition.train                             embedded: synthesised speech
    python -m reference.speech_recognition.train --profile smoke             seconds, without a package
    python -m reference.speech_recognition.train --profile full --data-dir DIR --device cuda     LibriSpeech
    python -m reference.speech_recognition.train --samples DIR               also writes sounds with their transcripts

An epoch-based benchmark: evaluated after every pass over the training utterances.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

if not __package__:  # run as a script: python reference/<task>/train.py
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("", "logging")]
    __package__ = f"reference.{Path(__file__).resolve().parent.name}"

import torch
from torch.nn import functional as F

from reference.common import runs

from . import baselines, data, decoding, metric, model, samples
from .batches import varied


@dataclass(frozen=True)
class Settings:
    """All numbers of a run. The defaults are the full profile's, those of AIBench's implementation."""

    held_out: str = "evaluation"  # what is evaluated; validation: other speakers, to tune on
    written_synthesiser: bool = False  # embedded: speech of formants.py instead of eSpeak NG's (open division)
    window_samples: int = 320  # of a spectrum: 20 ms
    hop_samples: int = 160  # from one spectrum to the next: 10 ms
    mel_bands: int = 0  # into which frequencies are gathered; 0: the frequencies themselves
    conv_channels: int = 32  # of both convolutions
    conv_kernels: tuple[int, ...] = (41, 11, 21, 11)  # frequency and time of the first, of the second
    conv_strides: tuple[int, ...] = (2, 2, 2, 1)  # likewise
    gru_width: int = 800  # units a direction
    gru_layers: int = 5  # bidirectional
    opt_name: str = "sgd"  # with Nesterov's momentum; or adamw
    opt_base_learning_rate: float = 3e-4  # of the first epoch, after the warm-up
    opt_learning_rate_warmup_steps: int = 0  # steps from 0 to the base rate
    opt_learning_rate_annealing: float = 1.1  # the rate is divided by it after every epoch
    opt_momentum: float = 0.9  # of sgd
    opt_weight_decay: float = 1e-5
    opt_gradient_clip_norm: float = 400.0  # longer gradients are shortened to it
    sorted_epochs: int = 1  # first epochs that go from the shortest utterance to the longest
    length_mix: float = 0.0  # share by which lengths are blurred when later epochs gather utterances of like length
    shifted_bins: int = 0  # training spectrograms are moved up or down by up to so many bins, as of another speaker
    masked_bins: int = 0  # and up to so many neighbouring bins are blanked
    beam_width: int = 16  # prefixes of the beam search that is logged once the target is reached; 0: none
    global_batch_size: int = 20  # utterances a step
    max_epochs: int = 70  # budget


SMALL = Settings(
    window_samples=512,
    hop_samples=320,
    mel_bands=40,
    conv_channels=16,
    conv_kernels=(11, 7, 11, 7),
    gru_width=96,
    gru_layers=2,
    opt_name="adamw",
    opt_base_learning_rate=4e-3,
    opt_learning_rate_warmup_steps=40,
    opt_weight_decay=1e-4,
    length_mix=0.2,
    beam_width=8,
    shifted_bins=1,
    masked_bins=2,
    global_batch_size=16,
    max_epochs=12,
)
PROFILES = {
    "full": Settings(),
    "embedded": SMALL,
    "smoke": replace(SMALL, hop_samples=240, gru_width=32, opt_learning_rate_warmup_steps=2, max_epochs=2),
}
EVAL_BATCH = 50  # utterances heard at once; changes no result


def build(run: runs.Run) -> tuple[model.DeepSpeech2, torch.optim.Optimizer]:
    """The network and its optimizer on the run's device. Raises SetupError for settings that make no sense."""
    hp: Settings = run.settings
    if min(hp.window_samples, hp.hop_samples, hp.gru_width, hp.gru_layers, hp.global_batch_size, hp.max_epochs) < 1:
        raise runs.SetupError("sizes, --global-batch-size and --max-epochs must be at least 1")
    bins, labels = data.spectrogram(run).bins, len(decoding.LABELS)
    sizes = (bins, hp.conv_channels, hp.conv_kernels, hp.conv_strides, hp.gru_width, hp.gru_layers, labels)
    try:
        net = model.DeepSpeech2(*sizes).to(run.device)
        lr, decay = hp.opt_base_learning_rate, hp.opt_weight_decay
        if hp.opt_name == "sgd":
            nesterov = {"momentum": hp.opt_momentum, "nesterov": hp.opt_momentum > 0}
            return net, torch.optim.SGD(net.parameters(), lr=lr, weight_decay=decay, **nesterov)
        if hp.opt_name == "adamw":
            return net, torch.optim.AdamW(net.parameters(), lr=lr, weight_decay=decay)
    except ValueError as error:
        raise runs.SetupError(f"settings: {error}") from None
    raise runs.SetupError(f"--opt-name is sgd or adamw, not {hp.opt_name}")


def learning_rate(hp: Settings, step: int, epoch: int) -> float:
    """The rate of a step in an epoch, both from 1: a linear rise over the first steps, a fall from epoch to epoch."""
    risen = min(step / max(hp.opt_learning_rate_warmup_steps, 1), 1.0)
    return hp.opt_base_learning_rate * risen / hp.opt_learning_rate_annealing ** (epoch - 1)


def train(run: runs.Run) -> data.Speech:
    hp: Settings = run.settings
    net, optimizer = build(run)
    step = 0

    with run.timed():
        speech = data.load(run)
        steps_an_epoch = -(-len(speech.train) // hp.global_batch_size)
        for epoch in run.epochs(hp.max_epochs):
            if epoch <= hp.sorted_epochs:
                batches = speech.train.in_order(hp.global_batch_size, run.device)
            else:
                batches = speech.train.shuffled(hp.global_batch_size, hp.length_mix, run.device)
            for batch in run.progress(batches, total=steps_an_epoch):
                step += 1
                for group in optimizer.param_groups:
                    group["lr"] = learning_rate(hp, step, epoch)
                features = varied(batch.features, hp.shifted_bins, hp.masked_bins)
                log_probabilities, frames = net(features, batch.frames)
                counts = batch.label_counts
                # an utterance too short for its labels has no path, an infinite loss, and is left out
                loss = F.ctc_loss(
                    log_probabilities, batch.labels, frames, counts, decoding.BLANK, "sum", zero_infinity=True
                )
                optimizer.zero_grad()
                (loss / len(counts)).backward()
                torch.nn.utils.clip_grad_norm_(net.parameters(), hp.opt_gradient_clip_norm)
                optimizer.step()

            with run.evaluation():
                heard = metric.listen(net, run.progress(speech.held_out.in_order(EVAL_BATCH, run.device)))
                read = heard.greedy()
                run.log("cer", metric.character_error_rate(heard.texts, read))
                reached = run.reached(metric.word_error_rate(heard.texts, read), len(read))
                if reached and hp.beam_width:
                    run.log("wer_beam", metric.word_error_rate(heard.texts, heard.beam(hp.beam_width)))
            if reached:
                break
    if run.samples_dir is not None:
        write_samples(run, speech, net)
    return speech


def write_samples(run: runs.Run, speech: data.Speech, net: model.DeepSpeech2, count: int = 12) -> None:
    """The sound of some evaluation utterances, what was said, and what is read greedily and by the beam search."""
    chosen = range(0, len(speech.held_out), max(len(speech.held_out) // count, 1))
    lines = []
    for index in chosen:
        one = speech.held_out.only(index)
        heard = metric.listen(net, one.in_order(1, run.device))
        lines.append(
            {"said": heard.texts[0], "greedy": heard.greedy()[0], "beam": heard.beam(run.settings.beam_width or 1)[0]}
        )
    folder = run.samples_dir / f"{run.profile.name}_seed{run.seed}"
    samples.write(folder, [speech.sound(index) for index in chosen], speech.sample_rate, lines)


def main(argv: Sequence[str] | None = None) -> int:
    with runs.start(__file__, PROFILES, argv) as run:
        speech = train(run.rehearsal())  # what the baselines hear: speech is synthesised once less
        run.baselines(baselines.scores(speech.train, speech.held_out))
        del speech
        train(run)
    return run.exit_status


if __name__ == "__main__":
    sys.exit(main())
