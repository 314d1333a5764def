"""The official rule engine: one compiled sheet over the records of one log.

Which tests run, in which order, on what state, and which message they leave: all as MLPerf's own checker does it.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from compliance.mlperf_grammar import Merge, Test, test
from compliance.mlperf_records import Records
from compliance.mlperf_sheets import Rule, Sheet


class Crash(Exception):
    """The official checker would end here."""

    def __init__(self, reason: str, position: int | None = None, cause: str = "log") -> None:
        super().__init__(reason)
        self.reason, self.position, self.cause = reason, position, cause


class Note(NamedTuple):
    """A message before it is put into words; `position` is a record's position in the list of records."""

    kind: str
    key: str | None
    detail: Any = None
    position: int | None = None


class SheetRun:
    """One sheet over all records: the state `s`, and the messages and sheets asked for on the way."""

    def __init__(self, sheet: Sheet, records: Records) -> None:
        self.sheet, self.records = sheet, records
        self.s: dict[Any, Any] = {}
        self.keyed: dict[str, Note] = {}
        self.lasting: list[Note] = []
        self.warnings: dict[str, Note] = {}
        self.asked: list[tuple[Any, int | None]] = []
        self.position: int | None = None

    def run(self) -> None:
        self._begin()
        self._rules()
        self._requirements()
        self._end()

    def _begin(self) -> None:
        begin = self.sheet.begin
        try:
            if isinstance(begin, Merge):
                self.records.merge(begin)
            elif begin is not None:
                begin(None, self.s, self._ask)
        except Exception as error:
            raise Crash(f"the BEGIN block of {self.sheet.name} fails on this log: {reason_of(error)}") from None

    def _ask(self, config: Any) -> None:
        self.asked.append((config, self.position))

    def _rules(self) -> None:
        """All records whose key has a rule, in the order of the file."""
        rules, groups, items, s, ask = self.sheet.rules, self.records.groups, self.records.items, self.s, self._ask
        order: list[int] = []
        for key, rule in rules.items():
            positions = groups.get(key)
            if positions:
                once = "submission_" in key and not rule.at_least_one
                order += positions[:1] if once else positions
        order.sort()
        seen: set[str] = set()
        tally: dict[str, int] = {}
        for position in order:
            record = items[position]
            rule = rules[record.key]
            key = rule.key
            first = key not in seen
            if first:
                seen.add(key)
            self.position = position
            if first or "submission_" not in key:
                if rule.before is not None:
                    self._act(rule, rule.before, "PRE", position)
                if rule.passes is not None:
                    try:
                        passed = rule.passes(record, s)
                    except Exception:
                        passed = False
                    if not passed:
                        self._test_each(rule.texts, key, record, position)
                if rule.after is not None:
                    try:
                        rule.after(record, s, ask)
                    except Exception:
                        self._put(Note("action_exec", key, "POST", position))
            if first and rule.first_texts:
                self._test_each(rule.first_texts, key, record, position)
            if rule.at_least_one is not None:
                try:
                    tally[key] = tally.get(key, 0) + bool(rule.at_least_one(record, s))
                except Exception as error:
                    text = short(rule.at_least_one_text)
                    raise Crash(f"{key}: the test {text} cannot be evaluated: {reason_of(error)}", position) from None
        self.position = None
        for key, passing in tally.items():
            if not passing:
                text = rules[key].at_least_one_text.strip()
                self.lasting.append(Note("atleast_one_check", key, text, groups[key][-1]))

    def _act(self, rule: Rule, action: Any, name: str, position: int) -> None:
        try:
            action(self.records.items[position], self.s, self._ask)
        except Exception:
            self._put(Note("action_exec", rule.key, name, position))

    def _test_each(self, texts: tuple[str, ...], key: str, record: Any, position: int) -> None:
        """A message for each of `texts` that is false or raises; the last one stands."""
        for text in texts:
            kind = _outcome(test((text,)), record, self.s)
            if kind is None:
                continue
            self._need_printable_state(position)
            if kind == "check" and position >= self.records.logged and not _printable(record.value):
                kind = "check_exec"
            self._put(Note(kind, key, text.strip(), position))

    def _put(self, note: Note) -> None:
        if note.key:
            self.keyed[note.key] = note
        else:
            self.lasting.append(note)

    def _need_printable_state(self, position: int | None) -> None:
        """The official checker prints its state into the message, and ends if that is impossible."""
        if not _printable(self.s):
            raise Crash(f"the state that {self.sheet.name} collected from this log cannot be printed", position)

    def _requirements(self) -> None:
        groups, items = self.records.groups, self.records.items
        alternatives: set[frozenset[str]] = set()
        for need in self.sheet.requirements:
            if need.kind == "AT_LEAST_ONE_OR":
                alternatives.add(need.group)
                continue
            positions = groups.get(need.key) or []
            found = len(positions)
            if need.kind == "EXACTLY_ONE":
                if found == 1:
                    continue
                if found and _all_equal([items[position].value for position in positions]):
                    self.warnings[need.key] = Note("req", need.key, [need.kind, found, ""], positions[1])
                    continue
                different = "diff" if found else ""
                self._put(Note("req", need.key, [need.kind, found, different], positions[1] if found else None))
            elif found < max(need.count, 1 if need.kind == "AT_LEAST_ONE" else 0):
                self._put(Note("req", need.key, [need.kind, found, ""]))
        for group in sorted(alternatives, key=sorted):
            if not any(groups.get(key) for key in group):
                self.lasting.append(Note("req_or", "|".join(sorted(group))))

    def _end(self) -> None:
        if self.sheet.end_before is not None:
            try:
                self.sheet.end_before(None, self.s, self._ask)
            except Exception as error:
                raise Crash(f"the END block of {self.sheet.name} fails on this log: {reason_of(error)}") from None
        for text in self.sheet.end_texts:
            kind = _outcome(test((text,), record=False), None, self.s)
            if kind is not None:
                self._need_printable_state(None)
                self.lasting.append(Note("end_" + kind.removeprefix("check_"), None, text.strip()))


def _outcome(passes: Test, record: Any, s: dict[Any, Any]) -> str | None:
    """None where the test is true, else "check" (it is false) or "check_exec" (it raises)."""
    try:
        return None if passes(record, s) else "check"
    except Exception:
        return "check_exec"


def _printable(value: Any) -> bool:
    """Whether `json.dumps` with sorted keys takes the value; anything but mixed keys or odd numbers is seen at once."""
    plain = isinstance(value, dict) and all(
        type(k) is str and (v is None or isinstance(v, str | float | list) or (isinstance(v, int) and abs(v) < 1 << 64))
        for k, v in value.items()
    )
    if plain:
        return True
    try:
        json.dumps(value, sort_keys=True, indent=2)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _all_equal(values: list[Any]) -> bool:
    return values.count(values[0]) == len(values)


def reason_of(error: Exception) -> str:
    return f"{type(error).__name__}: {short(error)}"


def short(value: Any, limit: int = 200) -> str:
    try:
        text = value if isinstance(value, str) else str(value)
    except (ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    text = "".join(c if c.isprintable() else " " for c in text[: limit + 1]).strip()
    return text if len(text) <= limit else text[:limit] + "…"
