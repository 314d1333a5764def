"""Damaged copies of a result log: what happens to logs on their way, and what somebody might try."""

from __future__ import annotations

import json
import random
import re
from typing import Any

VALUES = [
    None, "", "x", "0.5", "closed", "open", "adam", "../x", "{0}", "caf\u00e9", -1, 0, 1, 2, 16, 8192, 1e-9,
    0.75, 1e9, 10**30, True, False, [], [1], [1, 50], {}, {"value": 1}, {"BBOX": 0.4, "SEGM": 0.35}, float("nan"),
    float("inf"), [[[["deep"]]]],
]  # fmt: skip
TIMES = [None, "12", "1.2.3", -5, 0, 1e18, True, [], float("nan"), float("inf"), 10**400]


def mutate(text: str, chance: random.Random) -> tuple[str, str]:
    """A damaged copy of a log's text, and what was done to it."""
    lines = text.split("\n")
    done = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        name = chance.choice(list(MUTATIONS))
        if not any(":::ML" in line for line in lines):
            break
        lines = MUTATIONS[name](lines, chance)
        done.append(name)
    return "\n".join(lines), "+".join(sorted(set(done)))


def pick(lines: list[str], chance: random.Random) -> int:
    """The number of a record's line: a key is drawn first, so that the rare ones are not missed."""
    keys: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        if ":::ML" in line:
            found = re.search(r'"key": ?("[^"]*"|[^,]*)|:::MLL [\d.]+ (\w+)', line)
            keys.setdefault(found[0].split(" ")[-1] if found else "", []).append(number)
    return chance.choice(keys[chance.choice(sorted(keys))])


def drop(lines: list[str], chance: random.Random) -> list[str]:
    number = pick(lines, chance)
    return lines[:number] + lines[number + 1 :]


def duplicate(lines: list[str], chance: random.Random) -> list[str]:
    number = pick(lines, chance)
    place = chance.choice((number, chance.randrange(len(lines))))
    return lines[:place] + [lines[number]] + lines[place:]


def reorder(lines: list[str], chance: random.Random) -> list[str]:
    one, other = pick(lines, chance), pick(lines, chance)
    lines = list(lines)
    lines[one], lines[other] = lines[other], lines[one]
    return lines


def edit(lines: list[str], chance: random.Random, change: Any) -> list[str]:
    """Change the members of one record; a line that holds none is left alone."""
    number = pick(lines, chance)
    head, token, body = lines[number].rpartition(":::MLLOG ")
    if not token:
        head, token, body = lines[number].partition(": ")
    try:
        members = json.loads(body)
        change(members)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return lines
    return [*lines[:number], head + token + json.dumps(members), *lines[number + 1 :]]


def retime(lines: list[str], chance: random.Random) -> list[str]:
    def change(members: Any) -> None:
        step = chance.choice((-(10**7), -1000, 1000, 10**6, 10**8))
        members["time_ms"] = members["time_ms"] + step if chance.random() < 0.7 else chance.choice(TIMES)

    return edit(lines, chance, change)


def retype(lines: list[str], chance: random.Random) -> list[str]:
    def change(members: Any) -> None:
        value = members["value"]
        near = [str(value), [value], {"value": value}, value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            near += [value + 1, -value, value * 1.5, float(value), int(value)]
        members["value"] = chance.choice(near) if chance.random() < 0.4 else chance.choice(VALUES)

    return edit(lines, chance, change)


def remember(lines: list[str], chance: random.Random) -> list[str]:
    """Change or take away a member of the record's metadata, or the metadata itself."""

    def change(members: Any) -> None:
        metadata = members["metadata"]
        if not metadata or chance.random() < 0.2:
            members["metadata"] = chance.choice(VALUES)
            return
        name = chance.choice(sorted(metadata))
        if chance.random() < 0.5:
            del metadata[name]
        else:
            metadata[name] = chance.choice(VALUES)

    return edit(lines, chance, change)


def unmember(lines: list[str], chance: random.Random) -> list[str]:
    def change(members: Any) -> None:
        del members[chance.choice(("time_ms", "key", "value", "metadata", "namespace", "event_type"))]

    return edit(lines, chance, change)


def rename(lines: list[str], chance: random.Random) -> list[str]:
    def change(members: Any) -> None:
        members["key"] = chance.choice([*VALUES, "eval_accuracy", "submission_benchmark", "seed", "init_start"])

    return edit(lines, chance, change)


def truncate(lines: list[str], chance: random.Random) -> list[str]:
    number = pick(lines, chance)
    cut = lines[number][: chance.randrange(len(lines[number]) + 1)]
    return [*lines[:number], cut, *(() if chance.random() < 0.5 else lines[number + 1 :])]


def glue(lines: list[str], chance: random.Random) -> list[str]:
    number = pick(lines, chance)
    joint = chance.choice(("", " ", "epoch 3 ", "\x85", "\xa0", "\r", "\x0b", "\x00", ":::MLLOG "))
    after = lines[number + 1 : number + 2]
    return [*lines[:number], joint.join([lines[number], *after]), *lines[number + 2 :]]


MUTATIONS = {
    f.__name__: f
    for f in (drop, duplicate, reorder, retime, retype, remember, unmember, rename, truncate, glue)
}  # fmt: skip
