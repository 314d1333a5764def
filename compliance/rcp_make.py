"""Reference convergence points from evidence: how long the reference trains to its target, over many seeds.

One record a profile and batch size, in the shape of MLPerf's reference files, made from logs alone. The same logs give
the same bytes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from compliance.benchmarks import REFERENCE
from compliance.rule import Finding, all_rules
from compliance.rulesets import SUITE, resolve
from compliance.run import Run
from compliance.verdict import Checker, LogVerdict

FILE_NAME = "rcps.json"
UNIT_MEMBERS = {"epoch_num": "Epochs to converge", "samples_count": "Samples to converge"}


class EvidenceError(ValueError):
    """Evidence that gives no reference points; the text has one line for each reason."""


def task_folder(folder: Path) -> Path | None:
    """The folder with a benchmark.toml that `folder` is in, or is."""
    for one in (folder.resolve(), *folder.resolve().parents):
        if (one / "benchmark.toml").is_file():
            return one
    return None


def make(folder: Path, home: Path) -> str:
    """The text of an rcps.json from all logs below `folder`; log names in it are relative to `home`.

    Raises EvidenceError where a log breaks a rule, a record mixes what must not be mixed, or there is no log, and
    FileNotFoundError where there is no such folder.
    """
    checker = Checker(all_rules(), resolve(SUITE), partial=True, keep_runs=True)
    report = checker.check([folder])
    if not report.logs:
        raise EvidenceError(f"{folder}: no result logs")
    broken = [finding for log in report.logs for finding in log.findings if finding.severity == "error"]
    groups: dict[tuple[str, str, Any], list[LogVerdict]] = {}
    if not broken:
        for log in report.logs:
            groups.setdefault((str(log.benchmark), str(log.profile), log.runs[0].batch_size), []).append(log)
        for (benchmark, profile, batch_size), logs in groups.items():
            broken += checker.check_set(f"{folder} ({benchmark}/{profile}, batch size {batch_size})", logs).findings
            broken += _mixed(logs)
        names = sorted({benchmark for benchmark, _, _ in groups})
        if len(names) > 1:
            broken.append(Finding("one file holds one benchmark", found=", ".join(names), path=str(folder)))
    if broken:
        raise EvidenceError("\n".join(_line(finding) for finding in broken))
    records = {}
    for (benchmark, profile, batch_size), logs in sorted(groups.items(), key=lambda item: (item[0][1], item[0][2])):
        records[f"{benchmark}_{profile}_{batch_size}"] = _record(logs, home)
    return json.dumps(records, indent=2, ensure_ascii=False) + "\n"


def _mixed(logs: list[LogVerdict]) -> Iterator[Finding]:
    """What the runs of one record must have in common, and profiles that cannot have a record."""
    runs = [log.runs[0] for log in logs]
    first = runs[0]
    if first.facts.quality_target is None:
        yield Finding(f"profile {first.profile} has no quality target to converge to", path=first.path)
    if all(not run.converged for run in runs):
        yield Finding("no run reached the quality target", path=first.path)
    for key in (*first.facts.hyperparameters, "lowest_numerical_precision"):
        for run in runs[1:]:
            if run.value(key) != first.value(key):
                found = f"{first.value(key)} in {Path(first.path).name}, {run.value(key)} in {Path(run.path).name}"
                yield Finding(f"{key} differs within one record", run.line(run.first(key)), found=found, path=run.path)


def _line(finding: Finding) -> str:
    place = f"{finding.path}:{finding.line}" if finding.line else finding.path
    expected = f"; expected {finding.expected}" if finding.expected else ""
    found = f"; found {finding.found}" if finding.found else ""
    return f"{place}: {finding.rule} {finding.message}{expected}{found}".replace(":  ", ": ")


def _record(logs: list[LogVerdict], home: Path) -> dict[str, Any]:
    runs = sorted((log.runs[0] for log in logs), key=lambda run: run.seeds[0])
    first = runs[0]
    converged = [run for run in runs if run.converged]
    record = {
        "Benchmark": first.benchmark,
        "Profile": first.profile,
        "BS": first.batch_size,
        "Hyperparams": {
            key: first.value(key) for key in sorted(first.facts.hyperparameters) if key != "global_batch_size"
        },
        UNIT_MEMBERS[str(first.progress_unit)]: [run.progress_at_target for run in converged],
        "Seeds": [run.seeds[0] for run in converged],
        "Seeds that did not converge": [run.seeds[0] for run in runs if not run.converged],
        "Creator": first.value("submission_org"),
        "When": max(_day(run) for run in runs),
        "Platform": first.value("submission_platform"),
        "Precision": first.value("lowest_numerical_precision"),
        "Logs": [Path(os.path.relpath(run.path, home)).as_posix() for run in converged],
    }
    return {key: value for key, value in record.items() if value != [] or not key.startswith("Seeds that")}


def _day(run: Run) -> str:
    """The day on which a run began, in UTC."""
    time_ms = run.start.time_ms if run.start else None
    return datetime.fromtimestamp(float(time_ms or 0) / 1000, tz=timezone.utc).strftime("%Y-%m-%d")


def paths(folder: Path, out: Path | None) -> tuple[Path, Path]:
    """What to read and where to write: a task's rcps.json is always made from its whole evidence folder.

    Raises EvidenceError where `folder` is in no task and no `out` is given.
    """
    if out is not None:
        return folder, out
    task = task_folder(folder)
    if task is None:
        raise EvidenceError(f"{folder}: in no folder with a benchmark.toml; say where to write with --out")
    return task / "evidence", task / FILE_NAME


def committed() -> list[Path]:
    """Every rcps.json of the suite's tasks."""
    return sorted(REFERENCE.glob(f"*/{FILE_NAME}"))
