"""The three texts of a run: one that trains weights, one that rewards cells, one that the derived cell is judged on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reference.common import runs, sources, wikipedia

from . import clauses, metric, ptb, units

# The excerpt's articles go to PARTS parts by the MD5 of their title. Nothing is trained on these parts:
PARTS, REWARD_PART, EVALUATION_PART, VALIDATION_PART = 20, 14, 9, 12
# Made up: characters to train on, for rewards, and of the judged text; each text is drawn with a seed of its own.
CHARACTERS = {"embedded": (1_000_000, 60_000, 60_000), "smoke": (30_000, 3_000, 3_000)}


@dataclass(frozen=True)
class Texts:
    """int64 symbols of each text, on the run's device.

    lengths (symbols,): of each symbol, in the unit of the perplexity: its characters, or 1 for words. `spelled` says
    what the symbols stand for. `train_units` and `held_out_units` are the texts in that unit, int64 numpy arrays below
    `unit_count`: n-gram tables are made of them. `floor` is the perplexity on `held_out_units` of the language itself,
    known where the text is made by code.
    """

    train: Tensor
    reward: Tensor
    held_out: Tensor
    lengths: Tensor
    spelled: Sequence[str]
    train_units: np.ndarray
    held_out_units: np.ndarray
    unit_count: int
    floor: float | None = None


class Reader:
    """Reads a text in `streams` parallel parts, `steps` symbols at a time, and starts again at its end, endlessly.

    What is left when the text is cut into equal streams, fewer symbols than there are streams, is not read; a piece at
    the end of the streams may be shorter. Raises SetupError for a text too short for one symbol a stream.
    """

    def __init__(self, text: Tensor, streams: int, steps: int) -> None:
        length = (len(text) - 1) // streams
        if length < 1:
            raise runs.SetupError(f"a text of {len(text)} symbols cannot be cut into {streams} streams")
        self.text = text[: length * streams].view(streams, length).T.contiguous()
        self.following = text[1 : length * streams + 1].view(streams, length).T.contiguous()
        self.steps, self.place = steps, 0

    def pieces(self, count: int) -> Iterator[tuple[Tensor, Tensor]]:
        """The next `count` pieces: what follows (n * streams,), and the text (n, streams); n is at most `steps`."""
        for _ in range(count):
            place, stop = self.place, min(self.place + self.steps, len(self.text))
            self.place = stop if stop < len(self.text) else 0
            yield self.following[place:stop].flatten(), self.text[place:stop]


def once(text: Tensor, streams: int, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
    """All of a text once, as Reader's pieces: every symbol but the first is predicted exactly once.

    The last streams are filled up with symbol 0, and what would follow there is metric.PADDING.
    """
    predicted = len(text) - 1
    length = -(-predicted // streams)
    room = length * streams
    filled, following = text.new_zeros(room), text.new_full((room,), metric.PADDING)
    filled[:predicted], following[:predicted] = text[:-1], text[1:]
    filled, following = (line.view(streams, length).T.contiguous() for line in (filled, following))
    for place in range(0, length, steps):
        yield following[place : place + steps].flatten(), filled[place : place + steps]


def load(run: runs.Run) -> Texts:
    """The texts that `text` names. Raises SetupError for settings and files that don't fit."""
    hp = run.settings
    if hp.held_out not in ("evaluation", "validation"):
        raise runs.SetupError(f"--held-out is evaluation or validation, not {hp.held_out}")
    readers = {"penn-treebank": _treebank, "clauses": _clauses, "wikipedia": _wikipedia}
    if hp.text not in readers:
        raise runs.SetupError(f"--text is {', '.join(readers)}, not {hp.text}")
    texts, found = readers[hp.text](run)
    if len(texts.spelled) != hp.vocab_size:
        raise runs.SetupError(f"--vocab-size {hp.vocab_size}: the training text has {len(texts.spelled)} symbols")
    run.describe_data(len(texts.train), len(texts.held_out) - 1, found)
    return texts


Read = tuple[Texts, list[sources.Source]]


def _treebank(run: runs.Run) -> Read:
    """Words of the Penn Treebank."""
    parts, words, found = ptb.read(run.require_data_dir(ptb.LAYOUT))
    train, valid, test = parts
    held_out = test if run.settings.held_out == "evaluation" else valid
    lengths = np.ones(len(words), dtype=np.int64)
    return Texts(*_tensors(run, train, valid, held_out, lengths), words, train, held_out, len(words)), found


def _clauses(run: runs.Run) -> Read:
    """Characters of the made-up language."""
    sizes = CHARACTERS.get(run.profile.name, CHARACTERS["embedded"])
    judged = 2 if run.settings.held_out == "evaluation" else 3
    made = [clauses.text(size, seed) for size, seed in zip(sizes, (0, 1, judged), strict=True)]
    parts = [clauses.encode(text) for text, _ in made]
    source = sources.generated("clauses of a made-up language", clauses.VERSION, *parts)
    floor = float(np.exp(made[2][1][1:].mean()))
    count = len(clauses.ALPHABET)
    lengths = np.ones(count, dtype=np.int64)
    tensors = _tensors(run, *parts, lengths)
    return Texts(*tensors, clauses.ALPHABET, parts[0], parts[2], count, floor), [source]


def _wikipedia(run: runs.Run) -> Read:
    """Merged pairs of characters of Wikipedia articles; the perplexity is per character."""
    if run.settings.vocab_size < len(units.ALPHABET):
        raise runs.SetupError(f"--vocab-size must be at least {len(units.ALPHABET)}, the characters")
    articles, found = _articles(run)
    normal = [units.normal(text) for text in articles]
    merges = units.learn(normal[0], run.settings.vocab_size)
    in_characters = [units.characters(text) for text in normal]
    spelled = units.spellings(merges)
    lengths = np.array([len(symbol) for symbol in spelled])
    tensors = _tensors(run, *(units.encode(line, merges) for line in in_characters), lengths)
    return Texts(*tensors, spelled, in_characters[0], in_characters[2], len(units.ALPHABET)), found


def _tensors(run: runs.Run, *arrays: np.ndarray) -> list[Tensor]:
    return [torch.from_numpy(array).to(run.device) for array in arrays]


def _articles(run: runs.Run) -> tuple[list[str], list[sources.Source]]:
    """The articles of each part, a blank between them, and the file that they are from."""
    path, source = wikipedia.excerpt(run.data_dir)
    articles = wikipedia.articles(path)
    judged = EVALUATION_PART if run.settings.held_out == "evaluation" else VALIDATION_PART
    train, _ = wikipedia.split(articles, PARTS, (REWARD_PART, EVALUATION_PART, VALIDATION_PART))
    reward, held_out = (wikipedia.split(articles, PARTS, (part,))[1] for part in (REWARD_PART, judged))
    titles = [{title for title, _ in part} for part in (train, reward, held_out)]
    if any(one & other for one, other in ((titles[0], titles[1]), (titles[0], titles[2]), (titles[1], titles[2]))):
        raise ValueError("an article is in two of the texts")
    if not (train and reward and held_out):
        raise runs.SetupError(f"{path.name}: {len(articles)} articles leave one of the three texts empty")
    return [" ".join(text for _, text in part) for part in (train, reward, held_out)], [source]
