"""The start and the end of a run: flags, judged facts, seeds and log, around the script's own `train(run)`.

The script calls this, never the other way round: the loop is the script's own.

    with runs.start(__file__, PROFILES, argv) as run:
        train(run.rehearsal())      # the same code, one step and one evaluation batch, outside the clock
        train(run)
    return run.exit_status
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import runlog

from reference.common import benchmark as benchmarks
from reference.common import flags, machine, seeds
from reference.common.errors import SetupError
from reference.common.run import Run

__all__ = ["Run", "SetupError", "start"]


@contextmanager
def start(file: str, profiles: Mapping[str, Any], argv: Sequence[str] | None = None) -> Iterator[Run]:
    """Read the flags and the benchmark of the task that `file` (the script's `__file__`) belongs to, and open the log.

    profiles: name -> Settings instance. Errors that the user can mend end the program with a message and status 2. A
    file in which no run has begun is removed again. A signal ends the program as that signal would.
    """
    folder = Path(file).resolve().parent
    log: runlog.RunLog | None = None
    try:
        with runlog.stopping():
            try:
                benchmark = benchmarks.load(folder)
                arguments = _arguments(benchmark, profiles, argv)
                settings = flags.chosen(profiles[arguments.profile], arguments)
                if arguments.division == "closed":
                    benchmarks.check_closed(benchmark, settings)
                if arguments.deterministic:
                    seeds.be_deterministic()
                seeds.seed_everything(arguments.seed)
                log = _open_log(benchmark.name, arguments)
                run = Run(benchmark, settings, arguments, log)
                run.log_start()
                yield run
            finally:
                if log is not None:
                    log.close() if log.started else log.discard()
    except SetupError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except runlog.Stopped as stopped:
        kept = f"; {log.path} says so" if log is not None and log.started else ""
        print(f"stopped by {stopped}{kept}", file=sys.stderr, flush=True)
        runlog.end_by(stopped)


def _arguments(
    benchmark: benchmarks.Benchmark, profiles: Mapping[str, Any], argv: Sequence[str] | None
) -> argparse.Namespace:
    text = f"{benchmark.title}: train {benchmark.model} to its quality target."
    names = [name for name in profiles if name in benchmark.profiles]
    return flags.parser(text, type(next(iter(profiles.values()))), names).parse_args(argv)


def _open_log(task: str, arguments: argparse.Namespace) -> runlog.RunLog:
    """The log file of --log, or a new one in runs/<task>/ named by profile, seed and time (UTC)."""
    now = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    path = arguments.log or Path("runs") / task / f"{arguments.profile}_seed{arguments.seed}_{now}.txt"
    mechanics = [Path(__file__).parent]
    try:
        return runlog.open_log(path, overwrite=arguments.overwrite, root=machine.ROOT, mechanics=mechanics)
    except runlog.LogExistsError as error:
        raise SetupError(f"{error} (--log FILE, --overwrite)") from None
    except OSError as error:
        raise SetupError(f"cannot write the log {path}: {error.strerror}") from None
