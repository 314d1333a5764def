"""Held-out texts with their masked words, and what the model put there, for a person to read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import nn

from reference.common.errors import SetupError

from .data import Corpus
from .pairs import NO_LABEL, Batch

TEXTS = 20


@torch.no_grad()
def lines(net: nn.Module, batch: Batch, corpus: Corpus, device: torch.device) -> list[str]:
    """One line a sequence: right guesses as [word], wrong ones as [guess; was: word], then the guess about B."""
    net.eval()
    batch = batch.to(device)
    words, unrelated = net(batch.ids, batch.segments, batch.lengths, batch.positions)
    guesses, follows = words.argmax(2).tolist(), unrelated.argmax(1).tolist()
    net.train()
    made = []
    for row in range(len(batch.ids)):
        text = [corpus.spelled[word] for word in batch.ids[row, : int(batch.lengths[row])].tolist()]
        for place, label, guess in zip(
            batch.positions[row].tolist(), batch.labels[row].tolist(), guesses[row], strict=True
        ):
            if label != NO_LABEL:
                truth, said = corpus.spelled[label], corpus.spelled[guess]
                text[place] = f"[{truth}]" if truth == said else f"[{said}; was: {truth}]"
        kinds = "follows", "is unrelated"
        said = f"B {kinds[follows[row]]}; in truth it {kinds[int(batch.unrelated[row])]}"
        made.append(f"{' '.join(text)}\n    {said}")
    return made


def write(path: Path, net: nn.Module, batches: Sequence[Batch], corpus: Corpus, device: torch.device) -> None:
    """Write the first TEXTS sequences of `batches`. Makes the folder; raises SetupError when that cannot be done."""
    first = Batch(*(tensor[:TEXTS] for tensor in batches[0]))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n\n".join(lines(net, first, corpus, device)) + "\n", encoding="utf-8")
    except OSError as error:
        raise SetupError(f"cannot write the samples {path}: {error.strerror or error}") from None
