"""From paths to verdicts: which files are logs, what each is worth, and what the sets of them are worth.

Three questions are kept apart: is a log well formed, does it abide by the rules, did the run converge. Only a run
that did not converge may be dropped from a set, and only one; a broken rule anywhere invalidates the set.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from compliance import loglines, parallel
from compliance.benchmarks import Facts
from compliance.loglines import Log
from compliance.result_set import ResultSet
from compliance.rule import Finding, Rule, run_rules
from compliance.rulesets import Ruleset, RulesetError, choose
from compliance.run import IDENTITY_KEYS, MODEL_KEYS, Milliseconds, Run, split_runs
from compliance.score import Score, score
from compliance.submission import Submission, gather, params_of, place_of

LOGS_A_PROCESS = 32  # at least so many, or
BYTES_A_PROCESS = 16 << 20  # so large ones, for each process, or starting it takes longer than it saves
_Group = tuple[str | None, list[Path]]
_SIZE_KEYS = ("global_batch_size", "number_of_nodes", "accelerators_per_node")
NOT_LOGS = {".py", ".pyc", ".md", ".rst", ".ipynb", ".html", ".c", ".cc", ".cpp", ".cu", ".h"}


@dataclass
class LogVerdict:
    """What one log is worth.

    `runs` are the runs in it (one, unless rule C004 is broken); they hold all records, and are let go when the log's
    set is judged, unless the checker keeps them. `fingerprint` is the same for logs that tell of the same run.
    """

    path: str
    findings: list[Finding]
    runs: list[Run] = field(repr=False)
    ruleset: Ruleset | None = None
    official: Any = None
    benchmark: str | None = None
    division: str | None = None
    profile: str | None = None
    converged: bool | None = None
    time_ms: Milliseconds | None = None
    progress_unit: str | None = None
    at_target: int | float | None = None
    identity: dict[str, Any] = field(default_factory=dict)
    seeds: list[Any] = field(default_factory=list)
    fingerprint: str = ""

    @property
    def valid(self) -> bool:
        return not any(finding.severity == "error" for finding in self.findings)

    def __getstate__(self) -> dict[str, Any]:
        """Without `runs`: what a worker process sends back is the verdict, not the log."""
        return {**self.__dict__, "runs": []}


@dataclass
class SetVerdict:
    """What a result set is worth. `files` are its logs, `judged` how many of them hold one run each.

    `observed` is what the checker's `observe` made of the set.
    """

    path: str
    benchmark: str | None
    facts: Facts = field(repr=False)
    files: list[str]
    judged: int
    converged: int
    findings: list[Finding]
    valid: bool
    score: Score
    observed: Any = None


@dataclass
class Report:
    """Everything that one call of the checker found."""

    logs: list[LogVerdict]
    sets: list[SetVerdict]
    skipped: list[tuple[str, str]]
    partial: bool = False
    left_out: list[str] = field(default_factory=list)
    submissions: list[Submission] = field(default_factory=list)

    @property
    def valid(self) -> bool:
        judged: list[LogVerdict | SetVerdict | Submission] = [*self.logs, *self.sets, *self.submissions]
        return all(one.valid for one in judged)


@dataclass(frozen=True)
class Checker:
    """How to judge. `ruleset` is None for an automatic choice, log by log. `keep_runs`: verdicts keep their records.

    `observe` is called with a folder and its logs' verdicts while these still hold their records; what it returns must
    survive being sent from process to process.
    """

    rules: list[Rule]
    ruleset: Ruleset | None = None
    partial: bool = False
    keep_runs: bool = False
    observe: Callable[[str, list[LogVerdict]], Any] | None = None

    def check(self, paths: list[Path], jobs: int = 1, progress: Callable[[int, int], None] | None = None) -> Report:
        """Judge the logs at `paths`: files, or folders of which each that holds logs is a result set.

        jobs: processes to use at the most; the report is the same for any number. progress: called with the number of
        logs done, as far as it can be told while folders are judged out of order, and of all.
        """
        skipped: list[tuple[str, str]] = []
        groups: dict[str | None, list[Path]] = {}
        for path, folder in find(paths, skipped):
            groups.setdefault(folder, []).append(path)
        work = [(None, [path]) for path in groups.pop(None, [])] + list(groups.items())
        report = Report([], [], skipped, self.partial)
        for logs, one in self._judged(work, jobs, progress):
            report.logs += logs
            report.sets += [one] if one is not None else []
        report.submissions = gather(paths, report.logs, report.sets, skipped)
        rules = [rule for rule in self.rules if rule.scope == "submission"]
        for submission in report.submissions:
            submission.partial = self.partial
            found = run_rules(rules, submission, submission.path, suite=not submission.official)
            mild = {folder.path: folder.params.mild for folder in submission.folders}
            submission.findings = [overridden(finding, mild.get(finding.path, set())) for finding in found]
        return report

    def _judged(
        self, work: list[_Group], jobs: int, progress: Callable[[int, int], None] | None
    ) -> list[tuple[list[LogVerdict], SetVerdict | None]]:
        counts = [len(files) for _, files in work]
        sizes = [sum(map(_size, files)) for _, files in work]
        total, done = sum(counts), list(accumulate(counts, initial=0))
        worth = max(total // LOGS_A_PROCESS, sum(sizes) // BYTES_A_PROCESS)
        jobs = 1 if self.keep_runs else min(jobs, worth)
        show = (lambda pieces: progress(done[pieces], total)) if progress else (lambda pieces: None)
        return parallel.spread(self.check_group, work, sizes, jobs, show)

    def check_group(self, group: _Group) -> tuple[list[LogVerdict], SetVerdict | None]:
        """Judge the logs of one folder, and them as a set; without a folder, the logs alone."""
        folder, files = group
        logs = [self.check_log(path) for path in files]
        mild = set() if folder is None else params_of(Path(folder)).mild
        for log in logs if mild else ():
            log.findings = [overridden(finding, mild) for finding in log.findings]
        one = None if folder is None else self.check_set(folder, logs)
        if one is not None and self.observe is not None:
            try:
                one.observed = self.observe(one.path, logs)
            except Exception as error:  # as for a single log
                text = f"the checker stopped with {type(error).__name__}: {error}"
                hint = "this is a defect, please report it"
                one.findings.append(Finding(text, hint=hint, rule="X001", path=one.path))
                one.valid = False
        if not self.keep_runs:
            for log in logs:
                log.runs = []
        return logs, one

    def check_log(self, path: Path) -> LogVerdict:
        """Judge one log by itself."""
        name = str(path)
        try:
            log = loglines.read(path, keep=self._keys)
        except OSError as error:
            text = f"the file cannot be read: {error.strerror or error}"
            return LogVerdict(name, [Finding(text, rule="L009", path=name)], [])
        try:
            return self.judge(log)
        except Exception as error:  # nothing that a file holds may end the judgement of the others
            text = f"the checker stopped with {type(error).__name__}: {error}"
            return LogVerdict(
                name, [Finding(text, hint="this is a defect, please report it", rule="X001", path=name)], []
            )

    def _keys(self, log: Log) -> Collection[str] | None:
        """The keys that any rule asks for, of a log too large to be held whole; `log` is its beginning."""
        try:
            ruleset = self.ruleset or choose(log)
        except RulesetError:
            return MODEL_KEYS
        facts = ruleset.facts(Run(log, log.events, None))
        return MODEL_KEYS | set(facts.hyperparameters if facts else ()) | set(getattr(ruleset.official, "keys", ()))

    def judge(self, log: Log) -> LogVerdict:
        """Judge a log that was read."""
        findings: list[Finding] = []
        ruleset = self.ruleset
        if ruleset is None:
            try:
                ruleset = choose(log)
            except RulesetError as error:
                findings.append(Finding(str(error), rule="X002", path=log.path))
        parts = split_runs(log)
        runs = []
        for part in parts:
            run = Run(log, part, None, suite=ruleset is not None and ruleset.suite)
            run.parts = parts
            if ruleset is not None:
                facts = ruleset.facts(run)
                run.known, run.facts = facts is not None, facts or Facts(benchmark="")
                run.profile_names = ruleset.profile_names
            runs.append(run)
        official = _judge_officially(log, ruleset, runs)
        rules = [rule for rule in self.rules if rule.scope == "run"]
        for run in runs:
            for finding in run_rules(rules, run, log.path, suite=run.suite):
                if finding not in findings:
                    findings.append(finding)
        findings.sort(key=lambda finding: (finding.line or 0, finding.rule))
        verdict = LogVerdict(log.path, findings, runs, ruleset, official)
        first = runs[0]
        verdict.benchmark, verdict.division, verdict.profile = first.benchmark, first.division, first.profile
        if len(runs) == 1:
            verdict.converged, verdict.time_ms = first.converged, first.time_ms
            verdict.progress_unit, verdict.at_target = first.progress_unit, first.progress_at_target
            verdict.fingerprint = first.fingerprint
        else:
            verdict.converged = False
        verdict.identity = {key: first.value(key) for key in (*IDENTITY_KEYS, *_SIZE_KEYS)}
        verdict.seeds = [seed for run in runs for seed in run.seeds]
        return verdict

    def check_set(self, folder: str, members: list[LogVerdict]) -> SetVerdict:
        """Judge the logs of one folder as a result set, and score it."""
        runs = [member.runs[0] for member in members if len(member.runs) == 1]
        facts = next((run.facts for run in runs if run.known), Facts(benchmark=""))
        suite = all(run.suite for run in runs)
        results = ResultSet(folder, runs, [member.path for member in members], facts, self.partial, suite)
        findings = run_rules([rule for rule in self.rules if rule.scope == "set"], results, folder, suite=suite)
        findings = [overridden(finding, params_of(Path(folder)).mild) for finding in findings]
        valid = all(member.valid for member in members) and not any(f.severity == "error" for f in findings)
        return SetVerdict(
            path=folder,
            benchmark=results.benchmark,
            facts=facts,
            files=results.files,
            judged=len(runs),
            converged=len(results.converged),
            findings=findings,
            valid=valid,
            score=score(results, valid=valid),
        )


def _size(path: Path) -> int:
    """How large a file is; 0 where that cannot be told."""
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def overridden(finding: Finding, mild: set[str]) -> Finding:
    """The finding, as a warning if its rule is one of `mild`."""
    if finding.rule not in mild or finding.severity != "error":
        return finding
    return replace(finding, severity="warning", message=f"{finding.message} (overridden by package_checker_params)")


def observe_submission(folder: str, logs: list[LogVerdict]) -> Any:
    """What the rules about submissions need of a set; None for one that is in no submission."""
    if place_of(Path(folder)) is None:
        return None
    from compliance.official_score import observe

    return observe(folder, logs)


def _judge_officially(log: Log, ruleset: Ruleset | None, runs: list[Run]) -> Any:
    """The official verdict on a log of an MLPerf round, whose messages the runs in it get."""
    if ruleset is None or ruleset.official is None:
        return None
    from compliance import mlperf, official

    judged = mlperf.judge(log, ruleset.official)
    for run in runs:
        part = run.events if len(runs) > 1 else None
        run.official_messages = official.breaches(log, judged, ruleset.official, part)
    runs[0].official_warnings = judged.warnings if len(runs) == 1 else []
    if judged.valid is None:
        runs[0].official_crash = (judged.crash or "unknown reason", judged.crash_line)
    elif len(runs) == 1:
        runs[0].official_refusal = official.refusal(judged, runs[0].official_messages)
    return judged


def find(paths: list[Path], skipped: list[tuple[str, str]]) -> Iterator[tuple[Path, str | None]]:
    """The logs under `paths`, by their content, each with its folder; None as folder of a file given by name.

    Files that are left out are added to `skipped` with the reason. Raises FileNotFoundError for a path that is none.
    """
    for path in paths:
        if not os.path.isdir(path):
            if not os.path.exists(path):
                raise FileNotFoundError(f"{path}: no such file or folder")
            yield path, None
            continue
        for folder, names, files in os.walk(path):
            hidden = [name for name in names if name.startswith(".")]
            skipped += [(str(Path(folder, name)), "a hidden folder") for name in sorted(hidden)]
            names[:] = sorted(set(names) - set(hidden))
            for name in sorted(files, key=_natural):
                file = os.path.join(folder, name)
                reason = _why_not(file)
                if reason:
                    skipped.append((str(Path(file)), reason))
                else:
                    yield Path(file), folder


def _natural(name: str) -> list[Any]:
    """Sort key by which result_10.txt follows result_9.txt."""
    import re

    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", name)]


def _why_not(path: str) -> str:
    folder, name = os.path.split(path)
    suffix = os.path.splitext(name)[1].lower()
    if name.startswith("."):
        return "a hidden file"
    if suffix in NOT_LOGS:
        return f"a {suffix} file is no log"
    if suffix == ".json" and os.path.basename(folder) == "systems":
        return "a system description"
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return "not a regular file"
        return "" if loglines.holds_records(path) else "no log record in it"
    except OSError as error:
        if os.path.islink(path) and not os.path.exists(path):
            return "a broken link"
        return f"it cannot be read: {error.strerror or error}"
