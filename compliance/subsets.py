"""What a suite costs to run, what a subset of it saves, and how to choose one.

Two ways to choose, after AIBench: benchmarks that repeat well at little cost (RPR, repeatable performance ranking), and
any K benchmarks that rank a group of systems as the whole suite does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from compliance.analysis import Result
from compliance.benchmarks import benchmarks
from compliance.formats.tables import Column, Table, number, percent

_SHOWN = 5
_MOST_SUBSETS = 200_000


def cost_h(result: Result) -> float | None:
    """Benchmarking cost in hours of the system: the mean time of a run, times the runs that a result takes."""
    if result.mean_ms is None:
        return None
    return result.mean_ms * (result.set.wanted or len(result.outcomes)) / 3.6e6


def subset_names(text: str) -> set[str]:
    """The benchmarks in `text`: names with commas, or a subset of the suite by its name. Raises ValueError."""
    named = {
        name
        for name, profiles in benchmarks().items()
        if any(text.lower() in map(str.lower, facts.subsets) for facts in profiles.values())
    }
    names = named or {part.strip() for part in text.split(",") if part.strip()}
    if not names:
        raise ValueError(f"--subset {text!r}: no benchmark named")
    return names


def _plain(benchmark: str) -> str:
    return benchmark.partition("/")[0]


def cost_table(found: Sequence[Result], subset: Collection[str]) -> Table:
    """What each system's benchmarks cost together, and what `subset` saves of it."""
    columns = [
        Column("system", "system", left=True),
        Column("benchmarks", "benchmarks"),
        Column("hours", "hours", number(3)),
    ]
    if subset:
        columns += [
            Column("subset_benchmarks", "in the subset"),
            Column("subset_hours", "hours of it", number(3)),
            Column("saved_share", "saved", percent),
        ]
    table = Table("cost", "Benchmarking cost: mean time x runs of a result, summed over the benchmarks", columns)
    for group, members in _systems(found).items():
        costs = {_plain(r.set.benchmark): cost for r in members if (cost := cost_h(r)) is not None}
        total = sum(costs.values())
        row: dict[str, Any] = {"system": group, "benchmarks": len(costs), "hours": total}
        part = [costs[name] for name in costs if name in subset]
        row["subset_benchmarks"] = len(part)
        if part and total:
            row["subset_hours"], row["saved_share"] = sum(part), 1 - sum(part) / total
        table.rows.append(row)
    missing = sorted(set(subset) - {_plain(r.set.benchmark) for r in found})
    table.notes = [f"not among the logs: {', '.join(missing)}"] if missing else []
    return table


def _systems(found: Sequence[Result]) -> dict[str, list[Result]]:
    """The results of each system: sets whose paths differ in the benchmark's folder only, or in what is under it."""
    systems: dict[str, list[Result]] = {}
    for result in found:
        systems.setdefault(group_name(result), []).append(result)
    return systems


def group_name(result: Result) -> str:
    """A result's system as shown: its set's name without the benchmark."""
    parts = result.name.split("/")
    name = _plain(result.set.benchmark)
    rest = parts[: parts.index(name)] if name in parts else parts
    return "/".join(rest) or result.set.system or "."


def repeatable_table(found: Sequence[Result], most: float, size: int) -> Table:
    """The benchmarks whose progress to the target varies by at most `most`, the cheapest first, `size` of them chosen.

    A benchmark on several systems counts with its largest variation and its mean cost.
    """
    columns = (
        Column("benchmark", "benchmark", left=True),
        Column("variation_population", "varies", percent),
        Column("hours", "hours", number(3)),
        Column("chosen", "chosen"),
    )
    measured: dict[str, list[tuple[float, float]]] = {}
    for result in found:
        spread, cost = result.progress or result.time, cost_h(result)
        if spread is not None and cost is not None and spread.n > 1:
            measured.setdefault(_plain(result.set.benchmark), []).append((spread.population, cost))
    rows = [(max(v for v, _ in pairs), sum(c for _, c in pairs) / len(pairs), name) for name, pairs in measured.items()]
    steady = sorted((row for row in rows if row[0] <= most), key=lambda row: row[1])[:size]
    table = Table("repeatable", f"Repeatable at little cost: at most {most:.3g} of variation, the cheapest", columns)
    for row in sorted(rows):
        names = {"benchmark": row[2], "variation_population": row[0], "hours": row[1]}
        table.rows.append({**names, "chosen": "yes" if row in steady else "no"})
    total = sum(row[1] for row in rows)
    if len(steady) < size:
        table.notes.append(f"only {len(steady)} of the {size} asked for vary by so little")
    if steady and total:
        table.notes.append(f"the subset saves {1 - sum(row[1] for row in steady) / total:.2%} of the cost of all")
    table.notes.append("varies: of epochs or samples to the target, of time where a log gives neither; population")
    return table


@dataclass(frozen=True)
class Grid:
    """Systems that all ran the same benchmarks: seconds by system and benchmark, and each benchmark's mean cost."""

    systems: list[str]
    benchmarks: list[str]
    seconds: dict[tuple[str, str], float]
    cost: dict[str, float]


def grid(found: Sequence[Result], least: int) -> Grid | None:
    """The largest group of systems with more than `least` benchmarks in common; None if there are no two of them.

    Systems are taken in the order of how many benchmarks they ran, as long as systems x benchmarks grows.
    """
    times: dict[str, dict[str, Result]] = {}
    for result in found:
        if result.olympic_ms is not None:
            times.setdefault(group_name(result), {})[_plain(result.set.benchmark)] = result
    order = sorted(times, key=lambda name: (-len(times[name]), name))
    best: tuple[int, list[str], set[str]] = (0, [], set())
    for first in range(len(order)):
        chosen, common = [order[first]], set(times[order[first]])
        for name in order[first + 1 :]:
            if len(common & set(times[name])) > least:
                chosen, common = [*chosen, name], common & set(times[name])
            if len(chosen) > 1 and len(common) > least and len(chosen) * len(common) > best[0]:
                best = (len(chosen) * len(common), list(chosen), set(common))
    _, systems, names = best
    if not systems:
        return None
    seconds = {(s, b): float(times[s][b].olympic_ms or 0) / 1000 for s in systems for b in names}
    cost = {b: sum(cost_h(times[s][b]) or 0.0 for s in systems) / len(systems) for b in names}
    return Grid(systems, sorted(names), seconds, cost)


def ranking(cells: Grid, names: Sequence[str]) -> list[str]:
    """The systems from fast to slow by the geometric mean of their times on `names`."""
    means = {s: math.fsum(math.log(cells.seconds[s, b]) for b in names) for s in cells.systems}
    return sorted(cells.systems, key=lambda system: (means[system], system))


def ranking_table(found: Sequence[Result], size: int) -> Table:
    """The cheapest subsets of `size` benchmarks that rank the systems as all benchmarks do."""
    columns = (
        Column("subset", "subset", left=True),
        Column("hours", "hours", number(3)),
        Column("saved_share", "saved", percent),
    )
    table = Table("ranking", f"{size} benchmarks that keep the ranking of all", columns)
    cells = grid(found, size)
    if cells is None:
        table.notes = [f"no two systems here have more than {size} benchmarks in common"]
        return table
    count = math.comb(len(cells.benchmarks), size)
    if count > _MOST_SUBSETS:
        table.notes = [f"{count} subsets are too many to try"]
        return table
    whole, total = ranking(cells, cells.benchmarks), sum(cells.cost.values())
    keeping = [names for names in itertools.combinations(cells.benchmarks, size) if ranking(cells, names) == whole]
    keeping.sort(key=lambda names: sum(cells.cost[name] for name in names))
    for names in keeping[:_SHOWN]:
        hours = sum(cells.cost[name] for name in names)
        table.rows.append({"subset": ", ".join(names), "hours": hours, "saved_share": 1 - hours / total})
    table.notes = [
        f"{len(keeping)} of {count} subsets keep it; ranked by the geometric mean of olympic times",
        f"all: {', '.join(cells.benchmarks)}",
        f"fast to slow: {', '.join(whole)}",
    ]
    return table
