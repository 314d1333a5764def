"""Sequences out of documents: pairs of texts with masked words, as Devlin et al., 2018, and MLPerf make them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Sentence = Sequence[int]  # word numbers
Document = Sequence[Sentence]
SHORT_SHARE = 0.1  # of the sequences are made for a shorter length, drawn evenly, as the authors do
NO_LABEL = -1


@dataclass(frozen=True)
class Special:
    """Numbers of the words that are no words. None of them is ever masked."""

    pad: int
    unknown: int
    cls: int
    sep: int
    mask: int

    def all(self) -> tuple[int, ...]:
        return (self.pad, self.unknown, self.cls, self.sep, self.mask)


class Batch(NamedTuple):
    """b sequences of one length, n masked words in each; what is not needed is padding."""

    ids: Tensor  # (b, length) int64: [CLS] A [SEP] B [SEP], some words masked
    segments: Tensor  # (b, length) int64: 1 in B and its [SEP]
    lengths: Tensor  # (b,) int64: words that are no padding
    positions: Tensor  # (b, n) int64: where the masked words stand; 0 where there are fewer than n
    labels: Tensor  # (b, n) int64: the words that stood there, NO_LABEL where there are fewer than n
    unrelated: Tensor  # (b,) int64: 1 where B is not what follows A

    def to(self, device: torch.device) -> Batch:
        return Batch(*(tensor.to(device) for tensor in self))

    def chunks(self, count: int) -> Iterator[Batch]:
        """The batch in `count` parts."""
        for parts in zip(*(tensor.chunk(count) for tensor in self), strict=True):
            yield Batch(*parts)


@dataclass(frozen=True)
class Sequences:
    """Unmasked sequences [CLS] A [SEP] B [SEP]."""

    ids: NDArray[np.int32]  # (n, length)
    lengths: NDArray[np.int64]  # (n,)
    firsts: NDArray[np.int64]  # (n,) words of [CLS] A [SEP]
    unrelated: NDArray[np.int64]  # (n,) 1 where B is not what follows A

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: NDArray[np.intp] | slice) -> Sequences:
        return Sequences(self.ids[rows], self.lengths[rows], self.firsts[rows], self.unrelated[rows])


def join(first: Sequences, second: Sequences) -> Sequences:
    """The sequences of `first` and then of `second`."""
    pairs = zip(vars(first).values(), vars(second).values(), strict=True)
    return Sequences(*(np.concatenate(pair) for pair in pairs))


def sequences(documents: Sequence[Document], length: int, special: Special, rng: random.Random) -> Sequences:
    """One pass over `documents`: sequences of `length` words.

    Whole sentences are collected until they fill a sequence, and cut between two of them, drawn evenly, into A and B.
    In half the cases (and where there is one sentence only) B is thrown back and taken from a place in another document
    instead. What is too long is cut at either end of the longer text.
    """
    room = length - 3
    rows: list[list[int]] = []
    facts: list[tuple[int, int, int]] = []
    for number, document in enumerate(documents):
        start = 0
        while start < len(document):
            goal = rng.randint(2, room) if rng.random() < SHORT_SHARE else room
            stop, words = start, 0
            while stop < len(document) and words < goal:
                words += len(document[stop])
                stop += 1
            middle = rng.randint(start + 1, stop - 1) if stop - start > 1 else stop
            first = _flat(document[start:middle])
            unrelated = middle == stop or rng.random() < 0.5
            if unrelated:
                second = _elsewhere(documents, number, max(goal - len(first), 1), rng)
                start = middle
            else:
                second = _flat(document[middle:stop])
                start = stop
            first, second = _cut(first, second, room, rng)
            row = [special.cls, *first, special.sep, *second, special.sep]
            facts.append((len(row), len(first) + 2, int(unrelated)))
            rows.append(row + [special.pad] * (length - len(row)))
    columns = np.array(facts, dtype=np.int64).reshape(-1, 3)
    ids = np.array(rows, dtype=np.int32).reshape(-1, length)
    return Sequences(ids, columns[:, 0], columns[:, 1], columns[:, 2])


def _flat(sentences: Sequence[Sentence]) -> list[int]:
    return [word for sentence in sentences for word in sentence]


def _elsewhere(documents: Sequence[Document], number: int, words: int, rng: random.Random) -> list[int]:
    """At least `words` words (fewer where it ends) from a sentence on of a document, another one if there is any."""
    other = rng.randrange(len(documents) - 1) if len(documents) > 1 else number
    other += other >= number and len(documents) > 1
    start = rng.randrange(len(documents[other]))
    text: list[int] = []
    for sentence in documents[other][start:]:
        text += sentence
        if len(text) >= words:
            break
    return text


def _cut(first: list[int], second: list[int], room: int, rng: random.Random) -> tuple[list[int], list[int]]:
    """Both texts, cut word by word at a drawn end of the longer one until they fit into `room` words together."""
    cuts = [[0, len(first)], [0, len(second)]]
    for _ in range(len(first) + len(second) - room):
        sizes = [stop - start for start, stop in cuts]
        longer = cuts[0] if sizes[0] > sizes[1] else cuts[1]
        if rng.random() < 0.5:
            longer[0] += 1
        else:
            longer[1] -= 1
    return first[slice(*cuts[0])], second[slice(*cuts[1])]


@dataclass(frozen=True)
class Masking:
    """How words are masked.

    share           of the words that can be masked in a sequence, rounded, at least one word
    most            masked words a sequence at the most
    masked, swapped   of them become [MASK], and another word drawn evenly; the rest stays as it was
    """

    share: float
    most: int
    masked: float
    swapped: float


class Masker:
    """Masks words of sequences: all that are in `vocabulary` (how many there are) except the special ones."""

    def __init__(self, masking: Masking, vocabulary: int, special: Special) -> None:
        self.masking, self.special = masking, special
        self.words = np.setdiff1d(np.arange(vocabulary), special.all())
        self.can = np.zeros(vocabulary, dtype=bool)
        self.can[self.words] = True

    def __call__(self, texts: Sequences, rng: np.random.Generator) -> Batch:
        """The sequences as one batch, their words masked as `rng` draws."""
        return self.disjoint(texts, rng, 1)[0]

    def disjoint(self, texts: Sequences, rng: np.random.Generator, sets: int) -> list[Batch]:
        """The same sequences `sets` times over, with no word masked in two of them."""
        rule = self.masking
        can = self.can[texts.ids]
        order = np.argsort(np.where(can, rng.random(can.shape, dtype=np.float32), 2.0), axis=1)
        number = np.maximum(np.rint(rule.share * can.sum(1)).astype(np.int64), 1).clip(max=rule.most)
        places = np.arange(rule.most)
        made = []
        for part in range(sets):
            rank = part * number[:, None] + places
            valid = (places < number[:, None]) & (rank < can.sum(1)[:, None])
            positions = np.where(valid, np.take_along_axis(order, rank.clip(max=can.shape[1] - 1), 1), 0)
            made.append(self._masked(texts, positions, valid, rng))
        return made

    def _masked(
        self, texts: Sequences, positions: NDArray[np.int64], valid: NDArray[np.bool_], rng: np.random.Generator
    ) -> Batch:
        ids = texts.ids.astype(np.int64)
        words = np.take_along_axis(ids, positions, 1)
        draw = rng.random(positions.shape)
        new = np.where(draw < self.masking.masked, self.special.mask, words)
        if self.masking.swapped:
            swapped = (draw >= self.masking.masked) & (draw < self.masking.masked + self.masking.swapped)
            new = np.where(swapped, rng.choice(self.words, positions.shape), new)
        row = np.broadcast_to(np.arange(len(ids))[:, None], positions.shape)
        ids[row[valid], positions[valid]] = new[valid]
        place = np.arange(ids.shape[1])
        segments = (place >= texts.firsts[:, None]) & (place < texts.lengths[:, None])
        labels = np.where(valid, words, NO_LABEL)
        arrays = (ids, segments.astype(np.int64), texts.lengths, positions, labels, texts.unrelated)
        return Batch(*(torch.from_numpy(array) for array in arrays))


def spread(texts: Sequences, count: int) -> Sequences:
    """`count` of the sequences at even distances, or all where there are no more."""
    if len(texts) <= count:
        return texts
    return texts.take(np.arange(count) * len(texts) // count)
