"""The model that rules look at: one run of one log (of sets of runs see result_set.py).

Words are MLPerf's: the run result is the time from `run_start` to `run_stop`; the benchmark result is made of the run
results of a set. Times are exact: integers of milliseconds, or decimals where a log writes a fraction.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple, TypeGuard

from compliance.benchmarks import Facts
from compliance.careful import Event, short
from compliance.loglines import BackStep, Log
from compliance.positions import Positions, take, times_of
from compliance.rule import Finding
from compliance.scanned import Scanned

Milliseconds = int | Decimal

CLOCK_KEYS = ("init_start", "init_stop", "run_start", "run_stop")
IDENTITY_KEYS = (
    "submission_benchmark",
    "submission_division",
    "submission_org",
    "submission_platform",
    "submission_status",
)
MODEL_KEYS = frozenset(
    (*CLOCK_KEYS, *IDENTITY_KEYS, "benchmark_profile", "cache_clear", "seed", "global_batch_size")
    + ("train_samples", "eval_samples", "data_source", "quality_metric", "quality_better", "quality_target")
    + (
        "eval_accuracy",
        "eval_error",
        "eval_start",
        "eval_stop",
        "epoch_start",
        "epoch_stop",
        "block_start",
        "block_stop",
    )
)
"""What rules ask for, besides a benchmark's hyperparameters and the keys of an MLPerf round's own rules."""
STATUSES = ("success", "aborted")
PROGRESS_KEYS = ("epoch_num", "samples_count")
SKEW_MS = 1000
_64_BITS = (1 << 64) - 1
_HEAD_KEYS = ("cache_clear", "init_start", *IDENTITY_KEYS)


def exact_ms(value: int | float | None) -> Milliseconds | None:
    """A time in milliseconds as written: an integer, or a decimal if it has a fraction."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else Decimal(repr(value))
    return value


class Evaluation(NamedTuple):
    """One `eval_accuracy` record. `value` is None where it is no finite number; `inside`: within the clock."""

    event: Event
    value: float | None
    inside: bool

    def progress(self, unit: str | None) -> int | float | None:
        """The record's `epoch_num` or `samples_count` (of `unit`, or the first that is there)."""
        for key in [unit] if unit else PROGRESS_KEYS:
            number = self.event.metadata.get(key)
            if finite(number):
                return number
        return None


def finite(value: Any) -> TypeGuard[int | float]:
    """Whether `value` is a finite number that can be computed with; True, False and integers beyond 64 bits are not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) if isinstance(value, float) else abs(value) < 2**63


def _number(value: Any) -> float | None:
    if type(value) is float:
        return value if math.isfinite(value) else None
    return float(value) if finite(value) else None


class Run:
    """One training run: `events` is the whole log, or the part of it that belongs to one of several runs in it.

    `parts` are the records of every run in the file. `profile_names` are the suite's benchmarks with their profiles,
    None where another ruleset judges. `official_messages` and `official_warnings` are what an MLPerf round's own rules
    say, `official_crash` why and where (line) its checker would end in a traceback, and `official_refusal` why it
    refuses a log of which every readable record is fine.
    """

    def __init__(self, log: Log, events: Sequence[Event], facts: Facts | None, *, suite: bool = True) -> None:
        self.log = log
        self.path = log.path
        self.events = events
        self.facts = facts or Facts(benchmark="")
        self.known = facts is not None
        self.parts: list[Sequence[Event]] = [events]
        self.profile_names: Mapping[str, Collection[str]] | None = None
        self.official_messages: list[Any] = []
        self.official_warnings: list[Any] = []
        self.official_crash: tuple[str, int | None] | None = None
        self.official_refusal: str | None = None
        self.suite = suite
        self._positions = log.positions if events is log.events else Positions(events)
        self._indices = self._positions.of

    # --- records -----------------------------------------------------------------------------------------------------

    @property
    def keys(self) -> list[str]:
        """Every key of the run, in the order of first appearance."""
        return list(self._positions.counts)

    def of(self, *keys: str) -> list[Event]:
        """All records with one of `keys`, in file order."""
        return take(self.events, self.places(*keys))

    def count(self, key: str) -> int:
        """How many records have `key`."""
        return self._positions.counts.get(key, 0)

    def places(self, *keys: str) -> Sequence[int]:
        """Where the records with one of `keys` stand among the run's records, ascending."""
        return self._indices(keys[0]) if len(keys) == 1 else self._positions.of_all(keys)

    @cached_property
    def times(self) -> Sequence[int | float | None]:
        """`time_ms` of each of the run's records."""
        return times_of(self.events)

    @cached_property
    def time_range(self) -> tuple[int | float | None, int | float | None]:
        """The earliest and the latest `time_ms` of the run, None where no record has one."""
        if isinstance(self.events, Scanned):
            return self.events.time_range
        times = [time for time in self.times if time is not None]
        return min(times, default=None), max(times, default=None)

    def first(self, key: str) -> Event | None:
        """The first record with `key`."""
        indices = self._indices(key)
        return self.events[indices[0]] if indices else None

    def value(self, key: str) -> Any:
        """The value of the first record with `key`, or None."""
        event = self.first(key)
        return None if event is None else event.value

    def index(self, key: str) -> int | None:
        """Where the first record with `key` stands among the run's records."""
        indices = self._indices(key)
        return indices[0] if indices else None

    def line(self, event: Event | None) -> int | None:
        """Physical line of a record."""
        return None if event is None else self.log.line(event) or None

    @property
    def lines(self) -> tuple[int, int]:
        """Physical lines of the run's first and last record."""
        return self.log.line(self.events[0]), self.log.line(self.events[-1])

    def at(self, event: Event | None, message: str, expected: str = "", found: object = "", hint: str = "") -> Finding:
        """A finding at the line of `event`; `found` is shown as JSON."""
        return Finding(message, self.line(event), expected, found if isinstance(found, str) else short(found), hint)

    @property
    def back_steps(self) -> list[BackStep]:
        """Each record of the run that is earlier than the record before it."""
        if len(self.parts) == 1 or not self.log.back_steps:
            return self.log.back_steps
        first, last = self.lines
        return [step for step in self.log.back_steps if first < self.log.line_at(step.place) <= last]

    # --- who and what ------------------------------------------------------------------------------------------------

    def _text(self, key: str) -> str | None:
        value = self.value(key)
        return value if isinstance(value, str) else None

    @cached_property
    def benchmark(self) -> str | None:
        return self._text("submission_benchmark")

    @cached_property
    def division(self) -> str | None:
        return self._text("submission_division")

    @cached_property
    def profile(self) -> str | None:
        return self._text("benchmark_profile")

    @cached_property
    def seeds(self) -> list[Any]:
        """The distinct values logged as seed, in order; 1 and 1.0 and true are different ones."""
        return list({(type(event.value), repr(event.value)): event.value for event in self.of("seed")}.values())

    @cached_property
    def batch_size(self) -> Any:
        return self.value("global_batch_size")

    @cached_property
    def fingerprint(self) -> str:
        """The same text for logs of the same run: equal times but for one constant shift, and equal evaluations.

        Looked at are the times of the first records of the clock's keys and of all evaluations, or of all records that
        rules ask for where there is no evaluation. The seed and whose log it is do not matter. Empty for a log without
        a clock, about which nothing can be said.
        """
        if self.start is None:
            return ""
        places = self._indices(self.facts.quality_key)
        if places:
            places = [*places, *(place for key in CLOCK_KEYS if (place := self.index(key)) is not None)]
        else:
            places = self._positions.of_all(MODEL_KEYS)
        every, zero = self.times, self.start.time_ms or 0
        times = [every[place] for place in places]
        shifted = tuple([-1 if time is None else time - zero for time in times])
        values = tuple([-math.inf if e.value is None else e.value for e in self.evaluations])
        return f"{len(times)}-{hash(shifted) & _64_BITS:016x}-{hash(values) & _64_BITS:016x}"

    # --- the clock ---------------------------------------------------------------------------------------------------

    @cached_property
    def start(self) -> Event | None:
        """`run_start`, if there is exactly one."""
        return self.first("run_start") if self.count("run_start") == 1 else None

    @cached_property
    def stop(self) -> Event | None:
        """`run_stop`, if there is exactly one."""
        return self.first("run_stop") if self.count("run_stop") == 1 else None

    @cached_property
    def status(self) -> str | None:
        """What `run_stop` says: one of STATUSES, None where it is missing or another word."""
        status = self.stop.metadata.get("status") if self.stop else None
        return status if status in STATUSES else None

    @cached_property
    def time_ms(self) -> Milliseconds | None:
        """The run result: exact milliseconds from `run_start` to `run_stop`; None where the clock is not sound."""
        start, stop = self.start, self.stop
        if start is None or stop is None:
            return None
        begin, end = exact_ms(start.time_ms), exact_ms(stop.time_ms)
        if begin is None or end is None or end <= begin or not self._in_order("run_start", "run_stop"):
            return None
        return end - begin

    def _in_order(self, *keys: str) -> bool:
        places = [self.index(key) for key in keys]
        return all(a is not None and b is not None and a < b for a, b in zip(places, places[1:], strict=False))

    def inside(self, index: int) -> bool:
        """Whether record number `index` of the run lies within the clock, by its place and by its time.

        A record between `run_start` and `run_stop` counts unless its time says otherwise by more than the skew that
        processes may have. One that was written late, so that it stands outside, counts only if its time is strictly
        inside.
        """
        first, last, earliest, latest = self._window
        placed = first is not None and first < index and (last is None or index < last)
        time = self.times[index]
        if self.facts.untimed_evaluations or time is None or earliest is None or latest is None:
            return placed
        if placed:
            return earliest - SKEW_MS <= time <= latest + SKEW_MS
        return earliest < time < latest

    @cached_property
    def _window(self) -> tuple[int | None, int | None, int | float | None, int | float | None]:
        """Where the clock starts and stops: places among the run's records, and times."""
        start, stop = self.start, self.stop
        return (
            self.index("run_start"),
            self.index("run_stop"),
            None if start is None else start.time_ms,
            None if stop is None else stop.time_ms,
        )

    # --- evaluations -------------------------------------------------------------------------------------------------

    @cached_property
    def evaluations(self) -> list[Evaluation]:
        """Every record of the judged quality (`eval_accuracy`, in some rounds `eval_error`), in file order."""
        places = self._indices(self.facts.quality_key)
        events = take(self.events, places)
        inside = [True] * len(places) if self._all_inside(places) else map(self.inside, places)
        values = [_number(event.value) for event in events]
        return list(map(Evaluation, events, values, inside))

    def _all_inside(self, places: Sequence[int]) -> bool:
        """Whether it is plain that all records at `places`, which ascend, lie within the clock."""
        first, last, earliest, latest = self._window
        if not places or first is None or last is None or not first < places[0] <= places[-1] < last:
            return False
        times = [time for place in places if (time := self.times[place]) is not None]
        if earliest is None or latest is None or len(times) < len(places):
            return False
        return earliest - SKEW_MS <= min(times) and max(times) <= latest + SKEW_MS

    @cached_property
    def counted(self) -> list[Evaluation]:
        """The evaluations that count: inside the clock, with a finite value."""
        return [e for e in self.evaluations if e.inside and e.value is not None]

    @cached_property
    def reached(self) -> Evaluation | None:
        """The first evaluation inside the clock that reaches the quality target."""
        return next((e for e in self.counted if e.value is not None and self.facts.reaches(e.value)), None)

    @property
    def best(self) -> Evaluation | None:
        """The best evaluation inside the clock."""
        if not self.counted:
            return None
        pick = max if self.facts.better == "higher" else min
        return pick(self.counted, key=lambda e: e.value or 0.0)

    @cached_property
    def converged(self) -> bool | None:
        """Whether the run reached its target and says so. None where there is no target to reach."""
        if self.status != "success":
            return False
        if self.facts.quality_target is None:
            return None if self.suite else not any(m.kind == "atleast_one_check" for m in self.official_messages)
        return self.reached is not None

    @property
    def progress_unit(self) -> str | None:
        """The unit of progress: the benchmark's, or the one that the log's evaluations use."""
        if self.facts.progress:
            return self.facts.progress
        return next((k for e in self.evaluations for k in PROGRESS_KEYS if k in e.event.metadata), None)

    @property
    def progress_at_target(self) -> int | float | None:
        """Epochs or samples at the evaluation that reached the target."""
        return self.reached.progress(self.progress_unit) if self.reached and self.converged else None


def split_runs(log: Log) -> list[Sequence[Event]]:
    """The records of each run in a log.

    A new run begins where a record that belongs to the head of a log (`init_start`, `submission_…`) follows a
    `run_start`, provided that a `run_start` follows it too: two attempts were appended to one file.
    """
    starts = log.positions.of("run_start")
    if len(starts) < 2:
        return [log.events]
    parts: list[Sequence[Event]] = []
    begin, running = 0, False
    heads: set[str] = set()
    for index, event in enumerate(log.events):
        if event.key == "run_start":
            running = True
        elif event.key in _HEAD_KEYS:
            if running and event.key in heads and starts[-1] > index:
                parts.append(log.events[begin:index])
                begin, running, heads = index, False, set()
            heads.add(event.key)
    parts.append(log.events[begin:] if parts else log.events)
    return parts
