"""The set of a benchmark's runs in one folder: what rules about sets look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from compliance.benchmarks import Facts
from compliance.run import Run


@dataclass
class ResultSet:
    """All runs of one benchmark in one folder. `runs` holds the logs that hold one run each, in name order.

    `partial`: the set is known to be incomplete, and no run count is asked for.
    """

    path: str
    runs: list[Run]
    files: list[str]
    facts: Facts = field(default_factory=lambda: Facts(benchmark=""))
    partial: bool = False
    suite: bool = True

    @property
    def weak(self) -> bool:
        """Whether the runs are models trained at the same time (MLPerf HPC), of which there may be any number."""
        return not self.suite and PurePath(self.path).parent.name == "weak"

    @property
    def may_miss(self) -> int:
        """How many runs may fail to converge: as many as are dropped at the slow end; of weak scaling any number."""
        return len(self.runs) if self.weak else self.facts.dropped

    @property
    def converged(self) -> list[Run]:
        return [run for run in self.runs if run.converged]

    @property
    def benchmark(self) -> str | None:
        return next((run.benchmark for run in self.runs if run.benchmark), None)

    def differing(self, key: str) -> Iterator[tuple[Any, list[Run]]]:
        """The runs by their first value of `key`, if there is more than one value."""
        groups: dict[str, tuple[Any, list[Run]]] = {}
        for run in self.runs:
            groups.setdefault(repr(run.value(key)), (run.value(key), []))[1].append(run)
        if len(groups) > 1:
            yield from groups.values()

    def name(self, run: Run) -> str:
        """A run's file name."""
        return PurePath(run.path).name
