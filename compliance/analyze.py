"""Measure sets of runs as the papers do: ``python -m compliance.analyze logs/``.

AIBench's convergent rate and run-to-run variation, DAWNBench's time to accuracy and cost, bootstrap intervals, the
runs needed to tell two systems apart, benchmarking cost and subsets, speed-ups and scaling efficiency. Reads logs of
any MLPerf round from 0.5 on, the suite's own, and DAWNBench entries; judges nothing (compliance.check does). Exit
status 0, or 2 for a wrong call or no logs.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from compliance import analysis, dawnbench, speedups, subsets
from compliance.analysis import Options, Result
from compliance.benchmarks import FactsError
from compliance.console import say
from compliance.formats import tables
from compliance.formats.tables import Table
from compliance.spread import RESAMPLES
from compliance.trained import TrainedSet, read_sets


class CallError(ValueError):
    """A call that cannot be answered; the text says why."""


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    try:
        text = _answer(options)
    except (CallError, FactsError, FileNotFoundError) as error:
        print(f"compliance.analyze: {error}", file=sys.stderr)
        return 2
    return say(text.rstrip("\n"))


def read(paths: list[str], skipped: list[tuple[str, str]]) -> tuple[list[TrainedSet], list[dawnbench.Inference]]:
    """The sets of runs and the inference entries under `paths`. Raises CallError where there are none."""
    places = [Path(path) for path in paths]
    sets = read_sets(places, skipped)
    training, inference = dawnbench.read_entries(places, skipped)
    known = {one.path + end for one in training for end in (".json", ".tsv")} | {one.path for one in inference}
    skipped[:] = [item for item in skipped if item[0] not in known]
    if not sets and not training and not inference:
        reasons = "".join(f"; {path}: {reason}" for path, reason in skipped[:3])
        raise CallError(f"no logs and no DAWNBench entries in {', '.join(paths)}{reasons}")
    return sets + training, inference


def _answer(options: argparse.Namespace) -> str:
    skipped: list[tuple[str, str]] = []
    asked = Options(
        options.threshold, options.all_runs, options.difference / 100, options.price_per_hour, options.resamples
    )
    sets, inference = read(options.paths, skipped)
    if options.better:
        for run in (run for one in sets for run in one.runs):
            run.better = options.better
    found = analysis.results(sets, asked)
    built = list(_tables(found, inference, asked, options, skipped))
    wanted = [name.strip() for name in (options.table or "").split(",") if name.strip()]
    unknown = [name for name in wanted if name not in {table.name for table in built}]
    if unknown:
        raise CallError(f"no table {unknown[0]!r} here; there are {', '.join(table.name for table in built)}")
    shown = [table for table in built if not wanted or table.name in wanted]
    if options.format == "json":
        left = [{"path": path, "reason": reason} for path, reason in skipped]
        return tables.as_json(shown, threshold=asked.threshold, all_runs=asked.all_runs, skipped=left)
    if options.format == "csv":
        if wanted and len(wanted) > 1:
            raise CallError("--format csv writes one table; name it with --table")
        return tables.as_csv(shown[0])
    if options.format == "markdown":
        return "\n\n".join(f"### {table.title}\n\n{tables.as_markdown(table)}" for table in shown)
    return tables.as_text(shown) + "".join(f"\n{line}" for line in _left_out(skipped))


def _tables(
    found: list[Result],
    inference: list[dawnbench.Inference],
    asked: Options,
    options: argparse.Namespace,
    skipped: list[tuple[str, str]],
) -> Iterator[Table]:
    if found:
        yield analysis.time_table(found, asked)
        if any(len(result.counted) > 1 for result in found):
            yield analysis.certainty_table(found, asked)
        yield analysis.where_table(found, asked)
        try:
            subset = subsets.subset_names(options.subset) if options.subset else set()
        except ValueError as error:
            raise CallError(str(error)) from None
        if subset or len({subsets.group_name(result) for result in found}) < len(found):
            yield subsets.cost_table(found, subset)
    if options.choose:
        yield subsets.repeatable_table(found, options.max_variation / 100, options.choose)
        yield subsets.ranking_table(found, options.choose)
    if options.against:
        base, _ = read(options.against, skipped)
        named = analysis.results(base, asked)
        yield speedups.speedup_table(found, named)
    if any(result.set.accelerators for result in found):
        yield speedups.scaling_table(found)
    if any(run.flops_per_second is not None for result in found for run in result.set.runs):
        yield analysis.flops_table(found, asked)
    if inference:
        yield dawnbench.inference_table(inference)


def _left_out(skipped: list[tuple[str, str]]) -> Iterator[str]:
    for reason, count in Counter(reason for _, reason in skipped).most_common(10):
        yield f"left out: {count} ({reason})"


def _positive(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or value <= 0:
        raise argparse.ArgumentTypeError(f"expected a number above 0, found {text}")
    return value


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise argparse.ArgumentTypeError(f"expected a finite number, found {text}")
    return value


def _count(text: str) -> int:
    value = int(text)
    if not 1 <= value <= 1_000_000:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to 1000000, found {text}")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m compliance.analyze", description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("paths", nargs="+", metavar="PATH", help="logs, or folders that are searched for logs and DAWNBench entries")
    add("--format", choices=("text", "csv", "json", "markdown"), default="text")
    add("--table", metavar="NAMES", help="only these tables; CSV writes one, by default the first")
    add("--threshold", type=_finite, help="a quality instead of the target: time to it, from the evaluations")
    add("--better", choices=("higher", "lower"), help="which side of the threshold is better, where logs don't tell")
    add("--all-runs", action="store_true", help="count runs that missed the target with their whole time")
    add("--difference", type=_positive, default=5.0, metavar="PERCENT", help="of two systems to tell apart (5)")
    add("--price-per-hour", type=_positive, metavar="DOLLARS", help="of one system, for the cost of a run")
    add("--against", nargs="+", metavar="PATH", help="sets to compare with: throughput and time-to-accuracy speed-up")
    add("--subset", metavar="NAMES", help="benchmarks with commas, or rpr or wc: what this subset saves")
    add("--choose", type=_count, metavar="K", help="K benchmarks: repeatable at little cost, and ranking as all do")
    add("--max-variation", type=_positive, default=2.0, metavar="PERCENT", help="of a repeatable benchmark (2)")
    add("--resamples", type=_count, default=RESAMPLES, metavar="N", help=f"of the bootstrap ({RESAMPLES})")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
