"""What MLPerf's own checker says about a log, from its own rule sheets.

`judge` reaches the official verdict, message by message, in the official order and with the official state, also
where that order is odd. In short: sheets are taken from a queue that rules may add to. Each sheet starts with an empty
state `s`, withdraws the messages that earlier sheets left for the keys it names, then runs its rules over the records
in the order of the file, and last asks how often each key occurred. Of the messages about one key the last one
stands. For a key with "submission_" in its name only the first record is tested.

Where the official checker ends in a traceback there is no official verdict: `valid` is None, and `crash` says why.
"""

from __future__ import annotations

import json
import reprlib
from dataclasses import dataclass
from typing import Any

from compliance.loglines import Log
from compliance.mlperf_engine import Crash, Note, SheetRun, short
from compliance.mlperf_grammar import SheetError
from compliance.mlperf_records import Records, Unreadable, official_records
from compliance.mlperf_sheets import Ruleset, Sheet, SheetMissing, available, ruleset

__all__ = ["Message", "Official", "Ruleset", "available", "judge", "ruleset"]

MOST_SHEETS = 10_000

_brief = reprlib.Repr()
_brief.maxlevel, _brief.maxdict, _brief.maxlist, _brief.maxstring = 3, 6, 6, 60


@dataclass(frozen=True)
class Message:
    """One finding of the official rules.

    kind    check (a test was false), check_exec (it raised), action_exec (a statement raised), req (how often a key
            must occur), req_or (one of several keys must), atleast_one_check (no record passed), end_check, end_exec,
            parse_errors, no_lines, no_config (a rule sheet is missing), other
    key     the log key; of req_or the keys in order, joined by |
    detail  of check: the record's number among the lines with a token, from 0 (-1: a merged record; None: not known),
            and the test; of req: the demand, how often the key occurred, and "diff" if with different values; else
            the test as the sheet writes it
    event   the record's place in `Log.events`, or None
    line    physical line, or None
    text    for people
    """

    kind: str
    key: str | None
    detail: Any
    event: int | None
    line: int | None
    text: str


@dataclass(frozen=True)
class Official:
    """The official verdict. `valid` is None where the official checker would end in a traceback: see `crash`.

    `cause` says whose doing that is: "log" (the log's text), "sheet" (a rule sheet that this program cannot compile).
    """

    valid: bool | None
    messages: list[Message]
    warnings: list[Message]
    crash: str | None = None
    crash_line: int | None = None
    cause: str | None = None

    @property
    def failing_keys(self) -> list[str]:
        """The keys that messages are about, each once, in the order of the messages."""
        return list(dict.fromkeys(m.key for m in self.messages if m.key is not None))


@dataclass
class _Effect:
    """What running one sheet did: running it again on the same records would do the same again."""

    names: tuple[str, ...]
    keyed: dict[str, Note]
    warnings: dict[str, Note]
    asked: list[tuple[Any, int | None]]


def judge(log: Log, ruleset: Ruleset) -> Official:
    """The official verdict on `log` by `ruleset`, messages included."""
    try:
        records = official_records(log, ruleset)
    except Unreadable as error:
        return Official(None, [], [], str(error), error.line, "log")
    return judge_records(records, ruleset)


def judge_records(records: Records, ruleset: Ruleset) -> Official:
    """The official verdict on records that were read already."""
    return _Judge(records, ruleset).verdict()


class _Judge:
    def __init__(self, records: Records, ruleset: Ruleset) -> None:
        self.records, self.ruleset = records, ruleset
        self.keyed: dict[str, Note] = {}
        self.lasting: list[Note] = []
        self.warnings: dict[str, Note] = {}

    def verdict(self) -> Official:
        crash: Crash | None = None
        try:
            self._run()
        except Crash as error:
            crash = error
        messages = [self._worded(note) for note in (*self.keyed.values(), *self.lasting)]
        warnings = [self._worded(note) for note in self.warnings.values()]
        if crash is None:
            return Official(not messages, messages, warnings)
        _, line = self.records.where(crash.position)
        return Official(None, messages, warnings, crash.reason, line, crash.cause)

    def _run(self) -> None:
        if self.records.errors:
            self.lasting.append(Note("parse_errors", None, self.records.errors[0]))
        if not self.records.count:
            self.lasting.append(Note("no_lines", None))
        queue: list[tuple[Any, int | None]] = [(self.ruleset.start, None)]
        done: dict[tuple[str, int], _Effect] = {}
        for taken, (config, position) in enumerate(queue):
            if taken == MOST_SHEETS:
                raise Crash(f"the log asks for more than {MOST_SHEETS} rule sheets", position)
            try:
                sheet = self.ruleset.sheet(config)
            except SheetMissing:
                self.lasting.append(Note("no_config", None, short(config), position))
                raise Crash(f"there is no rule sheet {short(config)}", position) from None
            except SheetError as error:
                raise Crash(str(error), position, "sheet") from None
            before = (sheet.name, len(self.records.items))
            effect = done.get(before)
            if effect is None:
                effect = done[before] = self._check(sheet)
            else:
                self._apply(effect)
            queue += effect.asked

    def _apply(self, effect: _Effect) -> None:
        for name in self.keyed.keys() & effect.names:
            del self.keyed[name]
        self.keyed.update(effect.keyed)
        self.warnings.update(effect.warnings)

    def _check(self, sheet: Sheet) -> _Effect:
        """Run `sheet` over the records; what it found until then stays also if it crashes."""
        run = SheetRun(sheet, self.records)
        effect = _Effect(sheet.names, run.keyed, run.warnings, run.asked)
        try:
            run.run()
        finally:
            self._apply(effect)
            self.lasting += run.lasting
        return effect

    def _worded(self, note: Note) -> Message:
        event, line = self.records.where(note.position)
        if note.kind == "parse_errors":
            line = note.detail[0]
        detail = note.detail
        if note.kind == "check":
            detail = [self.records.number(note.position), note.detail]
        elif note.kind in ("parse_errors", "no_config"):
            detail = None if note.kind == "parse_errors" else note.detail
        return Message(note.kind, note.key, detail, event, line, _text(note, self.records))


def _text(note: Note, records: Records) -> str:
    """A message in words, with what was expected and what was found."""
    key, detail = note.key, note.detail
    if note.kind in ("check", "check_exec"):
        record = records.items[note.position or 0]
        found = f"value {short(_json(record.value), 80)}, metadata {short(_json(_metadata(record)), 120)}"
        verb = "fails" if note.kind == "check" else "cannot be evaluated"
        return f"{key}: the test {short(detail)} {verb} on {found}"
    if note.kind == "action_exec":
        return f"{key}: the rule sheet's {detail} statements cannot be carried out on this record"
    if note.kind == "req":
        demand, found, different = detail
        values = ", with different values" if different else ""
        return f"{key}: required {demand}, found {found}{values}"
    if note.kind == "req_or":
        return f"required at least one of {str(key).replace('|', ', ')}, found none"
    if note.kind == "atleast_one_check":
        return f"{key}: no record passes the test {short(detail)}"
    if note.kind in ("end_check", "end_exec"):
        verb = "fails" if note.kind == "end_check" else "cannot be evaluated"
        return f"at the end of the log the test {short(detail)} {verb}"
    if note.kind == "parse_errors":
        more = f" (and {len(records.errors) - 1} more)" if len(records.errors) > 1 else ""
        return f"a record cannot be read: {detail[1]}{more}"
    return {"no_lines": "the log has no records", "no_config": f"there is no rule sheet {detail}"}[note.kind]


def _metadata(record: Any) -> Any:
    return getattr(record, "metadata", None)


def _json(value: Any) -> str:
    """A value in short, whatever its size."""
    try:
        return json.dumps(value) if value is None or isinstance(value, str | int | float) else _brief.repr(value)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"
