"""What a model has to beat: tables of what stood beside what in the training text, asked about the same masked input.

A table sees what the model sees: where a neighbour is masked, padding or a separator it has to do without. All counting
is within articles, and only words that can be masked are guessed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .pairs import NO_LABEL, Batch, Document, Special

AT_ONCE = 1024  # masked words
ABSENT = -1  # a neighbour that is not to be seen


def accuracies(
    documents: Sequence[Document], batches: Sequence[Batch], vocabulary: int, special: Special
) -> dict[str, float]:
    """Masked accuracy of each table, by name, over all masked words of `batches`."""
    tables = Tables(documents, vocabulary, special)
    labels, around = questions(batches, special)
    right: dict[str, int] = defaultdict(int)
    for start in range(0, len(labels), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        for name, guesses in tables.guesses(around[part]).items():
            right[name] += int((guesses == labels[part]).sum())
    return {name: count / len(labels) for name, count in right.items()}


def questions(batches: Sequence[Batch], special: Special) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The masked words (n,), and the two words to the left and to the right of each (n, 4): l2, l1, r1, r2."""
    hidden = (special.pad, special.cls, special.sep, special.mask)
    labels, around = [], []
    for batch in batches:
        ids = np.pad(batch.ids.numpy(), ((0, 0), (2, 2)), constant_values=special.pad)
        ids[np.isin(ids, hidden)] = ABSENT
        rows, columns = np.nonzero(batch.labels.numpy() != NO_LABEL)
        place = batch.positions.numpy()[rows, columns] + 2
        labels.append(batch.labels.numpy()[rows, columns])
        around.append(np.stack([ids[rows, place + shift] for shift in (-2, -1, 1, 2)], axis=1))
    return np.concatenate(labels), np.concatenate(around)


class Contexts:
    """Which words but the special ones stood where certain others stood at `shifts` from them, in all texts."""

    def __init__(
        self, texts: Sequence[NDArray[np.int64]], shifts: tuple[int, ...], vocabulary: int, special: Special
    ) -> None:
        self.base = vocabulary + 1  # ABSENT becomes 0
        keys, words = [], []
        for text in texts:
            low, high = max(0, -min(shifts)), len(text) - max(0, *shifts)
            if high > low:
                keys.append(self._keys(np.stack([text[low + shift : high + shift] for shift in shifts], axis=1)))
                words.append(text[low:high])
        all_keys, all_words = np.concatenate(keys), np.concatenate(words)
        kept = ~np.isin(all_words, special.all())
        all_keys, all_words = all_keys[kept], all_words[kept]
        order = np.argsort(all_keys, kind="stable")
        self.keys, self.words = all_keys[order], all_words[order]

    def _keys(self, around: NDArray[np.int64]) -> NDArray[np.int64]:
        """One number for each row of neighbours."""
        key = np.zeros(len(around), dtype=np.int64)
        for column in around.T:
            key = key * self.base + column + 1
        return key

    def seen(self, around: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
        """For each row of `around` whose context occurred: the row's number, the words there, and how often each."""
        keys = self._keys(around)
        starts, stops = (np.searchsorted(self.keys, keys, side) for side in ("left", "right"))
        for row in np.flatnonzero(stops > starts):
            yield row, *np.unique(self.words[starts[row] : stops[row]], return_counts=True)


class Tables:
    """Counts of the training text: single words, followers, words between two others, and trigrams to both sides."""

    def __init__(self, documents: Sequence[Document], vocabulary: int, special: Special) -> None:
        texts = [np.array([word for sentence in document for word in sentence]) for document in documents]
        banned = np.array(special.all())
        self.alone = np.bincount(np.concatenate(texts), minlength=vocabulary).astype(np.float64)
        self.alone[banned] = 0  # never the answer
        self.alone_share = self.alone / self.alone.sum()
        pairs = np.concatenate([text[:-1] * vocabulary + text[1:] for text in texts])
        followers = np.bincount(pairs, minlength=vocabulary**2).reshape(vocabulary, -1).astype(np.float64)  # [l, w]
        before = followers.T.copy()  # [r, w]
        for table in (followers, before):
            table[:, banned] = 0
        self.followers, self.before = followers, before
        self.after_share, self.before_share = (witten_bell(table, self.alone_share) for table in (followers, before))
        self.between = Contexts(texts, (-1, 1), vocabulary, special)
        self.after_two = Contexts(texts, (-2, -1), vocabulary, special)
        self.before_two = Contexts(texts, (1, 2), vocabulary, special)
        self.window = Contexts(texts, (-2, -1, 1, 2), vocabulary, special)

    def guesses(self, around: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
        """The word (n,) that each table names between the neighbours `around` (n, 4)."""
        left, right = around[:, 1], around[:, 2]
        majority = np.full(len(around), self.alone.argmax())
        after, before = (_backed(table, near) for table, near in ((self.followers, left), (self.before, right)))
        by_left = np.where(after.any(1), after.argmax(1), majority)
        either = np.where(after.any(1), by_left, np.where(before.any(1), before.argmax(1), majority))
        both = self.looked_up(self.between, around[:, 1:3], either)
        left_share = _backed(self.after_share, left, self.alone_share)
        right_share = _backed(self.before_share, right, self.alone_share)
        product = self.product(left_share, right_share)
        paired = self.mixed(self.between, around[:, 1:3], product)
        two_left = self.mixed(self.after_two, around[:, :2], left_share)
        two_right = self.mixed(self.before_two, around[:, 2:], right_share)
        trigrams = self.mixed(self.between, around[:, 1:3], self.product(two_left, two_right))
        return {
            "most frequent word": majority,
            "left neighbour": by_left,
            "both neighbours": both,
            "two neighbours on each side": self.looked_up(self.window, around, both),
            "left x right": product.argmax(1),
            "left x right, pairs": paired.argmax(1),
            "left x right, pairs, trigrams": trigrams.argmax(1),
        }

    def product(self, left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
        """P(w | left) P(w | right) / P(w), summing to 1: right where both sides are independent given the word."""
        both = left * right / np.maximum(self.alone_share, 1e-12)
        return both / np.maximum(both.sum(1, keepdims=True), 1e-300)

    @staticmethod
    def looked_up(table: Contexts, around: NDArray[np.int64], otherwise: NDArray[np.int64]) -> NDArray[np.int64]:
        """The most frequent word of each context, `otherwise` where it never occurred."""
        found = otherwise.copy()
        for row, words, counts in table.seen(around):
            found[row] = words[counts.argmax()]
        return found

    @staticmethod
    def mixed(table: Contexts, around: NDArray[np.int64], below: NDArray[np.float64]) -> NDArray[np.float64]:
        """Shares of each context, smoothed by `below` (n, vocabulary) as Witten and Bell do."""
        found = below.copy()
        for row, words, counts in table.seen(around):
            found[row] *= len(words)
            found[row, words] += counts
            found[row] /= len(words) + counts.sum()
        return found


def witten_bell(counts: NDArray[np.float64], below: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares of each row of `counts`, smoothed by `below`: as likely something new as there are kinds seen."""
    kinds = np.count_nonzero(counts, axis=1)[:, None]
    total = counts.sum(1, keepdims=True) + kinds
    return np.where(total > 0, (counts + kinds * below) / np.maximum(total, 1), below)


def _backed(
    table: NDArray[np.float64], near: NDArray[np.int64], below: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Rows of `table` (n, vocabulary) for the words `near`; `below`, or 0, where there is none to be seen."""
    rows = table[near.clip(min=0)].copy()
    rows[near == ABSENT] = 0.0 if below is None else below
    return rows
