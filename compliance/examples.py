"""The short form of the example logs in rules' docstrings, expanded to real log lines.

One line a record: ``key [value] [name=value …]``. A value is JSON or a bare word; ``name=value`` goes to the
metadata. Records are one second apart; ``@N`` on a line of its own moves the clock to N milliseconds after the log's
beginning. ``text: …`` is a line as it stands, but that ``<key value>`` in it becomes a record, ``## pattern -> text``
at its end is then replaced, and ``%ff`` becomes that byte; a log that begins with ``UTF-16`` is encoded so.
``--- name`` begins another file of a set. Logs are judged by made-up facts: the benchmark ``example`` counts epochs,
``example_samples`` counts samples and has no target in its smoke profile.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any

from compliance.benchmarks import Constraint, Facts
from compliance.loglines import Log, parse

BEGIN_MS = 1_700_000_000_000

_EPOCHS = Facts(
    benchmark="example",
    profile="embedded",
    quality_metric="top1_accuracy",
    quality_range=(0.0, 1.0),
    quality_target=0.749,
    progress="epoch_num",
    eval_every=1,
    train_samples=1000,
    eval_samples=100,
    runs=5,
    hyperparameters={
        "opt_name": Constraint(one_of=("sgd", "lars")),
        "opt_base_learning_rate": Constraint(above=0.0),
        "global_batch_size": Constraint(type="integer", min=1),
    },
)
_SAMPLES = Facts(
    benchmark="example_samples",
    profile="embedded",
    quality_metric="auc",
    quality_range=(0.0, 1.0),
    quality_target=0.8,
    progress="samples_count",
    eval_every=1000,
    train_samples=10000,
    eval_samples=100,
    runs=5,
)
_SMOKE = Facts(benchmark="example_samples", profile="smoke", progress="samples_count", eval_every=1000, runs=1)
EXAMPLE_FACTS = {
    "example": {"embedded": _EPOCHS, "full": _EPOCHS},
    "example_samples": {"embedded": _SAMPLES, "smoke": _SMOKE},
}


def facts_of(text: str) -> Facts:
    """The made-up facts that an example's log is judged by."""
    profile = "smoke" if "benchmark_profile smoke" in text else "embedded"
    return EXAMPLE_FACTS["example_samples" if "example_samples" in text else "example"][profile]


def logs(text: str) -> dict[str, Log]:
    """The example's logs by file name; a single one is called result_0.txt."""
    files: dict[str, list[str]] = {}
    name = "result_0.txt"
    for line in text.splitlines():
        if line.startswith("--- "):
            name = line[4:].strip()
        elif line.strip():
            files.setdefault(name, []).append(line)
    return {name: parse(_encode("\n".join(expand(lines))), name) for name, lines in files.items()}


def _encode(text: str) -> bytes:
    if text.startswith("UTF-16"):
        return text.encode("utf-16")
    return re.sub(rb"%([0-9a-f]{2})", lambda m: bytes.fromhex(m[1].decode()), text.encode())


def expand(lines: list[str]) -> Iterator[str]:
    """Log lines of an example's short lines."""
    now = BEGIN_MS
    for line in lines:
        if line.startswith("text: "):
            body, _, change = line[6:].partition(" ## ")
            at = now
            body = re.sub(r"<(\w[^<>]*)>", lambda m: record(at, m[1]), body)  # noqa: B023
            pattern, _, new = change.partition(" ->")
            yield re.sub(pattern, new.removeprefix(" "), body) if pattern else body
            now += 1000
        elif line.startswith("@"):
            now = BEGIN_MS + int(line[1:])
        else:
            yield record(now, line)
            now += 1000


def record(time_ms: int, line: str) -> str:
    """One short line as a log line."""
    key, *words = shlex.split(line, posix=False)
    value: Any = None
    metadata: dict[str, Any] = {"file": "train.py", "lineno": 1}
    for word in words:
        name, equals, rest = word.partition("=")
        if equals and name.isidentifier():
            metadata[name] = _value(rest)
        else:
            value = _value(word)
    event_type = {"start": "INTERVAL_START", "stop": "INTERVAL_END"}.get(key.rpartition("_")[2], "POINT_IN_TIME")
    member = {"namespace": "", "time_ms": time_ms, "event_type": event_type, "key": key, "value": value}
    return ":::MLLOG " + json.dumps({**member, "metadata": metadata})


def _value(word: str) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        return word.strip("'")
