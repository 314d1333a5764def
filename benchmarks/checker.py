"""How fast is the checker? Ours, the official one and the least that any checker must do, on the same logs in one run.

    python -m benchmarks.checker LOGS --ruleset mlperf-5.1 [--files 200] [--repeat 3]

LOGS is searched for result_*.txt; of all of them --files are drawn, evenly (0: all). Measured is CPU time, the best of
--repeat passes over all files, in one process: the floor (read the file, find the tokens, decode all records at once),
reading alone, the official verdict, and official and strict verdict together; and the official checker, once. The
last rows are wall-clock times of one process and of one a core, which mean something only on an idle machine: of both
verdicts on each log, and, where all files are taken, of all that `python -m compliance.check LOGS` finds out, with the
sets of runs, their convergence and their scores. Last the CPU time of a whole command on one log. Printed as a Markdown
table.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.agreement import official
from compliance import loglines, mlperf, scanned
from compliance.rule import all_rules
from compliance.rulesets import resolve
from compliance.verdict import Checker, observe_submission

ROOT = Path(__file__).resolve().parent.parent
_RECORD = re.compile(rb":::MLLOG (.*)")


class _Bare(msgspec.Struct):
    """The members that every checker needs, decoded in full."""

    time_ms: Any
    key: str
    value: Any
    metadata: Any


_decode = msgspec.json.Decoder(_Bare).decode_lines


def floor(paths: list[Path]) -> int:
    """Read, find and decode; returns the number of records. A file that cannot be decoded at once is passed over."""
    records = 0
    for path in paths:
        try:
            records += len(_decode(b"\n".join(_RECORD.findall(path.read_bytes()))))
        except msgspec.DecodeError:
            continue
    return records


def for_each(work: Callable[[Path], object], paths: list[Path]) -> None:
    """Do the work on each path and keep nothing of it."""
    for path in paths:
        work(path)


def cpu_seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def wall_seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def start_up(path: Path, ruleset: str) -> float:
    """CPU seconds of a whole process that checks one log."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "compliance.check", str(path), "--ruleset", ruleset]
    subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def sample(folder: Path, number: int) -> list[Path]:
    paths = sorted(path.resolve() for path in folder.rglob("result_*.txt"))
    return paths[:: max(1, len(paths) // number)] if number else paths


def measure(paths: list[Path], folder: Path | None, name: str, repeat: int) -> dict[str, float]:
    """CPU seconds of each way, and wall-clock seconds of the last ones; `folder` is where all of `paths` are from."""
    gc.freeze()  # as the command does
    ruleset = mlperf.ruleset(name)
    checker = Checker(all_rules(), resolve(name))
    ways: dict[str, Callable[[], object]] = {
        "the floor: read, find, decode": lambda: floor(paths),
        "ours: reading": lambda: for_each(loglines.read, paths),
        "ours: official verdict": lambda: for_each(lambda path: mlperf.judge(loglines.read(path), ruleset), paths),
        "ours: official and strict verdict": lambda: checker.check(paths),
    }
    found = dict.fromkeys(ways, float("inf"))
    for _ in range(repeat):
        for way, work in ways.items():
            found[way] = min(found[way], cpu_seconds(work))
    found["the official checker"] = cpu_seconds(lambda: for_each(lambda path: official(path, ruleset), paths))
    found |= on_all_cores("ours", checker, paths, repeat)
    if folder is not None:
        whole = Checker(all_rules(), resolve(name), observe=observe_submission)
        found |= on_all_cores("ours: sets and scores too", whole, [folder], repeat)
    return found


def on_all_cores(name: str, checker: Checker, paths: list[Path], repeat: int) -> dict[str, float]:
    """Wall-clock seconds in one process and in one a core, turn by turn; the best of each."""
    cores = sorted({1, os.cpu_count() or 1})
    best = dict.fromkeys(cores, float("inf"))
    for _ in range(repeat):
        for jobs in cores:
            best[jobs] = min(best[jobs], wall_seconds(partial(checker.check, paths, jobs)))
    return {f"{name}, wall clock, {jobs} process" + ("es" if jobs > 1 else ""): best[jobs] for jobs in cores}


def table(found: dict[str, float], size: int, records: int) -> str:
    theirs = found["the official checker"]
    rows = ["| | s | MB/s | µs a record | times the official |", "|---|---|---|---|---|"]
    for way, seconds in found.items():
        rate, each = size / 1e6 / seconds, seconds / records * 1e6
        rows.append(f"| {way} | {seconds:.2f} | {rate:.1f} | {each:.2f} | {theirs / seconds:.1f} |")
    return "\n".join(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the checker beside the official one.")
    parser.add_argument("logs", type=Path, help="a folder with result_*.txt files of one round")
    parser.add_argument("--ruleset", required=True, help="the round, such as mlperf-5.1")
    parser.add_argument("--files", type=int, default=200, help="how many logs to draw, 0 for all (default %(default)s)")
    parser.add_argument("--repeat", type=int, default=3, help="passes, of which the best counts (default %(default)s)")
    args = parser.parse_args()
    paths = sample(args.logs, args.files)
    if not paths:
        parser.error(f"no result_*.txt in {args.logs}")
    size, records = sum(path.stat().st_size for path in paths), floor(paths)
    scanner = "with" if scanned.COMPILED else "without"
    print(f"{len(paths)} logs, {size / 1e6:.1f} MB, {records} records, {args.ruleset}, {os.cpu_count()} cores")
    print(f"ours {scanner} the compiled scanner\n")
    found = measure(paths, None if args.files else args.logs, args.ruleset, args.repeat)
    print(table(found, size, records))
    both, least = found["ours: official and strict verdict"], found["the floor: read, find, decode"]
    print(f"\nofficial and strict verdict run at {100 * least / both:.0f} % of the floor's speed")
    print(
        f"a whole process on one log takes {min(start_up(paths[0], args.ruleset) for _ in range(3)):.3f} s of CPU time"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
