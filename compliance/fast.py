"""The fast path of the reader: all records of a block of text decoded at once, where nothing in it is doubtful."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from compliance.careful import TOKEN, Event, PartialEvent, WholeEvent

_BEGINNING = rb":::(?:MLLOG |[ \t]*(?=(?i:MLLOG)))"
"""The token, or the colons of one that only looks like it: what follows those is no JSON, and so never overlooked."""
_RECORDS = re.compile(_BEGINNING + rb"([^\r\n]*)")
_RECORDS_WITHOUT_RETURNS = re.compile(_BEGINNING + rb"(.*)")  # where no line ends in a carriage return; faster by far

decode_whole = msgspec.json.Decoder(WholeEvent).decode_lines
"""The records in a text of one record a line."""
_decode_partial = msgspec.json.Decoder(PartialEvent).decode_lines


def pattern(text: bytes) -> re.Pattern[bytes]:
    """What finds each record of a clean text."""
    return _RECORDS if b"\r" in text else _RECORDS_WITHOUT_RETURNS


def fast(block: bytes) -> list[Event] | None:
    """All records of a block at once, or None where any doubt is left.

    The decoder keeps only the last of several members of the same name, and takes a token inside a text for text.
    Either leaves colons in the block that the decoded records do not account for: each member that they hold has
    exactly one, and a colon more than that is a lost member or part of a text.
    """
    found = pattern(block).findall(block)
    if not found:
        return []
    text = b"\n".join(found)
    try:
        if not text.isascii():
            text.decode()
        events = _decoded(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    if len(events) != len(found):
        return None
    colons = text.count(b":")
    if colons == _members(events):
        return events
    # Rarely: texts with colons, or objects in objects. An escaped colon would count on one side only.
    doubtful = TOKEN in text or b"\\u" in text or colons != _colons(events)
    return None if doubtful else events


def _decoded(text: bytes) -> list[Any]:
    try:
        return decode_whole(text)
    except msgspec.DecodeError:
        return _decode_partial(text)


def _own_members(events: list[Any]) -> int:
    """How many members the records themselves have."""
    if type(events[0]) is WholeEvent:
        return 6 * len(events)
    return sum([4 + (event.event_type != "") + (event.namespace is not None) for event in events])


def _members(events: list[Any]) -> int:
    """How many members the records have, with those of their metadata and of values that are objects."""
    sizes = [
        len(event.metadata) + len(event.value) if type(event.value) is dict else len(event.metadata) for event in events
    ]
    return _own_members(events) + sum(sizes)


def _colons(events: list[Any]) -> int:
    """How many colons the records were written with: one for each member, at any depth, and those in texts."""
    total = _own_members(events)
    stack: list[Any] = []
    for event in events:
        stack += (event.key, event.event_type, event.namespace, event.metadata, event.value)
    while stack:
        item = stack.pop()
        if type(item) is str:
            total += item.count(":")
        elif type(item) is dict:
            total += len(item)
            stack += item
            stack += item.values()
        elif type(item) is list:
            stack += item
    return total
