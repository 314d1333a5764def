"""Tables of n-grams, scored on the text that the model is judged on."""

from __future__ import annotations

import numpy as np


class Table:
    """Sorted int64 keys with values; a key that is not there has the value 0."""

    def __init__(self, keys: np.ndarray, values: np.ndarray) -> None:
        self.keys, self.values = keys, values

    def __getitem__(self, keys: np.ndarray) -> np.ndarray:
        if not len(self.keys):
            return np.zeros(len(keys))
        at = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.values[at], 0.0)


def perplexities(train: np.ndarray, held_out: np.ndarray, symbols: int, orders: int) -> dict[str, float]:
    """Perplexity per symbol of `held_out` under n-gram tables of `train` (int64 symbols), for every order to `orders`.

    witten_bell_N     interpolated with the next shorter context by the number of distinct symbols seen after a context
    kneser_ney_N      modified Kneser-Ney: three discounts estimated from the counts, shorter contexts by how many
                      different symbols stand before an n-gram, interpolated (Chen and Goodman, 1998)

    The unigram's prior is uniform. The first symbol of `held_out` is not scored, as the model cannot predict it.

    Raises ValueError when symbols ** orders does not fit an int64.
    """
    if symbols**orders >= 2**63:
        raise ValueError(f"n-grams of {orders} of {symbols} symbols have no int64 number")
    found: dict[str, float] = {}
    witten_bell = lower = np.full(len(held_out), 1 / symbols)  # probabilities of the held-out symbols
    context = np.zeros(len(held_out), dtype=np.int64)
    for order in range(1, orders + 1):
        if order > 1:
            context[order - 1 :] += held_out[: 1 - order] * symbols ** (order - 2)
        asked = context * symbols + held_out
        counts = _counted(grams(train, order, symbols))
        witten_bell = _witten_bell(*counts, context, asked, symbols, witten_bell)
        kneser_ney = _kneser_ney(*counts, context, asked, symbols, lower)
        if order < orders:  # how many different symbols stand before each n-gram
            longer = np.unique(grams(train, order + 1, symbols))
            lower = _kneser_ney(*_counted(longer % symbols**order), context, asked, symbols, lower)
        for name, values in (("witten_bell", witten_bell), ("kneser_ney", kneser_ney)):
            found[f"{name}_{order}"] = float(np.exp(-np.log(values[1:]).mean()))
    return found


def grams(line: np.ndarray, order: int, symbols: int) -> np.ndarray:
    """The number of the n-gram that ends at each place but the first order - 1, read as digits to base `symbols`."""
    length = max(len(line) - order + 1, 0)
    numbers = np.zeros(length, dtype=np.int64)
    for place in range(order):
        numbers = numbers * symbols + line[place : place + length]
    return numbers


def _counted(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    keys, counts = np.unique(numbers, return_counts=True)
    return keys, counts.astype(np.float64)


def _of_contexts(keys: np.ndarray, values: np.ndarray, symbols: int) -> Table:
    """The sums of `values` of the n-grams `keys` with the same context."""
    contexts, first = np.unique(keys // symbols, return_index=True)
    return Table(contexts, np.add.reduceat(values, first) if len(values) else values)


def _witten_bell(
    keys: np.ndarray, counts: np.ndarray, context: np.ndarray, asked: np.ndarray, symbols: int, lower: np.ndarray
) -> np.ndarray:
    total = _of_contexts(keys, counts, symbols)[context]
    kinds = _of_contexts(keys, np.ones_like(counts), symbols)[context]
    return np.where(total > 0, (Table(keys, counts)[asked] + kinds * lower) / np.maximum(total + kinds, 1), lower)


def _kneser_ney(
    keys: np.ndarray, counts: np.ndarray, context: np.ndarray, asked: np.ndarray, symbols: int, lower: np.ndarray
) -> np.ndarray:
    taken = _discounts(counts)[np.minimum(counts, 3).astype(int)]
    total = _of_contexts(keys, counts, symbols)[context]
    left = _of_contexts(keys, taken, symbols)[context]
    mine = Table(keys, counts - taken)[asked]
    return np.where(total > 0, (mine + left * lower) / np.maximum(total, 1), lower)


def _discounts(counts: np.ndarray) -> np.ndarray:
    """What is taken from n-grams seen 0, 1, 2 and 3 or more times; 0.5 where the counts are too few to estimate it."""
    once, twice, thrice, more = ((counts == number).sum() for number in (1, 2, 3, 4))
    if min(once, twice, thrice) == 0:
        return np.array([0, 0.5, 0.5, 0.5])
    share = once / (once + 2 * twice)
    taken = [0, 1 - 2 * share * twice / once, 2 - 3 * share * thrice / twice, 3 - 4 * share * more / thrice]
    return np.clip(taken, 0, [0, 1, 2, 3])
