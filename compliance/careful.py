"""The careful path of the reader: one line, one record at a time, with a fault for each thing that is wrong."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any

import msgspec

TOKEN = b":::MLLOG "
TOKEN_LIKE = re.compile(rb":::[ \t]*MLLOG", re.IGNORECASE)
LINE_END = re.compile(rb"\r\n|\n|\r")

MOST_FAULTS = 1000
_MEMBERS = ("time_ms", "key", "value", "metadata")
_EXPECTED_RECORD = '":::MLLOG " and one JSON object on one line'


class Event(msgspec.Struct, gc=False):
    """One record.

    `time_ms` is in milliseconds since 1970, None where the record has no usable one; `value` is as Python's json
    decodes it, `metadata` is empty if it is no object, and `event_type` is empty where the record has none.
    """

    time_ms: int | float | None
    key: str
    value: Any
    metadata: dict[str, Any]
    event_type: str


_MOST_MS = 2**62
_Time = (
    Annotated[int, msgspec.Meta(gt=-_MOST_MS, lt=_MOST_MS)]
    | Annotated[float, msgspec.Meta(gt=-float(_MOST_MS), lt=float(_MOST_MS))]
)


class WholeEvent(Event, gc=False, forbid_unknown_fields=True):
    """A record as the fast path takes it: every member that MLPerf's logger writes, and no other."""

    time_ms: _Time
    namespace: Any


class PartialEvent(Event, gc=False, forbid_unknown_fields=True):
    """The same, of a log in which some records have no `event_type` or no `namespace`."""

    time_ms: _Time
    event_type: str = ""
    namespace: Any = None


@dataclass(frozen=True)
class Fault:
    """Damage in the text of a log: `kind` says which rule reports it, `line` is the physical line, from 1."""

    kind: str
    line: int
    message: str
    expected: str = ""
    found: str = ""


class Faults(list[Fault]):
    """A log's faults. Of each kind only the first MOST_FAULTS are kept; `counts` counts all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def append(self, fault: Fault) -> None:
        self.counts[fault.kind] += 1
        if self.counts[fault.kind] <= MOST_FAULTS:
            super().append(fault)


def careful(block: bytes, first_line: int, faults: Faults) -> tuple[list[Event], list[int]]:
    events: list[Event] = []
    places: list[int] = []
    look_alikes: list[tuple[int, str]] = []
    position, line = 0, first_line
    while position < len(block):
        end_match = LINE_END.search(block, position)
        end, following = end_match.span() if end_match else (len(block), len(block))
        if block.find(b":::", position, end) >= 0:
            for event in _line_records(block[position:end], line, faults, look_alikes):
                events.append(event)
                places.append(-line)
        position, line = following, line + 1
    if look_alikes:
        line, found = look_alikes[0]
        more = f" (and {len(look_alikes) - 1} more such lines)" if len(look_alikes) > 1 else ""
        faults.append(Fault("look_alike", line, f"a token that no MLPerf tool reads{more}", '":::MLLOG "', repr(found)))
    return events, places


def _line_records(text: bytes, line: int, faults: Faults, look_alikes: list[tuple[int, str]]) -> Iterator[Event]:
    """Every record on one physical line."""
    starts = [match.span() for match in TOKEN_LIKE.finditer(text)]
    position = taken = 0
    for number, (start, end) in enumerate(starts):
        if start < position:
            continue  # a token inside a value of the record before
        body = end + len(text[end : end + 64]) - len(text[end : end + 64].lstrip(b" \t"))
        token = text[start : end + 1]
        if token != TOKEN:
            if text[body : body + 1] != b"{":
                continue  # the word in somebody's prose
            look_alikes.append((line, token.decode("latin-1")))
        record, position, damage = _decode(text, starts, number, body)
        if damage is not None:
            faults.append(replace(damage, line=line))
            continue
        taken += 1
        if taken == 2:
            message = "several records on one line; official tools read only the last"
            faults.append(Fault("glued", line, message, "one record a line", "several"))
        _note_bytes(text[body:position], body, line, faults)
        event = _shape(record, line, faults)
        if event is not None:
            yield event
        rest = number + 1
        while rest < len(starts) and starts[rest][0] < position:
            rest += 1
        limit = starts[rest][0] if rest < len(starts) else len(text)
        after = text[position:limit].strip(b" \t\0")
        if after:
            faults.append(Fault("text_after", line, "other text after the record", "the end of the line", short(after)))


def _note_bytes(record: bytes, column: int, line: int, faults: Faults) -> None:
    try:
        record.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"bytes that are not UTF-8 in a record (column {column + error.start + 1})"
        faults.append(Fault("encoding", line, message, "UTF-8", short(record[error.start : error.start + 4])))


_scanner = json.JSONDecoder(object_pairs_hook=lambda pairs: _Pairs(pairs))


class _Pairs(dict[str, Any]):
    """A JSON object that remembers which of its members came more than once."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.repeated: list[str] = []
        if len(self) != len(pairs):
            names = [name for name, _ in pairs]
            self.repeated = sorted({name for name in names if names.count(name) > 1})


def _decode(text: bytes, starts: list[tuple[int, int]], number: int, start: int) -> tuple[Any, int, Fault | None]:
    """The JSON value at `start`, which follows token `number` of the line, and where it ends.

    A damaged one comes as None with the start of the next token and what is wrong. A token inside a string of the
    record does not end it: the text up to the next token is tried first, then twice as many tokens, and so on, as
    long as a string is what is left open.
    """
    limit = starts[number + 1][0] if number + 1 < len(starts) else len(text)
    reach = 1
    while True:
        stop = starts[number + reach][0] if number + reach < len(starts) else len(text)
        piece = text[start:stop]
        try:
            readable, coding = piece.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            readable, coding = piece.decode("latin-1"), "latin-1"
        try:
            value, end = _scanner.raw_decode(readable)
        except RecursionError:
            return (
                None,
                limit,
                Fault("json", 0, "the record is nested too deeply to be read", _EXPECTED_RECORD, "nesting"),
            )
        except json.JSONDecodeError as error:
            if error.msg.startswith("Unterminated string") and stop < len(text):
                reach *= 2
                continue
            message = f"the record is not JSON: {error.msg} at column {start + error.pos + 1}"
            return None, limit, Fault("json", 0, message, _EXPECTED_RECORD, short(text[start:limit]))
        except ValueError:
            message = "the record is not JSON: a number too long to be read"
            return None, limit, Fault("json", 0, message, _EXPECTED_RECORD, short(text[start:limit]))
        position = start + len(readable[:end].encode(coding))
        if not isinstance(value, dict):
            message = "the record is not a JSON object"
            return None, limit, Fault("shape", 0, message, "an object", short(text[start:limit]))
        return value, position, None


def untyped(line: int) -> Fault:
    """The fault of a record without `event_type`, which no MLPerf tool looks at."""
    expected = "INTERVAL_START, INTERVAL_END or POINT_IN_TIME"
    return Fault("event_type", line, 'the record has no "event_type"', expected, "none")


def _shape(record: dict[str, Any], line: int, faults: Faults) -> Event | None:
    """The record as an event, with a fault for each member that is missing or of the wrong type."""
    for name in _repeated(record):
        faults.append(Fault("duplicate", line, f"the member {name} comes more than once", "one", "several"))
    for name in _MEMBERS:
        if name not in record:
            message = f'the record has no "{name}"'
            faults.append(Fault("shape", line, message, ", ".join(_MEMBERS), ", ".join(record) or "no members"))
    key, value, metadata = record.get("key"), record.get("value"), record.get("metadata", {})
    time_ms = _time(record["time_ms"], line, faults) if "time_ms" in record else None
    if "key" in record and not isinstance(key, str):
        faults.append(Fault("shape", line, '"key" is not a string', "a string", short(key)))
    if not isinstance(metadata, dict):
        faults.append(Fault("shape", line, '"metadata" is not an object', "an object", short(metadata)))
        metadata = {}
    if not isinstance(record.get("event_type", ""), str):
        faults.append(Fault("shape", line, '"event_type" is not a string', "a string", short(record["event_type"])))
    if "event_type" not in record:
        faults.append(untyped(line))
    for where, item in (("value", value), ("metadata", metadata)):
        if _not_finite(item):
            message = f'"{where}" holds NaN or infinity, which JSON does not have'
            faults.append(Fault("not_finite", line, message, "finite numbers", short(item)))
    if not isinstance(key, str) or "value" not in record:
        return None
    event_type = record.get("event_type")
    return Event(time_ms, key, value, metadata, event_type if isinstance(event_type, str) else "")


def _time(value: Any, line: int, faults: Faults) -> int | float | None:
    expected = "milliseconds since 1970 as a number"
    if isinstance(value, str):
        faults.append(Fault("shape", line, '"time_ms" is a string', expected, short(value)))
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        faults.append(Fault("shape", line, '"time_ms" is not a number', expected, short(value)))
        return None
    if isinstance(value, float) and not math.isfinite(value):
        faults.append(Fault("not_finite", line, '"time_ms" is not finite', expected, str(value)))
        return None
    if abs(value) > 2**63:
        faults.append(
            Fault("shape", line, '"time_ms" is out of any range', expected, f"about 10^{len(str(abs(int(value)))) - 1}")
        )
        return None
    return value


def _repeated(record: Any) -> list[str]:
    """The members, at any depth, that come more than once, as `"value"` or `"step" of "metadata"`."""
    names: list[str] = []
    stack: list[tuple[Any, str]] = [(record, "")]
    while stack:
        item, where = stack.pop()
        if isinstance(item, _Pairs):
            names += [f'"{name}"{where}' for name in item.repeated]
            stack += [(inner, where or f' of "{name}"') for name, inner in reversed(item.items())]
        elif isinstance(item, list):
            stack += [(inner, where) for inner in reversed(item)]
    return names


def _not_finite(value: Any) -> bool:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, float):
            if not math.isfinite(item):
                return True
        elif isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return False


def short(value: Any, limit: int = 60) -> str:
    """A value as a short piece of printable text."""
    if isinstance(value, bytes):
        text = value[: limit + 1].decode("utf-8", errors="backslashreplace")
    else:
        try:
            text = json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            text = f"a {type(value).__name__}"
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= limit else text[:limit] + "…"
