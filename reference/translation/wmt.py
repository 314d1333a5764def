"""WMT 2014 English-German: the published text, and the folder of token numbers that prepare.py makes of it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from reference.common import sources
from reference.common.errors import SetupError

TEXT = {  # part -> (English file, German file) below the folder in which the five archives were unpacked
    "europarl": ("training/europarl-v7.de-en.en", "training/europarl-v7.de-en.de"),
    "commoncrawl": ("commoncrawl.de-en.en", "commoncrawl.de-en.de"),
    "news-commentary": ("training/news-commentary-v9.de-en.en", "training/news-commentary-v9.de-en.de"),
    "newstest2013": ("dev/newstest2013.en", "dev/newstest2013.de"),
    "newstest2014": ("test-full/newstest2014-deen-src.en.sgm", "test-full/newstest2014-deen-ref.de.sgm"),
}
TRAIN_PARTS = ("europarl", "commoncrawl", "news-commentary")
COUNTS = {"train": 4_508_785, "newstest2013": 3_000, "newstest2014": 3_003}  # pairs with text on both sides
LAYOUT = "DIR with " + ", ".join(name for names in TEXT.values() for name in names)
PREPARED_LAYOUT = (
    "DIR/manifest.json, vocabulary.json and for train, newstest2013, newstest2014 in en and de NAME.bin and "
    "NAME.starts.bin, as `python -m reference.<task>.prepare` writes them"
)
BLANK = "\u2581"  # stands before a piece that begins a word


def pairs(folder: Path, part: str) -> Iterator[tuple[str, str]]:
    """The pairs of one part of the text; those with an empty side are left out.

    Raises:
        SetupError: a file is missing, or the two don't have as many lines.
    """
    english, german = (_lines(folder, name) for name in TEXT[part])
    if len(english) != len(german):
        raise SetupError(f"{TEXT[part][0]} has {len(english):,} lines, {TEXT[part][1]} has {len(german):,}")
    for source, target in zip(english, german, strict=True):
        if source and target:
            yield source, target


def _lines(folder: Path, name: str) -> list[str]:
    try:
        text = (folder / name).read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise SetupError(f"{folder}: cannot read {name} ({error.strerror})\n  expected: {LAYOUT}") from None
    if name.endswith(".sgm"):
        return [html.unescape(line).strip() for line in re.findall(r"<seg id=[^>]*>(.*?)</seg>", text, re.S)]
    lines = text.split("\n")
    return [line.strip() for line in (lines[:-1] if lines[-1] == "" else lines)]


def joined(pieces: list[str]) -> str:
    return "".join(pieces).replace(BLANK, " ").strip()


# ---- the prepared folder ---------------------------------------------------------------------------------------------


def write(folder: Path, name: str, language: str, rows: list[list[int]]) -> None:
    """Token numbers as 16-bit integers, one sentence after the other, and where each starts as 64-bit ones."""
    lengths = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
    np.fromiter((number for row in rows for number in row), dtype="<u2").tofile(folder / f"{name}.{language}.bin")
    starts = np.concatenate([[0], np.cumsum(lengths)])
    starts.astype("<i8").tofile(folder / f"{name}.{language}.starts.bin")


def arrays(folder: Path, name: str, language: str) -> tuple[np.ndarray, np.ndarray]:
    """What `write` wrote: the token numbers (mapped, not read) and the starts."""
    starts = np.fromfile(folder / f"{name}.{language}.starts.bin", dtype="<i8")
    return np.memmap(folder / f"{name}.{language}.bin", dtype="<u2", mode="r"), starts


def files(folder: Path) -> list[Path]:
    numbers = [f"{name}.{language}" for name in COUNTS for language in ("en", "de")]
    names = [*(f"{name}{end}" for name in numbers for end in (".bin", ".starts.bin")), "vocabulary.json"]
    return [folder / name for name in names]


def check(folder: Path) -> None:
    """Raise SetupError unless the folder holds what prepare.py wrote, whole, with the published counts of pairs."""
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
    found = manifest.get("pairs")
    if found != COUNTS:
        raise SetupError(f"--data-dir {folder}: expected pairs {COUNTS}, found {found}")


def vocabulary(folder: Path) -> list[str]:
    return json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))


def source(folder: Path) -> sources.Source:
    return sources.data_folder(folder, "wmt14-en-de", "sub-words of prepare.py", files(folder))
