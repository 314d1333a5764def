"""The table of scores: one row a system, one column a benchmark, from judged sets of runs.

A score here is the strict one: no score where a rule is broken or the number of runs is wrong. Beside it stands what
MLPerf's own summarizer prints, and where the two differ the named defect of that tool which explains it.
"""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from compliance.official_score import FolderFacts, OfficialScore, WeakScore, mean_of, official_score, weak_score
from compliance.submission import Submission
from compliance.systems import System

NORMALIZATIONS = ("published", "computed", "none")
DEFECTS = {
    "run-count": "MLPerf's summarizer does not count the runs of a set",
    "broken-rule": "MLPerf's summarizer takes a log that breaks a rule for a run that did not converge, and drops it",
    "unseen": "MLPerf's summarizer goes by the round's rules, which do not ask for what is broken in these logs",
    "set-rule": "MLPerf's summarizer does not compare the runs of a set: seeds, batch sizes, copies",
    "status": "MLPerf's summarizer does not look at the status of a run, and scores aborted ones",
    "clock": "MLPerf's summarizer takes what clock records come handy, also in the wrong order",
    "traceback": "MLPerf's summarizer ends in a traceback",
    "name": "MLPerf's summarizer sees only files called result_*.txt",
    "unknown": "not explained",
}


@dataclass
class Cell:
    """The result of one set of runs in the table.

    `minutes` is the normalized score, None with the `reason`; `exact_ms` the same, exact, before normalization.
    `factor` multiplies it, from `factor_source`: scaling.json, the convergence test, or nothing. `broken`: how often
    each rule is broken here.
    """

    benchmark: str
    verdict: Any
    facts: FolderFacts
    official: OfficialScore
    factor: float = 1.0
    factor_source: str = ""
    minutes: float | None = None
    exact_ms: Fraction | None = None
    reason: str = ""
    defect: str = ""
    notes: list[str] = field(default_factory=list)
    broken: dict[str, int] = field(default_factory=dict)
    weak: WeakScore | None = None


@dataclass
class Row:
    """One system. `values` are the columns of MLPerf's summary before the benchmarks, as it writes them.

    `listed`: MLPerf's summary has the row, which it leaves out where the description lacks a field. `strong`: it has
    it among the strong scaling scores, in MLPerf HPC only if there is a folder of that name.
    """

    system: System
    name: str
    submitter_folder: str
    values: dict[str, str]
    cells: dict[str, Cell] = field(default_factory=dict)
    weak: dict[str, Cell] = field(default_factory=dict)
    listed: bool = True
    strong: bool = True
    details_url: str = ""
    code_url: str = ""

    @property
    def division(self) -> str:
        return self.values["division"]


@dataclass
class Table:
    """All rows, and the benchmarks in the order of their columns.

    `left_out` are sets that have no place in the table, with the reason; `skipped` all files and folders left out.
    """

    rows: list[Row]
    benchmarks: list[str]
    suite: bool
    partial: bool = False
    normalize: str = "published"
    left_out: list[tuple[str, str]] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)


HEAD = (
    *("division", "availability", "submitter", "system", "number_of_nodes", "host_processor_model_name"),
    *("host_processors_count", "accelerator_model_name", "accelerators_count", "framework", "notes", "private_id"),
)
_NEEDED = (
    *("division", "status", "submitter", "system_name", "host_processor_model_name", "number_of_nodes"),
    *("host_processor_core_count", "host_processors_per_node", "accelerator_model_name", "accelerators_per_node"),
    *("framework", "hw_notes", "sw_notes"),
)


def head_values(system: System, private_id: str) -> dict[str, str]:
    """The columns of MLPerf's summary that come from a description."""
    said = system.text
    name = said("system_name")
    if name == "tpu-v3":
        name = f"TPUv3.{2 * (system.count('accelerators_per_node') or 0)}"
    accelerator = said("accelerator_model_name")
    framework = said("framework")
    if "TensorFlow" in framework:
        framework = re.sub(r" commit hash = .*", "", framework, count=1)
    processors, accelerators = system.total("host_processors_per_node"), system.total("accelerators_per_node")
    return {
        "division": said("division"),
        "availability": said("status"),
        "submitter": said("submitter"),
        "system": name,
        "number_of_nodes": said("number_of_nodes"),
        "host_processor_model_name": said("host_processor_model_name"),
        "host_processors_count": "" if processors is None else str(processors),
        "accelerator_model_name": "TPUv3" if accelerator == "tpu-v3" else accelerator,
        "accelerators_count": "" if accelerators is None else str(accelerators),
        "framework": framework,
        "notes": ";".join(text for text in (said("hw_notes"), said("sw_notes")) if text),
        "private_id": private_id,
    }


def row_of(submission: Submission, name: str, *, hpc: bool = False) -> Row:
    """The row of one system, without its results."""
    system = submission.system(name)
    identifier = _private_id(Path(submission.path, "results", name, "privateid.json"))
    row = Row(system, name, submission.name, head_values(system, identifier))
    row.strong = not hpc or Path(submission.path, "results", name, "strong").is_dir()
    row.listed = submission.loose or all(key in system.fields for key in _NEEDED)
    return row


def _private_id(path: Path) -> str:
    import json

    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["private_id"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def cell_of(benchmark: str, verdict: Any, facts: FolderFacts, normalize: str) -> Cell:
    """The result of one set: the strict score, normalized once, and the official one with what tells them apart."""
    official = official_score(facts, benchmark)
    cell = Cell(benchmark, verdict, facts, official)
    _choose_factor(cell, normalize)
    score = verdict.score
    if score.value_ms is None:
        cell.reason = score.reason.removeprefix("no score: ")
    else:
        cell.exact_ms = score.value_ms
        kept = [float(part.time_ms) / 60 / 1000 for part in score.parts if part.kept and part.time_ms is not None]
        cell.minutes = mean_of(iter(sorted(kept))) * cell.factor
    return cell


def _choose_factor(cell: Cell, normalize: str) -> None:
    facts = cell.facts
    outcome = facts.convergence.official or facts.convergence.corrected if facts.convergence else None
    computed = outcome.factor if outcome is not None and outcome.passed else 1.0
    if normalize == "published":
        cell.factor, cell.factor_source = facts.factor or 1.0, "scaling.json" if facts.factor else ""
        if facts.factor_fault:
            cell.notes.append(f"scaling.json is not used: {facts.factor_fault}")
        elif facts.factor is None and computed > 1:
            text = f"faster than the reference: the convergence test gives a factor of {computed!r}, not applied here"
            cell.notes.append(text)
        elif facts.factor is not None and outcome is not None and facts.factor != computed:
            cell.notes.append(f"scaling.json says {facts.factor!r}, the convergence test gives {computed!r}")
    elif normalize == "computed" and computed > 1:
        cell.factor, cell.factor_source = computed, "the convergence test"
    if facts.untested:
        cell.notes.append(f"convergence is not tested: {facts.untested}")
    if outcome is not None and outcome.passed is False:
        cell.notes.append(f"the convergence test fails: {outcome.message}")


def explain_difference(cell: Cell) -> None:
    """Name the defect by which the official score differs from the strict one, if it does."""
    official, ours = cell.official, cell.minutes
    if cell.facts.factor is None or cell.factor_source == "scaling.json":
        if official.minutes == ours and not official.crash:
            return
    elif official.minutes is not None and ours is not None:
        return  # told apart by the normalization that was asked for
    verdict = cell.verdict
    rules = {finding.rule for finding in verdict.findings if finding.severity == "error"}
    parts = verdict.score.parts
    if official.crash:
        cell.defect = "traceback"
    elif not verdict.valid and not rules:
        cell.defect = "broken-rule" if any(not run.counts for run in cell.facts.runs) else "unseen"
    elif "S001" in rules:
        cell.defect = "run-count"
    elif rules - {"S002"}:
        cell.defect = "set-rule"
    elif len(verdict.files) != len(cell.facts.runs):
        cell.defect = "name"
    elif "S002" in rules or any(part.time_ms is None for part in parts):
        cell.defect = "status"
    else:
        cell.defect = "unknown"


def build(
    submissions: list[Submission],
    benchmarks: list[str],
    *,
    usage: str,
    partial: bool,
    normalize: str,
    official: bool = False,
) -> Table:
    """The table of `submissions`; `benchmarks` are the round's, in its order (the suite's are those that were run).

    usage: "suite", "training" or "hpc". official: weak scaling is scored whatever strict rules are broken.
    """
    suite, hpc = usage == "suite", usage == "hpc"
    rows: list[Row] = []
    names = list(benchmarks)
    table = Table(rows, names, suite, partial, normalize)
    for submission in submissions:
        by_system: dict[str, Row] = {}
        for folder in submission.folders:
            row = by_system.setdefault(folder.place.system, row_of(submission, folder.place.system, hpc=hpc))
            column = column_of(folder.verdict) if suite else folder.place.benchmark
            if column not in names and not suite:
                table.left_out.append((folder.path, f"{column} is no benchmark of the round"))
                continue
            if column not in names:
                names.append(column)
            facts = folder.verdict.observed or FolderFacts()
            cell = cell_of(column, folder.verdict, facts, normalize)
            cell.broken = _broken(folder, submission)
            if folder.place.scaling == "weak":
                weak = weak_score(facts, folder.verdict.facts.runs)
                if cell.broken and not official:
                    weak = replace(weak, minutes=None, energy=None, reason="a rule is broken")
                cell.weak = weak
                row.weak[column] = cell
            else:
                if not suite:
                    explain_difference(cell)
                row.cells[column] = cell
            if row.system.missing:
                _name_by_logs(row, folder.logs)
        for name in () if suite else submission.system_folders:
            by_system.setdefault(name, row_of(submission, name, hpc=hpc))
        rows += by_system.values()
    if suite:
        names.sort()
    return table


def _broken(folder: Any, submission: Submission) -> dict[str, int]:
    """How often each rule is broken by a set, its logs, or the submission in the set's folder.

    The convergence test is left out: it speaks for itself.
    """
    here = Path(folder.path)
    findings = [*folder.verdict.findings, *(finding for log in folder.logs for finding in log.findings)]
    findings += [f for f in submission.findings if Path(f.path) == here or here in Path(f.path).parents]
    counts: dict[str, int] = {}
    for finding in sorted(findings, key=lambda finding: str(finding.rule)):
        if finding.severity == "error" and finding.rule != "U019":
            counts[finding.rule] = counts.get(finding.rule, 0) + 1
    return counts


def column_of(verdict: Any) -> str:
    """A suite benchmark's column: with its profile, but for the full one."""
    profile = verdict.facts.profile
    name = verdict.benchmark or "unknown"
    return name if profile in (None, "full") else f"{name}/{profile}"


def add_urls(table: Table, ruleset: Any) -> None:
    """Where MLPerf publishes each system's description and code."""
    if table.suite:
        return
    official = ruleset.official
    major, minor, patch = official.version.split(".")
    version = f"{major}.{minor}" + ("" if patch == "0" else f".{patch}")
    prefix = f"https://github.com/mlcommons/{official.usage}_results_v{version}"
    for row in table.rows:
        submitter = row.values["submitter"]
        row.details_url = f"{prefix}/blob/main/{submitter}/systems/{row.name}.json"
        row.code_url = f"{prefix}/blob/master/{submitter}/benchmarks"


@functools.cache
def round_benchmarks(package: Path, usage: str, version: str) -> list[str]:
    """The benchmarks of a round in MLPerf's order, from its table, which is read without being run."""
    try:
        tree = ast.parse((package / "benchmark_meta.py").read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return []
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_ALL_ALLOWED_BENCHMARKS":
            rounds = ast.literal_eval(node.value).get(usage, {})
            names = rounds.get(version) or rounds.get(version.rpartition(".")[0]) or []
            return list(dict.fromkeys(names))
    return []


def _name_by_logs(row: Row, logs: list[Any]) -> None:
    """What the logs say of submitter, system and division, where no description does."""
    said = logs[0].identity if logs else {}
    for column, key in (("submitter", "submission_org"), ("division", "submission_division")):
        row.values[column] = row.values[column] or str(said.get(key) or "")
    row.values["system"] = row.values["system"] or row.name
