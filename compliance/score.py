"""The benchmark result of a set: drop the fastest and the slowest run, mean of the rest.

Beside it AIBench's pair: how far the runs had to train, and how much that varies from run to run.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Any

from compliance.result_set import ResultSet
from compliance.run import Milliseconds, Run


@dataclass(frozen=True)
class Part:
    """One run's share in a score: `time_ms` is None for a run that did not converge (infinite time)."""

    path: str
    time_ms: Milliseconds | None
    start_line: int | None
    stop_line: int | None
    kept: bool
    reason: str


@dataclass(frozen=True)
class Variation:
    """Mean and run-to-run variation (standard deviation / mean) of one quantity, with both standard deviations.

    AIBench's recipe uses the population deviation. `sample` is None for fewer than two runs.
    """

    unit: str
    least: Fraction
    mean: Fraction
    most: Fraction
    population: float
    sample: float | None

    def as_dict(self) -> dict[str, Any]:
        return {
            "unit": self.unit,
            "min": exact(self.least),
            "mean": exact(self.mean),
            "max": exact(self.most),
            "variation_population": self.population,
            "variation_sample": self.sample,
        }


@dataclass(frozen=True)
class Score:
    """`value_ms` is the benchmark result, None where there is none, with the reason."""

    value_ms: Fraction | None
    reason: str = ""
    official: bool = True
    parts: list[Part] = field(default_factory=list)
    convergence: Variation | None = None
    time: Variation | None = None


def exact(value: Fraction | Decimal | int) -> int | Decimal:
    """An integer, or a decimal: exact where it has a finite one, else rounded to six places."""
    number = Fraction(value)
    if number.denominator == 1:
        return int(number)
    decimal = Decimal(number.numerator) / Decimal(number.denominator)
    return decimal if Fraction(decimal) == number else decimal.quantize(Decimal("0.000001"))


def score(results: ResultSet, *, valid: bool) -> Score:
    """The benchmark result of a set, with its working.

    `valid`: no rule at error level is broken by the set or one of its runs. Without that there is no score. A partial
    set of at least three runs is scored as if it were whole, a smaller one by its mean; both are labelled unofficial.
    """
    runs = sorted(results.runs, key=lambda run: (_infinite_if_missed(run), run.path))
    facts = results.facts
    convergence = _variation([run.progress_at_target for run in runs], results.runs[0].progress_unit if runs else None)
    times = [run.time_ms for run in runs if run.converged and run.time_ms is not None]
    time = _variation(list(times), "ms")
    if not valid:
        reason = "no score: a rule is broken"
    elif results.weak:
        reason = "no score here: weak scaling is scored in models a minute, by compliance.score"
    elif facts.quality_target is None and results.suite:
        reason = "no score: this profile has no quality target"
    elif not times:
        reason = "no score: no run converged"
    else:
        reason = ""
    if reason:
        return Score(
            None, reason, parts=[_part(run, False, "not scored") for run in runs], convergence=convergence, time=time
        )
    drop = facts.dropped if len(runs) > 2 * facts.dropped else 0
    official = not results.partial and facts.runs == len(runs)
    if drop == 0 and any(not run.converged for run in runs):
        return Score(
            None, "no score: too few runs to drop the one that missed", official, convergence=convergence, time=time
        )
    parts = []
    for place, run in enumerate(runs):
        if place < drop:
            parts.append(_part(run, False, "dropped: fastest"))
        elif place >= len(runs) - drop:
            parts.append(_part(run, False, "dropped: slowest" if run.converged else "dropped: did not converge"))
        else:
            parts.append(_part(run, True, "kept"))
    kept = [Fraction(part.time_ms) for part in parts if part.kept and part.time_ms is not None]
    value = sum(kept, Fraction(0)) / len(kept)
    label = "" if official else "unofficial: partial set" + ("" if drop else ", too small to drop any run")
    return Score(value, label, official, parts, convergence, time)


def _infinite_if_missed(run: Run) -> Fraction | float:
    return Fraction(run.time_ms) if run.converged and run.time_ms is not None else float("inf")


def _part(run: Run, kept: bool, reason: str) -> Part:
    time = None if run.converged is False else run.time_ms
    return Part(PurePath(run.path).name, time, run.line(run.start), run.line(run.stop), kept, reason)


def _variation(values: list[Any], unit: str | None) -> Variation | None:
    numbers = [Fraction(value) for value in values if value is not None]
    if not numbers or unit is None:
        return None
    mean = sum(numbers, Fraction(0)) / len(numbers)
    if mean == 0:
        return None
    population = statistics.pstdev(numbers) / mean
    sample = float(statistics.stdev(numbers) / mean) if len(numbers) > 1 else None
    return Variation(unit, min(numbers), mean, max(numbers), float(population), sample)


if __name__ == "__main__":
    from compliance.score_command import main

    raise SystemExit(main())
