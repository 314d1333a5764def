"""RGB-D pictures of people on disk: pairs of a png and a npy, named by a CSV file with their class."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from reference.common import runs, sources

LAYOUT = (
    "one CSV file DIR/*.csv with a first line rgb_path,dep_path,class, and the files that it names, relative to DIR: "
    "<class>/<number>.png (colour) and <class>/<number>.npy (depth, height x width)"
)
CLASSES, SAMPLES = 253, 77_715  # of the set that the target is of
COLUMNS = ("rgb_path", "dep_path", "class")
SHARES, SPLIT_SEED = (0.8, 0.1), 2333  # training, validation; the rest is the evaluation
AT_LEAST = 10  # samples of a class; classes with fewer are left out

Sample = tuple[Path, Path, int]  # colour, depth, class


def listed(data_dir: Path, classes: int) -> tuple[list[Sample], list[Sample], list[Sample], list[sources.Source]]:
    """Training, validation and evaluation samples, split at random by a fixed seed, and the source.

    classes: how many are expected. The logged hash is over the CSV file and the names of the files. Raises SetupError,
    naming the line or the file, for what isn't as expected.
    """
    found = sorted(data_dir.glob("*.csv"))
    if len(found) != 1:
        raise runs.SetupError(f"{data_dir}: expected one CSV file, found {len(found)}\n  expected: {LAYOUT}")
    rows = _rows(found[0], data_dir)
    names: dict[str, int] = {}
    for _, _, name in rows:
        names[name] = names.get(name, 0) + 1
    kept = {name: number for number, name in enumerate(sorted(n for n, count in names.items() if count >= AT_LEAST))}
    samples = [(rgb, depth, kept[name]) for rgb, depth, name in rows if name in kept]
    if len(kept) != classes or (classes == CLASSES and len(samples) != SAMPLES):
        whole = f" with {SAMPLES} samples" if classes == CLASSES else ""
        raise runs.SetupError(
            f"{found[0]}: expected {classes} classes of {AT_LEAST} samples or more{whole}, found {len(kept)} with "
            f"{len(samples)}\n  another number of classes: --classes N --division open"
        )
    order = np.random.default_rng(SPLIT_SEED).permutation(len(samples))
    first, second = int(SHARES[0] * len(samples)), int(sum(SHARES) * len(samples))
    parts = [[samples[row] for row in rows_] for rows_ in (order[:first], order[first:second], order[second:])]
    total = hashlib.sha256("".join(f"{rgb} {depth} {name}\n" for rgb, depth, name in _told(rows, data_dir)).encode())
    used = [
        sources.data_file(found[0], "rgbd-faces", "the list", data_dir),
        sources.Source("rgbd-faces", "names and classes", "", total.hexdigest()),
    ]
    return parts[0], parts[1], parts[2], used


def read(sample: Sample, size: int) -> np.ndarray:
    """A sample as (size, size, 4) uint8: red, green, blue, depth; 255 is near, 1 far, 0 is no depth.

    Colour is squeezed bilinearly, depth by the nearest pixel, so that no depth between two surfaces arises. The file's
    unit doesn't matter: the range is each picture's own, from the 1st to the 99th percentile of its depths. 0 and what
    is no number are no depth. Raises SetupError for a file that isn't what it should be.
    """
    try:
        from PIL import Image
    except ImportError:
        raise runs.SetupError("pictures are read with Pillow, which is missing\n  pip install pillow") from None
    colour, depth_file, _ = sample
    out = np.zeros((size, size, 4), np.uint8)
    try:
        with Image.open(colour) as image:
            out[..., :3] = np.asarray(image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR))
    except (OSError, SyntaxError, ValueError) as error:  # Pillow raises each of them for damaged files
        raise runs.SetupError(f"{colour}: not a readable picture: {error}") from None
    try:
        depth = np.load(depth_file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise runs.SetupError(f"{depth_file}: not a readable array: {error}") from None
    if depth.ndim == 3 and depth.shape[2] == 1:
        depth = depth[..., 0]
    if depth.ndim != 2 or not depth.size or depth.dtype.kind not in "fiu":
        raise runs.SetupError(f"{depth_file}: expected numbers (height, width), found {depth.dtype} {depth.shape}")
    rows, columns = (((np.arange(size) + 0.5) * side / size).astype(np.int64) for side in depth.shape)
    depth = depth[rows[:, None], columns].astype(np.float64)
    known = np.isfinite(depth) & (depth > 0)
    nearest, farthest = np.percentile(depth[known], (1, 99)) if known.any() else (0.0, 1.0)
    near = (farthest - np.where(known, depth, farthest)) / max(farthest - nearest, 1e-9)
    out[..., 3] = np.where(known, 1 + np.round(near.clip(0, 1) * 254), 0)
    return out


def _rows(path: Path, data_dir: Path) -> list[tuple[Path, Path, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            lines, columns = list(reader), reader.fieldnames or []
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise runs.SetupError(f"{path}: cannot be read: {error}") from None
    if not set(COLUMNS) <= set(columns):
        raise runs.SetupError(f"{path}: expected the columns {', '.join(COLUMNS)}, found {', '.join(columns)}")
    rows = []
    for number, line in enumerate(lines, start=2):
        if not all(line[name] for name in COLUMNS):
            raise runs.SetupError(f"{path}:{number}: expected {', '.join(COLUMNS)}")
        colour, depth = data_dir / line["rgb_path"], data_dir / line["dep_path"]
        for file_ in (colour, depth):
            if not file_.is_file():
                raise runs.SetupError(f"{path}:{number}: there is no file {file_}")
        rows.append((colour, depth, line["class"].strip()))
    return rows


def _told(rows: Sequence[tuple[Path, Path, str]], data_dir: Path) -> list[tuple[str, str, str]]:
    return [(rgb.relative_to(data_dir).as_posix(), d.relative_to(data_dir).as_posix(), name) for rgb, d, name in rows]
