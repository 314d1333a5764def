"""MLPerf's rule sheets as data: found in the installed `mlperf-logging`, read, compiled once, kept for the process.

The package is never imported (it would pull in pandas): its folder is located and its files are read. A ruleset is a
folder `compliance_checker/<usage>_<version>`; a sheet is one YAML file of it, a list of records of three kinds: at
most one BEGIN (statements), any number of KEY (what a log key must fulfil), at most one END. A round that a newer
`mlperf-logging` brings needs no change here.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from compliance import mlperf_grammar as grammar
from compliance import mlperf_many as many
from compliance import mlperf_targets as targets
from compliance.mlperf_grammar import Action, Merge, SheetError, Test

_FOLDER = re.compile(r"([a-z]+)_(\d+)\.(\d+)\.(\d+)")
_NAME = re.compile(r"mlperf-(?:([a-z]+)-)?(\d+)\.(\d+)(?:\.(\d+))?")


class SheetMissing(Exception):
    """The sheets' folder has no such file."""


@dataclass(frozen=True)
class Rule:
    """What a sheet demands of one key. `texts` are the tests as written; `passes` is true where all of them are."""

    key: str
    texts: tuple[str, ...] = ()
    passes: Test | None = None
    first_texts: tuple[str, ...] = ()
    at_least_one: Test | None = None
    at_least_one_text: str = ""
    before: Action | None = None
    after: Action | None = None
    after_text: str = ""

    @property
    def opens_records(self) -> bool:
        """Whether tests or the statements after them look at a record's value or metadata."""
        return "v" in many.names((*self.texts, self.after_text))

    @property
    def idle(self) -> bool:
        """Whether the rule has nothing to evaluate (the sheet may still ask how often the key occurs)."""
        return not (self.passes or self.first_texts or self.at_least_one or self.before or self.after)

    @property
    def plain(self) -> bool:
        """Whether the rule is the same for every record of the key: tests, then perhaps statements."""
        return not (self.first_texts or self.at_least_one or self.before or "submission_" in self.key)


class Requirement(NamedTuple):
    """How often `key` must occur: `kind` as the sheet writes it, and the least and the largest number it allows."""

    key: str
    kind: str
    least: int
    most: float


@dataclass(frozen=True)
class Sheet:
    """One rule sheet, compiled.

    `names` are all keys it lists, in its order; `rules` those with something to evaluate; `plain` the parts of those
    rules that are only tests and statements for every record of a key; `free` of those that are only tests and look at
    nothing but the record the test of many records at once; `loops` of those with statements what carries them out on
    many records; `timed` the keys of those that look at no value and no metadata; `groups` are keys of which one must
    occur.
    """

    name: str
    names: tuple[str, ...] = ()
    rules: dict[str, Rule] = field(default_factory=dict)
    plain: dict[str, tuple[Test | None, Action | None, Rule]] = field(default_factory=dict)
    free: dict[str, Callable[[list[Any]], bool]] = field(default_factory=dict)
    loops: dict[str, many.Loop] = field(default_factory=dict)
    timed: frozenset[str] = frozenset()
    requirements: tuple[Requirement, ...] = ()
    groups: tuple[frozenset[str], ...] = ()
    begin: Action | Merge | None = None
    end_before: Action | None = None
    end_texts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ruleset:
    """One official round: `name` is mlperf-<usage>-<version>, `version` three numbers, `folder` holds the sheets."""

    name: str
    usage: str
    version: str
    folder: Path

    @functools.cached_property
    def start(self) -> str:
        """The sheet with which the check of a log begins."""
        return f"{self.folder.name}/common.yaml"

    @functools.cached_property
    def sha256(self) -> str:
        """Over the names and bytes of the round's sheets, in the order of the names."""
        digest = hashlib.sha256()
        for path in sorted(self.folder.glob("*.yaml")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        return digest.hexdigest()

    @functools.cached_property
    def keys(self) -> frozenset[str]:
        """Every log key that any sheet of the round names; of sheets that cannot be read, none."""
        found: set[str] = set()
        for path in self.folder.glob("*.yaml"):
            with contextlib.suppress(SheetError):
                bodies = [body for record in _records(path, path.name) if isinstance(body := record.get("KEY"), dict)]
                found.update(name for body in bodies if isinstance(name := body.get("NAME"), str))
        return frozenset(found)

    def sheet(self, config: str) -> Sheet:
        """The compiled sheet that a rule asked for as `config` (a path below the sheets' common folder).

        Raises `SheetMissing` where there is none, also for a path that leads out of the folder; `SheetError` where it
        cannot be compiled.
        """
        return _sheet(_located(self._root, config), config)

    @functools.cached_property
    def _root(self) -> str:
        return str(self.folder.parent)

    def quality_target(self, benchmark: str, division: str = "closed") -> tuple[float, str] | None:
        """The quality target of `benchmark` and which side is better ("higher", "lower").

        It is what the sheet demands of at least one evaluation. None where the benchmark has no sheet, or where the
        demand is not the comparison of one number with a target.
        """
        demand = self._demand(benchmark, division)
        return None if demand is None else targets.target(demand[1], demand[2])

    def quality_key(self, benchmark: str, division: str = "closed") -> str | None:
        """The log key of the evaluations that `quality_target` is about: eval_accuracy, or eval_error."""
        demand = self._demand(benchmark, division)
        return None if demand is None else demand[0]

    def _demand(self, benchmark: str, division: str) -> tuple[str, str, dict[str, float]] | None:
        """Key, test and constants of the one demand on at least one record that the benchmark's sheet makes."""
        for name in (f"{division}_{benchmark}.yaml", f"{benchmark}.yaml"):
            if re.fullmatch(r"\w+\.yaml", name) and (self.folder / name).is_file():
                records = _records(self.folder / name, name)
                bodies = [body for record in records if isinstance(body := record.get("KEY"), dict)]
                found = [
                    (str(body.get("NAME")), text)
                    for body in bodies
                    if isinstance(text := body.get("ATLEAST_ONE_CHECK"), str)
                ]
                return (*found[0], targets.constants(records)) if len(found) == 1 else None
        return None

    def required_runs(self, benchmark: str) -> int | None:
        """How many runs a result of `benchmark` needs, from the package's own table; None where it has none."""
        return targets.run_counts(self.folder.parent.parent).get(self.usage, {}).get(benchmark)


@functools.lru_cache(maxsize=1024)
def _located(root: str, config: str) -> str:
    """The path of the sheet `config` below `root`, which it must not leave."""
    try:
        path = os.path.join(root, config)
        if os.path.realpath(path).startswith(os.path.realpath(root) + os.sep) and os.path.isfile(path):
            return path
    except (ValueError, TypeError):
        pass
    raise SheetMissing(config)


def package_folder() -> Path | None:
    """The folder of the installed `mlperf_logging`, without importing it."""
    spec = importlib.util.find_spec("mlperf_logging")
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def available(package: Path | None = None) -> dict[str, Ruleset]:
    """Every official ruleset installed, by name ("mlperf-training-5.1.0"), by usage and then oldest first."""
    package = package or package_folder()
    found: list[tuple[str, tuple[int, ...], Path]] = []
    folder = package / "compliance_checker" if package else None
    for path in folder.iterdir() if folder and folder.is_dir() else ():
        match = _FOLDER.fullmatch(path.name)
        if match and (path / "common.yaml").is_file():
            found.append((match[1], tuple(map(int, match.groups()[1:])), path))
    rulesets: dict[str, Ruleset] = {}
    for usage, version, path in sorted(found):
        number = ".".join(map(str, version))
        name = f"mlperf-{usage}-{number}"
        rulesets[name] = Ruleset(name, usage, number, path)
    return rulesets


def ruleset(name: str, package: Path | None = None) -> Ruleset:
    """The ruleset called `name`: "mlperf-5.1", "mlperf-training-5.1", "mlperf-hpc-3.0", or with the third number.

    Raises ValueError, with the names there are, where none fits.
    """
    rulesets = available(package)
    if not rulesets:
        raise ValueError(f"ruleset {name}: no rule sheets found; install mlperf-logging")
    match = _NAME.fullmatch(name)
    if match:
        usage, major, minor, patch = match.groups()
        wanted = f"mlperf-{usage or 'training'}-{int(major)}.{int(minor)}.{int(patch or 0)}"
        if wanted in rulesets:
            return rulesets[wanted]
    short = ", ".join(known.removesuffix(".0") for known in rulesets)
    raise ValueError(f"unknown ruleset {name!r}; there are: {short}")


def _records(path: Path | str, name: str) -> list[dict[str, Any]]:
    """The records of the sheet at `path`, all scalars as text."""
    import yaml

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        with open(path, encoding="utf-8") as file:
            records = yaml.load(file, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise SheetError(f"rule sheet {name} is not valid YAML{where}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise SheetError(f"rule sheet {name} cannot be read: {error}") from None
    if records is None:
        return []
    if not isinstance(records, list) or not all(isinstance(r, dict) and r for r in records):
        raise SheetError(f"rule sheet {name} is not a list of records")
    return records


@functools.cache
def _sheet(path: str, name: str) -> Sheet:
    """The compiled sheet at `path`."""
    keys: dict[str, dict[str, Any]] = {}
    blocks: dict[str, list[dict[str, Any]]] = {"BEGIN": [], "END": []}
    for record in _records(path, name):
        kind = next(iter(record))
        body = record[kind]
        if not isinstance(body, dict):
            raise SheetError(f"rule sheet {name}: the record {kind} holds nothing")
        if kind == "KEY":
            if not isinstance(body.get("NAME"), str):
                raise SheetError(f"rule sheet {name}: a KEY without a NAME")
            keys[body["NAME"]] = body
        elif kind in blocks:
            blocks[kind].append(body)
    for kind, bodies in blocks.items():
        if len(bodies) > 1:
            raise SheetError(f"rule sheet {name} has several {kind} blocks")
    begin, end = ((blocks[kind] or [{}])[0] for kind in ("BEGIN", "END"))
    rules = {key: _rule(body, key, name) for key, body in keys.items()}
    end_texts = _texts(end, "CHECK", "END", name)
    for text in end_texts:
        _compiled(lambda text=text: grammar.test((text,), record=False), name, "END")
    return Sheet(
        name=name,
        names=tuple(keys),
        rules={key: rule for key, rule in rules.items() if not rule.idle},
        plain={key: (rule.passes, rule.after, rule) for key, rule in rules.items() if rule.plain and not rule.idle},
        free={key: test for key, rule in rules.items() if (test := _free(rule)) is not None},
        loops={key: loop for key, rule in rules.items() if (loop := _loop(rule)) is not None},
        timed=frozenset(key for key, rule in rules.items() if rule.plain and not rule.idle and not rule.opens_records),
        requirements=tuple(r for key, body in keys.items() if (r := _requirement(key, body, name))),
        groups=_groups(keys, name),
        begin=_compiled(lambda: grammar.begin(begin["CODE"]), name, "BEGIN") if "CODE" in begin else None,
        end_before=_compiled(lambda: grammar.action(end["PRE"], record=False), name, "END") if "PRE" in end else None,
        end_texts=end_texts,
    )


def _free(rule: Rule) -> Callable[[list[Any]], bool] | None:
    return many.bulk_test(rule.texts) if rule.plain and rule.passes and rule.after is None else None


def _loop(rule: Rule) -> many.Loop | None:
    return many.bulk_action(rule.texts, rule.after_text) if rule.plain and rule.after is not None else None


def _rule(body: dict[str, Any], key: str, name: str) -> Rule:
    texts = _texts(body, "CHECK", key, name)
    first = _texts(body, "FIRST_CHECK", key, name)
    some = _texts(body, "ATLEAST_ONE_CHECK", key, name)
    before, after = _texts(body, "PRE", key, name), _texts(body, "POST", key, name)
    if max(len(some), len(before), len(after)) > 1:
        raise SheetError(f"rule sheet {name}, key {key}: a list where one text is expected")
    for text in first:
        _compiled(lambda text=text: grammar.test((text,)), name, key)
    return Rule(
        key=key,
        texts=texts,
        passes=_compiled(lambda: grammar.test(texts), name, key) if texts else None,
        first_texts=first,
        at_least_one=_compiled(lambda: grammar.test(some), name, key) if some else None,
        at_least_one_text=some[0] if some else "",
        before=_compiled(lambda: grammar.action(before[0]), name, key) if before else None,
        after=_compiled(lambda: grammar.action(after[0]), name, key) if after else None,
        after_text=after[0] if after else "",
    )


def _texts(body: dict[str, Any], member: str, key: str, name: str) -> tuple[str, ...]:
    if member not in body:
        return ()
    value = body[member]
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts):
        raise SheetError(f"rule sheet {name}, key {key}: {member} is not text")
    return tuple(texts)


def _compiled(build: Any, name: str, key: str) -> Any:
    try:
        return build()
    except SheetError as error:
        raise SheetError(f"rule sheet {name}, key {key}: {error}") from None
    except RecursionError:
        raise SheetError(f"rule sheet {name}, key {key}: nested too deeply") from None


def _requirement(key: str, body: dict[str, Any], name: str) -> Requirement | None:
    kind = body.get("REQ")
    if kind is not None and not isinstance(kind, str):
        raise SheetError(f"rule sheet {name}, key {key}: REQ is not text")
    if kind == "EXACTLY_ONE":
        return Requirement(key, kind, 1, 1)
    if kind == "AT_LEAST_ONE":
        return Requirement(key, kind, 1, math.inf)
    if kind is None or not kind.startswith("AT_LEAST("):
        return None
    number = kind[len("AT_LEAST(") : -1]
    if not re.fullmatch(r"\s*\d{1,9}\s*", number):
        raise SheetError(f"rule sheet {name}, key {key}: no number in {kind}")
    return Requirement(key, f"AT_LEAST({int(number)})", int(number), math.inf)


def _groups(keys: dict[str, dict[str, Any]], name: str) -> tuple[frozenset[str], ...]:
    """The sets of keys of which one at least must occur."""
    start = "AT_LEAST_ONE_OR("
    found = set()
    for key, body in keys.items():
        kind = body.get("REQ") or ""
        if kind.startswith(start):
            group = frozenset({key, *(part.strip() for part in kind[len(start) : -1].split(","))})
            if not group <= keys.keys():
                unknown = ", ".join(sorted(group - keys.keys()))
                raise SheetError(f"rule sheet {name}, key {key}: {kind} names {unknown}, which the sheet does not list")
            found.add(group)
    return tuple(sorted(found, key=sorted))
