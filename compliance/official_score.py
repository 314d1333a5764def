"""What MLPerf's own result summarizer makes of a folder of runs, with its arithmetic and its defects.

It drops every log that its checker refuses, whatever the reason, counts no files, and looks at no status. Times are
minutes in floating point: milliseconds by 60 by 1000, the kept ones added in order, divided, multiplied by the factor
in scaling.json. `observe` takes what is needed from the logs of one folder while their records are at hand.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from compliance import energy, rcp_check
from compliance.mlperf_records import OLD_VERSION, Unreadable, official_records
from compliance.rcp_points import PointsError
from compliance.submission import RESULT_NAME

SCALING = "scaling.json"
MOST_FACTOR = 1000
FIRST_ROUND_WITH_POINTS = (1, 0)
_READ = ("run_start", "run_stop", "number_of_nodes", "accelerators_per_node")


@dataclass(frozen=True)
class Observed:
    """One file as the summarizer sees it. `start` and `stop` are milliseconds as floats.

    `reason`: why it is dropped; `crash`: why the summarizer as a whole ends in a traceback on it. `energy` is in
    joules, None without a power folder; `scale` is accelerators used, from the log.
    """

    path: str
    start: float = 0.0
    stop: float = 0.0
    reason: str = ""
    crash: str = ""
    energy: float | None = None
    scale: int | None = None

    @property
    def counts(self) -> bool:
        return not self.reason and not self.crash

    @property
    def minutes(self) -> float:
        return (self.stop - self.start) / 60 / 1000


@dataclass(frozen=True)
class FolderFacts:
    """What was observed in one folder.

    `factor` is what its scaling.json says, None without one or with an unusable one; `factor_fault` says why then.
    `epochs` is the progress at the target, as mean without the least and the most. `untested`: why convergence is not.
    """

    runs: list[Observed] = field(default_factory=list)
    factor: float | None = None
    factor_fault: str = ""
    convergence: rcp_check.Verdict | None = None
    batch_size: float | None = None
    epochs: float | None = None
    has_power: bool = False
    power_faults: list[tuple[str, str]] = field(default_factory=list)
    untested: str = ""


@dataclass(frozen=True)
class OfficialScore:
    """What the summarizer prints, None where it prints nothing. `crash`: how it ends, if in a traceback."""

    minutes: float | None = None
    energy: float | None = None
    crash: str = ""


def observe(folder: str, logs: Sequence[Any]) -> FolderFacts:
    """The facts of a folder, from the verdicts of its logs, which still hold their runs."""
    by_path = {Path(log.path): log for log in logs if fnmatch(Path(log.path).name, RESULT_NAME)}
    others = [path for path in Path(folder).glob(RESULT_NAME) if path not in by_path and path.is_file()]
    power = Path(folder, "power")
    runs = []
    for path in sorted([*by_path, *others]):
        run = _observe_log(str(path), by_path.get(path))
        if power.is_dir() and run.counts:
            run = _with_energy(run, power / path.name.split(".")[0])
        runs.append(run)
    factor, fault = read_factor(Path(folder))
    facts = FolderFacts(runs, factor, fault, has_power=power.is_dir())
    if facts.has_power:
        facts = replace(facts, power_faults=energy.faults(power, [Path(run.path).name.split(".")[0] for run in runs]))
    return _with_convergence(facts, folder, list(by_path.values()), others)


def read_factor(folder: Path) -> tuple[float | None, str]:
    """The factor in the folder's scaling.json, and what is wrong with that file."""
    path = folder / SCALING
    if not path.is_file():
        return None, ""
    try:
        factor = json.loads(path.read_text(encoding="utf-8"))["scaling_factor"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return None, f"no scaling_factor can be read: {error!r}"
    if isinstance(factor, bool) or not isinstance(factor, int | float) or not 0 < factor <= MOST_FACTOR:
        return None, f"scaling_factor is no number above 0, at most {MOST_FACTOR}: {factor!r:.60}"
    return float(factor), ""


def _observe_log(path: str, log: Any) -> Observed:
    if log is None or not log.runs:
        return Observed(path, reason="no log record in it")
    if log.official is None:
        return Observed(path, reason="judged by no MLPerf round")
    if log.official.valid is None:
        return Observed(path, crash=str(log.official.crash))
    if not log.official.valid:
        return Observed(path, reason="refused by the round's rules")
    try:
        records = _records(log.runs, log.ruleset.official)
    except Unreadable as error:
        return Observed(path, crash=str(error))
    start = stop = None
    scale: dict[str, Any] = {}
    for record in records:
        if record.key == "run_start":
            start = float(record.time_ms)
        elif record.key == "run_stop":
            stop = float(record.time_ms)
        else:
            scale.setdefault(record.key, record.value)
        if start is not None and stop is not None:
            break
    if start is None or stop is None:
        return Observed(path, reason="no run_start or no run_stop")
    return Observed(path, start, stop, scale=_scale(scale))


def _records(runs: list[Any], ruleset: Any) -> list[Any]:
    """The records that matter here as the official reader sees them: without faults in the log, the run's own."""
    log = runs[0].log
    if not log.faults and len(runs) == 1 and ruleset.version != OLD_VERSION:
        own: list[Any] = runs[0].of(*_READ)
        return own
    return [record for record in official_records(log, ruleset).items if record.key in _READ]


def _scale(said: dict[str, Any]) -> int | None:
    try:
        return int(said["number_of_nodes"]) * max(int(said["accelerators_per_node"]), 1)
    except (KeyError, TypeError, ValueError):
        return None


def _with_energy(run: Observed, folder: Path) -> Observed:
    try:
        return replace(run, energy=energy.joules(folder, run.stop - run.start))
    except energy.NoEnergy as error:
        return replace(run, crash=str(error))


def _with_convergence(facts: FolderFacts, folder: str, logs: list[Any], others: list[Path]) -> FolderFacts:
    """The convergence test of a folder, and what the summarizer's detailed table has of it.

    `others` are result files without a record, which MLPerf's tool opens all the same.
    """
    first = logs[0] if logs else None
    ruleset = getattr(first, "ruleset", None)
    if first is None or ruleset is None or first.division == "open":
        return facts
    if not ruleset.suite:
        version = tuple(int(part) for part in ruleset.official.version.split("."))
        if version < FIRST_ROUND_WITH_POINTS:
            return facts
    held = [log.runs[0].log for log in logs if log.runs]
    if not ruleset.suite:
        held += rcp_check.read_folder(others, ruleset)
    try:
        verdict = rcp_check.check(folder, held, ruleset)
    except (PointsError, ImportError) as error:
        return replace(facts, untested=str(error))
    verdict = replace(verdict, points=[], hull=[])
    if verdict.official is None:
        return replace(facts, convergence=verdict)
    epochs = None
    values = verdict.values
    if len(values) >= 3 and verdict.official.message != "Insufficient convergence":
        import numpy as np

        epochs = float(np.mean(values[1:-1]))
    size = verdict.batch_size
    number = float(size) if isinstance(size, int | float) else None
    return replace(facts, convergence=verdict, batch_size=number, epochs=epochs)


def official_score(facts: FolderFacts, benchmark: str) -> OfficialScore:
    """The score of a folder as the summarizer prints it; `benchmark` by the folder's name."""
    crash = next((run.crash for run in facts.runs if run.crash), "")
    if crash:
        return OfficialScore(crash=crash)
    most = 4 if benchmark == "unet3d" else 1
    dropped = sum(bool(run.reason) for run in facts.runs)
    if dropped > most:
        return OfficialScore()
    runs = sorted((run for run in facts.runs if run.counts), key=lambda run: run.minutes)
    kept = runs[most : len(runs) - (most - dropped)]
    if not kept:
        return OfficialScore()
    factor = 1.0 if facts.factor is None else facts.factor
    minutes = mean_of(run.minutes for run in kept) * factor
    joules = None
    if facts.has_power and all(run.energy is not None for run in kept):
        joules = mean_of(run.energy or 0.0 for run in kept) * factor
    return OfficialScore(minutes, joules)


def mean_of(values: Iterator[float]) -> float:
    """Sum from left to right, without compensation, by the number of values."""
    total, count = 0.0, 0
    for value in values:
        total += value
        count += 1
    return total / count


@dataclass(frozen=True)
class WeakScore:
    """Weak scaling: `models` trained at the same time, in `minutes` from the first start to the last stop, each on
    `scale` accelerators; None for `minutes` with the `reason`. `energy` in joules a model.
    """

    minutes: float | None
    models: int
    scale: int | None
    energy: float | None = None
    reason: str = ""

    @property
    def models_per_minute(self) -> float | None:
        return self.models / self.minutes if self.minutes else None


def weak_score(facts: FolderFacts, required: int | None) -> WeakScore:
    """The weak scaling score of a folder: every run that counts is a model; runs that don't are left out."""
    crash = next((run.crash for run in facts.runs if run.crash), "")
    runs = [run for run in facts.runs if run.counts]
    scales = {run.scale for run in runs}
    if crash:
        return WeakScore(None, len(runs), None, reason=f"MLPerf's tool ends in a traceback: {crash}")
    if len(runs) < (required or 1):
        return WeakScore(None, len(runs), None, reason=f"{len(runs)} models that count, at least {required} are needed")
    if len(scales) != 1 or None in scales:
        return WeakScore(None, len(runs), None, reason="the logs differ in, or lack, nodes and accelerators per node")
    minutes = (max(run.stop for run in runs) - min(run.start for run in runs)) / 60 / 1000
    joules = [run.energy for run in runs if run.energy is not None]
    mean = mean_of(iter(sorted(joules)[1:])) if facts.has_power and len(joules) > 1 else None
    return WeakScore(minutes, len(runs), scales.pop(), mean)
