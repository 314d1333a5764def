"""Holds folders of runs against reference convergence points.

For an MLPerf round there are two results: `official`, MLPerf's own to the last bit, and `corrected`, with the true
lower hull of the points instead of the official pruning. Where MLPerf's tool ends in a traceback there is no official
result but a reason, and the corrected one answers. The suite's own tasks have one result, with the true lower hull.
"""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any

from compliance import loglines, rcp_runs
from compliance.benchmarks import REFERENCE, Facts
from compliance.loglines import Log
from compliance.rcp_make import FILE_NAME
from compliance.rcp_points import MOST, Outcome, Point, PointsError, Rules, judge, load, lower_hull, official_pruned
from compliance.rcp_runs import Convergence, Folder, Mixed, Unreadable
from compliance.rulesets import Ruleset
from compliance.run import Run

PASSES = ("pruned", "full")
# Samples that one evaluation of llama31_405b may be off by, from round 5.0 on
_MARGINS = {"llama31_405b": ((5, 0), 46080.0)}


@dataclass(frozen=True)
class Options:
    """`which`: "pruned" for the points that the official tool keeps, "full" for all; `points`: a file instead of the
    ruleset's own; `bert_samples`: bert's progress from train_samples.
    """

    which: str = "pruned"
    points: Path | None = None
    bert_samples: bool = False


@dataclass(frozen=True)
class Verdict:
    """One folder. `crash`: why MLPerf's tool has no result, where it is asked at all."""

    path: str
    benchmark: str | None
    batch_size: Any
    values: list[float]
    unit: str
    official: Outcome | None
    crash: str
    corrected: Outcome
    points: list[Point] = field(default_factory=list, repr=False)
    hull: list[Point] = field(default_factory=list, repr=False)

    @property
    def passed(self) -> bool | None:
        """The official result, or where there is none the corrected one. None: there is nothing to test by."""
        return self.official.passed if self.official else self.corrected.passed


def rules_of(ruleset: Ruleset, benchmark: str) -> Rules | None:
    """How an MLPerf round tests a benchmark; None where it does not know how many runs that needs."""
    runs = ruleset.official.required_runs(benchmark)
    if runs is None:
        return None
    since, margin = _MARGINS.get(benchmark, ((0, 0), 0.0))
    version = tuple(int(part) for part in ruleset.official.version.split("."))
    return Rules(runs, 4 if benchmark == "unet3d" else 1, margin if version >= since else 0.0)


def points_file(ruleset: Ruleset, benchmark: str) -> Path | None:
    """The ruleset's reference file of a benchmark, None where there is none."""
    if not re.fullmatch(r"\w+", benchmark):
        return None
    if ruleset.suite:
        path = REFERENCE / benchmark / FILE_NAME
    else:
        package: Path = ruleset.official.folder.parent.parent
        path = package / "rcp_checker" / ruleset.official.folder.name / f"rcps_{benchmark}.json"
    return path if path.is_file() else None


def check(path: str, logs: list[Log], ruleset: Ruleset, options: Options = Options()) -> Verdict:
    """Hold the logs of one folder against the points of `ruleset`. Raises PointsError for an unusable points file."""
    crash, profile, rules = "", None, None
    try:
        if ruleset.suite:
            runs, facts = _suite_runs(logs, ruleset)
            if facts is not None and facts.runs:
                profile, rules = facts.profile, Rules(facts.runs, facts.dropped)
        else:
            runs, crash = _official_runs(logs, ruleset.official.version, options.bert_samples)
            named = {run.benchmark for run in runs if isinstance(run.benchmark, str)}
            rules = rules_of(ruleset, named.pop()) if len(named) == 1 else None
        folder = rcp_runs.official_folder(runs, rules.dropped if rules else 1)
    except Mixed as error:
        note = crash or ("" if ruleset.suite else "MLPerf's tool ends in a traceback: KeyError: None")
        return Verdict(path, None, None, [], "", None, note, Outcome(False, str(error)))
    return _judged(path, folder, runs, rules, ruleset, profile, options, crash)


def _official_runs(logs: list[Log], version: str, bert_samples: bool) -> tuple[list[Convergence], str]:
    """The runs, and why MLPerf's tool ends in a traceback if it does; such a run counts as not converged."""
    runs, crash = [], ""
    for log in logs:
        try:
            runs.append(rcp_runs.official_run(log, version, bert_samples=bert_samples))
        except Unreadable as error:
            crash = crash or f"MLPerf's tool ends in a traceback: {error}"
            run = Run(log, log.events, None)
            batch_size = -1 if run.batch_size is None else run.batch_size
            runs.append(Convergence(rcp_runs.INFINITE, False, batch_size, run.benchmark))
    return runs, crash


def _suite_runs(logs: list[Log], ruleset: Ruleset) -> tuple[list[Convergence], Facts | None]:
    runs = []
    found: dict[str | None, Facts | None] = {}
    for log in logs:
        run = Run(log, log.events, None)
        facts = found[run.profile] = ruleset.facts(run)
        runs.append(rcp_runs.suite_run(Run(log, log.events, facts)))
    if len(found) > 1:
        raise Mixed("profiles differ: " + " and ".join(sorted(map(str, found))))
    return runs, next(iter(found.values()), None)


def _judged(
    path: str,
    folder: Folder,
    runs: list[Convergence],
    rules: Rules | None,
    ruleset: Ruleset,
    profile: str | None,
    options: Options,
    crash: str,
) -> Verdict:
    benchmark = folder.benchmark
    values = sorted(run.value for run in runs)
    if not isinstance(benchmark, str):
        text = "the logs do not say which benchmark they are of"
        return Verdict(path, None, folder.batch_size, values, "", None, crash, Outcome(False, text))
    if (
        not ruleset.suite
        and not crash
        and benchmark not in official_table(ruleset.official.folder, ruleset.official.usage)
    ):
        crash = f"MLPerf's tool ends in a traceback: KeyError: {benchmark!r}"
    if not _is_size(folder.batch_size) and not ruleset.suite and not crash:
        crash = "MLPerf's tool ends in a traceback: TypeError"
    file = options.points or points_file(ruleset, benchmark)
    points: list[Point] = []
    if rules is not None and file is not None:
        points = load(file, rules, profile)
    hull = lower_hull(points)
    early = _early(folder, rules, points, benchmark)
    official = None
    if not ruleset.suite and not crash:
        pruned = official_pruned(points, rules) if options.which == "pruned" and rules else points
        official = early or judge(folder.batch_size, folder.values or [], pruned, rules)  # type: ignore[arg-type]
    if early is None and rules is not None and folder.values is not None:
        chosen = hull if options.which == "pruned" else points
        corrected = _strict(judge(folder.batch_size, folder.values, chosen, rules), folder.values, rules)
    else:
        corrected = early or Outcome(None, "no reference points")
    samples = ruleset.suite and any(point.unit == "samples" for point in points)
    unit = "samples_count" if samples or benchmark in rcp_runs.IN_SAMPLES else "epoch_num"
    return Verdict(path, benchmark, folder.batch_size, values, unit, official, crash, corrected, points, hull)


def _early(folder: Folder, rules: Rules | None, points: list[Point], benchmark: str) -> Outcome | None:
    """What is decided before any point is looked at, in the official order."""
    if rules is None or not points:
        return Outcome(None, f"no reference points for {benchmark}")
    if folder.batch_size == -1 or not _is_size(folder.batch_size):
        return Outcome(False, "Could not detect global_batch_size")
    if folder.values is None:
        return Outcome(False, "Insufficient convergence")
    return None


def _is_size(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < MOST


def _strict(outcome: Outcome, values: list[float], rules: Rules) -> Outcome:
    """Without enough runs to drop any there is no mean and no factor."""
    if len(values) <= 2 * rules.dropped:
        return replace(
            outcome, passed=False, message="too few runs to drop the fastest and the slowest", factor=1.0, mean=None
        )
    return outcome


@functools.cache
def official_table(folder: Path, usage: str) -> frozenset[str]:
    """The benchmarks that MLPerf's convergence tool knows a run count of, read from its source without running it."""
    try:
        tree = ast.parse((folder.parent.parent / "rcp_checker" / "rcp_checker.py").read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return frozenset()
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "submission_runs":
            return frozenset(ast.literal_eval(node.value).get(usage, {}))
    return frozenset()


def read_folder(paths: list[Path], ruleset: Ruleset | None) -> list[Log]:
    """The logs at `paths`; of an MLPerf round only those that its tools look at, result_*.txt."""
    if ruleset is not None and not ruleset.suite:
        paths = [path for path in paths if PurePath(path).match("result_*.txt")]
    return [loglines.read(path) for path in paths]


__all__ = ["PASSES", "Options", "PointsError", "Verdict", "check", "read_folder"]
