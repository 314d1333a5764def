"""Perplexity of captions, and BLEU-4 of the captions that a beam search makes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from reference.common import beam

from . import words
from .model import Captioner

REFERENCES = 5  # of each picture that BLEU is measured against; further ones are left out
MAX_LENGTH = 20  # words of a made caption


@torch.no_grad()
def perplexity(net: Captioner, batches: Iterable[tuple[Tensor, Tensor, Tensor]]) -> tuple[float, int]:
    """exp of the mean negative log likelihood of a real token, given the picture and the true tokens before it.

    batches: pictures (n, 3, h, w); all their captions (m, length), START first and PAD after END; and the row of each
    caption's picture (m,). Words and the END count as tokens, START and PAD don't. Returns it and the captions'
    number. Raises ValueError without a token, and when it is no finite number.
    """
    net.eval()
    total, tokens, captions = 0.0, 0, 0
    for pictures, rows, owners in batches:
        logits = net(net.seen(pictures)[owners], rows[:, :-1])
        true = rows[:, 1:]
        total += float(F.cross_entropy(logits.flatten(0, 1), true.flatten(), ignore_index=words.PAD, reduction="sum"))
        tokens += int((true != words.PAD).sum())
        captions += len(rows)
    if not tokens:
        raise ValueError("no tokens to evaluate")
    value = total / tokens
    if not math.isfinite(value) or value > 700:
        raise ValueError(f"the mean negative log likelihood of a token is {value}: training has diverged")
    return math.exp(value), captions


@torch.no_grad()
def captions(net: Captioner, batches: Iterable[Tensor], width: int, device: torch.device) -> list[list[int]]:
    """The words of the best caption that a beam search of this width finds for each picture, in their order."""
    net.eval()
    found = []
    for pictures in batches:
        best = beam.search(
            net.step,
            net.begin(pictures),
            lambda state, rows: (state[0][rows], state[1][rows]),
            len(pictures),
            start=words.START,
            end=words.END,
            width=width,
            max_length=MAX_LENGTH,
            device=device,
        )
        found += [hypothesis.tokens for hypothesis in best]
    return found


def bleu_4(made: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """sacrebleu's BLEU-4 of the whole set, 0..100. Texts are words with a space between, and split nowhere else.

    references: at least one of each made caption; the first REFERENCES count. ValueError without captions.
    """
    import sacrebleu

    if not made or len(made) != len(references):
        raise ValueError(f"{len(made)} captions against {len(references)} pictures' references")
    streams = [[one[number] if number < len(one) else None for one in references] for number in range(REFERENCES)]
    streams = [stream for stream in streams if any(stream)]
    return float(sacrebleu.corpus_bleu(list(made), streams, tokenize="none", force=True).score)
