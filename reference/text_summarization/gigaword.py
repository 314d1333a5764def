"""Gigaword's first sentences and headlines: the published text files, and the folder of numbers made of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from reference.common import sources
from reference.common.errors import SetupError

SIDES = ("article", "title")
TEXT = {  # part -> (articles, titles), one a line, the same number of lines
    "train": ("train.article.txt", "train.title.txt"),
    "valid": ("valid.article.filter.txt", "valid.title.filter.txt"),
}
COUNTS = {"train": 3_803_957, "valid": 189_651}
HELD_OUT = 2_000  # the first so many of "valid" are evaluated, as many after them are for validation
LAYOUT = "DIR with " + ", ".join(name for names in TEXT.values() for name in names)
PREPARED_LAYOUT = (
    "DIR/manifest.json, words.json and for train, valid in article and title NAME.bin and NAME.starts.bin, as "
    "`python -m reference.<task>.prepare` writes them"
)
OWN = {"<unk>": "unk", "UNK": "unk"}  # how the published files mark rare words: in titles it is no word of ours


def lines(folder: Path, part: str, side: str) -> Iterator[list[str]]:
    """The words of each line, lower case. Raises SetupError for a missing file."""
    name = TEXT[part][SIDES.index(side)]
    try:
        with (folder / name).open(encoding="utf-8", errors="replace", newline="\n") as file:
            for line in file:
                yield [OWN.get(word, word).lower() for word in line.split()]
    except OSError as error:
        raise SetupError(f"{folder}: cannot read {name} ({error.strerror})\n  expected: {LAYOUT}") from None


def counted(folder: Path) -> tuple[Counter[str], dict[str, int]]:
    """How often each word is in the training part, and the pairs of each part.

    Raises:
        SetupError: a missing file, unequal numbers of lines, or others than published.
    """
    found: dict[str, int] = {}
    words: Counter[str] = Counter()
    for part in reversed(TEXT):  # the short one first
        sizes = []
        for side in SIDES:
            size = 0
            for line in lines(folder, part, side):
                size += 1
                if part == "train":
                    words.update(line)
            sizes.append(size)
        if sizes[0] != sizes[1]:
            raise SetupError(f"{TEXT[part][0]} has {sizes[0]:,} lines, {TEXT[part][1]} has {sizes[1]:,}")
        found[part] = sizes[0]
        if found[part] != COUNTS[part]:
            raise SetupError(f"{folder}: expected {COUNTS[part]:,} lines in {TEXT[part][0]}, found {found[part]:,}")
    return words, found


# ---- the prepared folder ---------------------------------------------------------------------------------------------


def write(folder: Path, part: str, side: str, rows: Iterator[list[int]]) -> None:
    """Word numbers as 32-bit integers, one line after the other, and where each starts as 64-bit ones."""
    starts = [0]
    with (folder / f"{part}.{side}.bin").open("wb") as file:
        for row in rows:
            np.array(row, dtype="<u4").tofile(file)
            starts.append(starts[-1] + len(row))
    np.array(starts, dtype="<i8").tofile(folder / f"{part}.{side}.starts.bin")


def arrays(folder: Path, part: str, side: str) -> tuple[np.ndarray, np.ndarray]:
    """What `write` wrote: the word numbers (mapped, not read) and the starts."""
    starts = np.fromfile(folder / f"{part}.{side}.starts.bin", dtype="<i8")
    return np.memmap(folder / f"{part}.{side}.bin", dtype="<u4", mode="r"), starts


def files(folder: Path) -> list[Path]:
    names = [f"{part}.{side}" for part in TEXT for side in SIDES]
    return [
        folder / name for name in (*(f"{name}{end}" for name in names for end in (".bin", ".starts.bin")), "words.json")
    ]


def check(folder: Path) -> int:
    """The number of known words. Raises SetupError unless the folder is whole, with the published counts of pairs."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise SetupError(f"--data-dir {folder}: no readable manifest.json\n  expected: {PREPARED_LAYOUT}") from None
    for path in files(folder):
        size = path.stat().st_size if path.is_file() else None
        wanted = manifest.get("bytes", {}).get(path.name)
        if size is None or size != wanted:
            found = "found none" if size is None else f"found {size}"
            raise SetupError(f"--data-dir {folder}: {path.name}: expected {wanted} bytes, {found}; prepare it again")
    if manifest.get("pairs") != COUNTS:
        raise SetupError(f"--data-dir {folder}: expected pairs {COUNTS}, found {manifest.get('pairs')}")
    return int(manifest["known_words"])


def words(folder: Path) -> list[str]:
    return json.loads((folder / "words.json").read_text(encoding="utf-8"))


def source(folder: Path) -> sources.Source:
    return sources.data_folder(folder, "gigaword-headlines", "numbers of prepare.py", files(folder))
