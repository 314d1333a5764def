"""Sentences with headlines from botocore: the first sentence of an operation's documentation, and its name as words."""

from __future__ import annotations

import gzip
import hashlib
import html
import json
import re
from pathlib import Path
from typing import NamedTuple

from reference.common import sources

VERSION = "1.44.8"
PROBE = "data/s3/2006-03-01/service-2.json.gz"  # one file, to locate the package and to check its version by
SOURCE_LENGTHS = range(5, 61)  # words of a sentence that is used
TITLE_LENGTHS = range(2, 9)  # words of a name that is used
SPLIT = 16  # parts that services are divided into by a hash of their name: 0 is evaluated, 1 is for validation

TAG = re.compile(r"<[^>]+>")
END_OF_SENTENCE = re.compile(r"(?<=[.!?:])\s+(?=[A-Z])")
WORD = re.compile(r"[A-Z]{2,}s\b|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


class Item(NamedTuple):
    service: str
    source: tuple[str, ...]
    title: tuple[str, ...]


def words(text: str) -> tuple[str, ...]:
    """Words of a text in lower case; compounds are split where case changes: "an AppInstance" to an, app, instance."""
    return tuple(word.lower() for word in WORD.findall(text))


def first_sentence(documentation: str) -> str:
    """The first sentence of a text in HTML, without its tags."""
    text = " ".join(html.unescape(TAG.sub(" ", documentation)).split())
    return END_OF_SENTENCE.split(text, maxsplit=1)[0]


def part_of(service: str) -> int:
    return int(hashlib.md5(service.encode()).hexdigest(), 16) % SPLIT


def newest(folder: Path) -> list[Path]:
    """The newest description of each service below data/ of the package, in the order of the services' names."""
    found = {path.parent.parent.name: path for path in sorted(folder.glob("*/*/service-2.json.gz"))}
    return [found[service] for service in sorted(found)]


def items(paths: list[Path]) -> list[Item]:
    """All usable operations. A sentence that occurs again, under whatever name, is left out."""
    found: dict[tuple[str, ...], Item] = {}
    for path in paths:
        service = path.parent.parent.name
        operations = json.loads(gzip.decompress(path.read_bytes()))["operations"]
        for name, operation in operations.items():
            source = words(first_sentence(operation.get("documentation") or ""))
            title = words(name)
            if len(source) in SOURCE_LENGTHS and len(title) in TITLE_LENGTHS:
                found.setdefault(source, Item(service, source, title))
    return list(found.values())


def read() -> tuple[list[Item], sources.Source]:
    """All items of the installed package. The hash in the log is over the newest files of all services.

    Raises:
        SetupError: the package is missing or of another version.
    """
    probe, _ = sources.package_file("botocore", VERSION, PROBE)
    folder = probe.parents[2]
    paths = newest(folder)
    source = sources.data_folder(folder, "botocore", f"{VERSION}, newest service-2.json.gz of each service", paths)
    return items(paths), source


def split(found: list[Item], validation: bool) -> tuple[list[Item], list[Item]]:
    """What is trained on and what is held out; services are on one side, and validation's are in no evaluation."""
    held = 1 if validation else 0
    train = [item for item in found if part_of(item.service) not in {0, held}]
    return train, [item for item in found if part_of(item.service) == held]
