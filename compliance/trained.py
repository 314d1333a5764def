"""What an analysis needs of one training run, and of a set of them: times, progress, evaluations, throughput.

The checker asks whether a log is right; this asks what it says. So it takes what real logs hold: logs of any round,
unfinished runs, and logs that break rules. A number that a log does not give is None, never a guess. All times are
exact milliseconds.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import groupby
from pathlib import Path, PurePath
from typing import Any

from compliance import loglines
from compliance.benchmarks import Facts
from compliance.careful import Event
from compliance.rulesets import RulesetError, choose
from compliance.run import Run, exact_ms, split_runs
from compliance.verdict import find

UNIT_WORDS = {"epoch_num": "epochs", "samples_count": "samples"}


@dataclass(frozen=True)
class Point:
    """One evaluation inside the clock: `after_ms` since run_start, `progress` in the run's unit, None if unknown."""

    after_ms: Fraction
    progress: Fraction | None
    value: float


@dataclass
class Trained:
    """One run in numbers.

    time_ms      run_start to run_stop, None for a run without both
    converged    whether the run reached its target and says so
    progress     epochs or samples (by `unit`) when it stopped, None where the log does not tell
    samples      training samples seen; throughput needs them
    eval_ms      time inside the clock in which an evaluation was running; init_ms: init_start to init_stop
    world_size   processes on CUDA, one an accelerator; None on other devices
    price        dollars an hour, where the entry says so
    settings     scalar values logged under a key that comes with one value only
    """

    path: str
    benchmark: str = "unknown"
    system: str = ""
    time_ms: Fraction | None = None
    converged: bool = False
    unit: str | None = None
    progress: Fraction | None = None
    points: list[Point] = field(default_factory=list)
    target: float | None = None
    better: str = "higher"
    samples: Fraction | None = None
    eval_ms: Fraction | None = None
    init_ms: Fraction | None = None
    flops_per_second: float | None = None
    batch: int | None = None
    world_size: int | None = None
    price: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def quality(self) -> float | None:
        """The quality at the evaluation that reached the target, or else at the last one."""
        reached = self.at(self.target) if self.target is not None else None
        return reached.value if reached else self.points[-1].value if self.points else None

    def reaches(self, value: float, threshold: float) -> bool:
        return value >= threshold if self.better == "higher" else value <= threshold

    def at(self, threshold: float) -> Point | None:
        """The first evaluation inside the clock that reaches `threshold`."""
        return next((point for point in self.points if self.reaches(point.value, threshold)), None)


@dataclass
class TrainedSet:
    """The runs of one folder and benchmark.

    `accelerators`, `nodes` and `kind` (division, accelerator model and framework) come from the system's description;
    a log on CUDA without one gives its `world_size`.
    """

    path: str
    benchmark: str
    runs: list[Trained]
    dropped: int = 1
    wanted: int | None = None
    system: str = ""
    kind: tuple[str, ...] = ()
    accelerators: int | None = None
    nodes: int | None = None

    @property
    def group(self) -> str:
        """The set's path without its benchmark: the sets of one system have it in common."""
        path = PurePath(self.path)
        return str(path.parent) if path.name == self.benchmark.partition("/")[0] else self.path


def read_sets(paths: list[Path], skipped: list[tuple[str, str]]) -> list[TrainedSet]:
    """The sets of runs under `paths`; what is left out goes to `skipped` with the reason. Raises FileNotFoundError."""
    found: list[tuple[str, Trained, Facts]] = []
    for path, folder in find(paths, skipped):
        try:
            found += [(folder or str(path.parent), run, facts) for run, facts in measure_file(path, skipped)]
        except OSError as error:
            skipped.append((str(path), f"it cannot be read: {error.strerror or error}"))
    found.sort(key=lambda item: (item[0], item[1].benchmark))
    sets = []
    for (folder, benchmark), members in groupby(found, key=lambda item: (item[0], item[1].benchmark)):
        items = list(members)
        facts = items[0][2]
        one = TrainedSet(folder, benchmark, [run for _, run, _ in items], facts.dropped, facts.runs)
        _describe(one, items[0][1])
        sets.append(one)
    return sets


def measure_file(path: Path, skipped: list[tuple[str, str]]) -> Iterator[tuple[Trained, Facts]]:
    """Each run in the log at `path`; a log of several runs is left out, since its times cannot be told apart."""
    log = loglines.read(path)
    parts = split_runs(log)
    if len(parts) > 1:
        skipped.append((str(path), f"{len(parts)} runs in one file"))
        return
    run = Run(log, parts[0], None)
    facts = _facts(run)
    if run.first("run_start") is None:
        skipped.append((str(path), "no run_start in it"))
        return
    yield measure(run, facts), facts


def _facts(run: Run) -> Facts:
    try:
        ruleset = choose(run.log)
    except RulesetError:
        return Facts(benchmark="")
    return ruleset.facts(run) or Facts(benchmark="")


def measure(run: Run, facts: Facts) -> Trained:
    """One run in numbers."""
    run.facts = facts
    target = facts.quality_target
    if target is None:
        target = _number(run.value("eval_target"))  # round 0.5
    trained = Trained(run.path, run.benchmark or "unknown", str(run.value("submission_platform") or ""))
    if run.profile:
        trained.benchmark += f"/{run.profile}"
    trained.target, trained.better = target, facts.better
    start, stop = _clock(run)
    begin = _ms(start)
    if begin is None:
        return trained
    end = _ms(stop)
    trained.time_ms = None if end is None or end <= begin else end - begin
    trained.init_ms = _interval(run.first("init_start"), run.first("init_stop"))
    trained.unit = facts.progress or run.progress_unit
    _evaluations(run, trained, begin, end, _epochs_of_0_5(run))
    trained.converged = _converged(run, stop, trained)
    if end is not None:
        trained.eval_ms = _evaluating(run, begin, end)
    trained.samples = _samples(run, trained)
    trained.flops_per_second = _flops(run, trained)
    trained.batch = _whole(run.value("global_batch_size") or run.value("input_batch_size"))
    if str(run.value("device")).startswith("cuda"):
        trained.world_size = _count(run.value("world_size"))
    trained.settings = _settings(run)
    return trained


def _clock(run: Run) -> tuple[Event | None, Event | None]:
    """The first run_start, and the first run_stop after it (round 0.5: or run_final, where there is no run_stop)."""
    start = run.first("run_start")
    begin = run.index("run_start")
    if begin is None:
        return None, None
    for key in ("run_stop", "run_final"):
        stops = [event for event in run.events[begin:] if event.key == key]
        if stops:
            return start, stops[0]
    return start, None


def _ms(event: Event | None) -> Fraction | None:
    time = exact_ms(event.time_ms) if event is not None else None
    return None if time is None else Fraction(time)


def _interval(start: Event | None, stop: Event | None) -> Fraction | None:
    begin, end = _ms(start), _ms(stop)
    return None if begin is None or end is None or end < begin else end - begin


def _evaluations(
    run: Run, trained: Trained, begin: Fraction, end: Fraction | None, old_epochs: list[Fraction] | None
) -> None:
    """Fill in the evaluations between `begin` and `end`, and the progress at the last one.

    Epochs are counted from 1; in round 0.5 by `old_epochs`, the epochs' starts. An evaluation of two metrics has
    progress, but no value.
    """
    numbers_from_0 = any(e.metadata.get("epoch_num") == 0 for e in run.of("epoch_start"))
    is_0_5 = run.first("train_epoch") is not None
    for one in run.evaluations:
        time = _ms(one.event)
        if time is None or time < begin or (end is not None and time > end):
            continue
        exact = None
        if is_0_5:
            exact = Fraction(sum(start <= time for start in old_epochs or ())) or None
        elif (progress := one.progress(trained.unit)) is not None and abs(progress) < _MOST_PROGRESS:
            exact = Fraction(progress) + (1 if numbers_from_0 else 0)
        trained.progress = exact if exact is not None else trained.progress
        value = one.value if one.value is not None else _number(one.event.value)
        if value is not None:
            trained.points.append(Point(time - begin, exact, value))
    if is_0_5:
        trained.unit = "epoch_num"
        trained.progress = Fraction(len(old_epochs)) if old_epochs else None


def _number(value: object) -> float | None:
    """A finite number, also one that a log wrote as text (round 0.6); None for anything else."""
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _epochs_of_0_5(run: Run) -> list[Fraction] | None:
    """When each epoch of a round 0.5 log started, by its distinct whole numbers under train_epoch, in milliseconds.

    None where the program did not log each epoch it trained: where it skips numbers, or its evaluations span more
    epochs than it names. An evaluation numbered -1 came before the first epoch, or after it, by the program.
    """
    named: dict[int, Fraction] = {}
    for event in run.of("train_epoch"):
        time = _ms(event)
        if isinstance(event.value, int) and not isinstance(event.value, bool) and time is not None:
            named.setdefault(event.value, time)
    evaluated = [epoch for one in run.counted if (epoch := one.progress("epoch_num")) is not None and epoch >= 0]
    if not named or max(named) - min(named) + 1 != len(named):
        return None
    if evaluated and max(evaluated) - min(evaluated) + 1 > len(named):
        return None
    return sorted(named.values())


def _converged(run: Run, stop: Event | None, trained: Trained) -> bool:
    """By the run's own word, proved by its evaluations where the ruleset has a target.

    A log of the suite has to prove it inside the clock; MLPerf's checker takes any evaluation of the log. Round 0.5 has
    no ruleset: there the word counts alone, and the evaluations where the run says nothing.
    """
    if stop is None:
        return False
    status = stop.metadata.get("status")
    reached = trained.target is not None and trained.at(trained.target) is not None
    if status is None:
        return reached
    if status != "success" or run.facts.quality_target is None:
        return bool(status == "success")
    values = [] if run.facts.profile else [v for one in run.evaluations if (v := _number(one.event.value)) is not None]
    return reached or any(trained.reaches(value, run.facts.quality_target) for value in values)


def _evaluating(run: Run, begin: Fraction, end: Fraction) -> Fraction | None:
    """Time between begin and end in which an evaluation was running; several ranks' records count once."""
    marks = [(time, e.key) for e in run.of("eval_start", "eval_stop") if (time := _ms(e)) is not None]
    if not any(key == "eval_start" for _, key in marks):
        return None
    total, since = Fraction(0), None
    for time, key in marks:
        time = min(max(time, begin), end)
        if key == "eval_start":
            since = time if since is None else since
        elif since is not None:
            total, since = total + max(time - since, Fraction(0)), None
    return total if since is None else total + end - since


def _samples(run: Run, trained: Trained) -> Fraction | None:
    if trained.unit == "samples_count" or trained.progress is None:
        return trained.progress
    size = run.value("train_samples") or run.value("preproc_num_train_examples")
    return None if _whole(size) is None else trained.progress * size


def _whole(value: object) -> int | None:
    """A whole number above 0, of a size that counts something."""
    usable = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**63
    return value if usable else None  # type: ignore[return-value]


def _flops(run: Run, trained: Trained) -> float | None:
    """FLOPs a second: `flops_per_second` as logged, or `flops_per_sample` times the samples a second."""
    direct, each = _number(run.value("flops_per_second")), _number(run.value("flops_per_sample"))
    if direct is not None and direct > 0:
        return direct
    if each is not None and each > 0 and trained.samples and trained.time_ms:
        return each * float(trained.samples * 1000 / trained.time_ms)
    return None


_MOST_PROGRESS = 1e30  # samples; a log that claims more is broken, and its number of no use
_NO_SETTINGS = ("submission_", "eval_", "epoch_", "block_", "run_", "init_", "train_loop", "train_epoch", "cache_")
_MEASURED = {"seed", "samples_per_second", "throughput", "tracked_stats", "train_loss", "time_to_train_ms", "baseline"}
_MEASURED |= {"epoch_time_ms", "block_time_ms", "peak_memory_bytes", "software", "data_source", "thread_count"}


def _settings(run: Run) -> dict[str, Any]:
    result = {}
    for key in run.keys:
        if key.startswith(_NO_SETTINGS) or key in _MEASURED:
            continue
        values = {json.dumps(e.value, sort_keys=True, default=str) for e in run.of(key)}
        value = run.value(key)
        if len(values) == 1 and value is not None and not isinstance(value, dict):
            result[key] = value
    return result


def _describe(one: TrainedSet, run: Trained) -> None:
    """Fill in a set's system, and its nodes and accelerators from `systems/<system>.json` beside `results`."""
    one.system, one.accelerators = run.system, run.world_size
    parts = PurePath(one.path).parts
    if "results" not in parts:
        return
    place = len(parts) - 1 - parts[::-1].index("results")
    if place + 1 == len(parts):
        return
    one.system = parts[place + 1]
    system = _description(str(PurePath(*parts[:place], "systems", f"{one.system}.json")))
    one.nodes, each = _count(system.get("number_of_nodes")), _count(system.get("accelerators_per_node"))
    if one.nodes is not None and each is not None:
        one.accelerators = one.nodes * each
    one.kind = tuple(str(system.get(key) or "") for key in ("division", "accelerator_model_name", "framework"))


@cache
def _description(path: str) -> dict[str, Any]:
    try:
        system = json.loads(Path(path).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return system if isinstance(system, dict) else {}


def _count(value: object) -> int | None:
    text = str(value).strip()
    return int(text) if text.isdecimal() and int(text[:9]) > 0 else None
