"""Throughput against time to accuracy: how much faster another system, or more of the same, really is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compliance.analysis import Result
from compliance.formats.tables import Column, Table, number, percent


def _times(digits: int = 2) -> Any:
    show = number(digits)
    return lambda value: f"{show(value)}x"


def speedup_table(found: Sequence[Result], base: Sequence[Result]) -> Table:
    """Each result against each of `base` for the same benchmark: speed-up of throughput and of time to accuracy.

    Throughput here is progress a unit of time, whole runs, so the two differ by the progress needed alone.
    """
    columns = (
        Column("benchmark", "benchmark", left=True),
        Column("base", "base", left=True),
        Column("set", "set", left=True),
        Column("throughput_speedup", "throughput", _times()),
        Column("time_to_accuracy_speedup", "time to accuracy", _times()),
        Column("ratio", "ratio", number(2)),
        Column("progress_ratio", "progress needed", _times()),
    )
    table = Table("speedup", "Speed-up of throughput against speed-up of time to accuracy", columns)
    for before in base:
        for after in found:
            if after.set.benchmark != before.set.benchmark or after.set.path == before.set.path:
                continue
            if before.mean_ms is None or after.mean_ms is None:
                continue
            row: dict[str, Any] = {"benchmark": after.set.benchmark, "base": before.name, "set": after.name}
            row["time_to_accuracy_speedup"] = before.mean_ms / after.mean_ms
            if before.time_per_progress and after.time_per_progress and before.unit == after.unit:
                row["throughput_speedup"] = before.time_per_progress.mean / after.time_per_progress.mean
                row["ratio"] = row["throughput_speedup"] / row["time_to_accuracy_speedup"]
                if before.progress and after.progress:
                    row["progress_ratio"] = after.progress.mean / before.progress.mean
            table.rows.append(row)
    table.notes = ["throughput: ratio of the mean times per epoch or sample; ratio: throughput / time to accuracy"]
    if not table.rows:
        table.notes.append("no benchmark is in both")
    return table


def scaling_table(found: Sequence[Result]) -> Table:
    """Scaling efficiency over accelerators, against the fewest by the same submitter.

    Compared are entries of the same division, accelerator model and framework; they may differ in all else.

    Efficiency is speed-up divided by the ratio of accelerators: of time to accuracy, and of throughput.
    """
    columns = (
        Column("benchmark", "benchmark", left=True),
        Column("set", "set", left=True),
        Column("nodes", "nodes"),
        Column("accelerators", "accelerators"),
        Column("over", "over"),
        Column("where", "scaled", left=True),
        Column("time_to_accuracy_efficiency", "time to accuracy", percent),
        Column("throughput_efficiency", "throughput", percent),
    )
    table = Table("scaling", "Scaling efficiency over accelerators", columns)
    groups: dict[tuple[str, ...], list[Result]] = {}
    for result in found:
        if result.set.accelerators and result.mean_ms is not None:
            submitter = result.set.path.partition("/results/")[0]
            groups.setdefault((result.set.benchmark, submitter, *result.set.kind), []).append(result)
    for members in groups.values():
        members.sort(key=lambda result: (result.set.accelerators or 0, result.mean_ms or 0.0))
        first = members[0]
        for result in members[1:]:
            if result.set.accelerators != first.set.accelerators:
                table.rows.append(_efficiency(first, result))
    if table.rows:
        table.notes = ["over: accelerators of the entry compared with, the fastest of the smallest"]
    else:
        table.notes = ["no two entries of a submitter differ in accelerators alone (systems/*.json beside results/)"]
    return table


def _efficiency(first: Result, result: Result) -> dict[str, Any]:
    fewer, more = first.set.accelerators or 1, result.set.accelerators or 1
    row: dict[str, Any] = {"benchmark": result.set.benchmark, "set": result.name, "nodes": result.set.nodes}
    row |= {"accelerators": more, "over": fewer}
    if result.set.nodes is not None:
        row["where"] = "within a node" if result.set.nodes == 1 else "across nodes"
    row["time_to_accuracy_efficiency"] = (first.mean_ms or 0.0) * fewer / ((result.mean_ms or 1.0) * more)
    if first.time_per_progress and result.time_per_progress and first.unit == result.unit:
        each = first.time_per_progress.mean * fewer
        row["throughput_efficiency"] = each / (result.time_per_progress.mean * more)
    return row
