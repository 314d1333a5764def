"""The official rule engine: one compiled sheet over the records of one log.

Which tests run, in which order, on what state, and which message they leave: all as MLPerf's own checker does it.
"""

from __future__ import annotations

import contextlib
import json
from operator import length_hint
from typing import Any, NamedTuple

from compliance.mlperf_grammar import Action, Merge, Test, test
from compliance.mlperf_records import Records
from compliance.mlperf_sheets import Rule, Sheet
from compliance.positions import take
from compliance.scanned import Scanned

MANY = 8
"""From so many records of one key on, their tests are tried all at once first."""


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
        """All records whose key has a rule, in the order of the file, but for keys of which all records pass anyway."""
        rules, plain, loops = self.sheet.rules, self.sheet.plain, self.sheet.loops
        seen: set[str] = set()
        passing: dict[str, int] = {}
        keys = (rules.keys() & self.records.counts.keys()) - self._passed()
        positions = self.records.of_keys(keys)
        records = self._records(keys, positions)
        number = 0
        while number < len(records):
            record, end = records[number], number + 1
            key = record.key
            if key in loops:
                while end < len(records) and records[end].key == key:
                    end += 1
            if end > number + 1:
                self._several(key, records[number:end], positions[number:end])
            elif key in plain:
                self._plain(key, record, positions[number])
            else:
                self._full(rules[key], record, positions[number], seen, passing)
            number = end
        self.position = None
        for key, count in passing.items():
            if not count:
                text = rules[key].at_least_one_text.strip()
                self.lasting.append(Note("atleast_one_check", key, text, self.records.positions(key)[-1]))

    def _plain(self, key: str, record: Any, position: int, passed: bool = True) -> None:
        """One record by a rule of tests, then statements. `passed`: False where it is known that a test fails."""
        passes, after, rule = self.sheet.plain[key]
        try:
            passed = passed and (passes is None or bool(passes(record, self.s)))
        except Exception:
            passed = False
        if not passed:
            self._test_each(rule.texts, key, record, position)
        if after is not None:
            self.position = position
            self._act(rule, after, "POST", record)

    def _several(self, key: str, records: list[Any], positions: list[int]) -> None:
        """Records of one key that follow one another, as `_plain` does it one by one."""
        loop, rest = self.sheet.loops[key], iter(records)
        while True:
            try:
                failed = loop(rest, self.s)
            except Exception:
                number = len(records) - 1 - length_hint(rest)
                self._put(Note("action_exec", key, "POST", positions[number]))
                continue
            if not failed:
                return
            number = len(records) - 1 - length_hint(rest)
            self._plain(key, records[number], positions[number], passed=False)

    def _records(self, keys: set[str], positions: list[int]) -> list[Any]:
        """The records of `keys`, which stand at `positions`; of many that no rule looks into only the times."""
        items, counts = self.records.items, self.records.counts
        timed = [key for key in keys if key in self.sheet.timed and counts[key] >= MANY]
        return items.take_timed(positions, timed) if timed and isinstance(items, Scanned) else take(items, positions)

    def _passed(self) -> set[str]:
        """The keys with many records that all pass a test which looks at nothing else, so that it has no effect."""
        items, counts, free = self.records.items, self.records.counts, self.sheet.free
        found = set()
        for key in free.keys() & counts.keys():
            if counts[key] >= MANY:
                with contextlib.suppress(Exception):
                    if free[key](take(items, self.records.positions(key))):
                        found.add(key)
        return found

    def _full(self, rule: Rule, record: Any, position: int, seen: set[str], passing: dict[str, int]) -> None:
        """One record by a rule with all its parts; `seen` holds the keys met, `passing` counts ATLEAST_ONE_CHECK."""
        key, s = rule.key, self.s
        self.position = position
        first = key not in seen
        seen.add(key)
        if first or "submission_" not in key:
            if rule.before is not None:
                self._act(rule, rule.before, "PRE", record)
            if rule.passes is not None and _outcome(rule.passes, record, s):
                self._test_each(rule.texts, key, record, position)
            if rule.after is not None:
                self._act(rule, rule.after, "POST", record)
        if first and rule.first_texts:
            self._test_each(rule.first_texts, key, record, position)
        if rule.at_least_one is not None:
            try:
                passing[key] = passing.get(key, 0) + bool(rule.at_least_one(record, s))
            except Exception as error:
                text = short(rule.at_least_one_text)
                raise Crash(f"{key}: the test {text} cannot be evaluated: {reason_of(error)}", position) from None

    def _act(self, rule: Rule, action: Action, name: str, record: Any) -> None:
        try:
            action(record, self.s, self._ask)
        except Exception:
            self._put(Note("action_exec", rule.key, name, self.position))

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
        counts = self.records.counts
        find = counts.get
        needs = self.sheet.requirements
        for key, kind in [(key, kind) for key, kind, least, most in needs if not least <= find(key, 0) <= most]:
            if kind == "EXACTLY_ONE" and counts[key]:
                self._repeated(key)
            else:
                self._put(Note("req", key, [kind, counts[key], ""]))
        for group in self.sheet.groups:
            if counts.keys().isdisjoint(group):
                self.lasting.append(Note("req_or", "|".join(sorted(group))))

    def _repeated(self, key: str) -> None:
        """EXACTLY_ONE of a key that occurs several times: a warning as long as all values are equal."""
        positions = self.records.positions(key)
        values = [record.value for record in take(self.records.items, positions)]
        found = len(positions)
        if values.count(values[0]) == found:
            self.warnings[key] = Note("req", key, ["EXACTLY_ONE", found, ""], positions[1])
        else:
            self._put(Note("req", key, ["EXACTLY_ONE", found, "diff"], positions[1]))

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


def reason_of(error: Exception) -> str:
    return f"{type(error).__name__}: {short(error)}"


def short(value: Any, limit: int = 200) -> str:
    try:
        text = value if isinstance(value, str) else str(value)
    except (ValueError, RecursionError):
        text = f"a {type(value).__name__}"
    text = "".join(c if c.isprintable() else " " for c in text[: limit + 1]).strip()
    return text if len(text) <= limit else text[:limit] + "…"
