"""The judged facts of the suite's benchmarks, read as data from reference/*/benchmark.toml.

The folder's name is the benchmark's name. Unknown keys are refused with the nearest known one, so that a typing
error in a judged number cannot pass for an absent one.
"""

from __future__ import annotations

import difflib
import math
import operator
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REFERENCE = Path(__file__).resolve().parent.parent / "reference"
PROGRESS_UNITS = ("epoch_num", "samples_count")
TARGET_SOURCES = {
    "S": "found in a source",
    "M": "MLPerf's rules",
    "R": "recalled from AIBench's paper, no copy at hand",
    "O": "ours",
    "E": "measured: the seeds in the task's evidence folder",
}
_TYPES: dict[str, type | tuple[type, ...]] = {
    "integer": int,
    "number": (int, float),
    "string": str,
    "boolean": bool,
    "list": list,
}


class FactsError(ValueError):
    """A benchmark.toml that cannot be used; the text names the file, the key, what was expected and what was found."""


@dataclass(frozen=True)
class Constraint:
    """What the closed division allows for one hyperparameter. Bounds are inclusive, `above` is exclusive."""

    type: str | None = None
    one_of: tuple[Any, ...] | None = None
    equals: Any = None
    min: float | None = None
    max: float | None = None
    above: float | None = None

    def describe(self) -> str:
        """The constraint in words."""
        parts = [f"a {self.type}"] if self.type else []
        if self.one_of is not None:
            parts.append("one of " + ", ".join(map(repr, self.one_of)))
        if self.equals is not None:
            parts.append(repr(self.equals))
        parts += [f"{word} {bound:g}" for word, bound in self._bounds()]
        return ", ".join(parts) or "any finite value"

    def _bounds(self) -> list[tuple[str, float]]:
        bounds = (("above", self.above), ("at least", self.min), ("at most", self.max))
        return [(word, bound) for word, bound in bounds if bound is not None]

    def allows(self, value: Any) -> bool:
        """Whether `value`, as decoded from a log, is allowed. True and False are no numbers; NaN never passes."""
        if isinstance(value, float) and not math.isfinite(value):
            return False
        is_boolean = isinstance(value, bool)
        if self.type and (is_boolean != (self.type == "boolean") or not isinstance(value, _TYPES[self.type])):
            return False
        if self.one_of is not None and not any(_same(value, allowed) for allowed in self.one_of):
            return False
        if self.equals is not None and not _same(value, self.equals):
            return False
        if not self._bounds():
            return True
        if is_boolean or not isinstance(value, int | float):
            return False
        compare = {"above": operator.gt, "at least": operator.ge, "at most": operator.le}
        return all(compare[word](value, bound) for word, bound in self._bounds())


def _same(value: Any, allowed: Any) -> bool:
    if isinstance(value, bool) or isinstance(allowed, bool) or not isinstance(allowed, int | float):
        return type(value) is type(allowed) and bool(value == allowed)
    if isinstance(value, int) and isinstance(allowed, int):
        return value == allowed
    in_range = isinstance(value, int | float) and abs(value) < 2**63
    return in_range and math.isclose(value, allowed, rel_tol=1e-9, abs_tol=0.0)


@dataclass(frozen=True)
class Facts:
    """What one benchmark in one profile asks of a run. None: not judged.

    `quality_key` is the log key of the judged evaluations. `quality_range` is in the unit of the metric, `eval_every`
    in that of `progress` (epochs, or samples). `dropped` is the number of runs that scoring leaves out at each end.
    `untimed_evaluations`: evaluations are made after the run, so that their place in the log counts and not their time
    (MiniGo). `numbers_as_text`: the round's logs may quote numbers.
    """

    benchmark: str
    profile: str | None = None
    title: str = ""
    model: str = ""
    dataset: str = ""
    quality_metric: str = "eval_accuracy"
    quality_key: str = "eval_accuracy"
    quality_range: tuple[float, float] | None = None
    better: str = "higher"
    quality_target: float | None = None
    target_source: str = ""
    progress: str | None = None
    eval_every: float | None = None
    train_samples: int | None = None
    eval_samples: int | None = None
    runs: int | None = None
    dropped: int = 1
    untimed_evaluations: bool = False
    numbers_as_text: bool = False
    hyperparameters: Mapping[str, Constraint] = field(default_factory=dict)
    subsets: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()

    def reaches(self, value: float) -> bool:
        """Whether an evaluation at `value` reaches the quality target. False without a target and for NaN."""
        if self.quality_target is None:
            return False
        return value >= self.quality_target if self.better == "higher" else value <= self.quality_target


_TOP: dict[str, type | tuple[type, ...]] = {
    "title": str,
    "model": str,
    "quality_metric": str,
    "quality_range": list,
    "better": str,
    "progress": str,
    "subsets": list,
    "profile": dict,
    "hyperparameters": dict,
}
_PROFILE: dict[str, type | tuple[type, ...]] = {
    "dataset": str,
    "train_samples": int,
    "eval_samples": int,
    "quality_target": (int, float),
    "target_source": str,
    "eval_every": (int, float),
    "runs": int,
    "packages": list,
    "quality_metric": str,
    "quality_range": list,
    "better": str,
}
_REQUIRED_TOP = ("title", "model", "quality_metric", "quality_range", "better", "progress", "profile")
_REQUIRED_PROFILE = ("dataset", "train_samples", "eval_samples", "eval_every", "runs")


@cache
def benchmarks() -> dict[str, dict[str, Facts]]:
    """Facts of every benchmark of the suite: {benchmark: {profile: Facts}}. Raises FactsError."""
    return {path.parent.name: load(path) for path in sorted(REFERENCE.glob("*/benchmark.toml"))}


def load(path: Path) -> dict[str, Facts]:
    """The profiles of one benchmark.toml. Raises FactsError."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise FactsError(f"{path}: {error}") from None
    name = path.parent.name
    if "name" in table and table.pop("name") != name:
        raise FactsError(f"{path}: name: expected {name!r}, the folder's name")
    _check_keys(path, "", table, _TOP, _REQUIRED_TOP)
    profiles = {}
    for profile, values in table["profile"].items():
        where = f"profile.{profile}."
        if not isinstance(values, dict):
            raise FactsError(f"{path}: {where[:-1]}: expected a table, found {values!r}")
        _check_keys(path, where, values, _PROFILE, _REQUIRED_PROFILE)
        profiles[profile] = _facts(path, name, profile, {**table, **values})
    return profiles


def _facts(path: Path, name: str, profile: str, values: dict[str, Any]) -> Facts:
    def one_of(key: str, allowed: tuple[str, ...]) -> str:
        if values[key] not in allowed:
            raise FactsError(f"{path}: {key}: expected one of {', '.join(allowed)}, found {values[key]!r}")
        return str(values[key])

    bounds = values["quality_range"]
    if len(bounds) != 2 or not all(isinstance(b, int | float) for b in bounds) or not bounds[0] < bounds[1]:
        raise FactsError(f"{path}: quality_range: expected [lowest, highest], found {bounds!r}")
    target = values.get("quality_target")
    if target is not None:
        if not bounds[0] <= target <= bounds[1]:
            raise FactsError(f"{path}: profile.{profile}.quality_target: {target} is outside quality_range {bounds}")
        one_of("target_source", tuple(TARGET_SOURCES)) if "target_source" in values else _missing(path, profile)
    return Facts(
        benchmark=name,
        profile=profile,
        title=values["title"],
        model=values["model"],
        dataset=values["dataset"],
        quality_metric=values["quality_metric"],
        quality_range=(float(bounds[0]), float(bounds[1])),
        better=one_of("better", ("higher", "lower")),
        quality_target=None if target is None else float(target),
        target_source=values.get("target_source", ""),
        progress=one_of("progress", PROGRESS_UNITS),
        eval_every=values["eval_every"],
        train_samples=values["train_samples"],
        eval_samples=values["eval_samples"],
        runs=values["runs"],
        hyperparameters={k: _constraint(path, k, v) for k, v in values.get("hyperparameters", {}).items()},
        subsets=tuple(values.get("subsets", ())),
        packages=tuple(values.get("packages", ())),
    )


def _missing(path: Path, profile: str) -> None:
    sources = ", ".join(f"{k} ({v})" for k, v in TARGET_SOURCES.items())
    raise FactsError(f"{path}: profile.{profile}.target_source: missing; expected one of {sources}")


def _constraint(path: Path, key: str, values: Any) -> Constraint:
    where = f"hyperparameters.{key}"
    if not isinstance(values, dict):
        raise FactsError(f"{path}: {where}: expected a table such as {{ min = 0.0 }}, found {values!r}")
    number = (int, float)
    known = {"type": str, "one_of": list, "equals": object, "min": number, "max": number, "above": number}
    _check_keys(path, where + ".", values, known, ())
    if values.get("type", "number") not in _TYPES:
        raise FactsError(f"{path}: {where}.type: expected one of {', '.join(_TYPES)}, found {values['type']!r}")
    if "one_of" in values:
        values = {**values, "one_of": tuple(values["one_of"])}
    return Constraint(**values)


def _check_keys(
    path: Path, where: str, values: dict[str, Any], known: Mapping[str, Any], required: tuple[str, ...]
) -> None:
    for key, value in values.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else "known keys: " + ", ".join(known)
            raise FactsError(f"{path}: {where}{key}: unknown key; {hint}")
        if not isinstance(value, known[key]) or (isinstance(value, bool) and known[key] is not object):
            raise FactsError(f"{path}: {where}{key}: expected {_words(known[key])}, found {value!r}")
    for key in required:
        if key not in values:
            raise FactsError(f"{path}: {where}{key}: missing")


def _words(types: Any) -> str:
    words = {int: "an integer", float: "a number", str: "a string", list: "a list", dict: "a table"}
    return words[types] if isinstance(types, type) else "a number"
