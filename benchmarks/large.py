"""What do very large logs cost? CPU seconds and peak memory of `python -m compliance.check` on made-up logs.

    python -m benchmarks.large DIR [--records 1000000 2000000 4000000 10000000] [--record-bytes 100000000]

Written into DIR, measured and removed, one after the other: a clean log with each number of records (230 bytes each:
ten million make 2.3 GB; it lacks keys that round 5.1 asks for, hence the exit code 1), and logs with one record of
--record-bytes, whole and cut off. Each is checked in a process of its own, with both verdicts. Printed as a Markdown
table; time is linear if the third column, microseconds a record, does not grow.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

ROOT = Path(__file__).resolve().parent.parent
CHUNK = 50_000
_T0 = 1_700_000_000_000
_BEFORE: list[tuple[str, str, Any]] = [
    ("POINT_IN_TIME", "submission_benchmark", "retinanet"),
    ("POINT_IN_TIME", "submission_division", "closed"),
    ("POINT_IN_TIME", "submission_org", "somebody"),
    ("POINT_IN_TIME", "submission_platform", "a_system"),
    ("POINT_IN_TIME", "submission_status", "onprem"),
    ("INTERVAL_START", "init_start", None),
    ("POINT_IN_TIME", "seed", 1),
    ("INTERVAL_END", "init_stop", None),
    ("INTERVAL_START", "run_start", None),
]


def line(time_ms: int, event_type: str, key: str, value: Any, **metadata: Any) -> bytes:
    record = {
        "namespace": "",
        "time_ms": time_ms,
        "event_type": event_type,
        "key": key,
        "value": value,
        "metadata": {"file": "train.py", "lineno": 1, **metadata},
    }
    return f":::MLLOG {json.dumps(record)}\n".encode()


def write(file: BinaryIO, middle: Iterator[bytes], stop_ms: int) -> None:
    """A log whose clock surrounds `middle`."""
    for event_type, key, value in _BEFORE:
        file.write(line(_T0, event_type, key, value))
    for text in middle:
        file.write(text)
    file.write(line(stop_ms, "POINT_IN_TIME", "eval_accuracy", 0.5, epoch_num=1))
    file.write(line(stop_ms, "INTERVAL_END", "run_stop", None, status="aborted", reason="budget"))


def steps(records: int) -> Iterator[bytes]:
    """`records` lines of a training loop, a millisecond each."""
    model = line(
        1111111111111, "POINT_IN_TIME", "tracked_stats", {"throughput": 123.456}, step=2222222222, pad="x" * 11
    )
    before, between, after = model.replace(b"2222222222", b"1111111111111").split(b"1111111111111")
    for start in range(0, records, CHUNK):
        numbers = range(start, min(records, start + CHUNK))
        yield b"".join([b"%b%d%b%d%b" % (before, _T0 + i, between, 10**9 + i, after) for i in numbers])


def one_record(size: int, whole: bool) -> Iterator[bytes]:
    """One line of `size` bytes; cut off in the middle of its value if not `whole`."""
    text = line(_T0, "POINT_IN_TIME", "notes", ["x" * 90] * (size // 94))
    yield text if whole else text[: len(text) // 2] + b"\n"


def measure(path: Path) -> tuple[float, float, int]:
    """CPU seconds and peak MB of a process that checks `path`, and its exit code."""
    command = [sys.executable, "-m", "compliance.check", str(path), "--ruleset", "mlperf-5.1"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, process.returncode


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure the checker on very large logs.")
    parser.add_argument("folder", type=Path, help="where to write the logs, which are removed again")
    parser.add_argument("--records", type=int, nargs="+", default=[1_000_000, 2_000_000, 4_000_000, 10_000_000])
    parser.add_argument("--record-bytes", type=int, default=100_000_000)
    arguments = parser.parse_args()
    cases: list[tuple[str, int, Callable[[], Iterator[bytes]]]] = [
        (f"{number:,} records", number, lambda number=number: steps(number))  # type: ignore[misc]
        for number in arguments.records
    ]
    for name, whole in (("whole", True), ("cut off", False)):
        made = lambda whole=whole: one_record(arguments.record_bytes, whole)  # type: ignore[misc] # noqa: E731
        cases.append((f"one record of {arguments.record_bytes:,} bytes, {name}", 0, made))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    path = arguments.folder / "result_0.txt"
    print("| log | MB | µs a record | CPU s | peak MB | exit code |\n|---|---|---|---|---|---|")
    for name, number, middle in cases:
        try:
            with path.open("wb") as file:
                write(file, middle(), _T0 + number + 1000)
            size = path.stat().st_size / 1e6
            seconds, peak, code = measure(path)
        finally:
            path.unlink(missing_ok=True)
        each = f"{seconds / number * 1e6:.2f}" if number else ""
        print(f"| {name} | {size:.0f} | {each} | {seconds:.2f} | {peak:.0f} | {code} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
