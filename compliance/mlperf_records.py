"""A log's records as MLPerf's own reader sees them.

That reader takes the text as latin-1, ends a line at LF, CR LF or CR, looks for the token anywhere in a line, keeps
what follows the last one, and reads that as one JSON value. It never looks at `event_type`, takes a number in quotes
for a time, and ends in a traceback at a record without one of four members. For a clean log all this comes to the
events that `compliance.loglines` has read; any other log is read again here, the official way.

Round 0.6 has its own line: the token ``:::MLL``, seconds, a key, a colon and a JSON value.
"""

from __future__ import annotations

import io
import json
import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from compliance.loglines import BLOCK_BYTES, Log
from compliance.mlperf_grammar import Merge
from compliance.mlperf_sheets import Ruleset
from compliance.positions import Positions

TOKEN = ":::MLLOG "
OLD_TOKEN = ":::MLL"
OLD_VERSION = "0.6.0"
FIXED_RECORDS_BEFORE = (3, 1)
"""Rounds before this one keep records that cannot be copied with changes: their merging of metrics raises."""

_OLD_LINE = re.compile(r":::MLL ([0-9.]+) ([A-Za-z0-9_]+) ?:\s+(.+)")


class Unreadable(Exception):
    """The official reader ends in a traceback at `line`."""

    def __init__(self, reason: str, line: int | None) -> None:
        super().__init__(reason)
        self.line = line


class Record:
    """One record as officially read: `time_ms` a float (seconds in round 0.6), `whole` what a sheet knows as `v`.

    `number` counts the lines with a token from 0 (-1: merged from others); `line` is the physical line.
    """

    __slots__ = ("key", "line", "metadata", "number", "time_ms", "value", "whole")

    def __init__(self, time_ms: float, key: Any, whole: dict[str, Any], number: int, line: int | None) -> None:
        self.time_ms, self.key, self.whole, self.number, self.line = time_ms, key, whole, number, line
        self.value = whole["value"]
        if "metadata" in whole:
            self.metadata = whole["metadata"]


class Records:
    """All records of one log: `items` in file order; `positions` and `of_keys` say where those of a key or of several
    are, and `counts` how many there are of each.

    `count` is the number of records read, also of those not kept; `errors` are (line, message) of lines that hold no
    readable record; `logged` is the number of items without the merged ones that a sheet may append.
    """

    def __init__(self, items: Sequence[Any], count: int, ruleset: Ruleset, log: Log | None = None) -> None:
        self.items, self.count, self.log = items, count, log
        self.logged = len(items)
        self.errors: list[tuple[int, str]] = []
        self.copies = tuple(int(part) for part in ruleset.version.split(".")) >= FIXED_RECORDS_BEFORE
        self._take_stock()

    def _take_stock(self) -> None:
        whole = self.log is not None and self.items is self.log.events
        found = self.log.positions if whole and self.log is not None else Positions(self.items)
        self.positions, self.of_keys, self.counts = found.of, found.of_all, found.counts

    def where(self, position: int | None) -> tuple[int | None, int | None]:
        """The place in `Log.events` and the physical line of the record at `position`, each None where unknown."""
        if position is None or position >= self.logged:
            return None, None
        if self.log is not None:
            return position, self.log.line(self.items[position])
        return None, self.items[position].line

    def number(self, position: int | None) -> int | None:
        """The number of the record at `position` among the lines with a token, from 0."""
        if position is None or position >= self.logged:
            return -1
        if self.log is not None:
            return position if self.count == self.logged else None
        number: int = self.items[position].number
        return number

    def merge(self, block: Merge) -> None:
        """Append a record for each evaluation whose two metrics were logged apart. Raises as the sheet's code does."""
        merged: dict[Any, Record] = {}
        for position in self.positions(block.source):
            record = self.items[position]
            metadata = record.metadata
            if block.metric not in metadata:
                continue
            progress = metadata[block.progress]
            target = merged.get(progress)
            if target is None:
                if not self.copies:
                    raise TypeError("records of this round cannot be copied with changes")
                whole = {"value": {block.progress: progress}, "metadata": {}}
                target = merged[progress] = Record(float(record.time_ms), block.target, whole, -1, None)
            target.time_ms = max(float(record.time_ms), target.time_ms)
            target.value[metadata[block.metric]] = record.value
        if merged:
            self.items = [*self.items, *merged.values()]
            self._take_stock()


def official_records(log: Log, ruleset: Ruleset) -> Records:
    """The records of `log` as the reader of `ruleset` sees them. Raises `Unreadable` where it ends in a traceback.

    Records whose key is not text are counted and not kept: no rule can name them.
    """
    if ruleset.version != OLD_VERSION and log.clean and log.ascii:  # latin-1 and UTF-8 give the same texts
        return Records(log.events, log.records, ruleset, log)
    keep = ruleset.keys if log.size > BLOCK_BYTES else None
    read = _old_record if ruleset.version == OLD_VERSION else _record
    token = OLD_TOKEN if ruleset.version == OLD_VERSION else TOKEN
    items: list[Record] = []
    errors: list[tuple[int, str]] = []
    count = 0
    for number, (line, text) in enumerate(_token_lines(log, token)):
        try:
            record = read(text, number, line)
        except ValueError as error:
            errors.append((line, _reason(error)))
            continue
        except Unreadable:
            raise
        except RecursionError:
            raise Unreadable("a record is nested too deeply", line) from None
        count += 1
        if record is not None and isinstance(record.key, str) and (keep is None or record.key in keep):
            items.append(record)
    records = Records(items, count, ruleset)
    records.errors = errors
    return records


def _token_lines(log: Log, token: str) -> Iterator[tuple[int, str]]:
    """(physical line, text after the line's last token, without white space at its end) of each line with a token."""
    try:
        with log.open() as file, io.TextIOWrapper(file, encoding="latin-1") as text:
            for line, content in enumerate(text, 1):
                start = content.rfind(token)
                if start >= 0:
                    yield line, content[start:].strip()
    except (EOFError, OSError, zlib.error) as error:
        raise Unreadable(f"the file cannot be read to its end: {error}", None) from None


def _record(text: str, number: int, line: int) -> Record:
    """The record in `text`, which starts with the token. Raises ValueError for what is counted as a parsing error."""
    if not text.startswith(TOKEN):
        raise ValueError("there is nothing after the token")
    member = json.loads(text[len(TOKEN) :])
    if member is None:
        raise ValueError("null is not a record")
    if not isinstance(member, dict):
        raise Unreadable(f"a record is not a JSON object but a {type(member).__name__}", line)
    for name in ("time_ms", "key", "value", "metadata"):
        if name not in member:
            raise Unreadable(f'a record has no "{name}"', line)
        if name == "time_ms":
            time_ms = _time(member[name], line)
    whole = {"value": member["value"], "metadata": member["metadata"]}
    return Record(time_ms, member["key"], whole, number, line)


def _time(value: Any, line: int) -> float:
    try:
        return float(value)
    except (TypeError, OverflowError):
        raise Unreadable('a record\'s "time_ms" is not a number', line) from None


def _old_record(text: str, number: int, line: int) -> Record | None:
    """A record of round 0.6. None: one whose JSON value has no member "value", which no rule ever sees."""
    match = _OLD_LINE.fullmatch(text)
    if match is None:
        raise ValueError("the line is not ':::MLL <seconds> <key>: <JSON value>'")
    seconds, key, value = float(match[1]), match[2], json.loads(match[3])
    if not isinstance(value, dict) or "value" not in value:
        return None
    return Record(seconds, key, value, number, line)


def _reason(error: ValueError) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at column {error.colno} after the token"
    return str(error)[:200]
