"""The three texts of a run: one that trains weights, one that rewards cells, one that the derived cell is judged on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from reference.common import runs, sources, wikipedia

from . import made_up, metric, ptb, units

# The excerpt's articles go to PARTS parts by the MD5 of their title. Nothing is trained on these parts:
PARTS, REWARD_PART, EVALUATION_PART, VALIDATION_PART = 20, 14, 9, 12
SENTENCES = (1500, 150, 150, 150)  # made up: to train on, for rewards, evaluation and validation


@dataclass(frozen=True)
class Texts:
    """int64 symbols of each text, on the run's device.

    lengths (symbols,): of each symbol, in the unit of the perplexity: its characters, or 1 for words. `spelled` says
    what the symbols stand for. `train_units` and `held_out_units` are the texts in that unit, int64 numpy arrays below
    `unit_count`: n-gram tables are made of them.
    """

    train: Tensor
    reward: Tensor
    held_out: Tensor
    lengths: Tensor
    spelled: Sequence[str]
    train_units: np.ndarray
    held_out_units: np.ndarray
    unit_count: int


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
    """The texts of the run's profile. Raises SetupError for settings and files that don't fit."""
    hp = run.settings
    if hp.held_out not in ("evaluation", "validation"):
        raise runs.SetupError(f"--held-out is evaluation or validation, not {hp.held_out}")
    if run.profile.name == "full":
        parts, words, found = ptb.read(run.require_data_dir(ptb.LAYOUT))
        train, valid, test = parts
        held_out = test if hp.held_out == "evaluation" else valid
        texts = _texts(run, (train, valid, held_out), np.ones(len(words), dtype=np.int64), words, train, held_out)
    else:
        raw, found = _wikipedia(run) if run.profile.name == "embedded" else _made_up(hp.held_out)
        if hp.vocab_size < len(units.ALPHABET):
            raise runs.SetupError(f"--vocab-size must be at least {len(units.ALPHABET)}, the characters")
        normal = [units.normal(text) for text in raw]
        merges = units.learn(normal[0], hp.vocab_size)
        in_characters = [units.characters(text) for text in normal]
        spelled = units.spellings(merges)
        lengths = np.array([len(symbol) for symbol in spelled])
        encoded = [units.encode(line, merges) for line in in_characters]
        texts = _texts(run, encoded, lengths, spelled, in_characters[0], in_characters[2])
    run.describe_data(len(texts.train), len(texts.held_out) - 1, found)
    return texts


def _wikipedia(run: runs.Run) -> tuple[list[str], list[sources.Source]]:
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


def _made_up(held_out: str) -> tuple[list[str], list[sources.Source]]:
    judged = 2 if held_out == "evaluation" else 3
    texts = [made_up.text(SENTENCES[part], seed=part) for part in (0, 1, judged)]
    arrays = (np.frombuffer(text.encode(), dtype=np.uint8) for text in texts)
    return texts, [sources.generated("made-up sentences", made_up.VERSION, *arrays)]


def _texts(
    run: runs.Run,
    parts: Sequence[np.ndarray],
    lengths: np.ndarray,
    spelled: Sequence[str],
    train_units: np.ndarray,
    held_out_units: np.ndarray,
) -> Texts:
    if len(spelled) != run.settings.vocab_size:
        raise runs.SetupError(f"--vocab-size {run.settings.vocab_size}: the training text has {len(spelled)} symbols")
    train, reward, held_out, sizes = (torch.from_numpy(part).to(run.device) for part in (*parts, lengths))
    count = len(spelled) if run.profile.name == "full" else len(units.ALPHABET)
    return Texts(train, reward, held_out, sizes, spelled, train_units, held_out_units, count)
