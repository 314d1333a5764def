"""What captions are worth that need no network: counts of words, without the picture or with its nearest neighbours."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from . import metric, words

Caption = Sequence[int]
NEIGHBOURS = (5, 50)  # nearest training pictures whose captions tell the next word
CONSTANT_CHOICES = 300  # captions that are tried as the one for every picture
PIXELS = 8  # a side, at which pictures are compared


class Counts:
    """Interpolated n-gram probabilities of the next token (Witten and Bell): each order backs off to the one below.

    Below the single words lies an even chance for each of `vocabulary` words that can follow.
    """

    def __init__(self, captions: Iterable[Caption], order: int, vocabulary: int) -> None:
        self.order, self.vocabulary = order, vocabulary
        self.follow: dict[tuple[int, ...], Counter[int]] = defaultdict(Counter)
        for caption in captions:
            row = [words.START] * (order - 1) + [*caption, words.END]
            for place in range(order - 1, len(row)):
                for length in range(order):
                    self.follow[tuple(row[place - length : place])][row[place]] += 1
        self.totals = {context: sum(counts.values()) for context, counts in self.follow.items()}

    def probability(self, before: Sequence[int], token: int) -> float:
        """Of `token` after the tokens `before`, of which the last order - 1 count."""
        value = 1.0 / self.vocabulary
        for length in range(self.order):
            context = tuple(before[len(before) - length :])
            counts = self.follow.get(context)
            if counts is None:
                break
            kinds = len(counts)
            value = (counts[token] + kinds * value) / (self.totals[context] + kinds)
        return value


def perplexity(model: Counts, captions: Iterable[Caption]) -> float:
    """Over all tokens of the captions, END included."""
    total, tokens = 0.0, 0
    for caption in captions:
        row = [words.START] * (model.order - 1) + [*caption, words.END]
        for place in range(model.order - 1, len(row)):
            total -= math.log(model.probability(row[place - model.order + 1 : place], row[place]))
            tokens += 1
    return math.exp(total / tokens)


def language_models(
    train: Sequence[Caption], held_out: Sequence[Caption], vocabulary: int, orders: Sequence[int]
) -> dict[str, float]:
    """Perplexity of the held-out captions by counts of these orders, which don't see the picture."""
    follow = vocabulary - 2  # not PAD nor START
    return {f"{order}-gram": perplexity(Counts(train, order, follow), held_out) for order in orders}


def reduced(pictures: Tensor) -> Tensor:
    """Pictures (n, 3, h, w) as rows of PIXELS x PIXELS colours (n, values), each row with mean 0 and length 1."""
    small = torch.nn.functional.adaptive_avg_pool2d(pictures, PIXELS).flatten(1)
    return torch.nn.functional.normalize(small - small.mean(dim=1, keepdim=True))


def nearest(train: Tensor, held_out: Tensor, count: int) -> Tensor:
    """The `count` training pictures most like each held-out one, by their `reduced` rows: (held out, count)."""
    return (held_out @ train.T).topk(min(count, len(train))).indices


def neighbour_perplexities(
    train: Sequence[Sequence[Caption]], held_out: Sequence[Sequence[Caption]], near: Tensor, vocabulary: int
) -> dict[str, float]:
    """Perplexity by 5-gram counts over the captions of each picture's nearest, mixed half and half with all captions'.

    near: (held out, neighbours), the nearest first. Captions are given by picture.
    """
    order, follow = 5, vocabulary - 2
    everyone = Counts([caption for own in train for caption in own], order, follow)
    found = {}
    for count in NEIGHBOURS:
        if count > near.shape[1]:
            continue
        total, tokens = 0.0, 0
        for own, rows in zip(held_out, near[:, :count].tolist(), strict=True):
            local = Counts([caption for row in rows for caption in train[row]], order, follow)
            for caption in own:
                row = [words.START] * (order - 1) + [*caption, words.END]
                for place in range(order - 1, len(row)):
                    before, token = row[place - order + 1 : place], row[place]
                    mixed = 0.5 * local.probability(before, token) + 0.5 * everyone.probability(before, token)
                    total -= math.log(mixed)
                    tokens += 1
        found[f"5-gram_of_{count}_nearest"] = math.exp(total / tokens)
    return found


def best_constant(train: Sequence[str], references: Sequence[Sequence[str]]) -> tuple[str, float]:
    """The most frequent training captions, each tried as the one for every picture: the best and its BLEU-4.

    The choice is made on the references themselves, so that it is an upper bound for a constant among those tried.
    """
    tried = [text for text, _ in Counter(train).most_common(CONSTANT_CHOICES)]
    some = references[:: max(1, len(references) // 30)]
    tried = sorted(tried, key=lambda text: -metric.bleu_4([text] * len(some), some))[:5]
    return max(
        ((text, metric.bleu_4([text] * len(references), references)) for text in tried), key=lambda pair: pair[1]
    )
