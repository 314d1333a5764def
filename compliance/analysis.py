"""What the papers measure, of any sets of runs: one table for each question.

AIBench: how far runs train until they reach the target (convergent rate), and how much that varies from run to run.
DAWNBench: time to accuracy, its variation split into epochs and time per epoch, what part of it is evaluation, and
what it costs. HPC AI500: valid FLOPS.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from compliance.formats.tables import Column, Table, number, percent
from compliance.spread import CONFIDENCE, RESAMPLES, SEED, Spread, bootstrap, olympic, runs_needed, spread
from compliance.trained import UNIT_WORDS, Trained, TrainedSet

VALID_FLOPS_EXPONENT = 5  # HPC AI500's default


@dataclass(frozen=True)
class Options:
    """What counts. `threshold`: a quality other than the target; `all_runs`: runs that missed count at their full time.

    `difference` is the relative difference of two systems that the number of runs is asked for; `price` in dollars an
    hour of one system.
    """

    threshold: float | None = None
    all_runs: bool = False
    difference: float = 0.05
    price: float | None = None
    resamples: int = RESAMPLES


@dataclass(frozen=True)
class Outcome:
    """One run's time to accuracy: None where it did not get there. `progress` in the run's unit, None if unknown."""

    run: Trained
    time_ms: Fraction | None
    progress: Fraction | None
    quality: float | None


def outcome(run: Trained, options: Options) -> Outcome:
    """When `run` reached its target (its run result), or by its evaluations the threshold asked for."""
    if options.threshold is not None:
        point = run.at(options.threshold)
        return Outcome(run, *((point.after_ms, point.progress, point.value) if point else (None, None, None)))
    if (run.converged or options.all_runs) and run.time_ms is not None:
        return Outcome(run, run.time_ms, run.progress, run.quality)
    return Outcome(run, None, None, None)


@dataclass(frozen=True)
class Result:
    """One set's outcomes and their spreads, over the runs that count."""

    set: TrainedSet
    name: str
    outcomes: list[Outcome]
    counted: list[Outcome]
    olympic_ms: Fraction | None
    time: Spread | None
    progress: Spread | None
    time_per_progress: Spread | None
    unit: str | None

    @property
    def mean_ms(self) -> float | None:
        return self.time.mean if self.time else None


def results(sets: Sequence[TrainedSet], options: Options) -> list[Result]:
    """The result of each set. Names are paths without what all of them begin with."""
    names = short_names([one.path for one in sets])
    return [_result(one, name, options) for one, name in zip(sets, names, strict=True)]


def short_names(paths: list[str]) -> list[str]:
    """`paths` without the folders that all of them begin with; one path alone keeps its last two parts."""
    if len(set(paths)) < 2:
        return [os.path.join(*path.split(os.sep)[-2:]) for path in paths]
    common = os.path.commonpath([os.path.abspath(path) for path in paths])
    return [os.path.relpath(os.path.abspath(path), common) for path in paths]


def _result(one: TrainedSet, name: str, options: Options) -> Result:
    outcomes = [outcome(run, options) for run in one.runs]
    counted = [o for o in outcomes if o.time_ms is not None]
    times = [o.time_ms for o in counted if o.time_ms is not None]
    progressed = [o for o in counted if o.progress]
    whole = bool(counted) and len(progressed) == len(counted)  # a mean over some of the runs would mislead
    progress = [o.progress for o in progressed if o.progress is not None] if whole else []
    each = [o.time_ms / o.progress for o in progressed if o.time_ms is not None and o.progress] if whole else []
    units = {o.run.unit for o in counted}
    unit = units.pop() if len(units) == 1 else None
    middle = olympic([o.time_ms for o in outcomes], one.dropped)
    return Result(one, name, outcomes, counted, middle, spread(times), spread(progress), spread(each), unit)


# --- tables --------------------------------------------------------------------------------------------------------

_SET = (Column("benchmark", "benchmark", left=True), Column("set", "set", left=True))


def _row(result: Result, **more: Any) -> dict[str, Any]:
    return {"benchmark": result.set.benchmark, "set": result.name, **more}


def _pair(value: Any) -> str:
    """Both deviations, sample first, as percentages."""
    sample, population = value
    return f"{'-' if sample is None else f'{sample:.2%}'} / {population:.2%}"


def time_table(found: Sequence[Result], options: Options) -> Table:
    """Time to accuracy, and its run-to-run variation split into progress and time per unit of progress."""
    columns = (
        *_SET,
        Column("runs", "runs"),
        Column("olympic_s", "olympic s", number(1)),
        Column("_time", "time varies", _pair),
        Column("_range", "progress", _range),
        Column("_progress", "progress varies", _pair),
        Column("_time_per_progress", "time/progress varies", _pair),
    )
    table = Table("time", f"Time to {_goal(options)}, and its run-to-run variation", columns)
    for result in found:
        row = _row(result, runs=f"{len(result.counted)}/{len(result.outcomes)}")
        row["olympic_s"] = None if result.olympic_ms is None else result.olympic_ms / 1000
        for key, value in (
            ("time", result.time),
            ("progress", result.progress),
            ("time_per_progress", result.time_per_progress),
        ):
            several = value if value is not None and value.n > 1 else None  # one run says nothing of variation
            row[f"_{key}"] = (several.sample, several.population) if several else None
            row[f"{key}_variation_sample"] = several.sample if several else None
            row[f"{key}_variation_population"] = several.population if several else None
        if result.progress:
            word = UNIT_WORDS.get(result.unit or "", "")
            row["_range"] = (result.progress.mean, result.progress.least, result.progress.most, word)
            row["progress_mean"], row["progress_max"] = result.progress.mean, result.progress.most
            row["convergent_rate"] = result.progress.least
        row["unit"] = result.unit
        table.rows.append(row)
    table.notes = [
        "varies: standard deviation / mean over the runs counted, sample (n - 1) / population (n) deviation",
        "olympic: mean without the fastest and the slowest run, where a run that missed counts as endless",
        "convergent rate (CSV, JSON): the fewest epochs or samples to the target, AIBench's recipe",
    ]
    if options.all_runs:
        table.notes.append("--all-runs: runs that missed the target count with their whole time")
    return table


def _range(value: Any) -> str:
    mean, least, most, word = value
    same = least == most
    return f"{mean:,.6g} {word}" if same else f"{mean:,.6g} ({least:,.6g}..{most:,.6g}) {word}"


def _goal(options: Options) -> str:
    return "the quality target" if options.threshold is None else f"a quality of {options.threshold:g}"


def certainty_table(found: Sequence[Result], options: Options) -> Table:
    """How sure each mean is, and how many runs tell two systems apart."""
    columns = (
        *_SET,
        Column("mean_s", "mean s", number(1)),
        Column("_interval", f"{CONFIDENCE:.0%} interval", lambda pair: f"{pair[0]:,.1f} to {pair[1]:,.1f}"),
        Column("_progress", f"{CONFIDENCE:.0%} interval of progress", lambda pair: f"{pair[0]:,.6g} to {pair[1]:,.6g}"),
        Column("runs_needed", f"runs to see {options.difference * 100:g} %"),
    )
    table = Table("certainty", "How sure the means are", columns)
    for result in found:
        times = [o.time_ms for o in result.counted if o.time_ms is not None]
        if len(times) < 2:
            continue
        interval = bootstrap(times, options.resamples)
        row = _row(result, mean_s=None if result.mean_ms is None else result.mean_ms / 1000)
        if interval is not None:
            row["_interval"] = row["interval_low_s"], row["interval_high_s"] = interval[0] / 1000, interval[1] / 1000
        steps = [o.progress for o in result.counted if o.progress is not None] if result.progress else []
        interval = bootstrap(steps, options.resamples)
        if interval is not None:
            row["_progress"] = row["progress_low"], row["progress_high"] = interval
        row["runs_needed"] = runs_needed(result.time.sample if result.time else None, options.difference)
        table.rows.append(row)
    table.notes = [
        f"interval: percentile bootstrap of the mean, {options.resamples} resamples, seed {SEED}; narrow for few runs",
        f"runs: of each of two systems, to tell apart means that differ by {options.difference * 100:g} %, two-sided at"
        " 5 %, in 4 of 5 comparisons, at the measured sample variation",
    ]
    return table


def where_table(found: Sequence[Result], options: Options) -> Table:
    """Where the time goes, how fast samples pass, and what a run costs."""
    columns = (
        *_SET,
        Column("accelerators", "accelerators"),
        Column("initialization_share", "initialization", percent),
        Column("evaluation_share", "evaluation", percent),
        Column("samples_per_second", "samples/s", number(1)),
        Column("samples_per_second_training", "without evaluation", number(1)),
        Column("dollars", "$ a run", number(2)),
    )
    table = Table("where", "Where the time goes, throughput and cost (means over the runs counted)", columns)
    for result in found:
        runs = [o.run for o in result.counted]
        row = _row(result, accelerators=result.set.accelerators)
        row["initialization_share"] = _mean(
            [r.init_ms / (r.init_ms + r.time_ms) for r in runs if r.init_ms is not None and r.time_ms]
        )
        row["evaluation_share"] = _mean([r.eval_ms / r.time_ms for r in runs if r.eval_ms is not None and r.time_ms])
        row["samples_per_second"] = _mean([r.samples * 1000 / r.time_ms for r in runs if r.samples and r.time_ms])
        row["samples_per_second_training"] = _mean(
            [
                r.samples * 1000 / (r.time_ms - r.eval_ms)
                for r in runs
                if r.samples and r.time_ms and r.eval_ms is not None and r.time_ms > r.eval_ms
            ]
        )
        row["dollars"] = dollars(result, options)
        table.rows.append(row)
    table.notes = [
        "samples: samples_count, or epochs x train_samples, as logged (some programs log batches under that name)",
        "initialization: init_start to init_stop, of itself and the timed run; evaluation: share of the timed run",
        "$: mean time x price an hour of the system (--price-per-hour, or the entry's own)",
    ]
    return table


def _mean(values: Sequence[Fraction]) -> Fraction | None:
    return sum(values, Fraction(0)) / len(values) if values else None


def dollars(result: Result, options: Options) -> float | None:
    """What one run to accuracy costs at the entry's own price, or the price given."""
    prices = [o.run.price if o.run.price is not None else options.price for o in result.counted]
    costs = [
        price * float(o.time_ms) / 3.6e6
        for o, price in zip(result.counted, prices, strict=True)
        if price is not None and o.time_ms is not None
    ]
    return sum(costs) / len(costs) if costs and len(costs) == len(prices) else None


def flops_table(found: Sequence[Result], options: Options) -> Table:
    """HPC AI500's valid FLOPS: FLOPS x (achieved / target)^5, of the logs that give FLOPs."""
    columns = (
        *_SET,
        Column("flops_per_second", "FLOPS", lambda v: f"{v:.4g}"),
        Column("achieved", "achieved", lambda v: f"{v:.4g}"),
        Column("target", "target", lambda v: f"{v:.4g}"),
        Column("valid_flops_per_second", "valid FLOPS", lambda v: f"{v:.4g}"),
    )
    table = Table("flops", "Valid FLOPS", columns)
    for result in found:
        for one in result.counted:
            run, flops = one.run, one.run.flops_per_second
            valid = valid_flops(flops, one.quality, run.target, run.better)
            if flops is not None:
                more = {"flops_per_second": flops, "achieved": one.quality, "target": run.target}
                table.rows.append(_row(result, **more, valid_flops_per_second=valid))
    table.notes = [
        f"valid FLOPS = FLOPS x (achieved / target)^{VALID_FLOPS_EXPONENT}, upside down where lower is better"
        if table.rows
        else "no log gives FLOPs (keys flops_per_second, or flops_per_sample)"
    ]
    return table


def valid_flops(flops: float | None, achieved: float | None, target: float | None, better: str) -> float | None:
    """`flops` weighed by the quality achieved; None where one of the numbers is missing or not positive."""
    if flops is None or achieved is None or target is None or achieved <= 0 or target <= 0:
        return None
    ratio = achieved / target if better == "higher" else target / achieved
    return flops * math.prod([ratio] * VALID_FLOPS_EXPONENT)
