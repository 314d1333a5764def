"""What predicts the next token without a network: counts of words and a dictionary learned from the pairs.

All predict under teacher forcing as the model does: from the source and the true target tokens before.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from .data import Pairs
from .metric import END, START, UNKNOWN, accuracy, token_counts
from .model import PAD

DICTIONARY_ROUNDS = 6  # of expectation and maximisation
LEFT_OVER = 0.02  # share of a word's weight that is left when its source word has been translated already
BATCH = 100

Predict = Callable[[Tensor, Tensor], Tensor]


class Counts:
    """Interpolated word, bigram and trigram probabilities of the next target token (Witten-Bell)."""

    def __init__(self, targets: list[list[int]], words: int) -> None:
        self.words = words
        rows = [[START, START, *row, END] for row in targets]
        grams = np.array([row[k : k + 3] for row in rows for k in range(len(row) - 2)])
        count = np.bincount(grams[:, 2], minlength=words).astype(float)
        count[[PAD, START, UNKNOWN]] = 0
        self.one = count / count.sum()
        table = np.zeros((words, words))
        np.add.at(table, (grams[:, 1], grams[:, 2]), 1)
        self.two = _interpolated(table, self.one)
        self.context = {}
        order = np.lexsort((grams[:, 1], grams[:, 0]))
        keys, starts = np.unique(grams[order][:, 0] * words + grams[order][:, 1], return_index=True)
        for key, follow in zip(keys.tolist(), np.split(grams[order][:, 2], starts[1:]), strict=True):
            self.context[key] = follow

    def three(self, before: int, last: int) -> np.ndarray:
        """Probabilities [words] of the token after these two."""
        follow = self.context.get(before * self.words + last)
        lower = self.two[last]
        if follow is None:
            return lower
        count = np.bincount(follow, minlength=self.words)
        kinds = np.count_nonzero(count)
        return (count + kinds * lower) / (len(follow) + kinds)


def _interpolated(table: np.ndarray, lower: np.ndarray) -> np.ndarray:
    kinds = np.count_nonzero(table, axis=1)[:, None]
    total = table.sum(axis=1)[:, None] + kinds
    return np.where(total > 0, (table + kinds * lower) / np.maximum(total, 1), lower)


def dictionary(sources: list[list[int]], targets: list[list[int]], source_words: int, target_words: int) -> np.ndarray:
    """IBM model 1: the probability [source words, target words] that a source word's translation is a target word.

    Every target token, the end among them, comes from one of the sentence's source tokens or from nothing (PAD).
    """
    cells, owners, owner = [], [], 0
    for source, target in zip(sources, targets, strict=True):
        froms, tos = np.array([PAD, *source]), np.array([*target, END])
        cells.append((froms[None, :] * target_words + tos[:, None]).ravel())
        owners.append(np.repeat(np.arange(owner, owner + len(tos)), len(froms)))
        owner += len(tos)
    cell, owned = np.concatenate(cells), np.concatenate(owners)
    table = np.full(source_words * target_words, 1 / target_words)
    for _ in range(DICTIONARY_ROUNDS):
        share = table[cell]
        share /= np.bincount(owned, share, minlength=owner)[owned]
        grid = np.bincount(cell, share, minlength=len(table)).reshape(source_words, target_words)
        table = (grid / np.maximum(grid.sum(axis=1, keepdims=True), 1e-12)).ravel()
    return table.reshape(source_words, target_words)


def with_dictionary(counts: Counts, table: np.ndarray) -> Predict:
    """Trigrams times what the source's words still call for: their translations less what has been said already."""

    def predict(source: Tensor, given: Tensor) -> Tensor:
        scores = np.zeros((*given.shape, counts.words))
        for row, (froms, before) in enumerate(zip(source.cpu().numpy(), given.cpu().numpy(), strict=True)):
            called = table[PAD] + table[froms[(froms != PAD) & (froms != END)]].sum(axis=0)
            said = np.zeros(counts.words)
            for place, last in enumerate(before):
                if place:
                    said[last] += 1
                left = np.maximum(called - said, LEFT_OVER * called)
                scores[row, place] = counts.three(before[place - 1] if place else START, last) * left
        return torch.from_numpy(scores).to(source.device)

    return predict


def scores(train: Pairs, held_out: Pairs, source_words: int, target_words: int) -> dict[str, float]:
    """The token accuracy of each on the held-out pairs."""
    sources, targets = (
        [side.flat[start:stop].tolist() for start, stop in zip(side.starts, side.starts[1:], strict=False)]
        for side in (train.source, train.target)
    )
    counts = Counts(targets, target_words)
    table = dictionary(sources, targets, source_words, target_words)
    one, two = torch.from_numpy(counts.one), torch.from_numpy(counts.two)

    def trigram(source: Tensor, given: Tensor) -> Tensor:
        pairs = [zip([START, *row[:-1]], row, strict=True) for row in given.tolist()]
        return torch.from_numpy(np.array([[counts.three(*pair) for pair in row] for row in pairs])).to(given.device)

    ways: dict[str, Predict] = {
        "most_frequent": lambda source, given: one.expand(*given.shape, -1),
        "bigram": lambda source, given: two[given.cpu()].to(given.device),
        "trigram": trigram,
        "trigram_x_dictionary": with_dictionary(counts, table),
    }
    return {name: accuracy(*token_counts(way, held_out.in_order(BATCH))) for name, way in ways.items()}
