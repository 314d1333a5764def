"""Headlines without a network: the beginning, the nearest training sentence's headline, and words kept by counts.

Each is judged as the model is, on the same sentences, by mean ROUGE-L F1. Where a number is to be chosen (how many
words, which threshold), it is the one that does best on the very sentences that are judged: a favour to the baselines.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import numpy as np
from scipy.sparse import csr_array

from . import metric

Words = Sequence[str]
Way = Callable[[Sequence[Words]], Sequence[Words]]  # sentences -> headlines

LEADS = (4, 5, 6, 7, 8, 10)
THRESHOLDS = (0.15, 0.2, 0.25, 0.35)
SMOOTHING = 4.0  # sentences that a word's share starts with, at the share of all words
UNSEEN = 0.5  # share of a word that no training sentence has


class Nearest:
    """The headline of the training sentence with the highest cosine, words weighed by their rareness (tf-idf)."""

    def __init__(self, sources: Sequence[Words], titles: Sequence[Words]) -> None:
        self.titles = titles
        counts = Counter(word for source in sources for word in set(source))
        self.numbers = {word: number for number, word in enumerate(counts)}
        self.weight = np.log(len(sources) / np.array(list(counts.values())))
        self.rows = self._weighed(sources)

    def __call__(self, sources: Sequence[Words]) -> list[Words]:
        """A headline for each sentence; of equally near ones the first."""
        closeness = self._weighed(sources) @ self.rows.T
        return [self.titles[row] for row in np.asarray(closeness.argmax(axis=1)).ravel()]

    def _weighed(self, sources: Sequence[Words]) -> csr_array:
        """Vectors of length 1 (or 0) of the known words of each sentence, each counted once."""
        columns = [sorted(self.numbers[word] for word in set(source) if word in self.numbers) for source in sources]
        starts = np.cumsum([0, *map(len, columns)])
        flat = np.array([column for row in columns for column in row], dtype=np.int64)
        values = self.weight[flat]
        squares = np.bincount(np.repeat(np.arange(len(columns)), np.diff(starts)), values**2, minlength=len(columns))
        values = values / np.repeat(np.sqrt(np.maximum(squares, 1e-12)), np.diff(starts))
        return csr_array((values, flat, starts), shape=(len(columns), len(self.numbers)))


class Kept:
    """Keeps each word that is in the headline in at least `threshold` of the training sentences that have it.

    With `verbs`, the first word is replaced by what headlines most often begin with after that first word.
    """

    def __init__(self, sources: Sequence[Words], titles: Sequence[Words], verbs: bool) -> None:
        seen: Counter[str] = Counter()
        kept: Counter[str] = Counter()
        begins: dict[str, Counter[str]] = defaultdict(Counter)
        for source, title in zip(sources, titles, strict=True):
            seen.update(set(source))
            kept.update(set(source) & set(title))
            begins[source[0]][title[0]] += 1
        usual = sum(kept.values()) / sum(seen.values())
        self.share = {word: (kept[word] + SMOOTHING * usual) / (count + SMOOTHING) for word, count in seen.items()}
        self.begin = {word: counts.most_common(1)[0][0] for word, counts in begins.items()} if verbs else None
        self.threshold = 0.5

    def __call__(self, sources: Sequence[Words]) -> list[Words]:
        return [self._of(source) for source in sources]

    def _of(self, source: Words) -> Words:
        begin = [] if self.begin is None else [self.begin.get(source[0], source[0])]
        rest = source if self.begin is None else source[1:]
        words = [word for word in rest if self.share.get(word, UNSEEN) >= self.threshold]
        return list(dict.fromkeys([*begin, *words]))


def scores(
    sources: Sequence[str], titles: Sequence[str], held_out_sources: Sequence[str], held_out_titles: Sequence[str]
) -> dict[str, float]:
    """ROUGE-L of each way on the held-out sentences, by name; all four are texts of words between blanks."""
    train = [text.split() for text in sources], [text.split() for text in titles]
    asked = [text.split() for text in held_out_sources]
    found = {
        **leads(held_out_sources, held_out_titles),
        "nearest_sentence": judged(Nearest(*train), asked, held_out_titles),
    }
    for name, verbs in (("kept_words", False), ("verb_and_kept_words", True)):
        kept, values = Kept(*train, verbs), []
        for kept.threshold in THRESHOLDS:
            values.append(judged(kept, asked, held_out_titles))
        found[name] = max(values)
    return found


def leads(sources: Sequence[str], titles: Sequence[str]) -> dict[str, float]:
    """The best number of first words, by name."""
    asked = [text.split() for text in sources]
    values = {f"lead_{count}": judged(_lead(count), asked, titles) for count in LEADS}
    best = max(values, key=values.__getitem__)
    return {best: values[best]}


def _lead(count: int) -> Way:
    return lambda sources: [source[:count] for source in sources]


def judged(way: Way, sources: Sequence[Words], titles: Sequence[str]) -> float:
    return metric.rouge([" ".join(words) for words in way(sources)], titles, ("rougeL",))["rougeL"]
