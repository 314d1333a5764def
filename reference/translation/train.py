"""Translation (AIBench component 3): train a Transformer until its token accuracy reaches the target.

    python -m reference.translation.train                          embedded: sentences of a small grammar
    python -m reference.translation.train --profile smoke          seconds
    python -m reference.translation.train --profile full --data-dir PREPARED --device cuda     WMT 2014, see prepare.py
    python -m reference.translation.train --samples DIR            also writes translations to read

An epoch-based benchmark: evaluated after every pass over the training pairs.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

if not __package__:  # run as a script: python reference/<task>/train.py
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("", "logging")]
    __package__ = f"reference.{Path(__file__).resolve().parent.name}"

import torch
from torch import nn
from torch.nn import functional as F

from reference.common import runs

from . import baselines, data, metric, model


@dataclass(frozen=True)
class Settings:
    """All numbers of a run. The defaults are the full profile's: the paper's base model, AIBench's batch and epochs."""

    held_out: str = "evaluation"  # what is evaluated; validation: other sentences, to tune on
    model_width: int = 512  # of embeddings and layers
    attention_heads: int = 8  # in each attention
    feed_forward_width: int = 2048  # inside the two-layer networks
    layers: int = 6  # of the encoder, and of the decoder
    pre_norm: bool = False  # normalise before sub-layers instead of after each sum
    shared_embeddings: bool = True  # one table for source, target and output
    dropout: float = 0.1  # of embeddings, attention weights, inner layers and sub-layers' outputs
    label_smoothing: float = 0.1  # of the loss; the evaluation knows none
    opt_name: str = "adam"
    opt_base_learning_rate: float = 0.000699  # the highest: (512 * 4000) ** -0.5
    opt_learning_rate_schedule: str = "inverse_sqrt"  # after the warm-up; or linear: to 0 at the end of the budget
    opt_learning_rate_warmup_steps: int = 4000  # linear rise
    opt_adam_beta_1: float = 0.9  # decay of the gradient's average
    opt_adam_beta_2: float = 0.98  # decay of its square's average
    opt_adam_epsilon: float = 1e-9  # added to the root of the latter
    gradient_clip_norm: float = 0.0  # largest norm of the gradient; 0: no limit
    global_batch_size: int = 256  # sentence pairs a step
    max_train_tokens: int = 128  # training sentences are cut to this length, end included
    beam_width: int = 4  # of the translations that BLEU is computed of
    length_power: float = 0.6  # of the beam search
    bleu_pairs: int = 3003  # the first so many evaluation pairs are translated for BLEU
    max_epochs: int = 20  # budget


SMALL = Settings(
    model_width=128,
    attention_heads=4,
    feed_forward_width=256,
    layers=2,
    pre_norm=True,
    shared_embeddings=False,
    dropout=0.0,
    opt_base_learning_rate=2.5e-3,
    opt_learning_rate_schedule="linear",
    opt_learning_rate_warmup_steps=60,
    gradient_clip_norm=1.0,
    global_batch_size=64,
    bleu_pairs=200,
    max_epochs=10,
)
PROFILES = {
    "full": Settings(),
    "embedded": SMALL,
    "smoke": Settings(
        **{**vars(SMALL), "model_width": 32, "opt_learning_rate_warmup_steps": 5, "bleu_pairs": 20, "max_epochs": 2}
    ),
}
EVAL_BATCH = 100  # pairs evaluated at once
LONGER = 50  # tokens that a translation may have beyond its batch's longest source


def learning_rate(hp: Settings, step: int, last_step: int) -> float:
    """The rate of the step with this number, from 1."""
    warmup = hp.opt_learning_rate_warmup_steps
    if step < warmup:
        return hp.opt_base_learning_rate * step / warmup
    if hp.opt_learning_rate_schedule == "inverse_sqrt":
        return hp.opt_base_learning_rate * math.sqrt(warmup / step)
    return hp.opt_base_learning_rate * (last_step + 1 - step) / (last_step + 1 - warmup)


def train(run: runs.Run) -> None:
    hp: Settings = run.settings
    check(hp)

    with run.timed():
        corpus = data.load(run)
        net = build(hp, corpus).to(run.device)
        betas = hp.opt_adam_beta_1, hp.opt_adam_beta_2
        optimizer = torch.optim.Adam(net.parameters(), lr=0.0, betas=betas, eps=hp.opt_adam_epsilon, fused=True)
        steps_an_epoch = -(-len(corpus.train) // hp.global_batch_size)
        step = 0
        for _ in run.epochs(hp.max_epochs):
            net.train()
            batches = corpus.train.batches(hp.global_batch_size, hp.max_train_tokens)
            for source, given, wanted in run.progress(batches, total=steps_an_epoch):
                step += 1
                optimizer.param_groups[0]["lr"] = learning_rate(hp, step, hp.max_epochs * steps_an_epoch)
                logits = net(source, given).flatten(0, 1)
                smoothing = hp.label_smoothing
                loss = F.cross_entropy(logits, wanted.flatten(), ignore_index=model.PAD, label_smoothing=smoothing)
                optimizer.zero_grad()
                loss.backward()
                if hp.gradient_clip_norm:
                    nn.utils.clip_grad_norm_(net.parameters(), hp.gradient_clip_norm)
                optimizer.step()

            with run.evaluation():
                net.eval()
                pairs = run.progress(corpus.held_out.in_order(EVAL_BATCH))
                rights, wanteds = metric.token_counts(net, pairs)
                for name, value in further(run, net, corpus, rights, wanteds).items():
                    run.log(name, value)
                reached = run.reached(metric.accuracy(rights, wanteds), len(rights))
            if reached:
                break
    if run.samples_dir is not None:
        write_samples(run, net, corpus)


def check(hp: Settings) -> None:
    """Raise SetupError for settings that make no sense."""
    schedules = ("inverse_sqrt", "linear")
    if hp.opt_name != "adam" or hp.opt_learning_rate_schedule not in schedules:
        raise runs.SetupError(f"known are adam and {schedules}, not {hp.opt_name} and {hp.opt_learning_rate_schedule}")
    if min(hp.global_batch_size, hp.max_epochs, hp.opt_learning_rate_warmup_steps, hp.beam_width) < 1:
        raise runs.SetupError("--global-batch-size, --max-epochs, warm-up steps and --beam-width must be at least 1")
    if hp.max_train_tokens < 2 or not 0 <= hp.dropout < 1 or not 0 <= hp.label_smoothing < 1:
        raise runs.SetupError("--max-train-tokens must be at least 2, dropout and label smoothing from 0 to below 1")


def build(hp: Settings, corpus: data.Corpus) -> model.Transformer:
    if hp.shared_embeddings and corpus.source_words is not corpus.target_words:
        raise runs.SetupError("--shared-embeddings: this profile has a vocabulary for each language")
    shape = (hp.model_width, hp.attention_heads, hp.feed_forward_width, hp.layers, hp.dropout, hp.pre_norm)
    words = len(corpus.source_words), len(corpus.target_words)
    try:
        return model.Transformer(*words, *shape, hp.shared_embeddings)
    except ValueError as error:
        raise runs.SetupError(f"settings: {error}") from None


def further(run: runs.Run, net: model.Transformer, corpus: data.Corpus, rights, wanteds) -> dict[str, float]:
    """BLEU of the translations, and the accuracy on sentences with a verb and an object never seen together."""
    held = torch.from_numpy(corpus.held_out.held[corpus.held_out.by_length()])[: len(rights)]
    found = {"bleu": metric.bleu(*translated(run, net, corpus)[1:], tokenized=not corpus.target_words.pieces)}
    if held.any():
        found["new_combinations_accuracy"] = metric.accuracy(rights[held], wanteds[held])
    return found


def translated(run: runs.Run, net: model.Transformer, corpus: data.Corpus) -> tuple[list[str], list[str], list[str]]:
    """Sources, translations and references of the first `bleu_pairs` evaluation pairs, as text."""
    hp: Settings = run.settings
    pairs = data.first(corpus.held_out, hp.bleu_pairs)
    kept = list(run.progress(pairs.in_order(EVAL_BATCH)))
    found = metric.translations(net, kept, hp.beam_width, LONGER, hp.length_power)
    sources = [corpus.source_words.text(row) for source, _, _ in kept for row in source.tolist()]
    references = [corpus.target_words.text(row) for _, _, wanted in kept for row in wanted.tolist()]
    return sources, [corpus.target_words.text(row) for row in found], references


def write_samples(run: runs.Run, net: model.Transformer, corpus: data.Corpus) -> None:
    """A text file of sources, references and translations."""
    run.samples_dir.mkdir(parents=True, exist_ok=True)
    lines = []
    for source, found, reference in zip(*translated(run, net, corpus), strict=True):
        lines += [f"source      {source}", f"reference   {reference}", f"translation {found}", ""]
    path = run.samples_dir / f"{run.profile.name}_seed{run.seed}.txt"
    path.write_text("\n".join(lines), encoding="utf-8")


def naive_baselines(run: runs.Run) -> dict[str, float]:
    """Of the small profiles: the full one's tables of word pairs would not fit."""
    if run.profile.name == "full":
        return {}
    corpus = data.load(run)
    return baselines.scores(corpus.train, corpus.held_out, len(corpus.source_words), len(corpus.target_words))


def main(argv: Sequence[str] | None = None) -> int:
    with runs.start(__file__, PROFILES, argv) as run:
        train(run.rehearsal())
        run.baselines(naive_baselines(run))
        train(run)
    return run.exit_status


if __name__ == "__main__":
    sys.exit(main())
