"""Made-up result logs for any official round, benchmark and division, without any published log.

The rule sheets say which keys a log needs and which values pass. A log is made of those keys in the sheets' order,
each with a value that passes its tests where one can be found among the constants of the tests, and here and there with
one that does not. That reaches every test of every sheet, also of rounds whose logs are not at hand.
"""

from __future__ import annotations

import ast
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from benchmarks.damage import VALUES
from compliance.mlperf import Ruleset
from compliance.mlperf_grammar import test
from compliance.mlperf_sheets import Rule, Sheet, SheetMissing

OLD = "0.6.0"
METADATA: dict[str, list[Any]] = {
    "epoch_num": [0, 1, 2, 3], "samples_count": [0, 1024, 262144], "step_num": [1, 2], "first_epoch_num": [0, 1],
    "epoch_count": [1, 2], "status": ["success", "aborted"], "method": ["discard"], "metric": ["FID", "CLIP"],
    "tensor": ["conv0_weight", "fc1_bias"], "iteration": [1], "timestamp": [10.0], "file": ["train.py"], "lineno": [1],
}  # fmt: skip
COMMON_VALUES = [1, 0, 0.5, 1.0, 2, 16, 0.8, 1e-3, "x", "sgd", "lars", "adam", "onprem", True, [1, 2], [5, 6, 7]]


@dataclass(frozen=True)
class Case:
    """A log to make up: one benchmark of one round in one division."""

    ruleset: Ruleset
    division: str
    benchmark: str


def cases(ruleset: Ruleset) -> Iterator[Case]:
    """Every benchmark and division that the round has a sheet for."""
    for path in sorted(ruleset.folder.glob("*.yaml")):
        division, _, benchmark = path.stem.rpartition("_") if ruleset.version == OLD else path.stem.partition("_")
        if ruleset.version == OLD and path.stem != "common":
            yield Case(ruleset, "closed", path.stem)
        elif division in ("closed", "open") and benchmark != "common":
            yield Case(ruleset, division, benchmark)


def log(case: Case, chance: random.Random) -> str:
    """The text of a made-up log."""
    wrong = chance.choice((0.0, 0.02, 0.2))
    rules: dict[str, Rule | None] = {}
    for sheet in _sheets(case):
        rules.update(dict.fromkeys(sheet.names) | sheet.rules)
    records: list[dict[str, Any]] = []
    for key, rule in rules.items():
        for _ in range(_times(key, chance, wrong)):
            value = chance.choice(VALUES) if chance.random() < wrong else _passing(case, key, rule, chance)
            metadata = {name: chance.choice(values) for name, values in METADATA.items() if chance.random() > wrong}
            records.append({"key": key, "value": value, "metadata": metadata})
    if chance.random() < wrong:
        chance.shuffle(records)
    return "\n".join(["some other output", *_lines(case, records, chance), ""])


def _times(key: str, chance: random.Random, wrong: float) -> int:
    many = key.startswith(("epoch_", "eval_", "block_", "tracked", "weights_", "cache_"))
    if chance.random() < wrong:
        return chance.choice((0, 2, 3))
    return chance.choice((1, 2, 3)) if many else 1


def _sheets(case: Case) -> list[Sheet]:
    """The sheets that the log will meet, and beside them those named after the benchmark (resnet_lars and so on)."""
    folder = case.ruleset.folder
    names = ["common", f"{case.division}_common", f"{case.division}_{case.benchmark}", case.benchmark]
    found = []
    for name in dict.fromkeys(names):
        try:
            found.append(case.ruleset.sheet(f"{folder.name}/{name}.yaml"))
        except SheetMissing:
            continue
    return found


def _passing(case: Case, key: str, rule: Rule | None, chance: random.Random) -> Any:
    """A value that passes the rule's tests, if the constants of the tests and some usual ones hold any."""
    special = {"submission_division": case.division, "submission_benchmark": _known_name(case)}
    if key in special:
        return special[key]
    if rule is None:
        return chance.choice(COMMON_VALUES)
    texts = (*rule.texts, *rule.first_texts, *filter(None, [rule.at_least_one_text]))
    candidates = [value for text in texts for value in _constants(text)]
    candidates += [step for value in candidates if isinstance(value, float) for step in (value * 1.01, value * 0.99)]
    chance.shuffle(candidates)
    candidates += chance.sample(COMMON_VALUES, len(COMMON_VALUES))
    state = {"init_stopped": True, "init_started": True, "run_started": True, "global_batch_size": 16}
    for value in candidates:
        metadata = {name: values[0] for name, values in METADATA.items()}
        event = SimpleNamespace(time_ms=1, key=key, value=value, metadata=metadata)
        try:
            if all(test((text,))(event, state) for text in texts):
                return value
        except Exception:
            continue
    return candidates[0]


def _known_name(case: Case) -> str:
    """A sheet closed_resnet_lars.yaml belongs to the benchmark resnet."""
    name = case.benchmark
    while "_" in name and (case.ruleset.folder / f"{case.division}_{name.rpartition('_')[0]}.yaml").is_file():
        name = name.rpartition("_")[0]
    return name


def _constants(text: str) -> list[Any]:
    """The constants of a test, but for the names of a record's own members."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        return []
    found: list[Any] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value not in ("value", "metadata"):
            found.append(node.value)
        elif isinstance(node, ast.List | ast.Set):
            found += [item.value for item in node.elts if isinstance(item, ast.Constant)]
    return found


def _lines(case: Case, records: list[dict[str, Any]], chance: random.Random) -> Iterator[str]:
    time_ms = 1_600_000_000_000
    for record in records:
        time_ms += chance.choice((1, 10, 1000, 60_000))
        if case.ruleset.version == OLD:
            key = re.sub(r"\W", "_", record["key"])
            body = json.dumps({"value": record["value"], "metadata": record["metadata"]})
            yield f":::MLL {time_ms / 1000:.3f} {key}: {body}"
        else:
            members = {"namespace": "", "time_ms": time_ms, "event_type": "POINT_IN_TIME", **record}
            yield ":::MLLOG " + json.dumps(members)
