"""Example submissions in the docstrings of rules: a good one with changes, written to a folder.

The good one is Somebody's: a complete description of a_system, and one log in results/a_system/example. What follows
``--- path`` replaces or adds that file: short log lines below results/ (see compliance.examples), ``field value``
lines for a description (``field remove`` takes it out), ``text: …`` for a line as it stands. ``--- path remove``,
``--- path -> target`` (a link) and ``--- path N MiB`` (a file of that size) stand alone. An example that begins with
``ruleset NAME`` has no other logs than its own.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from compliance import examples
from compliance.rulesets import SUITE, Ruleset, resolve
from compliance.submission import Submission, gather
from compliance.systems import FIELDS
from compliance.verdict import Checker

GOOD_LOG = [
    "submission_benchmark example",
    "submission_division closed",
    "submission_org somebody",
    "submission_platform a_system",
]


def good_description(**changes: Any) -> dict[str, Any]:
    """Every field of a description, with `changes`; None takes a field out."""
    said: dict[str, Any] = dict.fromkeys(FIELDS, "N/A")
    said |= {"submitter": "Somebody", "division": "closed", "status": "Available on-premise", "system_name": "A System"}
    said |= {"number_of_nodes": "2", "host_processors_per_node": "2", "host_processor_model_name": "A Processor"}
    said |= {"accelerators_per_node": "8", "accelerator_model_name": "An Accelerator", "framework": "A Framework"}
    return {key: value for key, value in {**said, **changes}.items() if value is not None}


def submission(text: str, folder: Path) -> Submission:
    """The example's submission, written below `folder` and judged by no rule. Its files stay for the caller to use."""
    lines = text.splitlines()
    name = SUITE
    if lines and lines[0].startswith("ruleset "):
        name = lines.pop(0).split()[1]
    _describe(folder / "Somebody/systems/a_system.json", [])
    if name == SUITE:
        _write(folder / "Somebody/results/a_system/example/result_0.txt", GOOD_LOG)
    for head, body in _sections(lines):
        _apply(folder, head, body)
    ruleset = Ruleset(SUITE, "an example", "") if name == SUITE else resolve(name)
    from compliance.official_score import observe

    report = Checker([], ruleset, observe=observe).check([folder])
    (found,) = gather([folder], report.logs, report.sets, report.skipped)
    return found


def _sections(lines: list[str]) -> list[tuple[str, list[str]]]:
    sections: list[tuple[str, list[str]]] = []
    for line in lines:
        if line.startswith("--- "):
            sections.append((line[4:].strip(), []))
        elif line.strip():
            sections[-1][1].append(line)
    return sections


def _apply(folder: Path, head: str, body: list[str]) -> None:
    name, remove = re.subn(r" remove$", "", head)
    name, _, target = name.partition(" -> ")
    size = re.fullmatch(r"(.*) (\d+) MiB", name)
    path = folder / (size[1] if size else name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if remove:
        path.unlink()
    elif target:
        path.symlink_to(target)
    elif size:
        with path.open("wb") as file:
            file.truncate(int(size[2]) << 20)
    elif body and body[0].startswith("text: "):
        path.write_text("\n".join(line.removeprefix("text: ") for line in body) + "\n", encoding="utf-8")
    elif path.suffix == ".json":
        _describe(path, body)
    else:
        _write(path, body)


def _describe(path: Path, body: list[str]) -> None:
    changes: dict[str, Any] = {}
    for line in body:
        key, _, value = line.partition(" ")
        try:
            changes[key] = None if value == "remove" else json.loads(value)
        except ValueError:
            changes[key] = value
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(good_description(**changes), indent=1), encoding="utf-8")


def _write(path: Path, short: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(examples.expand(short)) + "\n", encoding="utf-8")
