"""The Penn Treebank in Mikolov's preparation: three files of words."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from reference.common import sources
from reference.common.errors import SetupError

NAME, VERSION = "penn-treebank", "mikolov"
PARTS = ("train", "valid", "test")
TOKENS = (929_589, 73_760, 82_430)  # words of each part, a sentence end after each line counted as one
WORDS = 10_000  # different ones in the training part, <unk> and the sentence end among them
END = "<eos>"
LAYOUT = "ptb.train.txt, ptb.valid.txt and ptb.test.txt (or train.txt, valid.txt, test.txt), in it or in its data/"


def read(folder: Path) -> tuple[list[np.ndarray], list[str], list[sources.Source]]:
    """The three parts as word numbers (int64), the words by number, and what the log says of the files.

    Words are numbered by their count in the training part, of equal counts the one that comes first there. Raises
    SetupError for a missing or unreadable file, other counts than the published ones, and a word that the training part
    lacks.
    """
    paths = [_find(folder, part) for part in PARTS]
    parts = [_words(path) for path in paths]
    words = [word for word, _ in Counter(parts[0]).most_common()]
    found = tuple(len(part) for part in parts)
    if found != TOKENS or len(words) != WORDS:
        expected = f"{TOKENS[0]:,}, {TOKENS[1]:,} and {TOKENS[2]:,} words and a vocabulary of {WORDS:,}"
        counted = f"{found[0]:,}, {found[1]:,} and {found[2]:,} and {len(words):,}"
        raise SetupError(f"--data-dir {folder}: expected {expected} (line ends counted as words), found {counted}")
    numbers = {word: number for number, word in enumerate(words)}
    for path, part in zip(paths, parts, strict=True):
        if unknown := set(part) - numbers.keys():
            raise SetupError(f"{path}: {len(unknown)} words that the training part lacks, say {min(unknown)!r}")
    files = [sources.data_file(path, NAME, VERSION, folder) for path in paths]
    return [np.array([numbers[word] for word in part]) for part in parts], words, files


def _find(folder: Path, part: str) -> Path:
    for path in (base / name for base in (folder, folder / "data") for name in (f"ptb.{part}.txt", f"{part}.txt")):
        if path.is_file():
            return path
    raise SetupError(f"--data-dir {folder}: no ptb.{part}.txt and no {part}.txt\n  expected: {LAYOUT}")


def _words(path: Path) -> list[str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{path}: cannot be read: {error}") from None
    return [word for line in lines for word in (*line.split(), END)]
