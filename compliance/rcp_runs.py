"""What a log says of convergence: batch size, and epochs or samples to the target.

`official_run` reads as MLPerf's own tool does: it looks for words anywhere in a record's text, lets the last batch
size count, and takes the progress of the last evaluation before a `run_stop` with status success. Where that tool ends
in a traceback it raises `Unreadable`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from compliance.loglines import Log
from compliance.run import Run
from compliance.scanned import Scanned

MOST_PROGRESS = 1e18
INFINITE = 1e9
"""Epochs of a run that did not converge, as MLPerf's tool writes them."""

# Benchmarks that MLPerf's tool counts in samples; all others in epochs.
IN_SAMPLES = {
    "llama2_70b_lora",
    "flux1",
    "llama31_405b",
    "llama31_8b",
    "gpt_oss_20b",
    "deepseekv3_671b",
    "qwen35_397b_grpo",
    "dlrmv4",
}
_TWO_METRICS = "stable_diffusion"  # its FID and CLIP score are logged apart, each at its own time
_MOST_FID, _LEAST_CLIP = 90.0, 0.15
_WORDS = ("global_batch_size", "submission_benchmark", "eval_error", "eval_accuracy", "train_samples", "run_stop")
_ENCODED = tuple(word.encode() for word in _WORDS)
_ENDINGS = re.compile(b"_(?:" + b"|".join(word.partition(b"_")[2] for word in _ENCODED) + b")")
"""What every word has from its first underscore on: found faster than words that begin with different letters."""
_TOKEN = b":::MLLOG "


class Unreadable(ValueError):
    """MLPerf's tool ends in a traceback on this log; the text says at what."""


class Mixed(ValueError):
    """The runs of a folder differ in what they must have in common."""


@dataclass(frozen=True)
class Convergence:
    """One run: `value` is epochs or samples to the target, 1e9 where it did not converge; `batch_size` -1: not said."""

    value: float
    converged: bool
    batch_size: Any
    benchmark: Any


@dataclass(frozen=True)
class Folder:
    """The runs of one folder. `values` is None where too many runs did not converge."""

    benchmark: Any
    batch_size: Any
    values: list[float] | None


def official_run(log: Log, version: str, *, bert_samples: bool = False) -> Convergence:
    """Read `log` as MLPerf's convergence tool of round `version` does. Raises Unreadable.

    `bert_samples`: take bert's progress from train_samples instead of its evaluations.
    """
    try:
        return _official_run(log, version, bert_samples)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        reason = f"no {error.args[0]!r}" if isinstance(error, KeyError) and error.args else str(error)
        raise Unreadable(f"{log.path}: {reason}") from None


def _official_run(log: Log, version: str, bert_samples: bool) -> Convergence:
    batch_size, benchmark = -1, None
    progress: Any = None
    value, converged = INFINITE, False
    metrics: dict[Any, dict[str, Any]] = {}
    for text, record in _records(log):
        evaluation = "eval_error" in text or "eval_accuracy" in text
        if "global_batch_size" in text:
            batch_size = record["value"]
        if "submission_benchmark" in text:
            benchmark = record["value"]
            bert_samples = bert_samples and benchmark == "bert"
        if benchmark == _TWO_METRICS and evaluation:
            step = record["metadata"]["step_num" if version == "3.1.0" else "samples_count"]
            metrics.setdefault(step, {})[record["metadata"]["metric"]] = record["value"]
        elif benchmark in IN_SAMPLES and evaluation:
            progress = record["metadata"]["samples_count"]
        elif evaluation and not bert_samples:
            progress = round(record["metadata"]["epoch_num"], 3)
        elif bert_samples and "train_samples" in text:
            progress = record["value"]
        if record["key"] == "run_stop":
            converged = record["metadata"]["status"] == "success"
            if converged and benchmark == _TWO_METRICS:
                progress = min(step for step, seen in metrics.items() if _good(seen))
            if converged and not _is_progress(progress):
                raise ValueError("no evaluation with progress before run_stop")
            value = progress if converged else INFINITE
    return Convergence(value, converged, batch_size, benchmark)


def _is_progress(value: Any) -> bool:
    return isinstance(value, int | float) and abs(value) < MOST_PROGRESS


def _good(seen: dict[str, Any]) -> bool:
    return bool(seen["FID"] <= _MOST_FID and seen["CLIP"] >= _LEAST_CLIP)


def _records(log: Log) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each record of which the text holds one of the words, with that text."""
    if isinstance(log.events, Scanned):
        for encoded, event in log.events.holding(_ENCODED):
            yield encoded.decode(), {"key": event.key, "value": event.value, "metadata": event.metadata}
        return
    for line in _lines(log.data):
        start = line.rfind(_TOKEN)
        text = line[start + len(_TOKEN) :].decode("latin-1").strip()
        if start >= 0 and any(word in text for word in _WORDS):
            record = json.loads(text)
            if not isinstance(record, dict):
                raise ValueError("a record that is no JSON object")
            yield text, record


def _lines(data: bytes) -> Iterator[bytes]:
    """The lines that hold one of the words, in order, and some others."""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    last = -1
    for match in _ENDINGS.finditer(data):
        if match.start() < last:
            continue
        start, end = data.rfind(b"\n", 0, match.start()) + 1, data.find(b"\n", match.end())
        last = len(data) if end < 0 else end
        yield data[start:last]


def official_folder(runs: list[Convergence], may_miss: int) -> Folder:
    """The runs of a folder together. Raises Mixed where they differ in batch size or benchmark, or there is none."""
    if not runs:
        raise Mixed("no result logs")
    batch_size, benchmark = -1, None
    for run in runs:
        if batch_size == -1:
            batch_size = run.batch_size
        elif run.batch_size != batch_size:
            raise Mixed(f"batch sizes differ: {batch_size} and {run.batch_size}")
        if benchmark is None:
            benchmark = run.benchmark
        elif run.benchmark != benchmark:
            raise Mixed(f"benchmarks differ: {benchmark} and {run.benchmark}")
    missed = sum(not run.converged for run in runs)
    return Folder(benchmark, batch_size, None if missed > may_miss else [run.value for run in runs])


def suite_run(run: Run) -> Convergence:
    """A run of the suite's own: progress at the evaluation that reached the target, in its benchmark's unit."""
    value = run.progress_at_target
    batch_size = -1 if run.batch_size is None else run.batch_size
    return Convergence(INFINITE if value is None else value, value is not None, batch_size, run.benchmark)
