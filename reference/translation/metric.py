"""Token accuracy under teacher forcing, which is judged, and BLEU of beam search's translations beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

from reference.common import beam

from .model import PAD

START, END, UNKNOWN = 1, 2, 3  # token numbers, as PAD

Batch = tuple[Tensor, Tensor, Tensor]  # source, target from the start token on, target to the end token; data.py


def right(predicted: Tensor, wanted: Tensor) -> Tensor:
    """Where a token is predicted right; bool. Nothing counts where PAD is wanted, and unknown is never right."""
    return (predicted == wanted) & (wanted != PAD) & (wanted != UNKNOWN)


@torch.no_grad()
def token_counts(predict: Callable[[Tensor, Tensor], Tensor], batches: Iterable[Batch]) -> tuple[Tensor, Tensor]:
    """Right and wanted tokens of each sentence, int64 [sentences] each, the end token counted, padding not.

    predict: (source, target from the start token on) -> scores [rows, length, words]; the highest is predicted.
    """
    rights, wanteds = [], []
    for source, given, wanted in batches:
        rights.append(right(predict(source, given).argmax(dim=-1), wanted).sum(dim=1))
        wanteds.append((wanted != PAD).sum(dim=1))
    return torch.cat(rights).cpu(), torch.cat(wanteds).cpu()


def accuracy(rights: Tensor, wanteds: Tensor) -> float:
    """The share of all wanted tokens that are right: summed over sentences, divided once. ValueError without any."""
    if not int(wanteds.sum()):
        raise ValueError("no token to evaluate")
    return float(rights.sum()) / float(wanteds.sum())


@torch.no_grad()
def translations(
    net: nn.Module, batches: Iterable[Batch], width: int, longer: int, length_power: float
) -> list[list[int]]:
    """Beam search's translation of each source, without start and end; `longer`: tokens beyond the source's length."""
    found = []
    for source, _, _ in batches:
        hypotheses = beam.search(
            net.step,
            net.start(source),
            net.reorder,
            len(source),
            start=START,
            end=END,
            width=width,
            max_length=source.shape[1] + longer,
            length_power=length_power,
            device=source.device,
        )
        found += [hypothesis.tokens for hypothesis in hypotheses]
    return found


def bleu(translated: list[str], references: list[str], tokenized: bool) -> float:
    """sacreBLEU's corpus BLEU, 0 to 100. `tokenized`: the texts are tokens between blanks, else 13a splits them."""
    import sacrebleu

    return sacrebleu.corpus_bleu(translated, [references], tokenize="none" if tokenized else "13a", force=True).score
