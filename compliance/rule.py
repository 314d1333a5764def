"""A rule, a finding, and the register of all rules.

A rule is a function over a `Run`, a `ResultSet` or a `Submission` that yields findings. Its id is a subject letter and
three digits that are never used again for something else; its name is the bad pattern; its docstring is its page in
rules.md, the text of ``--explain`` and two of its tests. It reads the model alone: it parses nothing, prints nothing,
opens nothing.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Severity = Literal["error", "warning"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning")
Scope = Literal["run", "set", "submission"]
_SCOPES: dict[str, Scope] = {"ResultSet": "set", "Submission": "submission"}


@dataclass(frozen=True)
class Finding:
    """What a rule found: `line` is a physical line from 1, None where the finding is about no single line."""

    message: str
    line: int | None = None
    expected: str = ""
    found: str = ""
    hint: str = ""
    rule: str = ""
    severity: Severity = "error"
    path: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The finding as the JSON report has it."""
        names = ("rule", "severity", "line", "message", "expected", "found", "hint")
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Rule:
    """One rule: `scope` says what it looks at; `suite_only` keeps it from logs that are judged by an MLPerf round."""

    id: str
    name: str
    severity: Severity
    source: str
    suite_only: bool
    scope: Scope
    check: Callable[[Any], Iterator[Finding]] = field(repr=False)

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.check) or ""

    @property
    def title(self) -> str:
        """The first line of the docstring: what has to be so."""
        return self.doc.split("\n", 1)[0]

    @property
    def text(self) -> str:
        """The docstring without its example logs."""
        return re.split(r"^(?:Fails|Passes)::$", self.doc, maxsplit=1, flags=re.MULTILINE)[0].rstrip()

    def examples(self, heading: Literal["Fails", "Passes"]) -> list[str]:
        """The docstring's example logs under `heading`, in the short form that compliance.examples expands."""
        blocks = re.split(r"^(Fails|Passes)::$", self.doc, flags=re.MULTILINE)
        return [
            inspect.cleandoc("\n" + body)
            for title, body in zip(blocks[1::2], blocks[2::2], strict=True)
            if title == heading
        ]


_REGISTER: dict[str, Rule] = {}


def rule(
    id: str, *, source: str, severity: Severity = "error", suite_only: bool = False
) -> Callable[[Callable[[Any], Iterator[Finding]]], Callable[[Any], Iterator[Finding]]]:
    """Register a function as a rule. Raises ValueError on an id that is malformed or taken."""

    def register(check: Callable[[Any], Iterator[Finding]]) -> Callable[[Any], Iterator[Finding]]:
        if not re.fullmatch(r"[A-Z]\d{3}", id):
            raise ValueError(f"rule id {id!r}: expected a capital letter and three digits")
        taken = _REGISTER.get(id)
        if taken is not None and taken.check.__module__ != check.__module__:
            raise ValueError(f"rule id {id} is used by {taken.name} and by {check.__name__}")
        (parameter,) = inspect.signature(check).parameters.values()
        name = getattr(parameter.annotation, "__name__", str(parameter.annotation))
        scope = _SCOPES.get(name, "run")
        _REGISTER[id] = Rule(id, check.__name__, severity, source, suite_only, scope, check)
        return check

    return register


def all_rules() -> list[Rule]:
    """Every rule of every module in compliance/rules, by id."""
    package = importlib.import_module("compliance.rules")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"compliance.rules.{module.name}")
    return [_REGISTER[id] for id in sorted(_REGISTER)]


def run_rules(rules: list[Rule], model: Any, path: str, *, suite: bool) -> list[Finding]:
    """All findings of `rules` on one model. A rule that raises is a finding itself, and the others still run."""
    found: list[Finding] = []
    for one in rules:
        if one.suite_only and not suite:
            continue
        try:
            for finding in one.check(model):
                found.append(_complete(finding, one, path))
        except Exception as error:  # a crashed rule must not hide what the others have to say
            message = f"rule {one.id} {one.name} stopped with {type(error).__name__}: {error}"
            hint = "this is a defect of the checker, please report it; the verdict cannot be trusted without this rule"
            found.append(Finding(message, hint=hint, rule="X001", path=path))
    return found


def _complete(finding: Finding, one: Rule, path: str) -> Finding:
    return replace(finding, rule=one.id, severity=one.severity, path=finding.path or path)
