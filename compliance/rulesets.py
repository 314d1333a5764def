"""Which rules judge a log: the suite's own, or an official MLPerf round."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from compliance.benchmarks import REFERENCE, Facts, benchmarks
from compliance.loglines import Log
from compliance.run import Run

SUITE = "suite"
AUTO = "auto"
_DROPPED = {"unet3d": 4}  # MLPerf Training rules, section on results: unet3d drops four of its 40 runs at each end
_UNTIMED_EVALUATIONS = ("minigo",)  # MLPerf Training rules: MiniGo's models are evaluated after the run, off the clock
_ROUND_IN_PATH = re.compile(r"^(?:training_results_|hpc_results_|hpc_)?v?(\d+\.\d+)(?:\.\d+)?$", re.IGNORECASE)


class RulesetError(ValueError):
    """A ruleset that does not exist, or a log whose ruleset cannot be told; the text lists the candidates."""


@dataclass(frozen=True)
class Ruleset:
    """A resolved ruleset and why it was chosen. `official` is the adaptor's ruleset for an MLPerf round."""

    name: str
    reason: str
    sha256: str
    official: Any = None

    @property
    def suite(self) -> bool:
        return self.official is None

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent to another process by name: the compiled rule sheets stay where they are."""
        return _resolved, (self.name, self.reason)

    @property
    def profile_names(self) -> Mapping[str, Collection[str]] | None:
        """The suite's benchmarks and their profiles; None for an MLPerf round."""
        return {name: list(profiles) for name, profiles in benchmarks().items()} if self.suite else None

    def facts(self, run: Run) -> Facts | None:
        """What the benchmark of a run asks for, None where this ruleset does not know it."""
        name = run.benchmark
        if name is None:
            return None
        if self.suite:
            return benchmarks().get(name, {}).get(run.profile or "")
        return _round_facts(self, name, run.division or "closed")


@cache
def _round_facts(ruleset: Ruleset, name: str, division: str) -> Facts | None:
    """What an MLPerf round asks of a benchmark, as far as its sheets say so in a way that can be read off."""
    target = ruleset.official.quality_target(name, division)
    runs = ruleset.official.required_runs(name)
    if target is None and runs is None:
        return None
    value, better = target or (None, "higher")
    key = (ruleset.official.quality_key(name, division) if target else None) or "eval_accuracy"
    return Facts(
        benchmark=name,
        quality_metric=key,
        quality_key=key,
        quality_target=value,
        better=better,
        runs=runs,
        dropped=_DROPPED.get(name, 1),
        untimed_evaluations=name in _UNTIMED_EVALUATIONS,
        numbers_as_text=ruleset.official.version == "0.6.0",
    )


def resolve(name: str, reason: str = "given") -> Ruleset:
    """The ruleset called `name`. Raises RulesetError."""
    if name == SUITE:
        return Ruleset(SUITE, reason, _suite_hash())
    from compliance import mlperf

    try:
        official = mlperf.ruleset(name)
    except ValueError as error:
        raise RulesetError(str(error)) from None
    return Ruleset(official.name, reason, official.sha256, official)


def choose(log: Log) -> Ruleset:
    """The ruleset of a log, from its keys and its benchmark, then from its folders. Raises RulesetError."""
    run = Run(log, log.events, None)
    name = run.benchmark
    if run.first("benchmark_profile") is not None:
        return _resolved(SUITE, "the log names a benchmark_profile")
    if name in benchmarks():
        return _resolved(SUITE, f"{name} is a benchmark of the suite")
    if name is None:
        return _resolved(SUITE, "the log names no benchmark")
    if not log.clean and _of_round_0_5(log):
        raise RulesetError("logs of round 0.5 have no ruleset, here or officially; see python -m compliance.analyze")
    candidates = _rounds_with(name)
    if not candidates:
        return _resolved(SUITE, f"no MLPerf round knows the benchmark {name}")
    for part in reversed(Path(log.path).parts[:-1]):
        match = _ROUND_IN_PATH.match(part)
        if match is None:
            continue
        usage = "hpc" if part.lower().startswith("hpc") else "training"
        named = [c for c in candidates if c.startswith(f"mlperf-{usage}-{match[1]}.") and not c.endswith("_warn")]
        if len(named) == 1:
            return _resolved(named[0], f"the folder {part}")
    if len(candidates) == 1:
        return _resolved(candidates[0], f"the only round with the benchmark {name}")
    listed = ", ".join(candidates)
    raise RulesetError(f"benchmark {name} is in several rounds: choose one with --ruleset ({listed})")


def _of_round_0_5(log: Log) -> bool:
    with log.open() as file:
        return b":::MLPv0.5" in file.read(1 << 20)


@cache
def _rounds_with(benchmark: str) -> list[str]:
    """The MLPerf rounds that have a rule sheet for a benchmark, oldest first."""
    from compliance import mlperf

    return [label for label, sheets in mlperf.available().items() if _knows(sheets.folder, benchmark)]


def _knows(folder: Path, benchmark: str) -> bool:
    names = (f"closed_{benchmark}.yaml", f"open_{benchmark}.yaml", f"{benchmark}.yaml")
    return benchmark.isidentifier() and any((folder / name).is_file() for name in names)


@cache
def _resolved(name: str, reason: str) -> Ruleset:
    return resolve(name, reason)


@cache
def _suite_hash() -> str:
    digest = hashlib.sha256()
    rules = sorted((Path(__file__).parent / "rules").glob("*.py"))
    for path in [*rules, *sorted(REFERENCE.glob("*/benchmark.toml"))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
