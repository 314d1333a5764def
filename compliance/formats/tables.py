"""Tables of an analysis as text, CSV or JSON: the same rows in each, rounded in the text alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import msgspec

from compliance import __version__
from compliance.formats.as_text import clean
from compliance.score import exact

SCHEMA = 1


@dataclass(frozen=True)
class Column:
    """`key` names the value in CSV and JSON, with its unit; one that begins with _ is for the text alone.

    `show` makes its text, in which None is a dash.
    """

    key: str
    title: str
    show: Callable[[Any], str] = str
    left: bool = False


@dataclass
class Table:
    """`rows` hold a value, or None, by each column's key, and may hold more for CSV and JSON."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def number(digits: int) -> Callable[[Any], str]:
    """Shows a number with `digits` decimals."""
    return lambda value: f"{float(value):,.{digits}f}"


def percent(value: Any) -> str:
    """A share of 1 as a percentage with two decimals."""
    return f"{float(value):.2%}"


def as_text(tables: Sequence[Table]) -> str:
    """All tables, each with its title and notes."""
    return "\n\n".join("\n".join(_lines(table)) for table in tables) + "\n"


def as_markdown(table: Table) -> str:
    """One table in Markdown, without its title."""
    lines = ["| " + " | ".join(column.title for column in table.columns) + " |"]
    lines.append("|" + "|".join("---" if column.left else "---:" for column in table.columns) + "|")
    for row in table.rows:
        cells = (_cell(column, row).replace("|", "\\|") for column in table.columns)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def as_csv(table: Table) -> str:
    """One table with the keys as heads; exact decimals, shares of 1 instead of percentages."""
    keys = [c.key for c in table.columns] + [key for row in table.rows for key in row]
    keys = [key for key in dict.fromkeys(keys) if not key.startswith("_")]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(keys)
    for row in table.rows:
        writer.writerow(["" if row.get(key) is None else _plain(row[key]) for key in keys])
    return out.getvalue()


def as_json(tables: Sequence[Table], **more: Any) -> str:
    """All tables as one object: schema, tool, and the rows of each table by its name."""
    content = {
        "schema": SCHEMA,
        "tool": {"name": "timetoaccuracy", "version": __version__},
        **more,
        "tables": {t.name: {"title": t.title, "rows": [_named(r) for r in t.rows], "notes": t.notes} for t in tables},
    }
    return msgspec.json.format(msgspec.json.encode(_plain(content)), indent=1).decode() + "\n"


def _named(row: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if not key.startswith("_")}


def _lines(table: Table) -> list[str]:
    cells = [[column.title for column in table.columns]]
    cells += [[_cell(column, row) for column in table.columns] for row in table.rows]
    widths = [max(len(line[place]) for line in cells) for place in range(len(table.columns))]
    lines = [table.title]
    for line in cells:
        padded = (
            text.ljust(width) if column.left else text.rjust(width)
            for text, width, column in zip(line, widths, table.columns, strict=True)
        )
        lines.append("  " + "  ".join(padded).rstrip())
    return lines + [f"  {note}" for note in table.notes]


def _cell(column: Column, row: dict[str, Any]) -> str:
    value = row.get(column.key)
    return "-" if value is None else clean(column.show(value))


def _plain(value: Any) -> Any:
    """`value` for JSON and CSV: fractions as integers, or decimals of at most six places."""
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Fraction):
        short = exact(value)
        return short if isinstance(short, int) else float(short)
    if isinstance(value, int) and abs(value) >= 2**63:
        return str(value)  # more than JSON numbers are read with
    if isinstance(value, str):
        return value.encode("utf-8", errors="replace").decode()
    return value
