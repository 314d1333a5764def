"""Text summarization (AIBench component 14): train a pointing decoder until its ROUGE-L reaches the target.

    python -m reference.text_summarization.train                       embedded: botocore's documentation
    python -m reference.text_summarization.train --profile smoke       seconds, on made-up sentences
    python -m reference.text_summarization.train --profile full --data-dir PREPARED --device cuda     see prepare.py
    python -m reference.text_summarization.train --samples DIR         also writes summaries to read

An epoch-based benchmark: evaluated after every pass over the training pairs.
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
from torch import nn

from reference.common import runs

from . import baselines, data, metric, model


@dataclass(frozen=True)
class Settings:
    """All numbers of a run. The defaults are the full profile's, those of AIBench's script."""

    held_out: str = "evaluation"  # what is evaluated; validation: other sentences, to tune on
    embedding_size: int = 256  # of words, shared by encoder and decoder
    hidden_size: int = 512  # of the encoder's two directions, and of the decoder
    dropout: float = 0.0  # of embeddings, and of the output layer's input
    max_source_words: int = 55  # sentences are cut to this length
    max_title_words: int = 15  # training headlines are cut to this length, end included; none written is longer
    min_title_words: int = 3  # that the beam search writes at least
    beam_width: int = 4  # hypotheses of the beam search
    length_power: float = 1.0  # scores are divided by the length to this power
    opt_name: str = "adam"
    opt_base_learning_rate: float = 0.001  # constant, or where it starts to fall
    opt_learning_rate_schedule: str = "constant"  # or linear: to 0 at the end of the budget
    opt_learning_rate_warmup_steps: int = 0  # linear rise
    gradient_clip_norm: float = 2.0  # largest norm of the gradient
    global_batch_size: int = 200  # pairs a step
    max_epochs: int = 5  # budget


SMALL = Settings(
    embedding_size=96,
    hidden_size=96,
    max_source_words=60,
    max_title_words=10,
    min_title_words=2,
    opt_base_learning_rate=0.004,
    opt_learning_rate_schedule="linear",
    opt_learning_rate_warmup_steps=50,
    global_batch_size=64,
    max_epochs=5,
)
PROFILES = {
    "full": Settings(),
    "embedded": SMALL,
    "smoke": Settings(**{**vars(SMALL), "hidden_size": 32, "embedding_size": 32, "max_epochs": 2}),
}
EVAL_BATCH = 200  # pairs summarized at once; changes no result


def learning_rate(hp: Settings, step: int, last_step: int) -> float:
    """The rate of the step with this number, from 1."""
    warmup = hp.opt_learning_rate_warmup_steps
    if step < warmup:
        return hp.opt_base_learning_rate * step / warmup
    if hp.opt_learning_rate_schedule == "constant":
        return hp.opt_base_learning_rate
    return hp.opt_base_learning_rate * (last_step + 1 - step) / (last_step + 1 - warmup)


def train(run: runs.Run) -> None:
    hp: Settings = run.settings
    check(hp)

    with run.timed():
        corpus = data.load(run)
        net = model.Summarizer(corpus.input_words, corpus.output_words, hp.embedding_size, hp.hidden_size, hp.dropout)
        net.to(run.device)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.0, fused=True)
        steps_an_epoch = -(-len(corpus.train) // hp.global_batch_size)
        step = 0
        for _ in run.epochs(hp.max_epochs):
            net.train()
            batches = corpus.train.batches(hp.global_batch_size, hp.max_source_words, hp.max_title_words)
            for source, given, wanted in run.progress(batches, total=steps_an_epoch):
                step += 1
                optimizer.param_groups[0]["lr"] = learning_rate(hp, step, hp.max_epochs * steps_an_epoch)
                loss = net.losses(source, given, wanted).mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), hp.gradient_clip_norm)
                optimizer.step()

            with run.evaluation():
                net.eval()
                written = summarized(run, net, corpus)
                references = corpus.texts(corpus.held_out.title, corpus.held_out.by_length()[: len(written)])
                scores = metric.rouge(written, references)
                for kind, value in scores.items():
                    run.log(kind.lower(), value)
                reached = run.reached(scores["rougeL"], len(written))
            if reached:
                break
    if run.samples_dir is not None:
        write_samples(run, net, corpus)


def check(hp: Settings) -> None:
    """Raise SetupError for settings that make no sense."""
    if hp.opt_name != "adam" or hp.opt_learning_rate_schedule not in ("constant", "linear"):
        known = "adam, and constant or linear"
        raise runs.SetupError(f"known are {known}, not {hp.opt_name} and {hp.opt_learning_rate_schedule}")
    if min(hp.global_batch_size, hp.max_epochs, hp.beam_width, hp.embedding_size, hp.hidden_size) < 1:
        raise runs.SetupError("batch, epochs, beam width and the model's sizes must be at least 1")
    if not 0 <= hp.dropout < 1:
        raise runs.SetupError("--dropout must be from 0 to below 1")
    if hp.max_source_words < 1 or not 1 <= hp.min_title_words < hp.max_title_words:
        raise runs.SetupError("--min-title-words must be at least 1 and below --max-title-words")


def summarized(run: runs.Run, net: model.Summarizer, corpus: data.Corpus) -> list[str]:
    """The texts written for the held-out sentences, in their order by length."""
    hp: Settings = run.settings
    batches = run.progress(corpus.held_out.in_order(EVAL_BATCH, hp.max_source_words))
    lengths = hp.min_title_words, hp.max_title_words - 1
    found = metric.summaries(net, batches, hp.beam_width, *lengths, hp.length_power)
    return [corpus.text(numbers) for numbers in found]


def write_samples(run: runs.Run, net: model.Summarizer, corpus: data.Corpus) -> None:
    """A text file: every twentieth held-out sentence, its headline, and what was written; [copied] words marked."""
    run.samples_dir.mkdir(parents=True, exist_ok=True)
    rows, lines = corpus.held_out.by_length(), []
    known = set(corpus.words[: corpus.output_words])
    sides = (corpus.texts(side, rows) for side in (corpus.held_out.source, corpus.held_out.title))
    for source, title, written in list(zip(*sides, summarized(run, net, corpus), strict=True))[::20]:
        marked = " ".join(word if word in known else f"[{word}]" for word in written.split())
        lines += [f"source   {source}", f"title    {title}", f"written  {marked}", ""]
    path = run.samples_dir / f"{run.profile.name}_seed{run.seed}.txt"
    path.write_text("\n".join(lines), encoding="utf-8")


def naive_baselines(run: runs.Run) -> dict[str, float]:
    """With --profile full only the lead: the others' tables of 3.8 million sentences would be large."""
    corpus = data.load(run)
    if run.profile.name == "full":
        return baselines.leads(*all_texts(corpus, corpus.held_out))
    return baselines.scores(*all_texts(corpus, corpus.train), *all_texts(corpus, corpus.held_out))


def all_texts(corpus: data.Corpus, pairs: data.Pairs) -> list[list[str]]:
    """The texts of all sentences, and of all headlines."""
    return [corpus.texts(side, range(len(pairs))) for side in (pairs.source, pairs.title)]


def main(argv: Sequence[str] | None = None) -> int:
    with runs.start(__file__, PROFILES, argv) as run:
        train(run.rehearsal())
        run.baselines(naive_baselines(run))
        train(run)
    return run.exit_status


if __name__ == "__main__":
    sys.exit(main())
