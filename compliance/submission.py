"""A submission as data: sets of runs, system descriptions, and what else lies in the folders.

``<org>/results/<system>/<benchmark>/result_*.txt``, ``<org>/systems/<system>.json``; MLPerf HPC has a folder
``strong`` or ``weak`` between system and benchmark. Found at any level: a round, an organization, one system.
Nothing is ever written into a submission.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from compliance.systems import System, read

RESULT_NAME = "result_*.txt"
PARAMS = "package_checker_params"
FLAGS = {"rcp-bypass": ("U019",), "seed-checker-bypass": ("I007", "I008", "I009", "S003")}
"""What a params file in a system's or a benchmark's folder may ask for, with the rules that then only warn."""

ALIASES = {"mask": "maskrcnn"}
MOST_BYTES = 50 << 20


@dataclass(frozen=True)
class Place:
    """Where a folder of runs stands: `root` is the organization's folder, `scaling` is "", "strong" or "weak"."""

    root: Path
    system: str
    scaling: str
    folder: str

    @property
    def benchmark(self) -> str:
        return ALIASES.get(self.folder, self.folder)


def place_of(folder: Path) -> Place | None:
    """The place of a folder of runs, None where it is in no submission's results folder."""
    parts = folder.absolute().parts
    for index in range(len(parts) - 1, 0, -1):
        if parts[index] == "results":
            rest = parts[index + 1 :]
            root = Path(*parts[:index])
            if len(rest) == 2:
                return Place(root, rest[0], "", rest[1])
            if len(rest) == 3 and rest[1] in ("strong", "weak"):
                return Place(root, rest[0], rest[1], rest[2])
            return None
    return None


def misplaced(folder: Path) -> bool:
    """Whether a folder of runs lies in a submission's results, but where no tool looks for it."""
    path = folder.absolute()
    return place_of(path) is None and any(
        above.name == "results" and (above.parent / "systems").is_dir() for above in path.parents
    )


@dataclass
class Params:
    """The flags of the params files that hold for one folder: (flag, path, line), and lines that are no flag."""

    flags: list[tuple[str, Path, int]] = field(default_factory=list)
    unknown: list[tuple[str, Path, int]] = field(default_factory=list)

    @property
    def mild(self) -> set[str]:
        """The rules that only warn."""
        return {rule for flag, _, _ in self.flags for rule in FLAGS[flag]}


def params_of(folder: Path) -> Params:
    """The params files that hold for a folder of runs: its own and its system's; none outside of a submission.

    Lines are stripped. A file that cannot be read is one unknown line.
    """
    params = Params()
    place = place_of(folder)
    if place is None:
        return params
    for home in [folder, *list(folder.absolute().parents)[: 2 if place.scaling else 1]]:
        path = home / PARAMS
        if not path.is_file():
            continue
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            params.unknown.append((str(error.strerror), path, 0))
            continue
        for number, line in enumerate(lines, 1):
            flag = line.strip().removeprefix("--").replace("_", "-")
            if flag:
                (params.flags if flag in FLAGS else params.unknown).append((flag, path, number))
    return params


@dataclass
class ResultFolder:
    """One set of runs: its verdict, its logs' verdicts, and the result files in which there is no record."""

    place: Place
    path: str
    verdict: Any
    logs: list[Any]
    empty: list[str] = field(default_factory=list)
    params: Params = field(default_factory=Params)

    @property
    def misnamed(self) -> list[Any]:
        """Logs that MLPerf's tools would not see, for their name."""
        return [log for log in self.logs if not fnmatch(Path(log.path).name, RESULT_NAME)]


@dataclass
class Submission:
    """One organization's folder, or the part of it that was given. `files`: every file and folder in that part.

    `system_folders` are all folders in its results, also those without logs; empty unless the whole of it was given.
    `path` and all paths in it are written as the caller wrote them. `official`: an MLPerf round judges it; `version`
    is that round as numbers. `loose`: no submission at all, but sets of runs in other folders. `partial`: its sets are
    known to be incomplete, and nothing is asked that takes all of their runs.
    """

    path: str
    name: str
    systems: dict[str, System] = field(default_factory=dict)
    folders: list[ResultFolder] = field(default_factory=list)
    large: list[tuple[str, int]] = field(default_factory=list)
    broken_links: list[str] = field(default_factory=list)
    odd_names: list[str] = field(default_factory=list)
    misplaced: list[str] = field(default_factory=list)
    system_folders: list[str] = field(default_factory=list)
    official: bool = False
    version: tuple[int, ...] = ()
    findings: list[Any] = field(default_factory=list)
    loose: bool = False
    partial: bool = False

    @property
    def valid(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)

    @property
    def overrides(self) -> list[tuple[str, str, int]]:
        """Every flag of a params file: the flag, the file, the line."""
        found = {(flag, str(path), line) for folder in self.folders for flag, path, line in folder.params.flags}
        return sorted(found, key=lambda one: one[1:])

    def system(self, name: str) -> System:
        """The description of a system; one with a fault where there is none."""
        return self.systems.get(name) or System(
            name, Path(self.path, "systems", f"{name}.json"), fault="", missing=True
        )


def gather(paths: list[Path], logs: list[Any], sets: list[Any], skipped: list[tuple[str, str]]) -> list[Submission]:
    """The submissions under `paths`, of which `logs` and `sets` are the verdicts and `skipped` the files left out."""
    members: dict[str, list[Any]] = {}
    for log in logs:
        members.setdefault(os.path.dirname(log.path), []).append(log)
    empty: dict[str, list[str]] = {}
    for file, _ in skipped:
        if fnmatch(os.path.basename(file), RESULT_NAME):
            empty.setdefault(os.path.dirname(file), []).append(file)
    found: dict[Path, Submission] = {}
    astray: list[str] = []
    for one in sets:
        place = place_of(Path(one.path))
        if place is None:
            astray += [one.path] if misplaced(Path(one.path)) else []
            continue
        submission = found.get(place.root) or _begin(found, place, one.path)
        folder = ResultFolder(place, one.path, one, members.get(one.path, []))
        folder.empty = empty.get(one.path, [])
        folder.params = params_of(Path(one.path))
        submission.folders.append(folder)
        _learn_round(submission, folder.logs)
    for root, submission in found.items():
        for path in paths:
            _look(submission, root, path)
        submission.misplaced = [path for path in astray if root in Path(path).absolute().parents]
    return [found[root] for root in sorted(found)]


def _begin(found: dict[Path, Submission], place: Place, folder: str) -> Submission:
    depth = 4 if place.scaling else 3
    shown = os.path.normpath(os.path.join(folder, *[os.pardir] * depth))
    submission = found[place.root] = Submission(shown, place.root.name)
    return submission


def _learn_round(submission: Submission, logs: list[Any]) -> None:
    for log in logs:
        official = getattr(log.ruleset, "official", None)
        if official is not None:
            submission.official = True
            submission.version = tuple(int(part) for part in official.version.split("."))
            return


def _look(submission: Submission, root: Path, given: Path) -> None:
    """Walk what was given of the submission at `root`: descriptions, sizes, links, names."""
    top = given.absolute()
    if root != top and root not in top.parents and top not in root.parents:
        return
    start = given if top == root or root in top.parents else Path(submission.path)
    if start.is_dir():
        for folder, names, files in os.walk(start):
            names.sort()
            for name in sorted(names + files):
                _note(submission, os.path.join(folder, name), name)
    systems = Path(submission.path, "systems")
    wanted = {folder.place.system for folder in submission.folders}
    if start.absolute() == root:
        results = Path(submission.path, "results")
        found = sorted(path.name for path in results.iterdir() if path.is_dir()) if results.is_dir() else []
        submission.system_folders = found
    if start.absolute() == root and systems.is_dir():
        wanted |= {path.name.removesuffix(".json") for path in systems.glob("*.json")}
    for name in sorted(wanted - set(submission.systems)):
        submission.systems[name] = read(systems / f"{name}.json")


def _note(submission: Submission, path: str, name: str) -> None:
    if " " in name or name.startswith("."):
        submission.odd_names.append(path)
    if os.path.islink(path):
        if not os.path.exists(path):
            submission.broken_links.append(path)
    elif os.path.isfile(path):
        size = os.path.getsize(path)
        if size > MOST_BYTES:
            submission.large.append((path, size))
