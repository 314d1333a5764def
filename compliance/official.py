"""The rules of an official MLPerf round as the strict verdict sees them.

Strict is never milder than official: what the round's sheets refuse is a finding too, but for two things. A run that
did not converge is no broken rule. And where the official checker would end in a traceback, the rest of the log is
judged without the records that it fails on, so that every other breach is still found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compliance import mlperf
from compliance.careful import Event
from compliance.loglines import Log
from compliance.mlperf_records import OLD_VERSION, Records

MOST_REMOVED = 20
_OF_THE_READER = ("parse_errors", "no_lines", "no_config")


def breaches(log: Log, official: Any, ruleset: Any, events: Sequence[Event] | None = None) -> list[Any]:
    """The messages of the official rules on `log`, or on `events` of it.

    Where lines of the log are damaged, the records that could be read are judged instead of those that the official
    reader sees, so that what it lost does not count as missing.
    """
    if ruleset.version == OLD_VERSION or (events is None and (log.clean or not log.faults)):
        messages: list[Any] = official.messages
    else:
        messages = _repaired(log, ruleset, log.events if events is None else events)
    return [message for message in messages if message.kind not in _OF_THE_READER]


def refusal(official: Any, found: list[Any]) -> str | None:
    """Why the official checker refuses a log of which all readable records are fine: what it says first."""
    said = [message for message in official.messages if message.kind != "atleast_one_check"]
    if official.valid is False and said and not found:
        return str(said[0].text)
    return None


def _repaired(log: Log, ruleset: Any, events: Sequence[Event]) -> list[Any]:
    for _ in range(MOST_REMOVED):
        official = mlperf.judge_records(Records(events, log.records, ruleset, log), ruleset)
        if official.valid is not None or official.crash_line is None:
            break
        kept = [event for event in events if log.line(event) != official.crash_line]
        if len(kept) == len(events):
            break
        events = kept
    return official.messages
