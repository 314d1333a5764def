"""Labeled Faces in the Wild for the evaluation: the pairs of its pairs.txt, ten folds of 300 and 300."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from reference.common import runs, sources

from . import metric
from .vggface2 import LAYOUT, SUFFIXES, plain

FOLDS, PER_FOLD = 10, 300  # folds; pairs of each kind in one
PEOPLE = 5749


def listed(data_dir: Path) -> tuple[list[Path], metric.Pairs, set[str], list[sources.Source]]:
    """The pictures that pairs.txt names, the pairs as rows of them, the plain names of all people, and the sources.

    Raises SetupError, naming the line or the picture, for anything that isn't as its owners publish it.
    """
    folder, file = data_dir / "lfw", data_dir / "pairs.txt"
    people = sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []
    if len(people) != PEOPLE:
        raise runs.SetupError(
            f"{folder}: expected {PEOPLE} folders, one a person, found {len(people)}\n  expected: {LAYOUT}"
        )
    paths: list[Path] = []
    places: dict[tuple[str, int], int] = {}

    def place(name: str, number: int, line: int) -> int:
        if (name, number) not in places:
            stem = folder / name / f"{name}_{number:04d}"
            there = [path for suffix in SUFFIXES if (path := stem.with_name(stem.name + suffix)).is_file()]
            if not there:
                raise runs.SetupError(f"{file}:{line}: there is no picture {stem}.jpg or .png")
            places[name, number] = len(paths)
            paths.append(there[0])
        return places[name, number]

    rows, same, folds = [], [], []
    for line, (fold, matched, (first, second)) in enumerate(_pairs(file), start=2):
        rows.append((place(*first, line), place(*second, line)))
        same.append(matched)
        folds.append(fold)
    pairs = metric.Pairs(torch.tensor(rows), torch.tensor(same), torch.tensor(folds))
    found = [
        sources.data_file(file, "lfw", "pairs", data_dir),
        sources.data_folder(folder, "lfw", "the pictures of the pairs", paths),
    ]
    return paths, pairs, {plain(name) for name in people}, found


def _pairs(file: Path) -> list[tuple[int, bool, tuple[tuple[str, int], tuple[str, int]]]]:
    """(fold, same, ((name, number), (name, number))) of each line; in a fold, the pairs of one person come first."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise runs.SetupError(f"{file}: cannot be read: {error.strerror}\n  expected: {LAYOUT}") from None
    expected = f"expected a first line {FOLDS} {PER_FOLD} and {2 * FOLDS * PER_FOLD} lines after it"
    if not lines or lines[0].split() != [str(FOLDS), str(PER_FOLD)] or len(lines) != 2 * FOLDS * PER_FOLD + 1:
        raise runs.SetupError(f"{file}: {expected}, found {lines[:1]} and {max(len(lines) - 1, 0)}")
    found = []
    for number, line in enumerate(lines[1:]):
        words = line.split()
        matched = number // PER_FOLD % 2 == 0
        numbers = [words[at] for at in ((1, 2) if matched else (1, 3)) if at < len(words)]
        if len(words) != (3 if matched else 4) or not all(word.isdigit() for word in numbers):
            form = "name number number" if matched else "name number name number"
            raise runs.SetupError(f"{file}:{number + 2}: expected {form}, found {line!r}")
        first, second = int(numbers[0]), int(numbers[1])
        pair = (words[0], first), (words[0] if matched else words[2], second)
        found.append((number // (2 * PER_FOLD), matched, pair))
    return found


def drawn(labels: np.ndarray, folds: int, per_fold: int, seed: int) -> metric.Pairs:
    """Pairs in the form of pairs.txt for pictures of any people: rows of `labels` (n,), the people's numbers.

    Each fold has people of its own and `per_fold` pairs of one person and as many of two, without repetition. Raises
    ValueError when a fold's people have too few pictures.
    """
    rng = np.random.default_rng(seed)
    rows, same, of_fold = [], [], []
    for fold, people in enumerate(np.array_split(rng.permutation(np.unique(labels)), folds)):
        own = np.flatnonzero(np.isin(labels, people))
        first, second = (own[part] for part in np.triu_indices(len(own), 1))
        matched = labels[first] == labels[second]
        for kind in (True, False):
            possible = np.flatnonzero(matched == kind)
            if len(possible) < per_fold:
                raise ValueError(f"fold {fold} has {len(possible)} of {per_fold} pairs")
            for at in rng.choice(possible, per_fold, replace=False):
                rows.append((int(first[at]), int(second[at])))
                same.append(kind)
                of_fold.append(fold)
    return metric.Pairs(torch.tensor(rows), torch.tensor(same), torch.tensor(of_fold))
