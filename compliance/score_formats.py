"""The table of scores as text, as MLPerf's CSV, and as JSON."""

from __future__ import annotations

import argparse
import csv
import io
import math
from collections.abc import Iterator
from typing import Any

import msgspec

from compliance import __version__
from compliance.formats.as_json import plain
from compliance.formats.as_text import clean, duration
from compliance.rulesets import Ruleset
from compliance.score import exact
from compliance.table import DEFECTS, HEAD, Cell, Row, Table

TAIL = ("details_url", "code_url")
DETAILS = ("time_to_train", "Energy", "GBS", "samples_to_converge", "RCP", "rcp_scaling_factor")
WEAK = ("number_of_models", "instance_scale", "time_to_train_all")
_RCP_WORDS = {"RCP found": "Fail", "RCP Interpolation": "Interp. Fail", "Cannot find any RCPs": "No RCP"}


def write(table: Table, ruleset: Ruleset, options: argparse.Namespace) -> str:
    """The table in the form that `options` ask for."""
    if options.format == "csv":
        return write_csv(table, options.table, official=options.official)
    if options.format == "json":
        return write_json(table, ruleset)
    return "\n".join(write_text(table, ruleset, official=options.official, explain=options.explain_score)) + "\n"


# --- CSV --------------------------------------------------------------------------------------------------------------


def write_csv(table: Table, which: str, *, official: bool) -> str:
    """MLPerf's summary: its columns, its order of rows, its numbers in full."""
    columns = _columns(table, which)
    rows = []
    for row in table.rows:
        has = row.weak if which == "weak" else row.cells
        if row.listed and (has if which == "weak" else row.strong):
            values: dict[str, Any] = {**row.values, "details_url": row.details_url, "code_url": row.code_url}
            values |= {
                "host_processors_count": _whole(row.values["host_processors_count"]),
                "accelerators_count": _whole(row.values["accelerators_count"]),
            }
            for name in table.benchmarks:
                values |= _benchmark_values(name, has.get(name), which, row, official=official)
            rows.append([values.get(column) for column in columns])
    rows.sort(key=lambda values: [_sort_key(value) for value in values])
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(["" if value is None else value for value in values] for values in rows)
    return out.getvalue()


def _columns(table: Table, which: str) -> list[str]:
    if which == "scores":
        return [*HEAD, *table.benchmarks, *TAIL]
    metrics = WEAK if which == "weak" else DETAILS
    return [*HEAD, *(f"{name}:{metric}" for name in table.benchmarks for metric in metrics), *TAIL]


def _whole(text: str) -> int | None:
    return int(text) if text else None


def _sort_key(value: Any) -> tuple[int, Any]:
    """Values in order, missing ones last; numbers and texts are never in one column."""
    return (1, 0) if value is None else (0, value)


def _benchmark_values(name: str, cell: Cell | None, which: str, row: Row, *, official: bool) -> dict[str, Any]:
    if which == "weak":
        weak = cell.weak if cell else None
        if weak is None or weak.minutes is None:
            return {}
        scale = None if weak.scale is None else float(weak.scale)
        return dict(
            zip((f"{name}:{metric}" for metric in WEAK), (float(weak.models), scale, weak.minutes), strict=True)
        )
    if cell is None:
        return {f"{name}:RCP": ""} if which == "detailed" else {}
    minutes = cell.official.minutes if official else cell.minutes
    if which == "scores":
        return {name: minutes}
    facts = cell.facts
    known = facts.convergence.official if facts.convergence and row.division == "closed" else None
    values = (
        minutes,
        cell.official.energy if official or cell.minutes is not None else None,
        facts.batch_size if known else None,
        facts.epochs if known else None,
        _rcp_word(known.passed, known.message) if known else "",
        (1.0 if facts.factor is None else facts.factor) if official else cell.factor,
    )
    return {f"{name}:{metric}": value for metric, value in zip(DETAILS, values, strict=True)}


def _rcp_word(passed: bool | None, message: str) -> str:
    if passed:
        return "Pass"
    if "Missing" in message:
        return "Missing"
    return _RCP_WORDS.get(message, "Unknown state")


# --- text -------------------------------------------------------------------------------------------------------------


def write_text(table: Table, ruleset: Ruleset, *, official: bool, explain: bool) -> Iterator[str]:
    """One table a division, then what is to be said about single scores."""
    unit = "seconds" if table.suite else "minutes"
    label = "; partial sets are scored, unofficially" if table.partial else ""
    yield f"ruleset {ruleset.name}: time to train in {unit}, factor: {table.normalize}{label}"
    if official:
        yield "scores as MLPerf's summarizer prints them, defects included"
    for division in sorted({row.division for row in table.rows}):
        rows = sorted((row for row in table.rows if row.division == division), key=_row_order)
        yield ""
        yield f"division {clean(division) or 'not said'}"
        strong = [row for row in rows if row.cells]
        if strong:
            yield from _grid(strong, table, lambda row, name: _shown(row.cells.get(name), table, official))
        weak = [row for row in rows if row.weak]
        if weak:
            yield "weak scaling: models a minute (models / minutes, accelerators a model)"
            yield from _grid(weak, table, lambda row, name: _weak_shown(row.weak.get(name)))
    yield from _remarks(table, explain)
    if table.left_out:
        yield ""
    for path, reason in table.left_out:
        yield f"left out: {clean(path)} ({clean(reason)})"


def _row_order(row: Row) -> tuple[str, ...]:
    return (row.values["submitter"].lower(), row.values["system"], row.name)


def _grid(rows: list[Row], table: Table, shown: Any) -> Iterator[str]:
    used = [name for name in table.benchmarks if any(name in row.cells or name in row.weak for row in rows)]
    head = ["submitter", "system", "processors", "accelerators", "software", *used]
    lines = [head]
    for row in rows:
        said = row.values
        lines.append(
            [
                clean(said["submitter"] or row.submitter_folder),
                clean(said["system"] or row.name),
                _counted(said["host_processors_count"], said["host_processor_model_name"]),
                _counted(said["accelerators_count"], said["accelerator_model_name"]),
                clean(said["framework"]),
                *(shown(row, name) for name in used),
            ]
        )
    widths = [min(max(len(line[i]) for line in lines), 40 if i < 5 else 99) for i in range(len(head))]
    for line in lines:
        texts = [_fit(text, width) for text, width in zip(line, widths, strict=True)]
        left = [text.ljust(width) for text, width in zip(texts[:5], widths[:5], strict=True)]
        right = [text.rjust(width) for text, width in zip(texts[5:], widths[5:], strict=True)]
        yield "  ".join(left + right).rstrip()


def _fit(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _counted(count: str, model: str) -> str:
    return clean(f"{count} x {model}" if model and count not in ("", "0") else count)


def _shown(cell: Cell | None, table: Table, official: bool) -> str:
    if cell is None:
        return ""
    if official:
        return "none" if cell.official.minutes is None else f"{cell.official.minutes:.3f}"
    if cell.exact_ms is None:
        return "none"
    mark = "*" if cell.defect or cell.notes or cell.broken or not cell.verdict.score.official else ""
    return _rounded(cell, table) + mark


def _rounded(cell: Cell, table: Table) -> str:
    """Exact milliseconds times the factor, in the table's unit with three decimals, halves rounded up."""
    from fractions import Fraction

    value = (cell.exact_ms or Fraction(0)) * Fraction(cell.factor)
    return duration(value if table.suite else value / 60).removesuffix(" s")


def _weak_shown(cell: Cell | None) -> str:
    if cell is None or cell.weak is None:
        return ""
    weak = cell.weak
    if weak.minutes is None:
        return "none"
    return f"{weak.models_per_minute:.3f} ({weak.models} / {weak.minutes:.3f}, {weak.scale})"


def _remarks(table: Table, explain: bool) -> Iterator[str]:
    for row in sorted(table.rows, key=lambda row: (row.division, *_row_order(row))):
        for cell in [*row.cells.values(), *row.weak.values()]:
            lines = list(_about(cell, table, explain))
            if not row.listed:
                lines.insert(0, "not in MLPerf's summary (csv): the system's description is missing or not complete")
            if lines:
                yield ""
                yield f"{clean(cell.verdict.path)}:"
                yield from (f"    {clean(line)}" for line in lines)


def _about(cell: Cell, table: Table, explain: bool) -> Iterator[str]:
    if cell.weak is not None and cell.weak.minutes is None:
        yield f"no score: {cell.weak.reason}"
    elif cell.weak is None and cell.minutes is None:
        yield f"no score: {cell.reason}"
    elif cell.verdict.score.reason:
        yield cell.verdict.score.reason
    if cell.broken:
        yield f"broken rules: {broken_rules(cell)}"
    yield from cell.notes
    if cell.defect:
        said = "none" if cell.official.minutes is None else f"{cell.official.minutes!r} minutes"
        yield f"MLPerf's summarizer: {cell.official.crash or said}; {DEFECTS[cell.defect]}"
    if explain:
        yield from _explained(cell, table)


def broken_rules(cell: Cell) -> str:
    """The rules that are broken, with how often if more than once."""
    return ", ".join(rule if count == 1 else f"{rule} ({count})" for rule, count in cell.broken.items())


def _explained(cell: Cell, table: Table) -> Iterator[str]:
    """How a score came about: every run with its lines, what was kept, the formula."""
    if cell.weak is not None:
        for run in cell.facts.runs:
            state = f"from {run.start:.0f} to {run.stop:.0f} ms" if run.counts else run.reason or run.crash
            yield f"{run.path.rpartition('/')[2]}  {state}"
        yield "models a minute = models / (last stop - first start)"
        return
    score = cell.verdict.score
    for part in score.parts:
        time = "infinite" if part.time_ms is None else f"{part.time_ms} ms"
        yield f"{part.path}  {time}  run_start line {part.start_line}, run_stop line {part.stop_line}  {part.reason}"
    if score.value_ms is None:
        return
    kept = [part for part in score.parts if part.kept]
    yield f"mean of the {len(kept)} kept = {exact(score.value_ms)} ms"
    if cell.factor_source:
        yield f"times {cell.factor!r} from {cell.factor_source}"
    yield f"score = {_rounded(cell, table)} {'seconds' if table.suite else 'minutes'}"


# --- JSON -------------------------------------------------------------------------------------------------------------


def write_json(table: Table, ruleset: Ruleset) -> str:
    """Schema 1: everything the other forms show, in full."""
    result = {
        "schema": 1,
        "tool": {"name": "timetoaccuracy", "version": __version__},
        "ruleset": {"name": ruleset.name, "reason": ruleset.reason, "sha256": ruleset.sha256},
        "partial": table.partial,
        "normalize": table.normalize,
        "benchmarks": table.benchmarks,
        "systems": [_row(row, table) for row in sorted(table.rows, key=lambda r: (r.division, *_row_order(r)))],
        "skipped": [{"path": path, "reason": reason} for path, reason in table.skipped],
    }
    return msgspec.json.format(msgspec.json.encode(plain(result)), indent=1).decode()


def _row(row: Row, table: Table) -> dict[str, Any]:
    return {
        "folder": row.name,
        **row.values,
        "details_url": row.details_url,
        "code_url": row.code_url,
        "scores": {name: _cell(cell, table) for name, cell in sorted(row.cells.items())},
        "weak_scaling": {name: _weak(cell) for name, cell in sorted(row.weak.items())},
    }


def _cell(cell: Cell, table: Table) -> dict[str, Any]:
    score, facts = cell.verdict.score, cell.facts
    outcome = facts.convergence
    return {
        "path": cell.verdict.path,
        "valid": cell.verdict.valid,
        "mean_ms": None if cell.exact_ms is None else exact(cell.exact_ms),
        "factor": cell.factor,
        "factor_source": cell.factor_source or None,
        "minutes": _finite(cell.minutes),
        "official_score": score.official and cell.minutes is not None,
        "reason": cell.reason or score.reason or None,
        "notes": cell.notes,
        "broken_rules": cell.broken,
        "energy_joules": cell.official.energy,
        "convergence_test": None if outcome is None else {
            "official": outcome.official and {"passed": outcome.official.passed, "message": outcome.official.message},
            "corrected": {"passed": outcome.corrected.passed, "message": outcome.corrected.message},
        },
        "mlperf_summarizer": None if table.suite else {
            "minutes": _finite(cell.official.minutes),
            "traceback": cell.official.crash or None,
            "defect": cell.defect or None,
            "explanation": DEFECTS.get(cell.defect),
        },
        "runs": [
            {"run": part.path, "time_ms": part.time_ms, "run_start_line": part.start_line,
             "run_stop_line": part.stop_line, "kept": part.kept, "reason": part.reason}
            for part in score.parts
        ],
    }  # fmt: skip


def _weak(cell: Cell) -> dict[str, Any]:
    weak = cell.weak
    if weak is None:
        return {}
    return {
        "path": cell.verdict.path,
        "models": weak.models,
        "accelerators_per_model": weak.scale,
        "minutes": _finite(weak.minutes),
        "models_per_minute": _finite(weak.models_per_minute),
        "energy_joules_per_model": weak.energy,
        "reason": weak.reason or None,
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
