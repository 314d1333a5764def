"""Sentences with headlines as word numbers: botocore's documentation, made-up ones, or Gigaword as prepared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from reference.common import runs, sources
from reference.common.ragged import Ragged

from . import docs, gigaword, made_up
from .metric import Batch
from .model import END, PAD, START

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]  # PAD, START, END, UNKNOWN
LEAST = 2  # times that a word of the small profiles occurs in training to be generated, or to have an embedding
JITTER = 2.0  # words by which a sentence's place in the order of lengths is shaken in each epoch

Words = Sequence[str]


@dataclass(frozen=True)
class Pairs:
    """Sentences and their headlines; batches of them are on `device`."""

    source: Ragged
    title: Ragged
    device: torch.device

    def __len__(self) -> int:
        return len(self.source.starts) - 1

    def batches(self, size: int, longest_source: int, longest_title: int) -> Iterator[Batch]:
        """One epoch: every pair once, pairs of similar length together, batches in random order.

        Sentences are cut to `longest_source` words; headlines to `longest_title`, the end included. The last batch in
        the order of lengths may be smaller.
        """
        keys = torch.from_numpy(self.title.lengths * 4 + self.source.lengths) + JITTER * torch.rand(len(self))
        batches = keys.argsort().split(size)
        for number in torch.randperm(len(batches)).tolist():
            yield self.batch(batches[number].numpy(), longest_source, longest_title)

    def in_order(self, size: int, longest_source: int) -> Iterator[Batch]:
        """All pairs once, in the order of `by_length`; headlines are whole."""
        for rows in np.array_split(self.by_length(), range(size, len(self), size)):
            yield self.batch(rows, longest_source, 1 << 30)

    def by_length(self) -> np.ndarray:
        return np.argsort(self.source.lengths, kind="stable")

    def batch(self, rows: np.ndarray, longest_source: int, longest_title: int) -> Batch:
        """Source, title with the start, title with the end; int64 [rows, length] each. An empty source is an END."""
        source = self.source.padded(rows, longest_source)
        source[source[:, 0] == PAD, 0] = END
        title = self.title.padded(rows, longest_title - 1)
        given = np.pad(title, ((0, 0), (1, 0)), constant_values=START)
        wanted = np.pad(title, ((0, 0), (0, 1)), constant_values=PAD)
        wanted[np.arange(len(rows)), (title != PAD).sum(axis=1)] = END
        return tuple(torch.from_numpy(part).to(self.device) for part in (source, given, wanted))


@dataclass(frozen=True)
class Corpus:
    """What a profile trains on and is judged on. words[k] is the text of word k; model.py says how they are ordered."""

    train: Pairs
    held_out: Pairs
    words: list[str]
    output_words: int
    input_words: int

    def text(self, numbers: Iterable[int]) -> str:
        return " ".join(self.words[number] for number in numbers if number not in (PAD, START, END))

    def texts(self, side: Ragged, rows: Iterable[int]) -> list[str]:
        return [self.text(side.row(row).tolist()) for row in rows]


def load(run: runs.Run) -> Corpus:
    """The corpus of the run's profile; --held-out validation puts other sentences in the evaluation's place."""
    hp = run.settings
    if hp.held_out not in ("evaluation", "validation"):
        raise runs.SetupError(f"--held-out is evaluation or validation, not {hp.held_out}")
    validation = hp.held_out == "validation"
    if run.profile.name == "full":
        corpus, found = _gigaword(run, validation)
    else:
        items, source = docs.read() if run.profile.name == "embedded" else made_up.read()
        corpus, found = numbered(*docs.split(items, validation), run.device), [source]
    run.describe_data(len(corpus.train), len(corpus.held_out), found)
    return corpus


def numbered(train: list[docs.Item], held_out: list[docs.Item], device: torch.device) -> Corpus:
    """Numbers for all words: those of the training titles that are frequent enough first, they can be generated.

    Raises:
        ValueError: a held-out sentence or service is in training.
    """
    shared = {item.source for item in train} & {item.source for item in held_out}
    if shared or {item.service for item in train} & {item.service for item in held_out}:
        raise ValueError("a held-out sentence or service is in the training set")
    in_titles = Counter(word for item in train for word in item.title)
    in_training = Counter(word for item in train for word in (*item.source, *item.title))
    said = [word for word, count in ordered(in_titles) if count >= LEAST]
    read = [word for word, count in ordered(in_training) if count >= LEAST and in_titles[word] < LEAST]
    known = {*said, *read}
    rest = {word for item in (*train, *held_out) for word in (*item.source, *item.title)} - known
    words = [*SPECIAL, *said, *read, *sorted(rest)]
    numbers = {word: number for number, word in enumerate(words)}

    def pairs(items: list[docs.Item]) -> Pairs:
        sides = ([[numbers[word] for word in getattr(item, side)] for item in items] for side in ("source", "title"))
        return Pairs(*(Ragged.of(side) for side in sides), device)

    output_words = len(SPECIAL) + len(said)
    return Corpus(pairs(train), pairs(held_out), words, output_words, output_words + len(read))


def ordered(counts: Counter[str]) -> list[tuple[str, int]]:
    """By falling count, then by word."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def _gigaword(run: runs.Run, validation: bool) -> tuple[Corpus, list[sources.Source]]:
    """Gigaword from a folder that prepare.py wrote."""
    folder = run.require_data_dir(gigaword.PREPARED_LAYOUT)
    known = gigaword.check(folder)
    sides = {
        name: [Ragged(*gigaword.arrays(folder, name, side)) for side in gigaword.SIDES] for name in ("train", "valid")
    }
    begin = gigaword.HELD_OUT if validation else 0
    held = [Ragged(side.flat, side.starts[begin : begin + gigaword.HELD_OUT + 1]) for side in sides["valid"]]
    train, held_out = Pairs(*sides["train"], run.device), Pairs(*held, run.device)
    return Corpus(train, held_out, gigaword.words(folder), known, known), [gigaword.source(folder)]
