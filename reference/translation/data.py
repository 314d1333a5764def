"""Sentence pairs as token numbers: the small grammar's, or WMT's as prepare.py left them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from reference.common import runs, sources
from reference.common.ragged import Ragged

from . import grammar, wmt
from .metric import END, START, Batch
from .model import PAD

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]  # PAD, START, END, UNKNOWN
TRAIN_SEED, EVAL_SEED, VALIDATION_SEED = 1, 1_000_000, 2_000_000
COUNTS = {"embedded": (6400, 500), "smoke": (320, 40)}  # sentences to train on and to evaluate
JITTER = 2.0  # tokens by which a sentence's place in the order of lengths is shaken in each epoch


@dataclass(frozen=True)
class Pairs:
    """Sources and targets without start and end tokens; batches of them are on `device`.

    held: bool [pairs], True where a verb has an object that it never has in training (all False for WMT).
    """

    source: Ragged
    target: Ragged
    held: np.ndarray
    device: torch.device

    def __len__(self) -> int:
        return len(self.held)

    def batches(self, size: int, longest: int) -> Iterator[Batch]:
        """One epoch: every pair once, pairs of similar length together, batches in random order.

        The last batch in the order of lengths may be smaller. Sentences are cut to `longest` tokens, the end included.
        """
        keys = torch.from_numpy(np.maximum(self.source.lengths, self.target.lengths)) + JITTER * torch.rand(len(self))
        batches = keys.argsort().split(size)
        for number in torch.randperm(len(batches)).tolist():
            yield self.batch(batches[number].numpy(), longest)

    def in_order(self, size: int) -> Iterator[Batch]:
        """All pairs once, uncut, by length of the source: the order of `by_length`."""
        for rows in np.array_split(self.by_length(), range(size, len(self), size)):
            yield self.batch(rows, 1 << 30)

    def by_length(self) -> np.ndarray:
        return np.argsort(self.source.lengths, kind="stable")

    def batch(self, rows: np.ndarray, longest: int) -> Batch:
        """Source with the end token, target with the start token, target with the end token; int64 [rows, length]."""
        source = torch.from_numpy(_ended(self.source.padded(rows, longest - 1)))
        target = self.target.padded(rows, longest - 1)
        given = torch.from_numpy(np.pad(target, ((0, 0), (1, 0)), constant_values=START))
        wanted = torch.from_numpy(_ended(target))
        return source.to(self.device), given.to(self.device), wanted.to(self.device)


def _ended(rows: np.ndarray) -> np.ndarray:
    """Rows that are filled up with PAD, one column wider, with END after each one's last token."""
    wider = np.pad(rows, ((0, 0), (0, 1)), constant_values=PAD)
    wider[np.arange(len(rows)), (rows != PAD).sum(axis=1)] = END
    return wider


class Vocabulary:
    """Words and their numbers; the first four are SPECIAL. With `pieces` the words are sub-words of prepare.py."""

    def __init__(self, words: Sequence[str], pieces: bool = False) -> None:
        self.words, self.pieces = list(words), pieces
        self.numbers = {word: number for number, word in enumerate(self.words)}

    @classmethod
    def of(cls, sentences: Iterable[Sequence[str]]) -> Vocabulary:
        return cls([*SPECIAL, *sorted({word for sentence in sentences for word in sentence})])

    def __len__(self) -> int:
        return len(self.words)

    def encoded(self, sentence: Sequence[str]) -> list[int]:
        return [self.numbers.get(word, SPECIAL.index("<unk>")) for word in sentence]

    def text(self, numbers: Iterable[int]) -> str:
        words = [self.words[number] for number in numbers if number not in (PAD, START, END)]
        return wmt.joined(words) if self.pieces else " ".join(words)


@dataclass(frozen=True)
class Corpus:
    """What a profile trains on and is evaluated on. The vocabularies are the same object where they are shared."""

    train: Pairs
    held_out: Pairs
    source_words: Vocabulary
    target_words: Vocabulary


def load(run: runs.Run) -> Corpus:
    """The corpus of the run's profile; --held-out validation puts other sentences in the evaluation's place."""
    hp = run.settings
    if hp.held_out not in ("evaluation", "validation"):
        raise runs.SetupError(f"--held-out is evaluation or validation, not {hp.held_out}")
    if run.profile.name == "full":
        corpus, found = _prepared(run)
    else:
        corpus, found = generated(*COUNTS[run.profile.name], hp.held_out == "validation", run.device)
    run.describe_data(len(corpus.train), len(corpus.held_out), found)
    return corpus


def generated(
    count: int, held_out_count: int, validation: bool, device: torch.device
) -> tuple[Corpus, list[sources.Source]]:
    """Sentences of the grammar. None is there twice, none of the held-out ones is in training, and in training no verb
    has an object that grammar.is_held keeps from it: that is left for evaluation."""
    train = _distinct(TRAIN_SEED, count, set(), with_held=False)
    known = {" ".join(pair.english) for pair in train}
    held_out = _distinct(VALIDATION_SEED if validation else EVAL_SEED, held_out_count, known, with_held=True)
    words = Vocabulary.of(pair.english for pair in train), Vocabulary.of(pair.german for pair in train)

    def numbered(pairs: list[grammar.Pair]) -> Pairs:
        source = Ragged.of([words[0].encoded(pair.english) for pair in pairs])
        target = Ragged.of([words[1].encoded(pair.german) for pair in pairs])
        return Pairs(source, target, np.array([pair.held for pair in pairs]), device)

    text = "\n".join(f"{' '.join(pair.english)}\t{' '.join(pair.german)}" for pair in [*train, *held_out])
    source = sources.generated(grammar.NAME, grammar.VERSION, np.frombuffer(text.encode(), np.uint8))
    return Corpus(numbered(train), numbered(held_out), *words), [source]


def _distinct(seed: int, count: int, known: set[str], with_held: bool) -> list[grammar.Pair]:
    """The first `count` sentences of a seed's stream that are new and not in `known`."""
    found: dict[str, grammar.Pair] = {}
    number = 0
    while len(found) < count:
        pair, number = grammar.sentence(seed, number), number + 1
        if with_held or not pair.held:
            english = " ".join(pair.english)
            if english not in known:
                found.setdefault(english, pair)
    return list(found.values())


def _prepared(run: runs.Run) -> tuple[Corpus, list[sources.Source]]:
    """WMT's pairs from a folder that prepare.py wrote."""
    folder = run.require_data_dir(wmt.PREPARED_LAYOUT)
    wmt.check(folder)
    words = Vocabulary(wmt.vocabulary(folder), pieces=True)
    part = "newstest2013" if run.settings.held_out == "validation" else "newstest2014"
    parts = []
    for name in ("train", part):
        sides = [Ragged(*wmt.arrays(folder, name, language)) for language in ("en", "de")]
        parts.append(Pairs(*sides, np.zeros(len(sides[0].lengths), dtype=bool), run.device))
    return Corpus(*parts, words, words), [wmt.source(folder)]


def first(pairs: Pairs, count: int) -> Pairs:
    """The first `count` pairs."""
    sides = [Ragged(side.flat, side.starts[: count + 1]) for side in (pairs.source, pairs.target)]
    return replace(pairs, source=sides[0], target=sides[1], held=pairs.held[:count])
