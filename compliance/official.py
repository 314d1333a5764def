"""The rules of an official MLPerf round as the strict verdict sees them.

Strict is never milder than official: what the round's sheets refuse is a finding too, but for two things. A run that
did not converge is no broken rule. And where the official checker would end in a traceback, the rest of the log is
judged without the records that it fails on, so that every other breach is still found.
"""

from __future__ import annotations

from typing import Any

from compliance import mlperf
from compliance.loglines import Log
from compliance.mlperf_records import OLD_VERSION, Records

MOST_REMOVED = 20
_SAID_ELSEWHERE = ("parse_errors", "no_lines", "no_config")


def breaches(log: Log, official: Any, ruleset: Any) -> list[Any]:
    """The messages of the official rules on `log`, of a repaired one where the official checker fails on it."""
    messages: list[Any] = official.messages
    if official.valid is None and official.cause == "log" and ruleset.version != OLD_VERSION:
        messages = _repaired(log, ruleset)
    return [message for message in messages if message.kind not in _SAID_ELSEWHERE]


def _repaired(log: Log, ruleset: Any) -> list[Any]:
    events = [event for event in log.events if event.time_ms is not None]
    for _ in range(MOST_REMOVED):
        official = mlperf.judge_records(Records(events, log.records, ruleset, log), ruleset)
        if official.valid is not None or official.crash_line is None:
            break
        kept = [event for event in events if log.line(event) != official.crash_line]
        if len(kept) == len(events):
            break
        events = kept
    return official.messages
