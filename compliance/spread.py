"""How much a quantity varies from run to run, how sure its mean is, and how many runs tell two systems apart."""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

RESAMPLES = 2000
SEED = 1
CONFIDENCE = 0.95
POWER = 0.8


@dataclass(frozen=True)
class Spread:
    """Mean and extremes of n values, and their run-to-run variation: standard deviation divided by mean.

    `population` divides by n (AIBench's recipe), `sample` by n - 1; the latter is None for one value.
    """

    n: int
    mean: float
    least: float
    most: float
    population: float
    sample: float | None


def spread(values: Sequence[Fraction]) -> Spread | None:
    """The spread of `values`; None for none, or for a mean of zero."""
    if not values:
        return None
    mean = sum(values, Fraction(0)) / len(values)
    if mean == 0:
        return None
    squares = float(sum(((value - mean) ** 2 for value in values), Fraction(0)) / mean**2)
    n = len(values)
    sample = math.sqrt(squares / (n - 1)) if n > 1 else None
    return Spread(n, float(mean), float(min(values)), float(max(values)), math.sqrt(squares / n), sample)


def bootstrap(values: Sequence[Fraction], resamples: int = RESAMPLES, seed: int = SEED) -> tuple[float, float] | None:
    """The percentile bootstrap's 95 % interval of the mean, from `resamples` draws; None for fewer than two values.

    With few runs it is too narrow rather than too wide: five values cannot show what a sixth would have been.
    """
    n = len(values)
    if n < 2:
        return None
    numbers = [float(value) for value in values]
    draw = random.Random(seed)
    means = sorted(statistics.fmean(draw.choices(numbers, k=n)) for _ in range(resamples))
    tail = (1 - CONFIDENCE) / 2
    low, high = math.floor(tail * resamples), math.ceil((1 - tail) * resamples) - 1
    return means[low], means[high]


def runs_needed(variation: float | None, difference: float) -> int | None:
    """Runs of each of two systems so that a true `difference` of their means (0.05: 5 %) shows in 4 of 5 comparisons.

    Two-sided at 5 %, both systems with the same `variation` (sample). Normal approximation with Guenther's correction
    for the t-test: 2 (z_a + z_b)^2 (variation / difference)^2 + z_a^2 / 4, rounded up; at least 2.
    """
    if variation is None or difference <= 0:
        return None
    normal = statistics.NormalDist()
    z_a, z_b = normal.inv_cdf(1 - (1 - CONFIDENCE) / 2), normal.inv_cdf(POWER)
    return max(2, math.ceil(2 * ((z_a + z_b) * variation / difference) ** 2 + z_a**2 / 4))


def olympic(values: Sequence[Fraction | None], dropped: int) -> Fraction | None:
    """Mean after dropping `dropped` values at each end, where None is an endless run; None if one of those remains.

    Sets too small to drop from are averaged whole.
    """
    finite = sorted(value for value in values if value is not None)
    ordered: list[Fraction | None] = [*finite, *[None] * (len(values) - len(finite))]
    kept = ordered[dropped : len(ordered) - dropped] if len(ordered) > 2 * dropped else ordered
    if not kept or None in kept:
        return None
    return sum((value for value in kept if value is not None), Fraction(0)) / len(kept)
