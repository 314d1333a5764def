"""A seeded generator of Criteo-shaped clicks: 13 counts, 26 categories, and a click probability that is known.

Needs no file and no licence. Because the probability behind every click is known, so is the best AUC that any model can
expect to reach on a sample of it (Bayes AUC).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reference.common.errors import SetupError

from .samples import Samples

VERSION = "1"  # changes with any change of the numbers below or of the drawing
NUMBERS, RANK = 13, 4
TABLE_ROWS = (900, 400, 300, 200, 200, 3, 150, 100, 63, 900, 600, 500, 10, 250, 300, 155, 4, 97, 14, 900, 800, 900, 500,
              200, 108, 36)  # fmt: skip
WORLD, BLOCK, EVALUATION_BLOCK = 2024, 500, 1_000_000  # evaluation blocks are numbered apart from the training ones


def load(train_samples: int, eval_samples: int) -> tuple[Samples, Samples, NDArray[np.float64]]:
    """Training samples, held-out samples, and the true click probability of the held-out ones (n,)."""
    train, _ = draw(train_samples, first_block=0)
    held_out, probability = draw(eval_samples, first_block=EVALUATION_BLOCK)
    return train, held_out, probability


def draw(count: int, first_block: int) -> tuple[Samples, NDArray[np.float64]]:
    """`count` samples and their click probabilities. Each block of 500 has its own generator: the n-th sample is the
    same however many are asked for."""
    if not 0 < count <= BLOCK * EVALUATION_BLOCK:
        raise SetupError(f"the generator draws 1 to {BLOCK * EVALUATION_BLOCK:,} samples, not {count}")
    blocks = [block(first_block + number) for number in range(-(-count // BLOCK))]
    labels, dense, categories, probability = (np.concatenate(parts)[:count] for parts in zip(*blocks, strict=True))
    return Samples(labels, dense, categories, TABLE_ROWS), probability


def block(number: int) -> tuple[NDArray, NDArray, NDArray, NDArray]:
    """Labels, dense, categories and probabilities of the block of 500 samples with this number."""
    weights, effects, factors = world()
    rng = np.random.default_rng([WORLD, number])
    counts = np.floor(rng.lognormal(mean=1.0, sigma=1.5, size=(BLOCK, NUMBERS)))
    dense = np.log1p(counts).astype(np.float32)
    categories = np.stack([zipf(rng, rows) for rows in TABLE_ROWS], axis=1)
    single = sum(effects[field][categories[:, field]] for field in range(len(TABLE_ROWS)))
    vectors = np.stack([factors[field][categories[:, field]] for field in range(len(TABLE_ROWS))], axis=1)
    pairs = (vectors.sum(axis=1) ** 2 - (vectors**2).sum(axis=1)).sum(axis=1) / 2
    logit = -1.0 + (dense - 1.3) @ weights + single + pairs
    probability = 1 / (1 + np.exp(-logit))
    labels = (rng.random(BLOCK) < probability).astype(np.float32)
    return labels, dense, categories, probability


def zipf(rng: np.random.Generator, rows: int) -> NDArray[np.int64]:
    """A block of indices below `rows`; index k has a probability in proportion to 1 / (k + 1)."""
    share = np.cumsum(1 / np.arange(1, rows + 1))
    return np.searchsorted(share, rng.random(BLOCK) * share[-1], side="right")


def world() -> tuple[NDArray, list[NDArray], list[NDArray]]:
    """What a model has to find out: weights of the numbers, and for each table an effect and a vector a row."""
    rng = np.random.default_rng(WORLD)
    weights = rng.normal(scale=0.15, size=NUMBERS)
    effects = [rng.normal(scale=0.15, size=rows) for rows in TABLE_ROWS]
    factors = [rng.normal(scale=0.16, size=(rows, RANK)) for rows in TABLE_ROWS]
    return weights, effects, factors
