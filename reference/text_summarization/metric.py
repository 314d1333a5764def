"""ROUGE F1 by the package rouge-score, and the summaries that are judged: those of a beam search."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from reference.common import beam

from .model import END, PAD, START, Summarizer

KINDS = ("rouge1", "rouge2", "rougeL")

Batch = tuple[Tensor, Tensor, Tensor]  # source, target from START on, target to END; data.py


def rouge(summaries: Sequence[str], references: Sequence[str], kinds: Sequence[str] = KINDS) -> dict[str, float]:
    """F1 of ROUGE-1, ROUGE-2 and ROUGE-L, each the mean over all pairs; words as rouge-score splits them, unstemmed.

    Raises:
        ValueError: no pair, or not as many summaries as references.
    """
    from rouge_score import rouge_scorer

    if not references:
        raise ValueError("no summary to evaluate")
    scorer = rouge_scorer.RougeScorer(kinds)
    totals = dict.fromkeys(kinds, 0.0)
    for summary, reference in zip(summaries, references, strict=True):
        for kind, score in scorer.score(reference, summary).items():
            totals[kind] += score.fmeasure
    return {kind: total / len(references) for kind, total in totals.items()}


@torch.no_grad()
def summaries(
    net: Summarizer, batches: Iterable[Batch], width: int, shortest: int, longest: int, length_power: float
) -> list[list[int]]:
    """The words' numbers of each source's summary by beam search, copied words among them, in the batches' order."""
    found = []
    for source, _, _ in batches:
        state = net.start(source)
        extra = state.extra.tolist()
        hypotheses = beam.search(
            net.step,
            state,
            net.reorder,
            len(source),
            start=START,
            end=END,
            width=width,
            max_length=longest,
            min_length=shortest,
            length_power=length_power,
            device=source.device,
        )
        for row, (places, _) in zip(extra, hypotheses, strict=True):
            found.append([place if place < net.output_words else row[place - net.output_words] for place in places])
    return found


@torch.no_grad()
def loss_a_word(net: Summarizer, batches: Iterable[Batch]) -> float:
    """Mean negative log likelihood of the references' words, their ends counted."""
    total, count = 0.0, 0
    for source, given, wanted in batches:
        losses = net.losses(source, given, wanted)
        total, count = total + float(losses.double().sum()), count + int((wanted != PAD).sum())
    return total / count
