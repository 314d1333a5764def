"""Open a run log and write its lines.

One file holds one run. Lines have the format of `mlperf_logging.mllog` and are made by its `MLLogger`; this module adds
what a judged log needs: no appending, no lost record, no half line, and a `run_stop` however the run ends.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, TracebackType

from mlperf_logging.mllog.mllog import MLLogger

from runlog import keys
from runlog.signals import Stopped, stopping
from runlog.values import plain, require_finite, without_places

_SPACE = "\\u0020"
_HERE = str(Path(__file__).resolve().parent)


class LogExistsError(FileExistsError):
    """The log file is already there: a log is never appended to."""


class _Logger(logging.Logger):
    """A logger that nobody can switch off: `logging.disable()` somewhere in a program must not lose records."""

    def isEnabledFor(self, level: int) -> bool:
        return level >= self.level


class _FileHandler(logging.Handler):
    """Hands each line to the operating system in one write, so that no reader ever sees half of one."""

    def __init__(self, descriptor: int | None) -> None:
        super().__init__(logging.INFO)
        self.descriptor = descriptor
        self.failure: OSError | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno != logging.INFO:  # MLLogger's way to say that it lost or changed a record
            raise self.failure or ValueError(record.getMessage().strip())
        if self.descriptor is None:
            return
        token, _, text = record.getMessage().partition(" ")
        # Readers look for the token anywhere in a line: inside a text its space is written as an escape, the same JSON.
        line = f"{token} {text.replace(token + ' ', token + _SPACE)}\n".encode("ascii")
        try:
            written = os.write(self.descriptor, line)
            while written < len(line):  # a full disk or a pipe: go on, or fail loudly
                written += os.write(self.descriptor, line[written:])
        except OSError as error:
            self.failure = error
            raise


@dataclass
class Outcome:
    """What `run_stop` will say. Set `status` and `reason` before the block of `RunLog.clock` ends."""

    status: str = keys.ABORTED
    reason: str | None = None
    metadata: dict[str, object] = field(default_factory=dict)
    start_ms: int = 0
    stop_ms: int = 0


class RunLog:
    """An open log; make one with `open_log`. `event`, `start` and `end` return the record's time in ms since 1970."""

    def __init__(self, path: Path | None, root: Path | None, mechanics: Sequence[Path]) -> None:
        """`path` None writes nothing (other ranks), but still refuses what cannot be logged."""
        self.path = path
        self._root = root
        self._skip = (_HERE, os.path.dirname(logging.__file__), *(str(folder.resolve()) for folder in mechanics))
        self._descriptor = None if path is None else os.open(path, os.O_WRONLY | os.O_APPEND)
        logger = _Logger("runlog", logging.INFO)  # not registered: two open logs never share handlers
        logger.addHandler(_FileHandler(self._descriptor))
        self._mllogger = MLLogger(logger)
        self._wall_ns, self._clock_ns = time.time_ns(), time.perf_counter_ns()
        self.started = False  # run_start was logged

    def event(self, key: str, value: object = None, metadata: Mapping[str, object] | None = None) -> int:
        """Log a point in time. Raises TypeError or ValueError, naming `key`, for what cannot or must not be logged."""
        return self._write("event", key, value, metadata)

    def start(self, key: str, value: object = None, metadata: Mapping[str, object] | None = None) -> int:
        """Log the start of an interval, with the key that starts it (`epoch_start`)."""
        return self._write("start", key, value, metadata)

    def end(self, key: str, value: object = None, metadata: Mapping[str, object] | None = None) -> int:
        """Log the end of an interval, with the key that ends it (`epoch_stop`). `run_stop` is synced to the disk."""
        return self._write("end", key, value, metadata)

    @contextmanager
    def interval(self, name: str, metadata: Mapping[str, object] | None = None) -> Iterator[dict[str, object]]:
        """`<name>_start` ... `<name>_stop`, the latter also when an exception leaves the block.

        Yields a dict for metadata that only the stop line has. Both lines carry `metadata`.
        """
        extra: dict[str, object] = {}
        self.start(f"{name}_start", None, metadata)
        try:
            yield extra
        finally:
            self.end(f"{name}_stop", None, {**(metadata or {}), **extra})

    @contextmanager
    def clock(self) -> Iterator[Outcome]:
        """The timed region: `run_start` ... `run_stop` with the status that the block leaves in the `Outcome`.

        An exception, or SIGTERM, SIGINT or SIGHUP (raised in the block as `Stopped`), makes the status `aborted` with
        the reason, is written to the disk, and goes on.
        """
        outcome = Outcome()
        with stopping():
            outcome.start_ms = self.start(keys.RUN_START)
            try:
                yield outcome
            except BaseException as error:
                outcome.status, outcome.reason = keys.ABORTED, _reason(error)
                raise
            finally:
                said = {keys.STATUS: outcome.status}
                if outcome.reason is not None:
                    said[keys.REASON] = outcome.reason
                outcome.stop_ms = self.end(keys.RUN_STOP, None, {**said, **outcome.metadata})

    def discard(self) -> None:
        """Remove the file: for a start that failed before `run_start`, whose file holds no run."""
        self.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file. Writing afterwards is an error."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
            self._mllogger.logger.handlers[0].descriptor = -1

    def __enter__(self) -> RunLog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, kind: str, key: str, value: object, metadata: Mapping[str, object] | None) -> int:
        said = plain(value, key, self._root)
        notes = plain(dict(metadata or {}), key, self._root)
        assert isinstance(notes, dict)
        taken = {"file", "lineno"} & notes.keys()
        if taken:
            raise ValueError(f"{key}: metadata {sorted(taken)} is filled in by the log itself")
        if not self.started or key in keys.JUDGED:
            require_finite(said, key)
        require_finite(notes, key)
        # Durations are judged, so they come from the monotonic clock; the wall clock only says when the log was opened.
        now = (self._wall_ns + time.perf_counter_ns() - self._clock_ns) // 1_000_000
        depth, base = self._caller(sys._getframe(2))
        self._mllogger.root_dir = re.escape(base)
        getattr(self._mllogger, kind)(key=key, value=said, metadata=notes, time_ms=now, stack_offset=depth + 3)
        if key == keys.RUN_START:
            self.started = True
        if key == keys.RUN_STOP and self._descriptor is not None:
            os.fsync(self._descriptor)
        return now

    def _caller(self, frame: FrameType) -> tuple[int, str]:
        """How many frames above the caller the loop's own line is, and the folder to cut from that file's path."""
        depth = 0
        while frame.f_back is not None and self._is_mechanics(frame.f_code.co_filename):
            frame, depth = frame.f_back, depth + 1
        file = os.path.abspath(frame.f_code.co_filename)
        root = None if self._root is None else str(self._root)
        inside = root is not None and file.startswith(root + os.sep)
        return depth, root if inside and root is not None else os.path.dirname(file)

    def _is_mechanics(self, file: str) -> bool:
        return file.startswith(self._skip) or os.path.basename(file) == "contextlib.py"


def open_log(
    path: str | os.PathLike[str],
    *,
    overwrite: bool = False,
    root: Path | None = None,
    mechanics: Sequence[Path] = (),
    rank: int | None = None,
    every_rank: bool = False,
) -> RunLog:
    """Make a new log file and open it.

    path        where; missing folders are made. An existing file is refused with `LogExistsError`, or replaced when
                `overwrite` is set. Nothing is ever appended to.
    root        the project's folder: `metadata.file` and paths are logged relative to it, never absolute
    mechanics   folders whose code only passes events on: `metadata.lineno` names the line that called it
    rank        this process's rank, by default from the environment variable RANK; ranks above 0 write nothing
    every_rank  let the other ranks write too, rank 3 to `<name>.rank3<suffix>`
    """
    where: Path | None = Path(path)
    number = int(os.environ.get("RANK", "0")) if rank is None else rank
    if number > 0:
        where = Path(path).with_suffix(f".rank{number}{Path(path).suffix}") if every_rank else None
    if where is not None:
        where.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if overwrite else os.O_EXCL)
        try:
            os.close(os.open(where, flags, 0o644))
        except FileExistsError:
            raise LogExistsError(
                f"{where} exists; a log is never appended to: choose another file or overwrite it"
            ) from None
    return RunLog(where, None if root is None else root.resolve(), mechanics)


def _reason(error: BaseException) -> str:
    if isinstance(error, Stopped):
        return f"stopped by {error}"
    if isinstance(error, KeyboardInterrupt):
        return "stopped by SIGINT"
    return without_places(f"{type(error).__name__}: {error}".rstrip(": "))[:500]
