"""MLPerf's rule sheets as data: found in the installed `mlperf-logging`, read, compiled once, kept for the process.

The package is never imported (it would pull in pandas): its folder is located and its files are read. A ruleset is a
folder `compliance_checker/<usage>_<version>`; a sheet is one YAML file of it, a list of records of three kinds: at
most one BEGIN (statements), any number of KEY (what a log key must fulfil), at most one END. A round that a newer
`mlperf-logging` brings needs no change here.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import math
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from compliance import mlperf_grammar as grammar
from compliance.mlperf_grammar import Action, Merge, SheetError, Test

_FOLDER = re.compile(r"([a-z]+)_(\d+)\.(\d+)\.(\d+)")
_NAME = re.compile(r"mlperf-(?:([a-z]+)-)?(\d+)\.(\d+)(?:\.(\d+))?")
_Loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)


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

    @property
    def idle(self) -> bool:
        """Whether the rule has nothing to evaluate (the sheet may still ask how often the key occurs)."""
        return not (self.passes or self.first_texts or self.at_least_one or self.before or self.after)

    @functools.cached_property
    def plain(self) -> bool:
        """Whether the rule is nothing but tests that every record of the key must pass."""
        others = self.first_texts or self.at_least_one or self.before or self.after
        return not others and "submission_" not in self.key


@dataclass(frozen=True)
class Requirement:
    """How often `key` must occur: `kind` as the sheet writes it, `count` the least number, `group` the alternatives."""

    key: str
    kind: str
    count: int = 0
    group: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Sheet:
    """One rule sheet, compiled. `names` are all keys it lists, `rules` those with something to evaluate."""

    name: str
    names: frozenset[str] = frozenset()
    rules: dict[str, Rule] = field(default_factory=dict)
    requirements: tuple[Requirement, ...] = ()
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

    @property
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
        """Every log key that any sheet of the round names."""
        return frozenset(
            str(record["KEY"].get("NAME"))
            for path in self.folder.glob("*.yaml")
            for record in _records(path, path.name)
            if isinstance(record.get("KEY"), dict)
        )

    def sheet(self, config: str) -> Sheet:
        """The compiled sheet that a rule asked for as `config` (a path below the sheets' common folder).

        Raises `SheetMissing` where there is none, also for a path that leads out of the folder; `SheetError` where it
        cannot be compiled.
        """
        return _sheet(_located(str(self.folder.parent), config), config)

    def quality_target(self, benchmark: str, division: str = "closed") -> tuple[float, str] | None:
        """The quality target of `benchmark` and which side is better ("higher", "lower").

        It is what the sheet demands of at least one evaluation. None where the benchmark has no sheet, or where the
        demand is not the comparison of one number with a target.
        """
        for name in (f"{division}_{benchmark}.yaml", f"{benchmark}.yaml"):
            if re.fullmatch(r"\w+\.yaml", name) and (self.folder / name).is_file():
                records = _records(self.folder / name, name)
                bodies = [body for record in records if isinstance(body := record.get("KEY"), dict)]
                texts = [text for body in bodies if isinstance(text := body.get("ATLEAST_ONE_CHECK"), str)]
                return _target(texts[0], _constants(records)) if len(texts) == 1 else None
        return None

    def required_runs(self, benchmark: str) -> int | None:
        """How many runs a result of `benchmark` needs, from the package's own table; None where it has none."""
        return _run_counts(self.folder.parent.parent).get(self.usage, {}).get(benchmark)


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
    try:
        with open(path, encoding="utf-8") as file:
            records = yaml.load(file, Loader=_Loader)
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
        names=frozenset(keys),
        rules={key: rule for key, rule in rules.items() if not rule.idle},
        requirements=tuple(r for key, body in keys.items() if (r := _requirement(key, body, keys, name))),
        begin=_compiled(lambda: grammar.begin(begin["CODE"]), name, "BEGIN") if "CODE" in begin else None,
        end_before=_compiled(lambda: grammar.action(end["PRE"], record=False), name, "END") if "PRE" in end else None,
        end_texts=end_texts,
    )


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


def _requirement(key: str, body: dict[str, Any], keys: dict[str, Any], name: str) -> Requirement | None:
    kind = body.get("REQ")
    if kind is None or kind == "OPTIONAL":
        return None
    if not isinstance(kind, str):
        raise SheetError(f"rule sheet {name}, key {key}: REQ is not text")
    if kind.startswith("AT_LEAST("):
        number = kind[len("AT_LEAST(") : -1]
        if not re.fullmatch(r"\s*\d{1,9}\s*", number):
            raise SheetError(f"rule sheet {name}, key {key}: no number in {kind}")
        return Requirement(key, f"AT_LEAST({int(number)})", int(number))
    if kind.startswith("AT_LEAST_ONE_OR"):
        group = {key, *(part.strip() for part in kind[len("AT_LEAST_ONE_OR(") : -1].split(","))}
        if not group <= keys.keys():
            unknown = ", ".join(sorted(group - keys.keys()))
            raise SheetError(f"rule sheet {name}, key {key}: {kind} names {unknown}, which the sheet does not list")
        return Requirement(key, "AT_LEAST_ONE_OR", group=frozenset(group))
    return Requirement(key, kind, 1) if kind in ("EXACTLY_ONE", "AT_LEAST_ONE") else None


def _constants(records: list[dict[str, Any]]) -> dict[str, float]:
    """The numbers with which the sheet's BEGIN block fills its state."""
    found: dict[str, float] = {}
    for record in records:
        body = record.get("BEGIN")
        text = body.get("CODE") if isinstance(body, dict) else None
        try:
            tree = ast.parse(text.strip() if isinstance(text, str) else "")
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            for key, value in zip(node.keys, node.values, strict=True) if isinstance(node, ast.Dict) else ():
                number = _number(value)
                if isinstance(key, ast.Constant) and number is not None:
                    found[str(key.value)] = number
    return found


def _number(node: ast.AST | None) -> float | None:
    constant = isinstance(node, ast.Constant) and isinstance(node.value, int | float)
    return None if not constant or isinstance(node.value, bool) else float(node.value)  # type: ignore[union-attr]


def _target(text: str, constants: dict[str, float]) -> tuple[float, str] | None:
    """The target in a test such as "at most 0.925 and above 0": of two bounds the one that is no natural limit."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return None
    parts = tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]
    bounds: dict[str, tuple[float, bool]] = {}
    for part in parts:
        if not (isinstance(part, ast.Compare) and len(part.ops) == 1 and ast.unparse(part.left) == "v['value']"):
            return None
        right, operator = part.comparators[0], part.ops[0]
        number = _number(right)
        if number is None and isinstance(right, ast.Subscript) and isinstance(right.slice, ast.Constant):
            number = constants.get(str(right.slice.value)) if ast.unparse(right.value) == "s" else None
        side = "higher" if isinstance(operator, ast.Gt | ast.GtE) else "lower"
        if number is None or side in bounds or not isinstance(operator, ast.Gt | ast.GtE | ast.Lt | ast.LtE):
            return None
        bounds[side] = (number, isinstance(operator, ast.GtE | ast.LtE))
    if bounds.get("lower", (math.inf, False))[0] == 1.0:
        del bounds["lower"]
    if bounds.get("higher", (-math.inf, False))[0] == 0.0:
        del bounds["higher"]
    if len(bounds) == 2:
        bounds = {side: bound for side, bound in bounds.items() if bound[1]}
    if len(bounds) != 1:
        return None
    side, (number, _) = next(iter(bounds.items()))
    return number, side


@functools.cache
def _run_counts(package: Path) -> dict[str, dict[str, int]]:
    """The table {usage: {benchmark: runs}} in the package's benchmark_meta.py, read without importing it."""
    try:
        tree = ast.parse((package / "benchmark_meta.py").read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return {}
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        try:
            table = ast.literal_eval(node.value)
        except ValueError:
            continue
        rows = list(table.values()) if isinstance(table, dict) else []
        if rows and all(isinstance(row, dict) and all(isinstance(n, int) for n in row.values()) for row in rows):
            return dict(table)
    return {}
