"""Reference convergence points and the test against them: has a submission trained as long as the reference must?

A submission that reaches the target in far fewer epochs than the reference trained something else. The test, as in
MLPerf's rules: the olympic mean of the submission's epochs must not lie below the smallest mean that a one-sided
t-test (5 %) cannot tell from the reference's. A submission that passes but is faster than the reference is normalized:
its time is multiplied by the reference's mean over its own.

All numbers come out as those of MLPerf's own tool, to the last bit, where it gives any.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

ALPHA = 0.05
TOLERANCE = 1e-4
MOST = 1e18
_UNITS = ("epochs to converge", "samples to converge")


class PointsError(ValueError):
    """Reference points that cannot be used; the text names the file, the record and the fault."""


@dataclass(frozen=True)
class Rules:
    """How a benchmark is tested. `runs` is the number of runs of a result, `dropped` how many of them olympic scoring
    leaves out at each end; `margin` is taken off the smallest acceptable mean (in the unit of the points).
    """

    runs: int
    dropped: int = 1
    margin: float = 0.0


@dataclass(frozen=True)
class Point:
    """One reference point: `mean`, `stdev` (population) and `least`, the smallest acceptable mean of a submission.

    `values` are epochs or samples to the target, sorted; empty for a point that was interpolated between two others.
    """

    name: str
    batch_size: float
    values: tuple[float, ...]
    mean: float
    stdev: float
    least: float
    hyperparameters: dict[str, Any]
    unit: str = "epochs"

    @property
    def max_speedup(self) -> float:
        return self.mean / self.least if self.least else math.inf


@dataclass(frozen=True)
class Outcome:
    """The outcome for one batch size. `passed` is None where there is nothing to test by; `mean` is the submission's,
    NaN for too few runs; `point` what it was held against; `factor` is 1 or more, NaN for too few runs.
    """

    passed: bool | None
    message: str
    factor: float = 1.0
    mean: float | None = None
    point: Point | None = None


def load(path: Path, rules: Rules, profile: str | None = None) -> list[Point]:
    """The points of a reference file, by batch size; of one `profile` if it is given. Raises PointsError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PointsError(f"{path}: {error}") from None
    return list(_loaded(path, text, rules, profile))


@lru_cache(maxsize=64)
def _loaded(path: Path, text: str, rules: Rules, profile: str | None) -> tuple[Point, ...]:
    try:
        records = json.loads(text)
    except json.JSONDecodeError as error:
        raise PointsError(f"{path}: {error}") from None
    if not isinstance(records, dict):
        raise PointsError(f"{path}: expected an object of records")
    points = []
    for name, record in records.items():
        if not isinstance(record, dict):
            raise PointsError(f"{path}: {name}: expected an object")
        if profile is None or record.get("Profile") == profile:
            points.append(_point(path, name, record, rules))
    return tuple(sorted(points, key=lambda point: point.batch_size))


def _point(path: Path, name: str, record: dict[str, Any], rules: Rules) -> Point:
    member = next((key for key in record if key.lower() in _UNITS), "")
    values, unit = record.get(member), member.lower().partition(" ")[0]
    numbers = isinstance(values, list) and all(_is_number(value) for value in values)
    if not numbers or len(values or ()) <= 2 * rules.dropped:
        needed = 2 * rules.dropped + 1
        raise PointsError(f'{path}: {name}: "Epochs to converge": expected a list of at least {needed} numbers')
    if not _is_number(record.get("BS")) or record["BS"] <= 0:
        raise PointsError(f'{path}: {name}: "BS": expected a batch size, found {record.get("BS")!r}')
    hyperparameters = record.get("Hyperparams")
    hyperparameters = hyperparameters if isinstance(hyperparameters, dict) else {}
    ordered = sorted(values or ())
    mean, stdev = _olympic(ordered, rules), _deviation(ordered)
    least = least_mean(mean, stdev, len(ordered) - 2 * rules.dropped, rules)
    return Point(name, record["BS"], tuple(ordered), mean, stdev, least, hyperparameters, unit)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < MOST


def _olympic(ordered: Sequence[float], rules: Rules) -> float:
    """Mean of sorted values without `dropped` at each end; NaN if nothing is left."""
    import numpy as np

    kept = ordered[rules.dropped : len(ordered) - rules.dropped]
    return float(np.mean(kept)) if len(kept) else math.nan


def _deviation(values: Sequence[float]) -> float:
    import numpy as np

    return float(np.std(values))


def least_mean(mean: float, stdev: float, reference_runs: int, rules: Rules) -> float:
    """The smallest mean of a submission that the t-test cannot tell from `mean`, found by halving to 1e-4.

    Both sides are given the reference's deviation; equal variances, one-sided.
    """
    from scipy.special import stdtrit  # type: ignore[import-untyped]

    if stdev == 0:
        return mean
    submitted_runs = rules.runs - 2
    freedom = reference_runs + submitted_runs - 2
    pooled = ((reference_runs - 1) * stdev**2 + (submitted_runs - 1) * stdev**2) / freedom if freedom > 0 else math.nan
    error = math.sqrt(pooled * (1.0 / reference_runs + 1.0 / submitted_runs))
    critical = float(stdtrit(freedom, ALPHA))
    low, high = 0.0, mean
    middle = (low + high) / 2
    while high - low > TOLERANCE:
        if (middle - mean) / error > critical:
            high = middle
        else:
            low = middle
        middle = (low + high) / 2
    return middle


def interpolate(batch_size: float, low: Point, high: Point, rules: Rules) -> Point:
    """The point at `batch_size` on the line between two others."""
    import numpy as np

    sizes = [low.batch_size, high.batch_size]
    mean = float(np.interp(batch_size, sizes, [low.mean, high.mean]))
    stdev = float(np.interp(batch_size, sizes, [low.stdev, high.stdev]))
    least = least_mean(mean, stdev, 2 * rules.runs, rules)
    return Point(f"between {low.name} and {high.name}", batch_size, (), mean, stdev, least, {}, low.unit)


def official_pruned(points: list[Point], rules: Rules) -> list[Point]:
    """The points that MLPerf's tool keeps by default, with its flaw: after a point is taken out, the one before it is
    not looked at again, so that what is left need not be convex. Points of one batch size come and go together.
    """
    if not points:
        return []
    fastest = min(points, key=lambda point: point.mean)
    kept = [point for point in points if point.batch_size >= fastest.batch_size]
    place = 1
    while place < len(kept) - 1:
        line = interpolate(kept[place].batch_size, kept[place - 1], kept[place + 1], rules)
        if kept[place].mean > line.mean:
            del kept[place]
        else:
            place += 1
    return [point for one in kept for point in points if point.batch_size == one.batch_size]


def lower_hull(points: list[Point]) -> list[Point]:
    """The points on the lower convex hull of mean over batch size, from the fastest point on."""
    if not points:
        return []
    lowest: dict[float, Point] = {}
    for point in points:
        if point.batch_size not in lowest or point.mean < lowest[point.batch_size].mean:
            lowest[point.batch_size] = point
    ordered = sorted(lowest.values(), key=lambda point: point.batch_size)
    fastest = min(ordered, key=lambda point: point.mean)
    hull: list[Point] = []
    for point in ordered:
        if point.batch_size < fastest.batch_size:
            continue
        while len(hull) > 1 and _above(hull[-1], hull[-2], point):
            hull.pop()
        hull.append(point)
    return hull


def _above(middle: Point, low: Point, high: Point) -> bool:
    """Whether `middle` lies above the line from `low` to `high`."""
    run, rise = high.batch_size - low.batch_size, high.mean - low.mean
    return (middle.mean - low.mean) * run > rise * (middle.batch_size - low.batch_size)


def judge(batch_size: float, values: Sequence[float], points: list[Point], rules: Rules) -> Outcome:
    """Hold a submission's `values` (epochs or samples, infinite as 1e9) against the points, by batch size.

    An exact batch size is taken as it is; one between two points is interpolated; a smaller one than all may only be
    as slow as the smallest; for a larger one there is nothing to hold it against.
    """
    missing = f"Missing RCP, please submit RCP with BS = {batch_size}"
    for point in points:
        if point.batch_size == batch_size:
            return _compare("RCP found", values, point, rules)
    below = [point for point in points if 0 < point.batch_size < batch_size]
    above = [point for point in points if batch_size < point.batch_size < 1e9]
    if below and above:
        low = max(below, key=lambda point: point.batch_size)
        high = min(above, key=lambda point: point.batch_size)
        return _compare("RCP Interpolation", values, interpolate(batch_size, low, high, rules), rules)
    if below:
        return Outcome(False, missing)
    if above:
        smallest = min(above, key=lambda point: point.batch_size)
        result = _compare("RCP not found but slower convergence on smaller batch size", values, smallest, rules)
        return result if result.passed else replace(result, message=missing)
    return Outcome(False, "Cannot find any RCPs")


def _compare(message: str, values: Sequence[float], point: Point, rules: Rules) -> Outcome:
    mean = _olympic(sorted(values), rules)
    factor = point.mean / mean if mean else math.inf
    speedup = point.mean / (point.least - rules.margin) if rules.margin else point.max_speedup
    passed = mean >= point.mean / speedup
    return Outcome(passed, message, 1.0 if factor < 1 else factor, mean, point)
