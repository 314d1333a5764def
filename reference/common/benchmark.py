"""Reads a task's benchmark.toml, the judged facts, for the script that must reach them.

The checker reads the same file with a reader of its own (compliance/benchmarks.py): two programs that share a mistake
in reading would agree on it.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reference.common.errors import SetupError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "benchmark.toml"
SUBSETS = ("rpr", "wc")


@dataclass(frozen=True)
class Profile:
    """One scale of a benchmark. Counts are samples; `eval_every` is in the benchmark's unit of progress."""

    name: str
    dataset: str
    train_samples: int
    eval_samples: int
    eval_every: int
    runs: int
    quality_metric: str
    quality_range: tuple[float, float]
    better: str
    quality_target: float | None = None
    target_source: str | None = None
    packages: tuple[str, ...] = ()

    def reached(self, value: float) -> bool:
        """Whether `value` is as good as the target or better; False in a profile without a target."""
        if self.quality_target is None:
            return False
        return value >= self.quality_target if self.better == "higher" else value <= self.quality_target


@dataclass(frozen=True)
class Benchmark:
    """What is judged. `name` is the folder's name, `progress` the unit: "epoch_num" or "samples_count"."""

    name: str
    title: str
    model: str
    progress: str
    subsets: tuple[str, ...]
    profiles: dict[str, Profile]
    hyperparameters: dict[str, dict[str, Any]]


def load(folder: Path) -> Benchmark:
    """Read `folder`/benchmark.toml. Raises SetupError, naming the file and the key, for anything unknown or missing."""
    path = folder / FILE
    try:
        with path.open("rb") as file:
            facts = tomllib.load(file)
    except OSError as error:
        raise SetupError(f"{path}: cannot be read: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise SetupError(f"{path}: not TOML: {error}") from None

    where = str(path)
    top = {"title": str, "model": str, "progress": str, "subsets": list, "profile": dict, "hyperparameters": dict}
    shared = {"quality_metric": str, "quality_range": list, "better": str}
    _check(facts, {**top, **shared}, where, optional=("subsets",))
    _one_of(facts["progress"], ("epoch_num", "samples_count"), where, "progress")
    for subset in facts.get("subsets", []):
        _one_of(subset, SUBSETS, where, "subsets")
    inherited = {key: facts[key] for key in shared}
    profiles = {name: _profile(name, {**inherited, **own}, where) for name, own in facts["profile"].items()}
    return Benchmark(
        name=folder.name,
        title=facts["title"],
        model=facts["model"],
        progress=facts["progress"],
        subsets=tuple(facts.get("subsets", [])),
        profiles=profiles,
        hyperparameters=facts["hyperparameters"],
    )


def _profile(name: str, facts: dict[str, Any], where: str) -> Profile:
    where = f"{where} [profile.{name}]"
    _one_of(name, ("full", "embedded", "smoke"), where, "the profile's name")
    kinds = {"dataset": str, "train_samples": int, "eval_samples": int, "eval_every": int, "runs": int}
    kinds |= {"quality_metric": str, "quality_range": list, "better": str}
    optional = {"quality_target": float, "target_source": str, "packages": list}
    _check(facts, {**kinds, **optional}, where, optional=tuple(optional))
    _one_of(facts["better"], ("higher", "lower"), where, "better")
    for key in ("train_samples", "eval_samples", "eval_every", "runs"):
        if facts[key] < 1:
            raise SetupError(f"{where}: {key} must be at least 1, not {facts[key]}")
    low, high = _range(facts["quality_range"], where)
    target = facts.get("quality_target")
    if target is not None and not (math.isfinite(target) and low <= target <= high):
        raise SetupError(f"{where}: quality_target {target} lies outside quality_range {low}..{high}")
    values = {**facts, "name": name, "quality_range": (low, high), "packages": tuple(facts.get("packages", ()))}
    values["quality_target"] = None if target is None else float(target)
    return Profile(**{field.name: values.get(field.name) for field in dataclasses.fields(Profile)})


def _range(value: list[Any], where: str) -> tuple[float, float]:
    if len(value) == 2 and all(isinstance(end, (int, float)) for end in value) and value[0] < value[1]:
        return float(value[0]), float(value[1])
    raise SetupError(f"{where}: quality_range must be [low, high], not {value}")


def _check(facts: dict[str, Any], kinds: dict[str, type], where: str, optional: tuple[str, ...]) -> None:
    """Unknown, missing and wrongly typed keys of one table."""
    for key, value in facts.items():
        if key not in kinds:
            near = difflib.get_close_matches(key, kinds, 1)
            raise SetupError(f"{where}: unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        kind = kinds[key]
        fits = isinstance(value, (int, float) if kind is float else kind) and not isinstance(value, bool)
        if not fits:
            raise SetupError(f"{where}: {key} must be {kind.__name__}, not {value!r}")
    missing = [key for key in kinds if key not in facts and key not in optional]
    if missing:
        raise SetupError(f"{where}: missing {', '.join(missing)}")


def _one_of(value: str, allowed: tuple[str, ...], where: str, key: str) -> None:
    if value not in allowed:
        raise SetupError(f"{where}: {key} must be one of {', '.join(allowed)}, not {value!r}")


def check_closed(benchmark: Benchmark, settings: Any) -> None:
    """Raise SetupError, naming all breaks, unless `settings` (a dataclass) keep the closed division's limits."""
    broken = []
    for key, limits in benchmark.hyperparameters.items():
        if not hasattr(settings, key):
            broken.append(f"{key} is not among the settings")
            continue
        value = getattr(settings, key)
        for limit, bound in limits.items():
            if not _fits(limit, bound, value):
                broken.append(f"{key} is {value!r}, allowed is {limit} {bound!r}")
    if broken:
        flag = "use --division open to change what the closed division fixes"
        raise SetupError(f"{benchmark.name}, closed division: {'; '.join(broken)}\n  {flag}")


def _fits(limit: str, bound: Any, value: Any) -> bool:
    numeric = isinstance(value, (int, float)) and not isinstance(value, bool)
    plain = list(value) if isinstance(value, tuple) else value  # TOML has lists only
    kinds = {"integer": int, "number": (int, float), "string": str, "boolean": bool, "list": (list, tuple)}
    tests = {
        "one_of": lambda: plain in bound,
        "equals": lambda: plain == bound,
        "above": lambda: numeric and value > bound,
        "min": lambda: numeric and value >= bound,
        "max": lambda: numeric and value <= bound,
        "type": lambda: isinstance(value, kinds[bound]) and (bound == "boolean" or not isinstance(value, bool)),
    }
    if limit not in tests:
        raise SetupError(f"{FILE} [hyperparameters]: unknown limit {limit!r}; known: {', '.join(tests)}")
    return bool(tests[limit]())
