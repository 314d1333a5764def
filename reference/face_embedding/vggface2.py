"""VGGFace2 for training: one folder of pictures for each person, and who the folders are."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

import numpy as np

from reference.common import runs, sources

LAYOUT = (
    "DIR/train/<class>/*.jpg or *.png (8,631 folders, up to 3,141,890 pictures) and DIR/meta/identity_meta.csv of "
    "VGGFace2; DIR/lfw/<name>/<name>_<number>.jpg or .png (5,749 folders, 13,233 pictures) and DIR/pairs.txt of "
    "Labeled Faces in the Wild; the faces of both cut out alike"
)
CLASSES, PICTURES = 8631, 3_141_890
LOST = 0.01  # of the pictures may be missing: a face detector doesn't find every face
META = Path("meta", "identity_meta.csv")
SUFFIXES = (".jpg", ".png")


def pictures_in(folder: Path) -> list[Path]:
    """The pictures of one person's folder, by name."""
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)


def listed(data_dir: Path, excluded: set[str]) -> tuple[list[Path], np.ndarray, list[str], list[sources.Source]]:
    """Pictures, their persons' numbers (n,) int64, the persons' names by number, and the sources.

    excluded: names, as `plain` writes them, whose folders are left out. The hash of the pictures is over their names
    only. Raises SetupError, saying what was expected and found, where a part is missing.
    """
    folder = data_dir / "train"
    classes = sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if len(classes) != CLASSES:
        raise runs.SetupError(
            f"{folder}: expected {CLASSES} folders, one a person, found {len(classes)}\n  expected: {LAYOUT}"
        )
    names = _names(data_dir / META)
    unknown = [path.name for path in classes if path.name not in names]
    if unknown:
        raise runs.SetupError(f"{data_dir / META} has no line for {len(unknown)} classes: {unknown[0]}, for one")
    paths: list[Path] = []
    numbers: list[int] = []
    kept: list[str] = []
    total, count = hashlib.sha256(), 0
    for path in classes:
        own = pictures_in(path)
        count += len(own)
        total.update("".join(f"{path.name}/{picture.name}\n" for picture in own).encode())
        if names[path.name] not in excluded and len(own) > 1:
            paths += own
            numbers += [len(kept)] * len(own)
            kept.append(names[path.name])
    if not (1 - LOST) * PICTURES <= count <= PICTURES:
        raise runs.SetupError(f"{folder}: expected up to {PICTURES} pictures, found {count}\n  expected: {LAYOUT}")
    found = [
        sources.Source("vggface2", "names of the pictures", "train", total.hexdigest()),
        sources.data_file(data_dir / META, "vggface2", "who the classes are", data_dir),
    ]
    return paths, np.array(numbers, np.int64), kept, found


def plain(name: str) -> str:
    """A name without what two lists write differently: case, blanks, underscores, quotes, dots."""
    return "".join(letter for letter in name.casefold() if letter.isalnum())


def _names(path: Path) -> dict[str, str]:
    """Class -> plain name, of lines "n000001, "14th_Dalai_Lama", 424, 0, m"."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = [row for row in csv.reader(file, skipinitialspace=True) if row]
    except OSError as error:
        raise runs.SetupError(f"{path}: cannot be read: {error.strerror}\n  expected: {LAYOUT}") from None
    if not rows or len(rows[0]) < 2 or rows[0][0].strip() != "Class_ID":
        raise runs.SetupError(f"{path}: expected a first line Class_ID, Name, ..., found {rows[:1]}")
    short = [number for number, row in enumerate(rows, start=1) if len(row) < 2]
    if short:
        raise runs.SetupError(f"{path}:{short[0]}: expected a class and a name")
    return {row[0].strip(): plain(row[1]) for row in rows[1:]}
