"""What codecs without a network reach with the same bits: transforms with quantised coefficients, and code books.

A tile is a row of pixels, float64, 0..255. Every codec is fitted to training tiles and spends at most `budget` bits a
tile, the same number on each; nothing is entropy-coded, as the network's bits aren't.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

import numpy as np

FIT_TILES = 20_000  # that a codec is fitted to, at most
BOOK_TILES = 4_000  # that a quantiser or a code book is fitted to, at most
MOST_BITS = 8  # of one coefficient
FIXED_BITS = 6  # of each coefficient where all get the same
STAGE_BITS = 8  # of a code book
MOST_STAGES = 12  # code books; beyond, they cost too much to fit

Coder = Callable[[np.ndarray], np.ndarray]  # tiles -> what they decode to


def codecs(train: np.ndarray, budget: int, side: int) -> dict[str, Coder]:
    """Name -> codec. train (n, channels * side * side) tiles."""
    train = train[:FIT_TILES]
    mean = train.mean(axis=0)
    _, vectors = np.linalg.eigh(np.cov(train.T))
    pca, dct = vectors[:, ::-1], cosines(side, train.shape[1] // side**2)
    found: dict[str, Coder] = {
        "training_mean_0_bits": lambda tiles: np.tile(mean, (len(tiles), 1)),
        "pca_6_bits_each": _transform(mean, pca, _fixed((train - mean) @ pca, budget)),
        "pca_allocated": _transform(mean, pca, _allocated((train - mean) @ pca, budget)),
        "dct_allocated": _transform(mean, dct, _allocated((train - mean) @ dct, budget)),
    }
    if budget // STAGE_BITS <= MOST_STAGES:
        found["k_means_in_stages"] = _stages(train[:BOOK_TILES], budget // STAGE_BITS)
    return found


def cosines(side: int, channels: int) -> np.ndarray:
    """The two-dimensional cosine transform of each channel, orthonormal, as columns (channels * side * side, same)."""
    k, x = np.mgrid[:side, :side]
    rows = np.cos(np.pi * k * (2 * x + 1) / (2 * side)) * math.sqrt(2 / side)
    rows[0] /= math.sqrt(2)
    return np.kron(np.eye(channels), np.kron(rows, rows)).T


def _transform(mean: np.ndarray, basis: np.ndarray, quantised: Coder) -> Coder:
    return lambda tiles: quantised((tiles - mean) @ basis) @ basis.T + mean


def _fixed(fit: np.ndarray, budget: int) -> Coder:
    """The first coefficients, FIXED_BITS each, uniform between the 0.1th and 99.9th percentile."""
    count, levels = min(budget // FIXED_BITS, fit.shape[1]), 2**FIXED_BITS
    low, high = np.quantile(fit[:, :count], [0.001, 0.999], axis=0)
    width = np.maximum(high - low, 1e-9) / levels

    def quantised(values: np.ndarray) -> np.ndarray:
        out = np.zeros_like(values)
        level = np.clip(np.floor((values[:, :count] - low) / width), 0, levels - 1)
        out[:, :count] = low + (level + 0.5) * width
        return out

    return quantised


def _allocated(fit: np.ndarray, budget: int) -> Coder:
    """Bit by bit to the coefficient that gains most by it; each has the best quantiser of its bits (Lloyd, Max)."""
    sample = fit[:: max(1, len(fit) // BOOK_TILES)]
    books: dict[tuple[int, int], np.ndarray] = {}

    def error(column: int, bits: int) -> float:
        books[column, bits], squared = lloyd_max(sample[:, column], bits)
        return squared

    order = np.argsort(-sample.var(axis=0))[:budget]  # as many as could get a bit
    bits = np.zeros(fit.shape[1], dtype=int)
    errors, heap = {}, []
    variances = sample.var(axis=0)
    for column in order[: 4 * math.isqrt(budget) + budget // 2]:
        errors[column] = error(column, 1)
        heapq.heappush(heap, (errors[column] - variances[column], column))
    for _ in range(budget):
        if not heap:
            break
        _, column = heapq.heappop(heap)
        bits[column] += 1
        if bits[column] < MOST_BITS:
            following = error(column, bits[column] + 1)
            heapq.heappush(heap, (following - errors[column], column))
            errors[column] = following

    def quantised(values: np.ndarray) -> np.ndarray:
        out = np.zeros_like(values)
        for column in np.flatnonzero(bits):
            book = books[column, bits[column]]
            out[:, column] = book[np.searchsorted((book[1:] + book[:-1]) / 2, values[:, column])]
        return out

    return quantised


def lloyd_max(values: np.ndarray, bits: int, steps: int = 12) -> tuple[np.ndarray, float]:
    """2**bits levels for `values` (n,), sorted, and the mean squared error."""
    count = 2**bits
    book = np.quantile(values, (np.arange(count) + 0.5) / count)
    for _ in range(steps):
        nearest = np.searchsorted((book[1:] + book[:-1]) / 2, values)
        sizes = np.bincount(nearest, minlength=count)
        book = np.sort(np.where(sizes > 0, np.bincount(nearest, values, count) / np.maximum(sizes, 1), book))
    nearest = np.searchsorted((book[1:] + book[:-1]) / 2, values)
    return book, float(np.square(values - book[nearest]).mean())


def _stages(fit: np.ndarray, count: int) -> Coder:
    """Code books of 256 k-means centres, each for what the ones before it left."""
    rng = np.random.default_rng(0)
    mean = fit.mean(axis=0)
    left, books = fit - mean, []
    for _ in range(count):
        book = left[rng.choice(len(left), min(2**STAGE_BITS, len(left)), replace=False)]
        for _ in range(12):
            member = np.eye(len(book))[_nearest(left, book)]
            sizes = member.sum(axis=0)[:, None]
            book = np.where(sizes > 0, member.T @ left / np.maximum(sizes, 1), book)
        left = left - book[_nearest(left, book)]
        books.append(book)

    def coded(tiles: np.ndarray) -> np.ndarray:
        rest = tiles - mean
        for book in books:
            rest = rest - book[_nearest(rest, book)]
        return tiles - rest

    return coded


def _nearest(rows: np.ndarray, book: np.ndarray) -> np.ndarray:
    return (np.square(book).sum(axis=1) - 2 * rows @ book.T).argmin(axis=1)
