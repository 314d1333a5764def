"""Does our official verdict agree with the official checker itself? On published, damaged and made-up logs.

    python -m benchmarks.agreement [LOGS] [--rounds v5.1 hpc_v3.0] [--damaged 5000] [--made-up 1700] [--seed 1]
                                   [--truth DIR] [--jobs N]

LOGS holds one folder a round, named after it (v0.6, v2.0, hpc_v1.0; `v2.0-part` is a part of v2.0), with the logs as
published: .../results/<system>/<benchmark>/result_N.txt. Both checkers judge each log in this process; what is compared
is the verdict, the messages (kind, key, test or count) and the warnings. With --truth DIR the recorded answers of
DIR/<round>.jsonl.gz stand in for the official checker on the logs as they are.

Then damaged copies of them: records dropped, doubled, moved, retimed, retyped, cut off, glued together; and logs made
up from the rule sheets, for every round, benchmark and division. Both are reproducible by --seed. Where the official
checker ends in a traceback ours must say that there is no verdict, and why.

Prints counts by round and kind, every disagreement (up to 20), and ends with status 1 if there is any.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import logging
import os
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from benchmarks import made_up
from benchmarks.damage import mutate
from compliance import loglines, mlperf

DAMAGED_BYTES = 400_000


@dataclass
class Answer:
    """One checker's answer: the verdict (None: a traceback, or no verdict), messages and warnings in short form."""

    valid: bool | str | None
    messages: set[str] = field(default_factory=set)
    warnings: set[str] = field(default_factory=set)
    why: str = ""


def official(path: Path, ruleset: mlperf.Ruleset) -> Answer:
    """What the installed mlperf-logging says, run in this process."""
    from mlperf_logging.compliance_checker import mlp_compliance

    mlp_compliance.enqueued_configs.clear()
    checker = mlp_compliance.make_checker(ruleset.usage, ruleset.version, False, False)
    why, valid = "", None
    silenced = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            valid = bool(mlp_compliance.main(str(path), ruleset.start, checker)[0])
        except Exception as error:
            why = f"{type(error).__name__}: {error}"[:200]
        finally:
            logging.disable(silenced)
    messages = {brief(text, key) for key, text in checker.overwritable.items()}
    messages |= {brief(text, None) for text in checker.not_overwritable}
    return Answer(valid, messages, {brief(text, key) for key, text in checker.warnings.items()}, why)


def brief(text: str, key: str | None) -> str:
    """An official message as JSON of [kind, key, detail], as `mlperf.Message` has it."""
    tests = re.search(r"failed test: (.*?)\ncurrent context", text, re.S)
    raised = re.search(r"CHECK code:\n(.*?)\n(?:triggered by line|current context)", text, re.S)
    count = re.match(r"Required (\S+) occurrence of '.*?'\s+but found (\d+)( with different)?", text)
    if number := re.match(r"CHECK for '.*?' failed in line (-?\d+)", text):
        found = ["check", key, [int(number[1]), tests[1].strip() if tests else None]]
    elif raised:
        found = ["check_exec" if key else "end_exec", key, raised[1].strip()]
    elif text.startswith("failed test"):
        found = ["end_check", None, tests[1].strip() if tests else None]
    elif action := re.match(r"Failed executing code (\w+) code", text):
        found = ["action_exec", key, action[1]]
    elif count:
        found = ["req", key, [count[1], int(count[2]), "diff" if count[3] else ""]]
    elif text.startswith("Required AT_LEAST_ONE occurrence of"):
        found = ["req_or", "|".join(sorted(re.findall("'(.*?)'", text))), None]
    elif some := re.match(r"Failed checks for (.*?) : (.*)", text, re.S):
        found = ["atleast_one_check", some[1], some[2].strip()]
    else:
        kinds = {"Log lines had": "parse_errors", "No log lines": "no_lines", "Could not find": "no_config"}
        kind = next((kind for start, kind in kinds.items() if text.startswith(start)), f"? {text[:60]}")
        found = [kind, None, None]
    return json.dumps(found)


def ours(path: Path, ruleset: mlperf.Ruleset) -> Answer:
    """What this project says. Its own failing is an answer too: one that agrees with nothing."""
    try:
        verdict = mlperf.judge(loglines.read(path), ruleset)
    except Exception as error:
        return Answer("ours raised", why=f"{type(error).__name__}: {error}"[:200])
    if verdict.valid is None and not verdict.crash:
        return Answer("no verdict and no reason")

    def short(messages: list[mlperf.Message]) -> set[str]:
        return {json.dumps([m.kind, m.key, None if m.kind == "no_config" else m.detail]) for m in messages}

    return Answer(verdict.valid, short(verdict.messages), short(verdict.warnings), verdict.crash or "")


def recorded(truth: Path) -> dict[str, Answer]:
    """The recorded official answers of one round, by path below the round's folder."""

    def short(messages: list[Any]) -> set[str]:
        return {json.dumps([kind, key, None if kind == "no_config" else detail]) for kind, key, detail in messages}

    with gzip.open(truth, "rt") as file:
        records = [json.loads(line) for line in file]
    return {r["path"]: Answer(r["ok"], short(r["err"]), short(r["warn"]), r.get("crash", "")) for r in records}


def difference(expected: Answer, found: Answer) -> str | None:
    """What differs, in one word; None if nothing does. After a traceback there are no messages to compare."""
    if expected.valid != found.valid:
        return "verdict"
    if expected.valid is None:
        return None
    if expected.messages != found.messages:
        return "messages"
    return "warnings" if expected.warnings != found.warnings else None


def ruleset_of(folder: str) -> mlperf.Ruleset:
    """The ruleset of a round's folder: v5.1, v2.0-part, hpc_v3.0."""
    match = re.fullmatch(r"(?:(hpc)_)?v(\d+\.\d+).*", folder)
    if not match:
        raise ValueError(f"{folder} is not the name of a round")
    return mlperf.ruleset(f"mlperf-{match[1] or 'training'}-{match[2]}")


def logs_of(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("result_*.txt")):
        if "/results/" in path.as_posix() and "/power/" not in path.as_posix():
            yield path


@dataclass
class Task:
    """Logs to judge: those at `paths` as they are, or `damaged` copies of logs drawn from them, or `made_up` ones.

    `name` is the folder of the logs' round, or the name of the ruleset for which logs are made up.
    """

    name: str
    paths: list[Path] = field(default_factory=list)
    truth: Path | None = None
    damaged: int = 0
    made_up: int = 0
    seed: int = 0

    @property
    def kind(self) -> str:
        return "damaged" if self.damaged else "made up" if self.made_up else "whole"


def carry_out(task: Task) -> tuple[str, Counter[str], list[str]]:
    """Judge the task's logs twice: counts by kind and official verdict, and the disagreements in words."""
    ruleset = mlperf.ruleset(task.name) if task.made_up else ruleset_of(task.name)
    counts: Counter[str] = Counter()
    differences: list[str] = []
    known = recorded(task.truth) if task.truth else {}
    with tempfile.TemporaryDirectory() as scratch:
        for path, done in _logs(task, ruleset, Path(scratch)):
            expected = known[_below(path, known)] if known else official(path, ruleset)
            found = ours(path, ruleset)
            different = difference(expected, found)
            says = {"True": "valid", "False": "invalid"}.get(str(expected.valid), "traceback")
            for kind in done.split("+") if done else ("unharmed",):
                counts[f"{kind}: {says}"] += 1
            counts["logs"] += 1
            if different:
                counts[f"DISAGREE: {different}"] += 1
                differences.append(_tell(task, path, done, expected, found))
    return task.name, counts, differences


def _logs(task: Task, ruleset: mlperf.Ruleset, scratch: Path) -> Iterator[tuple[Path, str]]:
    """The task's logs as files, each with what was done to it."""
    if task.kind == "whole":
        yield from ((path, "published") for path in task.paths)
        return
    chance = random.Random(f"{task.name} {task.seed}")
    cases = list(made_up.cases(ruleset)) if task.made_up else []
    for number in range(task.damaged or task.made_up):
        if task.made_up:
            text, done = made_up.log(cases[number % len(cases)], chance), "made up"
            if chance.random() < 0.5:
                text, done = mutate(text, chance)
        else:
            text, done = mutate(chance.choice(task.paths).read_text(encoding="latin-1"), chance)
        path = scratch / f"{task.name}_seed{task.seed}_{number}.txt"
        path.write_bytes(text.encode("latin-1", errors="replace"))
        yield path, done
        path.unlink()


def _below(path: Path, known: dict[str, Answer]) -> str:
    """The name under which the truth has `path`: its last parts, as many as fit."""
    for start in range(len(path.parts)):
        if (name := "/".join(path.parts[start:])) in known:
            return name
    raise ValueError(f"the recorded answers have no {path}")


def _tell(task: Task, path: Path, done: str, expected: Answer, found: Answer) -> str:
    lines = [f"{task.name}, {task.kind}: {path if task.kind == 'whole' else path.name} ({done})"]
    lines.append(f"  verdict: officially {expected.valid} {expected.why}; ours {found.valid} {found.why}")
    for name in ("messages", "warnings"):
        theirs, mine = getattr(expected, name), getattr(found, name)
        lines += [f"  only officially: {m[:300]}" for m in sorted(theirs - mine)]
        lines += [f"  only ours:       {m[:300]}" for m in sorted(mine - theirs)]
    return "\n".join(lines)


def tasks_for(args: argparse.Namespace) -> Iterator[Task]:
    folders = [p for p in sorted(args.logs.iterdir()) if p.is_dir()] if args.logs else []
    rounds: list[tuple[str, list[Path]]] = []
    for folder in folders:
        if args.rounds and folder.name not in args.rounds:
            continue
        try:
            ruleset_of(folder.name)
        except ValueError as error:
            print(f"skipped {folder.name}: {str(error).split(';')[0]}")
            continue
        paths = list(logs_of(folder))
        truth = args.truth / (re.sub("-.*", "", folder.name) + ".jsonl.gz") if args.truth else None
        for start in range(0, 0 if args.skip_whole else len(paths), 200):
            yield Task(folder.name, paths[start : start + 200], truth)
        small = [path for path in paths if path.stat().st_size <= DAMAGED_BYTES]
        if small:
            rounds.append((folder.name, small))
    for number in range(0, args.damaged if rounds else 0, 100):
        name, small = rounds[number // 100 % len(rounds)]
        yield Task(name, small, damaged=min(100, args.damaged - number), seed=args.seed + number)
    names = list(mlperf.available())
    for number in range(0, args.made_up, 50):
        name = names[number // 50 % len(names)]
        yield Task(name, made_up=min(50, args.made_up - number), seed=args.seed + number)


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare our official verdict with the official checker's.")
    parser.add_argument("logs", type=Path, nargs="?", help="folder with one folder of logs a round")
    parser.add_argument("--rounds", nargs="*", help="only these folders")
    parser.add_argument("--truth", type=Path, help="folder with recorded official answers")
    parser.add_argument("--damaged", type=int, default=5000, help="damaged copies in all (default %(default)s)")
    parser.add_argument("--made-up", type=int, default=1700, help="made-up logs in all (default %(default)s)")
    parser.add_argument("--skip-whole", action="store_true", help="not the logs as they are")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    if args.logs and not args.logs.is_dir():
        parser.error(f"{args.logs} is not a folder")
    counts: dict[str, Counter[str]] = {}
    differences: list[str] = []
    with ProcessPoolExecutor(args.jobs) as pool:
        tasks = list(tasks_for(args))
        for task, (name, found, different) in zip(tasks, pool.map(carry_out, tasks), strict=True):
            counts.setdefault(f"{name}, {task.kind}", Counter()).update(found)
            differences += different
    for name, found in sorted(counts.items()):
        print(f"{name}: {found.pop('logs')} logs")
        for kind, says in groupby(sorted(found.items()), key=lambda item: item[0].split(": ")[0]):
            print(f"    {kind:10}", ", ".join(f"{number} {name.split(': ')[1]}" for name, number in says))
    print(f"{len(differences)} disagreements")
    print("\n".join(differences[:20]))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
