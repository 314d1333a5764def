"""A run as a train.py sees it: the timed region, progress, evaluations, the verdict. `runs.start` makes it."""

from __future__ import annotations

import argparse
import dataclasses
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import runlog
import torch
from runlog import keys

from reference.common import benchmark as benchmarks
from reference.common import machine, seeds
from reference.common.display import Display
from reference.common.errors import SetupError
from reference.common.sources import Source

T = TypeVar("T")


class Run:
    """One training run. Made by `start`; a rehearsal of it has the same interface and logs nothing.

    settings        the profile's Settings with the flags' values
    seed            int; everything is seeded with it already
    device          torch.device
    benchmark       the judged facts; `profile` is the chosen part of them
    data_dir        Path or None, from --data-dir
    samples_dir     Path or None, from --samples
    rank, world_size   0 and 1
    rehearsing      True in a rehearsal
    """

    rank = 0
    world_size = 1

    def __init__(
        self, benchmark: benchmarks.Benchmark, settings: Any, arguments: argparse.Namespace, log: runlog.RunLog
    ) -> None:
        self.benchmark = benchmark
        self.profile = benchmark.profiles[arguments.profile]
        self.settings = settings
        self.seed: int = arguments.seed
        self.device = _device(arguments.device)
        self.deterministic: bool = arguments.deterministic
        self.data_dir: Path | None = arguments.data_dir
        self.samples_dir: Path | None = arguments.samples
        self.rehearsing = False
        self.exit_status = 1
        self._arguments = arguments
        self.run_log = log
        self._display = Display(quiet=self.rank > 0)
        self._data = _Data()  # shared with the rehearsal
        self._by_epoch = benchmark.progress == keys.EPOCH_NUM
        self._epoch = 0  # the last epoch that began, from 1
        self._samples = 0  # training samples of the whole run
        self._stretch: _Stretch | None = None  # the open epoch or block
        self._times_ms: list[int] = []  # of each closed epoch or block
        self._next_evaluation = self.profile.eval_every  # iteration-based: the sample count that asks for one
        self._evaluating = False
        self._judged = False  # reached() was called in this evaluation
        self._target_reached = False
        self._budget_spent = False

    # ---- before the clock ------------------------------------------------------------------------------------------

    def rehearsal(self) -> Run:
        """A run that logs nothing and takes one step, for the preflight: missing files and wrong shapes show now.

        When its timed region ends, everything is seeded again, so that it changes nothing in the run.
        """
        twin = Run(self.benchmark, self.settings, self._arguments, runlog.RunLog(None, machine.ROOT, ()))
        twin.rehearsing, twin.samples_dir = True, None
        twin._data, twin._display = self._data, Display(quiet=True)
        return twin

    def reseed(self) -> None:
        """Seed Python, numpy and torch again with the run's seed."""
        seeds.seed_everything(self.seed)

    def require_data_dir(self, layout: str) -> Path:
        """The --data-dir folder. Raises SetupError, saying which `layout` is expected there, when it isn't one."""
        if self.data_dir is None:
            raise SetupError(f"profile {self.profile.name} reads {self.profile.dataset}: give --data-dir\n  {layout}")
        if not self.data_dir.is_dir():
            raise SetupError(f"--data-dir {self.data_dir} is not a folder\n  expected: {layout}")
        return self.data_dir

    def describe_data(self, train_samples: int, eval_samples: int, sources: Sequence[Source]) -> None:
        """State what was loaded; call it in the task's data.load(). Logged before the clock, from the rehearsal.

        Inside the clock the same must come out again: a difference raises ValueError.
        """
        told = (int(train_samples), int(eval_samples), tuple(sources))
        if self._data.told is not None and self._data.told != told:
            raise ValueError(f"the data changed since the rehearsal: {self._data.told} then, {told} now")
        self._data.told = told

    def baselines(self, values: Mapping[str, float]) -> None:
        """Log and show what naive methods reach, name -> value of the quality metric. Measured by code, every time."""
        self._log_data()
        metric, target = self.profile.quality_metric, self.profile.quality_target
        for name, value in values.items():
            self.run_log.event(keys.BASELINE, value, {"name": name, "quality_metric": metric})
        shown = ", ".join(f"{name} {value:.4g}" for name, value in values.items())
        goal = "no target in this profile" if target is None else f"target {target:g}"
        self._display.line(f"{metric} ({self.profile.better} is better): {goal}; naive baselines: {shown}")
        self.reseed()

    # ---- the timed region ------------------------------------------------------------------------------------------

    @contextmanager
    def timed(self) -> Iterator[None]:
        """The clock: `init_stop`, `run_start` ... `run_stop` with its status, and the totals after it.

        `success`: the quality target was reached or, in a profile without one, the budget was run to its end.
        """
        self._log_init_end()
        cpu_s = time.process_time()
        with self.run_log.clock() as outcome:
            try:
                yield
            finally:
                self._close_stretch()
                outcome.metadata = self._progress()
            outcome.status, outcome.reason = self._verdict()
        if self.rehearsing:
            self.reseed()
            return
        self.exit_status = 0 if outcome.status == keys.SUCCESS else 1
        self._log_totals(outcome, time.process_time() - cpu_s)

    def epochs(self, max_epochs: int) -> Iterator[int]:
        """1, 2, ... max_epochs, each opening an epoch; an evaluation or the next epoch closes it."""
        for epoch in range(1, (1 if self.rehearsing else max_epochs) + 1):
            self._close_stretch()
            self._epoch = epoch
            self._open_stretch()
            yield epoch
        self._close_stretch()
        self._budget_spent = True

    def progress(self, batches: Iterable[T], total: int | None = None) -> Iterator[T]:
        """Yield `batches` with a progress bar; `total` is their number where `len` cannot tell.

        In an epoch it counts each batch's samples (the length of its first tensor); in an evaluation it counts none.
        """
        counting = self._stretch is not None and not self._evaluating
        label = f"epoch {self._epoch}" if self._by_epoch else f"{self._samples:,} samples"
        label = f"{label}, evaluating" if self._evaluating else label
        for batch in self._display.bar(batches, label, total):
            if counting:
                self._count(batch)
            yield batch
            if self.rehearsing:
                return

    def samples(self, stream: Iterable[T], max_samples: int) -> Iterator[T]:
        """Iteration-based training: yield batches of `stream` until `max_samples` samples were taken.

        Each batch counts when it is handed out. Blocks open and close around the evaluations between.
        """
        for batch in self._display.bar(stream, "samples", max_samples, lambda: self._samples):
            if self._stretch is None:
                self._open_stretch()
            self._count(batch)
            yield batch
            if self.rehearsing or self._samples >= max_samples:
                break
        self._close_stretch()
        self._budget_spent = self.rehearsing or self._samples >= max_samples

    @property
    def evaluation_due(self) -> bool:
        """Whether the benchmark's schedule asks for an evaluation now (`eval_every`, in its unit of progress)."""
        if self.rehearsing:
            return True
        if self._by_epoch:
            return self._epoch % self.profile.eval_every == 0
        return self._samples >= self._next_evaluation

    @contextmanager
    def evaluation(self) -> Iterator[None]:
        """One evaluation: closes the epoch or block, then `eval_start` ... `eval_stop`. `reached` is called in it."""
        self._close_stretch()
        self._next_evaluation = (self._samples // self.profile.eval_every + 1) * self.profile.eval_every
        self._evaluating, self._judged = True, False
        try:
            with self.run_log.interval("eval", self._progress()):
                yield
        finally:
            self._evaluating = False
        if not self._judged:
            raise RuntimeError("the evaluation ended without run.reached(value, evaluated)")

    def reached(self, value: float, evaluated_samples: int) -> bool:
        """Log the quality metric as `eval_accuracy`; True when it is as good as the target or better.

        `evaluated_samples` is counted by the metric itself. Raises ValueError when it isn't the size of the evaluation
        set, and when `value` is not a finite number inside the benchmark's quality_range. A rehearsal returns True.
        """
        if not self._evaluating:
            raise RuntimeError("run.reached() belongs inside `with run.evaluation():`")
        number = self._checked(value)
        evaluated = int(evaluated_samples)
        if not self.rehearsing and self._data.told is not None and evaluated != self._data.told[1]:
            raise ValueError(f"{evaluated} samples were evaluated of the evaluation set's {self._data.told[1]}")
        self.run_log.event(keys.EVAL_ACCURACY, number, {**self._progress(), keys.EVALUATED_SAMPLES: evaluated})
        self._judged = True
        if self.rehearsing:
            return True
        target = self.profile.quality_target
        goal = "" if target is None else f" (target {target:g})"
        where = f"epoch {self._epoch}" if self._by_epoch else f"{self._samples:,} samples"
        self._display.line(f"{where}: {self.profile.quality_metric} {number:.4f}{goal}")
        if self.profile.reached(number):
            self._target_reached = True
            return True
        return False

    def log(self, key: str, value: object) -> None:
        """Log a further metric under a name of its own, with the progress made so far."""
        self.run_log.event(key, value, self._progress())

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _progress(self) -> dict[str, object]:
        return {keys.EPOCH_NUM: self._epoch} if self._by_epoch else {keys.SAMPLES_COUNT: self._samples}

    def _open_stretch(self) -> None:
        key = keys.EPOCH_START if self._by_epoch else keys.BLOCK_START
        self._stretch = _Stretch(self.run_log.start(key, None, self._progress()), time.perf_counter(), self._samples)

    def _close_stretch(self) -> None:
        """End the open epoch or block, if there is one, and log its throughput."""
        stretch, self._stretch = self._stretch, None
        if stretch is None:
            return
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)  # the work that was queued belongs to this epoch or block
        seconds = time.perf_counter() - stretch.start_s
        count = self._samples - stretch.samples_before
        said = {keys.EPOCH_NUM: self._epoch, keys.SAMPLES_COUNT: count} if self._by_epoch else self._progress()
        stop = self.run_log.end(keys.EPOCH_STOP if self._by_epoch else keys.BLOCK_STOP, None, said)
        self._times_ms.append(stop - stretch.start_ms)
        self.run_log.event(keys.SAMPLES_PER_SECOND, count / seconds, self._progress())

    def _count(self, batch: object) -> None:
        first = batch
        while isinstance(first, (tuple, list, dict)) and first:
            first = next(iter(first.values())) if isinstance(first, dict) else first[0]
        if not getattr(first, "shape", None):
            raise TypeError(f"cannot count the samples of a batch of type {type(batch).__name__}: no tensor leads it")
        self._samples += int(first.shape[0])  # type: ignore[attr-defined]

    def _checked(self, value: float) -> float:
        number = runlog.plain(value, keys.EVAL_ACCURACY)
        low, high = self.profile.quality_range
        if isinstance(number, bool) or not isinstance(number, (int, float)) or not low <= number <= high:
            raise ValueError(
                f"{self.profile.quality_metric} must be a number from {low:g} to {high:g}, not {number!r}"
                + (" (a percentage where a fraction is due?)" if high == 1.0 else "")
            )
        return float(number)

    def _verdict(self) -> tuple[str, str | None]:
        if self._target_reached or self.rehearsing:
            return keys.SUCCESS, None
        if not self._budget_spent:
            return keys.ABORTED, "training ended before its budget was spent"
        if self.profile.quality_target is None:
            return keys.SUCCESS, None
        return keys.ABORTED, "quality target not reached"

    def log_start(self) -> None:
        """Everything that is known before any data is read."""
        given, log = self._arguments, self.run_log
        log.event(keys.SUBMISSION_BENCHMARK, self.benchmark.name)
        log.event(keys.SUBMISSION_DIVISION, given.division)
        log.event(keys.SUBMISSION_ORG, given.org)
        log.event(keys.SUBMISSION_PLATFORM, given.platform or machine.system_name())
        log.event(keys.SUBMISSION_STATUS, given.status)
        log.start(keys.INIT_START)
        log.event(keys.BENCHMARK_PROFILE, self.profile.name)
        log.event(keys.QUALITY_METRIC, self.profile.quality_metric)
        log.event(keys.QUALITY_BETTER, self.profile.better)
        log.event(keys.QUALITY_TARGET, self.profile.quality_target)
        log.event(keys.SEED, self.seed)
        for field in dataclasses.fields(self.settings):
            log.event(field.name, getattr(self.settings, field.name))

    def _log_data(self) -> None:
        if self._data.logged or self.rehearsing:
            return
        if self._data.told is None:
            raise RuntimeError("no data was described: data.load() must call run.describe_data(), rehearsed before")
        train_samples, eval_samples, sources = self._data.told
        self.run_log.event(keys.TRAIN_SAMPLES, train_samples)
        self.run_log.event(keys.EVAL_SAMPLES, eval_samples)
        for source in sources:
            self.run_log.event(keys.DATA_SOURCE, dataclasses.asdict(source))
        self._data.logged = True

    def _log_init_end(self) -> None:
        self._log_data()
        self.run_log.event(keys.DEVICE, self.device.type)
        self.run_log.event(keys.WORLD_SIZE, self.world_size)
        self.run_log.event(keys.LOWEST_NUMERICAL_PRECISION, "fp32")
        self.run_log.event(keys.THREAD_COUNT, torch.get_num_threads())
        self.run_log.event(keys.DETERMINISTIC, self.deterministic)
        if not self.rehearsing:
            self.run_log.event(keys.SOFTWARE, machine.software())
        self.run_log.end(keys.INIT_STOP)

    def _log_totals(self, outcome: runlog.Outcome, cpu_s: float) -> None:
        total_ms = outcome.stop_ms - outcome.start_ms
        self.run_log.event(keys.TIME_TO_TRAIN_MS, total_ms)
        self.run_log.event(keys.CPU_TIME_MS, round(cpu_s * 1000))
        self.run_log.event(keys.EPOCH_TIME_MS if self._by_epoch else keys.BLOCK_TIME_MS, self._times_ms)
        peak = machine.peak_memory_bytes()
        if peak is not None:
            self.run_log.event(keys.PEAK_MEMORY_BYTES, peak)
        if self.device.type == "cuda":
            self.run_log.event(keys.PEAK_DEVICE_MEMORY_BYTES, torch.cuda.max_memory_allocated(self.device))
        reason = "" if outcome.reason is None else f": {outcome.reason}"
        self._display.line(
            f"{outcome.status}{reason}, {total_ms / 1000:.1f} s ({cpu_s:.1f} s of CPU), log {self.run_log.path}"
        )


@dataclasses.dataclass
class _Data:
    """What data.load() described: train samples, eval samples, sources; and whether the log has it."""

    told: tuple[int, int, tuple[Source, ...]] | None = None
    logged: bool = False


@dataclasses.dataclass(frozen=True)
class _Stretch:
    """An open epoch or block."""

    start_ms: int
    start_s: float
    samples_before: int


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise SetupError("--device cuda: torch sees no GPU here (try --device cpu)")
    return torch.device(name)
