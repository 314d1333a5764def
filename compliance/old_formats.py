"""The line formats of MLPerf's first rounds, 0.5 and 0.6, as the events of the rounds after them.

Round 0.6: ``:::MLL <seconds> <key>: {"value": …, "metadata": {…}}``
Round 0.5: ``:::MLPv0.5.0 <benchmark> <seconds> (<file>:<line>) <key>[: <value>]``

Both write the time in seconds. The events hold exact milliseconds: an integer, or a decimal where the log writes more
digits than milliseconds have. Keys stay as they are written. Neither format has an `event_type`; it follows from the
key's ending (`_start`, `_stop`).

Round 0.5 knows no metadata, so this is what its events get, all of it here (`_from_0_5`):

- `submission_benchmark`, made up as the first event, from the name that stands in every line;
- metadata `file` and `lineno` from the parentheses;
- a value ``{"epoch": e, "value": v}`` becomes the value v with metadata `epoch_num` e (likewise ``"iteration"`` and
  `step_num`; any other member keeps its name): `eval_accuracy` and `eval_size` are written so;
- the number after `train_epoch`, `eval_start` and `eval_stop` stays the value, and is `epoch_num` too. These programs
  number epochs from 0, some from -1: such numbers are names, not counts;
- `run_stop` gets `status`: "success" or "aborted" by its ``{"success": …}``, none where the log does not say.

A line that a logging handler repeated with its prefix (``INFO:mlperf_compliance:`` before the token) is one record
with its plain twin, not two.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, cast

from compliance.careful import LINE_END, Event, Fault, Faults, short

TOKEN = re.compile(rb":::(?:MLL |MLPv0\.)")

_LINE = re.compile(rb":::(?:MLL |MLPv0\.)[^\r\n]*")
_BODY_0_6 = re.compile(r":::MLL (\S+) ([A-Za-z0-9_]+) ?:\s*(.*)", re.DOTALL)
_BODY_0_5 = re.compile(r":::MLPv\S+ (\S+) (\S+) \((.*?):(\d+)\) (\w+) ?(?::(.*))?", re.DOTALL)
_HANDLER_PREFIX = re.compile(rb"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):[\w.]+:$")
_EXPECTED = {
    "0.6": '":::MLL <seconds> <key>: {"value": …, "metadata": {…}}"',
    "0.5": '":::MLPv0.5.0 <benchmark> <seconds> (<file>:<line>) <key>[: <value>]"',
}
_UNITS: dict[str, str] = {"epoch": "epoch_num", "iteration": "step_num"}
_FURTHEST_SECONDS = Decimal(2**63)
_decode = json.JSONDecoder().decode


def events(block: bytes, first_line: int, faults: Faults, *, begins: bool = True) -> tuple[list[Event], list[int]]:
    """All records of `block`, whose first line is numbered `first_line`, and their places (minus the physical line).

    `begins`: no record of the log comes before this block. Twins are recognised within a block.
    A line that cannot be read becomes a fault of kind "json" (its value) or "shape" (anything else in it).
    """
    found: list[Event] = []
    places: list[int] = []
    plain = {text for _, prefix, text in _texts(block, first_line) if not _HANDLER_PREFIX.search(prefix)}
    for line, prefix, text in _texts(block, first_line):
        if text in plain and _HANDLER_PREFIX.search(prefix):
            continue
        try:
            if text.startswith(b":::MLL "):
                event, benchmark = _from_0_6(text.decode("utf-8", errors="replace")), None
            else:
                event, benchmark = _from_0_5(text.decode("utf-8", errors="replace"))
        except _Damage as damage:
            round_name = "0.6" if text.startswith(b":::MLL ") else "0.5"
            faults.append(Fault(damage.kind, line, damage.args[0], _EXPECTED[round_name], short(text)))
            continue
        if benchmark is not None and not found and begins:
            found.append(Event(event.time_ms, "submission_benchmark", benchmark, {}, "POINT_IN_TIME"))
            places.append(-line)
        found.append(event)
        places.append(-line)
    return found, places


class _Damage(ValueError):
    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def _texts(block: bytes, line: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Each record of the block as (physical line, text before it on its line, its text up to the next token)."""
    position = 0
    for match in _LINE.finditer(block):
        between = block[position : match.start()]
        ends = list(LINE_END.finditer(between)) if b"\r" in between else None
        line += len(ends) if ends is not None else between.count(b"\n")
        start = max(between.rfind(b"\n"), between.rfind(b"\r")) + 1
        position = match.end()
        prefix, text = between[start:], match.group()
        starts = [token.start() for token in TOKEN.finditer(text)] + [len(text)]
        for begin, end in zip(starts, starts[1:], strict=False):
            yield line, prefix if begin == 0 else b"", text[begin:end].rstrip()


def _from_0_6(text: str) -> Event:
    match = _BODY_0_6.fullmatch(text)
    if match is None:
        raise _Damage("shape", "not a record of round 0.6")
    seconds, key, body = match.groups()
    try:
        record = _decode(body.strip())
    except (ValueError, RecursionError) as error:
        raise _Damage("json", f"the value is not JSON: {getattr(error, 'msg', error)}") from None
    if not isinstance(record, dict) or "value" not in record:
        raise _Damage("shape", 'the JSON is not an object with "value" and "metadata"')
    metadata = record.get("metadata")
    return Event(
        _milliseconds(seconds), key, record["value"], metadata if isinstance(metadata, dict) else {}, _type(key)
    )


def _from_0_5(text: str) -> tuple[Event, str]:
    match = _BODY_0_5.fullmatch(text)
    if match is None:
        raise _Damage("shape", "not a record of round 0.5")
    benchmark, seconds, file, lineno, key, body = match.groups()
    value: Any = None
    if body is not None and body.strip():
        try:
            value = _decode(body.strip())
        except (ValueError, RecursionError):
            value = body.strip()  # plain text is allowed here
    metadata: dict[str, Any] = {"file": file, "lineno": int(lineno[:9])}
    if isinstance(value, dict) and "value" in value:
        metadata |= {str(_UNITS.get(name, name)): item for name, item in value.items() if name != "value"}
        value = value["value"]
    elif key in ("train_epoch", "eval_start", "eval_stop") and isinstance(value, int):
        metadata["epoch_num"] = value
    elif key == "run_stop" and isinstance(value, dict) and "success" in value:
        metadata["status"] = "success" if value["success"] in (True, "true", "True") else "aborted"
    return Event(_milliseconds(seconds), key, value, metadata, _type(key)), benchmark


def _type(key: str) -> str:
    return {"start": "INTERVAL_START", "stop": "INTERVAL_END"}.get(key.rpartition("_")[2], "POINT_IN_TIME")


def _milliseconds(seconds: str) -> int | float:
    """Seconds as written, in exact milliseconds. A decimal stands for a float here: it compares and subtracts alike."""
    try:
        exact = Decimal(seconds)
    except InvalidOperation:
        raise _Damage("shape", f"the time is no number of seconds: {short(seconds)}") from None
    if not exact.is_finite() or abs(exact) > _FURTHEST_SECONDS:
        raise _Damage("shape", f"the time is out of any range: {short(seconds)}")
    exact *= 1000
    return int(exact) if exact == exact.to_integral_value() else cast(float, exact.normalize())
