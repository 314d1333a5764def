"""Compare two sets of runs, or two submissions: ``python -m compliance.compare A B``.

For each benchmark that both have: time, epochs or samples, throughput, batch size, quality, whether the difference in
time is more than chance (Welch's test), and the settings that differ. With --fail-on-regression 5% the exit status is
1 where B is slower than A by more than that and the test does not put it down to chance, where more of B's runs miss
the target than MLPerf's rule allows and than A's do, or where B lacks a benchmark of A. Otherwise it is 0, or 2 for a
wrong call or nothing to compare.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from compliance import analysis, subsets
from compliance.analysis import Options, Result
from compliance.analyze import CallError, read
from compliance.benchmarks import FactsError
from compliance.careful import short
from compliance.console import say
from compliance.formats import tables
from compliance.formats.as_text import clean
from compliance.formats.tables import Column, Table, number
from compliance.trained import UNIT_WORDS

ALPHA = 0.05


@dataclass(frozen=True)
class Welch:
    """Welch's test of two samples: t, degrees of freedom, two-sided p, and B's change in percent with its interval."""

    t: float
    df: float
    p: float
    low: float
    high: float


@dataclass
class Pair:
    """One benchmark's results in A and in B. `change` is B's mean time relative to A's, less 1."""

    a: Result
    b: Result
    change: float | None
    welch: Welch | None
    statement: str
    regressions: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.a.set.benchmark


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    skipped: list[tuple[str, str]] = []
    asked = Options(threshold=options.threshold)
    try:
        before, after = (_one_side(path, asked, skipped) for path in (options.a, options.b))
        pairs, only_a, only_b = pair(before, after)
        if not pairs:
            raise CallError(f"{options.a} and {options.b} have no benchmark in common")
    except (CallError, FactsError, FileNotFoundError) as error:
        print(f"compliance.compare: {error}", file=sys.stderr)
        return 2
    limit = options.fail_on_regression
    compared = [compare(a, b, limit) for a, b in pairs]
    regressions = [f"{one.name}: {text}" for one in compared for text in one.regressions]
    if limit is not None:
        regressions += [f"{result.set.benchmark}: not in {options.b}" for result in only_a]
    built = [_summary(compared), _settings(compared)]
    if options.format == "json":
        more = {"only_in_a": [r.name for r in only_a], "only_in_b": [r.name for r in only_b]}
        status = say(tables.as_json(built, a=options.a, b=options.b, regressions=regressions, **more).rstrip("\n"))
    else:
        status = say(_text(built, compared, only_a, only_b, regressions, limit))
    return 1 if regressions else status


def _one_side(path: str, asked: Options, skipped: list[tuple[str, str]]) -> list[Result]:
    sets, _ = read([path], skipped)
    if not sets:
        raise CallError(f"no training runs in {path}")
    return analysis.results(sets, asked)


def pair(
    before: Sequence[Result], after: Sequence[Result]
) -> tuple[list[tuple[Result, Result]], list[Result], list[Result]]:
    """Results of the same benchmark: by system where a side has several of it, else the one with the other."""
    pairs: list[tuple[Result, Result]] = []
    only_a: list[Result] = []
    left = list(after)
    for a in before:
        same = [b for b in left if b.set.benchmark == a.set.benchmark]
        several = len(same) > 1 or sum(x.set.benchmark == a.set.benchmark for x in before) > 1
        if several:
            same = [b for b in same if _system(b) == _system(a)]
        if len(same) == 1:
            pairs.append((a, same[0]))
            left.remove(same[0])
        else:
            only_a.append(a)
    return pairs, only_a, left


def _system(result: Result) -> str:
    return result.set.system or subsets.group_name(result)


def compare(a: Result, b: Result, limit: float | None = None) -> Pair:
    """What changed from `a` to `b`; `limit` is the slow-down (0.05: 5 %) from which it is a regression."""
    change = None if a.mean_ms is None or b.mean_ms is None else b.mean_ms / a.mean_ms - 1
    test = welch(_seconds(a), _seconds(b))
    one = Pair(a, b, change, test, _statement(a, b, change, test))
    if limit is None:
        return one
    missed = len(b.outcomes) - len(b.counted)
    if missed > b.set.dropped and missed > len(a.outcomes) - len(a.counted):
        one.regressions.append(f"{missed} of {len(b.outcomes)} runs of B missed the target, {b.set.dropped} may")
    if change is not None and change > limit and (test is None or test.p < ALPHA):
        how = "" if test else " (too few runs to test)"
        one.regressions.append(f"B is {change:.2%} slower, more than {limit * 100:g} %{how}")
    return one


def _seconds(result: Result) -> list[float]:
    return [float(o.time_ms) / 1000 for o in result.counted if o.time_ms is not None]


def welch(a: Sequence[float], b: Sequence[float]) -> Welch | None:
    """Welch's t-test of the means, and the 95 % interval of their difference relative to a's mean.

    None for fewer than two values on a side, or where no value differs from the others of its side.
    """
    if len(a) < 2 or len(b) < 2:
        return None
    variances = [statistics.variance(side) / len(side) for side in (a, b)]
    error = math.sqrt(sum(variances))
    if error == 0:
        return None
    from scipy import stats  # type: ignore[import-untyped]

    df = sum(variances) ** 2 / sum(v**2 / (len(s) - 1) for v, s in zip(variances, (a, b), strict=True))
    mean_a, mean_b = statistics.fmean(a), statistics.fmean(b)
    t = (mean_b - mean_a) / error
    half = float(stats.t.ppf(1 - ALPHA / 2, df)) * error
    low, high = ((mean_b - mean_a + side * half) / mean_a for side in (-1, 1))
    return Welch(t, df, float(2 * stats.t.sf(abs(t), df)), low, high)


def _statement(a: Result, b: Result, change: float | None, test: Welch | None) -> str:
    counts = f"{len(a.counted)} and {len(b.counted)} runs"
    if change is None:
        return f"no comparison: {counts} reached the target"
    word = "slower" if change > 0 else "faster"
    size = f"B is {abs(change):.2%} {word}" if change else "B takes as long as A"
    if test is None:
        return f"{size}; too few runs, or no variation at all, to say whether that is chance ({counts})"
    certainty = f"Welch t = {test.t:.2f}, df = {test.df:.1f}, p = {test.p:.2g}, {counts}"
    interval = f"95 % interval {test.low:+.2%} to {test.high:+.2%} of A's time"
    if test.p < ALPHA:
        return f"{size}, more than chance: {certainty}; {interval}"
    return f"no difference shown ({size}): {certainty}; {interval}"


_COLUMNS = (
    Column("benchmark", "benchmark", left=True),
    Column("side", "", left=True),
    Column("set", "set", left=True),
    Column("runs", "runs"),
    Column("mean_s", "mean s", number(1)),
    Column("progress_mean", "progress", lambda v: f"{v:,.6g}"),
    Column("unit", "", lambda v: UNIT_WORDS.get(v, v), left=True),
    Column("samples_per_second", "samples/s", number(1)),
    Column("batch", "batch"),
    Column("quality_mean", "quality", lambda v: f"{v:.4g}"),
)


def _summary(compared: list[Pair]) -> Table:
    table = Table("compare", "A against B", _COLUMNS)
    for one in compared:
        for side, result in (("A", one.a), ("B", one.b)):
            runs = [o.run for o in result.counted]
            row: dict[str, Any] = {"benchmark": one.name, "side": side, "set": result.name, "unit": result.unit}
            row["runs"] = f"{len(runs)}/{len(result.outcomes)}"
            row["mean_s"] = None if result.mean_ms is None else result.mean_ms / 1000
            row["progress_mean"] = result.progress.mean if result.progress else None
            rates = [float(r.samples * 1000 / r.time_ms) for r in runs if r.samples and r.time_ms]
            row["samples_per_second"] = statistics.fmean(rates) if rates else None
            batches = {r.batch for r in runs}
            row["batch"] = batches.pop() if len(batches) == 1 else None
            qualities = [o.quality for o in result.counted if o.quality is not None]
            row["quality_mean"] = sum(qualities) / len(qualities) if qualities else None
            if side == "B":
                row["change"], row["statement"] = one.change, one.statement
                row["welch"] = None if one.welch is None else vars(one.welch)
            table.rows.append(row)
    return table


def _settings(compared: list[Pair]) -> Table:
    columns = (
        Column("benchmark", "benchmark", left=True),
        Column("setting", "setting", left=True),
        Column("a", "A", short, left=True),
        Column("b", "B", short, left=True),
    )
    table = Table("settings", "Settings that differ", columns)
    for one in compared:
        a, b = common_settings(one.a), common_settings(one.b)
        for key in sorted(a.keys() | b.keys()):
            if json.dumps(a.get(key), default=str) != json.dumps(b.get(key), default=str):
                table.rows.append({"benchmark": one.name, "setting": key, "a": a.get(key), "b": b.get(key)})
    if not table.rows:
        table.notes = ["none of those logged with one value by every run"]
    return table


def common_settings(result: Result) -> dict[str, Any]:
    """The settings that every run of a set logged with the same value."""
    runs = result.set.runs
    return {
        key: value
        for key, value in runs[0].settings.items()
        if all(key in run.settings and run.settings[key] == value for run in runs)
    }


def _text(
    built: list[Table],
    compared: list[Pair],
    only_a: list[Result],
    only_b: list[Result],
    regressions: list[str],
    limit: float | None,
) -> str:
    lines = [tables.as_text(built[:1])]
    lines += [f"{clean(one.name)}: {one.statement}" for one in compared]
    lines += ["", tables.as_text(built[1:]).rstrip("\n")]
    for side, results in (("A", only_a), ("B", only_b)):
        lines += [f"only in {side}: {clean(f'{one.set.benchmark} ({one.name})')}" for one in results]
    lines += [f"REGRESSION {clean(text)}" for text in regressions]
    if limit is not None and not regressions:
        lines.append(f"no regression of more than {limit * 100:g} %")
    return "\n".join(lines)


def _percent(text: str) -> float:
    try:
        value = float(text.strip().removesuffix("%"))
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise argparse.ArgumentTypeError(f"expected a percentage such as 5%, found {text!r}")
    return value / 100


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m compliance.compare", description=__doc__.split("\n", 1)[0])
    parser.add_argument("a", metavar="A", help="logs, a set or a submission: what was")
    parser.add_argument("b", metavar="B", help="what is compared with it")
    parser.add_argument("--threshold", type=float, help="a quality instead of the target")
    parser.add_argument("--fail-on-regression", type=_percent, metavar="PERCENT", help="exit 1 if B is slower by more")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
