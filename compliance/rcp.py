"""Reference convergence points: make them from evidence, and hold runs against them.

``python -m compliance.rcp make reference/<task>`` writes a task's rcps.json from the logs in its evidence folder.
``python -m compliance.rcp check PATH…`` tests each folder of logs below the paths; nothing is written into them.

Exit status 0: done, no folder failed; 1: a folder failed, or the evidence gives no points; 2: wrong call, no logs.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compliance import rcp_check, rcp_make
from compliance.benchmarks import FactsError
from compliance.console import say
from compliance.formats.as_text import clean
from compliance.loglines import Log
from compliance.rcp_points import Outcome, PointsError
from compliance.rulesets import AUTO, Ruleset, RulesetError, choose, resolve
from compliance.verdict import find


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    options = _parser().parse_args(argv)
    try:
        return _make(options.folder, options.out) if options.command == "make" else _check(options)
    except (rcp_make.EvidenceError, FactsError) as error:
        print(clean_lines(str(error)), file=sys.stderr)
        return 1
    except (OSError, PointsError, RulesetError, ImportError) as error:
        print(f"compliance.rcp: {clean(error)}", file=sys.stderr)
        return 2


def clean_lines(text: str) -> str:
    """Text of several lines, each made safe for a terminal."""
    return "\n".join(clean(line) for line in text.splitlines())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m compliance.rcp", description=__doc__.split("\n", 1)[0])
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    make = commands.add_parser("make", help="write rcps.json from evidence logs")
    make.add_argument("folder", type=Path, metavar="FOLDER", help="a task, its evidence, or any folder of logs (--out)")
    make.add_argument("--out", type=Path, metavar="FILE", help="default: rcps.json of the task, from all its evidence")
    check = commands.add_parser("check", help="hold folders of logs against reference points")
    check.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="searched for folders of logs")
    check.add_argument("--ruleset", default=AUTO, help="auto (default), suite, or an MLPerf round such as mlperf-5.1")
    check.add_argument("--points", type=Path, metavar="FILE", help="reference points of your own, in MLPerf's form")
    check.add_argument("--full", action="store_true", help="all points, also those that lie above the others")
    check.add_argument("--bert-train-samples", action="store_true", help="bert: progress from train_samples")
    check.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw points, hull, acceptance and the runs")
    check.add_argument("--format", choices=("text", "json"), default="text")
    return parser


def _make(folder: Path, out: Path | None) -> int:
    source, target = rcp_make.paths(folder, out)
    if not source.is_dir():
        raise rcp_make.EvidenceError(f"{source}: no such folder")
    text = rcp_make.make(source, target.parent)
    target.write_text(text, encoding="utf-8")
    return say(f"wrote {target}")


def _check(options: argparse.Namespace) -> int:
    given = None if options.ruleset == AUTO else resolve(options.ruleset)
    how = rcp_check.Options("full" if options.full else "pruned", options.points, options.bert_train_samples)
    verdicts = list(_verdicts(options.paths, given, how))
    if not verdicts:
        print("compliance.rcp: no logs found in " + ", ".join(map(str, options.paths)), file=sys.stderr)
        return 2
    if options.plot:
        from compliance import rcp_plot

        options.plot.write_text(rcp_plot.draw(verdicts), encoding="utf-8")
    if options.format == "json":
        text = json.dumps({"schema": 1, "folders": [_as_dict(one) for one in verdicts]}, indent=1, allow_nan=False)
    else:
        text = "\n".join(line for one in verdicts for line in _lines(one))
    say(text)
    return 1 if any(one.passed is False for one in verdicts) else 0


def _verdicts(paths: list[Path], given: Ruleset | None, how: rcp_check.Options) -> Iterator[rcp_check.Verdict]:
    folders: dict[str, list[Path]] = {str(path): [] for path in paths if path.is_dir() and not any(path.iterdir())}
    skipped: list[tuple[str, str]] = []
    for path, folder in find(paths, skipped):
        folders.setdefault(folder or str(path.parent), []).append(path)
    for name, _ in skipped:  # MLPerf's tool opens every file of this name, also one without a record
        path = Path(name)
        if path.match("result_*.txt") and path.is_file():
            folders.setdefault(str(path.parent), []).append(path)
    for folder, files in folders.items():
        logs: list[Log] = rcp_check.read_folder(sorted(files), given)
        ruleset = given or (choose(logs[0]) if logs else resolve("suite", "there is no log"))
        yield rcp_check.check(folder, logs, ruleset, how)


def _lines(one: rcp_check.Verdict) -> Iterator[str]:
    what = f"{one.benchmark or 'unknown benchmark'}, batch size {one.batch_size}" if one.benchmark else "no benchmark"
    yield f"{clean(one.path)}: {clean(what)}"
    if one.values:
        yield f"    {one.unit} at the target: " + " ".join("infinite" if v >= 1e9 else f"{v:.10g}" for v in one.values)
    if one.official:
        yield f"    official:  {_outcome(one.official, one.unit)}"
    elif one.crash:
        yield f"    official:  none; {clean(one.crash)}"
    if one.official != one.corrected:
        label = "corrected (true lower hull):" if one.official or one.crash else "result:   "
        yield f"    {label} {_outcome(one.corrected, one.unit)}"


def _outcome(outcome: Outcome, unit: str) -> str:
    word = {True: "pass", False: "FAIL", None: "not tested"}[outcome.passed]
    text = f"{word}, {clean(outcome.message)}"
    if outcome.point is None or outcome.mean is None or not math.isfinite(outcome.mean):
        return text
    point = outcome.point
    text += f"; mean {unit} {outcome.mean:.10g}, reference {point.mean:.10g} ({clean(point.name)})"
    text += f", at least {point.least:.10g}"
    if outcome.passed and outcome.factor > 1:
        text += f"; the time counts times {outcome.factor!r}"
    return text


def _as_dict(one: rcp_check.Verdict) -> dict[str, Any]:
    return {
        "path": one.path,
        "benchmark": one.benchmark,
        "batch_size": one.batch_size,
        "unit": one.unit,
        "to_target": [None if value >= 1e9 else value for value in one.values],
        "official": _outcome_dict(one.official),
        "official_crash": one.crash or None,
        "corrected": _outcome_dict(one.corrected),
    }


def _outcome_dict(outcome: Outcome | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    point = outcome.point
    return {
        "passed": outcome.passed,
        "message": outcome.message,
        "mean": _finite(outcome.mean),
        "factor": _finite(outcome.factor),
        "point": point and {"name": point.name, "batch_size": point.batch_size, "mean": point.mean,
                            "deviation": point.stdev, "least_mean": point.least},
    }  # fmt: skip


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


if __name__ == "__main__":
    raise SystemExit(main())
