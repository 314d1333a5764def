"""DAWNBench entries: a JSON file that describes one, beside it a TSV file with an evaluation a line for training.

Training: `<task>/train/<name>.json` with `costPerHour` (dollars, or null) and `<name>.tsv` with the columns epoch,
hours and top1Accuracy, top5Accuracy or f1Score. Inference: `<task>/inference/<name>.json` with `latency` (milliseconds
an item), `cost` (dollars) and the accuracy. Accuracies are percentages, F1 is a share of 1, as the entries write them.
One training entry is a set of one run: DAWNBench asked for no repeats, so nothing is known of its variation.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Any

from compliance.formats.tables import Column, Table
from compliance.trained import Point, Trained, TrainedSet

TARGETS = {"top5Accuracy": 93.0, "top1Accuracy": 94.0, "f1Score": 0.75}  # ImageNet, CIFAR-10, SQuAD; first one counts
_LARGEST = 16 << 20
_MS_AN_HOUR = 3_600_000


@dataclass
class Inference:
    """One inference entry: `latency_ms` an item, `cost` in dollars as the entry states it."""

    path: str
    benchmark: str
    model: str
    hardware: str
    latency_ms: float
    cost: float | None
    quality: float | None


def read_entries(paths: list[Path], skipped: list[tuple[str, str]]) -> tuple[list[TrainedSet], list[Inference]]:
    """The training and inference entries under `paths`. A damaged entry goes to `skipped` with the reason."""
    training, inference = [], []
    for path in _files(paths):
        entry = _entry(path)
        if entry is None:
            continue
        table = path.with_suffix(".tsv")
        try:
            if table.is_file():
                training.append(_training(path, table, entry))
            elif "latency" in entry:
                inference.append(_inference(path, entry))
        except (OSError, ValueError) as error:
            skipped.append((str(path), f"a damaged DAWNBench entry: {error}"))
    return training, inference


def _files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            for folder, names, files in os.walk(path):
                names.sort()
                yield from (Path(folder, name) for name in sorted(files) if name.endswith(".json"))
        elif path.suffix == ".json":
            yield path


def _entry(path: Path) -> dict[str, Any] | None:
    """The JSON object, if it has the members that every DAWNBench entry has; a system description has not."""
    try:
        if path.stat().st_size > _LARGEST:
            return None
        entry = json.loads(path.read_bytes().decode("utf-8-sig", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return None
    needed = {"version", "author", "framework", "model", "hardware", "timestamp"}
    return entry if isinstance(entry, dict) and needed <= entry.keys() else None


def _benchmark(path: Path) -> str:
    """The task's folder, as `dawnbench/ImageNet`."""
    folder = path.parent.parent if path.parent.name in ("train", "inference") else path.parent
    return f"dawnbench/{folder.resolve().name}"


def _training(path: Path, table: Path, entry: dict[str, Any]) -> TrainedSet:
    rows = table.read_text(encoding="utf-8-sig", errors="replace").splitlines()
    head = [name.strip() for name in rows[0].split("\t")] if rows else []
    metric = next((name for name in TARGETS if name in head), None)
    if metric is None or not {"epoch", "hours"} <= set(head):
        raise ValueError(f"{table.name}: expected the columns epoch, hours and one of {', '.join(TARGETS)}")
    run = Trained(str(path), _benchmark(path), f"{entry['model']}, {entry['hardware']}", target=TARGETS[metric])
    run.unit, run.price = "epoch_num", _number(entry.get("costPerHour"))
    places = [head.index(name) for name in ("epoch", "hours", metric)]
    first: Fraction | None = None
    for line, row in enumerate(rows[1:], 2):
        cells = row.split("\t")
        if not row.strip():
            continue
        try:
            epoch, hours, value = (_fraction(cells[place]) for place in places)
        except (IndexError, ValueError):
            raise ValueError(f"{table.name}:{line}: expected three numbers, found {row[:60]!r}") from None
        if first is None:
            first = Fraction(1) if epoch == 0 and hours > 0 else Fraction(0)  # some count epochs from 0
        run.points.append(Point(hours * _MS_AN_HOUR, epoch + first, float(value)))
    if not run.points:
        raise ValueError(f"{table.name}: no evaluation in it")
    reached = run.at(TARGETS[metric])
    run.converged = reached is not None
    last = reached or run.points[-1]
    run.time_ms, run.progress = last.after_ms, last.progress
    return TrainedSet(str(path.with_suffix("")), run.benchmark, [run], dropped=0, system=run.system)


def _fraction(text: str) -> Fraction:
    try:
        number = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError(text) from None
    if not number.is_finite() or abs(number) > 10**12:
        raise ValueError(text)
    return Fraction(number)


def _number(value: object) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable else None  # type: ignore[arg-type]


def _inference(path: Path, entry: dict[str, Any]) -> Inference:
    latency = _number(entry["latency"])
    if latency is None:
        raise ValueError("latency is no number")
    quality = next((value for name in TARGETS if (value := _number(entry.get(name))) is not None), None)
    texts = (str(entry["model"]), str(entry["hardware"]))
    return Inference(str(path), _benchmark(path), *texts, latency, _number(entry.get("cost")), quality)


def inference_table(entries: list[Inference]) -> Table:
    """The inference entries, the fastest first in each task."""
    columns = (
        Column("benchmark", "benchmark", left=True),
        Column("entry", "entry", left=True),
        Column("latency_ms", "latency ms", lambda v: f"{v:.3f}"),
        Column("dollars", "$ an item", lambda v: f"{v:.3g}"),
        Column("quality", "quality", lambda v: f"{v:g}"),
        Column("hardware", "hardware", left=True),
    )
    table = Table("inference", "DAWNBench inference entries", columns)
    for one in sorted(entries, key=lambda entry: (entry.benchmark, entry.latency_ms)):
        row = {"benchmark": one.benchmark, "entry": Path(one.path).stem, "latency_ms": one.latency_ms}
        table.rows.append({**row, "dollars": one.cost, "quality": one.quality, "hardware": one.hardware})
    return table
