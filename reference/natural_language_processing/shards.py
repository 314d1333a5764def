"""English Wikipedia as MLPerf's preparation leaves it: 500 text shards, held-out articles and BERT's vocabulary.

Each shard has one sentence a line and an empty line between articles. MLPerf goes on to write ten differently masked
copies of everything to records of 365 GB; here sequences are made and masked while they are read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from reference.common import sources
from reference.common.errors import SetupError

from .words import WordPiece

EVALUATION, VOCABULARY = "eval.txt", "vocab.txt"
PARTS = 500
EVALUATION_BYTES = 32_851_144  # of the published eval.txt
TRAIN_SEQUENCES = 156_725_653  # in MLPerf's records: ten differently masked copies of the 500 shards
LAYOUT = f"part-00000-of-00500 ... part-00499-of-00500, {EVALUATION}, {VOCABULARY} and the phase-1 checkpoint"


@dataclass(frozen=True)
class Layout:
    """The files of a folder: `parts` in order, held-out text, vocabulary."""

    parts: tuple[Path, ...]
    evaluation: Path
    vocabulary: Path

    @property
    def complete(self) -> bool:
        """Whether these are the published files, as far as names and the held-out text's size tell."""
        names = [f"part-{number:05}-of-{PARTS:05}" for number in range(PARTS)]
        return [p.name for p in self.parts] == names and self.evaluation.stat().st_size == EVALUATION_BYTES


def find(folder: Path) -> Layout:
    """The files in `folder`. Raises SetupError that names what was expected and what is there."""
    parts = tuple(sorted(folder.glob("part-*-of-*")))
    files = {name: folder / name for name in (EVALUATION, VOCABULARY)}
    missing = [name for name, path in files.items() if not path.is_file()]
    if not parts:
        missing.insert(0, "part-*-of-*")
    if missing:
        there = ", ".join(sorted(path.name for path in folder.iterdir())[:20]) or "nothing"
        raise SetupError(f"{folder.name}: no {', '.join(missing)}; expected: {LAYOUT}; found: {there}")
    return Layout(parts, files[EVALUATION], files[VOCABULARY])


def source(layout: Layout) -> sources.Source:
    """The folder's hash over each file's name, size and first MiB: 13 GB are not read twice for their name."""
    total = hashlib.sha256()
    for path in (*layout.parts, layout.evaluation, layout.vocabulary):
        with path.open("rb") as file:
            start = hashlib.sha256(file.read(1 << 20)).hexdigest()
        total.update(f"{path.name}\0{path.stat().st_size}\0{start}\n".encode())
    version = "sha256 of the names, sizes and first MiB of its files"
    return sources.Source("wikipedia-20200101", version, layout.evaluation.parent.name, total.hexdigest())


def documents(path: Path, tokenizer: WordPiece) -> list[list[list[int]]]:
    """Articles of a shard as sentences of word numbers; empty sentences and articles are left out.

    Raises SetupError, naming the file, where it holds none or is no UTF-8 text.
    """
    found: list[list[list[int]]] = [[]]
    for line in _lines(path):
        if line.strip():
            sentence = tokenizer(line)
            if sentence:
                found[-1].append(sentence)
        elif found[-1]:
            found.append([])
    kept = [document for document in found if document]
    if not kept:
        raise SetupError(f"{path.name}: no text in it; expected: one sentence a line, an empty line between articles")
    return kept


def count_documents(path: Path) -> int:
    """Articles of a shard, not tokenized."""
    count, inside = 0, False
    for line in _lines(path):
        has_text = bool(line.strip())
        count += has_text and not inside
        inside = has_text
    return count


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8") as lines:
            yield from lines
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{path.name}: cannot be read as text: {error}") from None
