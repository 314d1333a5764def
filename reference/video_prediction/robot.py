"""BAIR's robot pushing clips (softmotion30_44k): TFRecord files in the folders `train` and `test`, 64 x 64 pixels.

Clips of Google's push set, whose features have other names and hold JPEG pictures, are understood too.
"""

from __future__ import annotations

import hashlib
import io
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reference.common import runs, sources

from . import tfrecords

LAYOUT = (
    "train/*.tfrecords (43,264 clips of 30 frames) and test/*.tfrecords (256), of bair_robot_pushing_dataset_v0.tar"
)
COUNTS = {"train": 43_264, "test": 256}
HASHED = 1 << 20  # bytes of each file
# names of a frame's features: picture, action, state
STYLES = {
    "bair": ("{}/image_aux1/encoded", "{}/action", "{}/endeffector_pos"),
    "google": ("move/{}/image/encoded", "move/{}/commanded_pose/vec_pitch_yaw", "move/{}/endeffector/vec_pitch_yaw"),
}


@dataclass(frozen=True)
class Records:
    """Clips that are read from their files when they are wanted: (file, offset, length) of each."""

    places: list[tuple[Path, int, int]]
    size: int
    length: int

    def __len__(self) -> int:
        return len(self.places)

    def part(self, rows: np.ndarray) -> Records:
        return Records([self.places[row] for row in rows], self.size, self.length)

    def read(self, rows: np.ndarray, draws: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Frames (k, t, size, size, 3) uint8, actions (k, t, a) and states (k, t, s) float32 of these clips.

        draws: one number, 0..1, for each clip: where in it the `length` frames begin; None for its beginning.
        """
        starts = np.zeros(len(rows)) if draws is None else draws
        with ThreadPoolExecutor() as pool:
            clips = list(
                pool.map(
                    lambda pair: clip(*self.places[pair[0]], self.size, self.length, pair[1]),
                    zip(rows, starts, strict=True),
                )
            )
        return tuple(np.stack(part) for part in zip(*clips, strict=True))


def part(data_dir: Path, name: str, size: int, length: int) -> tuple[Records, sources.Source]:
    """The clips of `train` or `test`, by file name. Raises SetupError for missing, surplus or damaged files."""
    files = sorted((data_dir / name).glob("*.tfrecord*"))
    places = [(path, *place) for path in files for place in tfrecords.index(path)]
    if len(places) != COUNTS[name]:
        where = f"{data_dir / name}: expected {COUNTS[name]} clips in *.tfrecords"
        raise runs.SetupError(f"{where}, found {len(places)} in {len(files)} files\n  expected: {LAYOUT}")
    total = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            total.update(
                f"{path.name}\0{path.stat().st_size}\0{hashlib.sha256(file.read(HASHED)).hexdigest()}\n".encode()
            )
    source = sources.Source(
        "bair_robot_pushing", f"{name}, names, sizes and the first MiB of each file", name, total.hexdigest()
    )
    return Records(places, size, length), source


def clip(path: Path, offset: int, size_bytes: int, size: int, length: int, draw: float) -> tuple[np.ndarray, ...]:
    """Frames (length, size, size, 3) uint8, actions and states (length, ...) float32 of one record.

    draw: 0..1, where in the record the frames begin. Raises SetupError, naming the record, for anything missing.
    """
    features = tfrecords.example(path, offset, size_bytes)
    where = f"{path}, record at byte {offset - 12}"
    style = next((names for names in STYLES.values() if names[0].format(0) in features), None)
    if style is None:
        raise runs.SetupError(f"{where}: no feature {STYLES['bair'][0].format(0)}; it has {sorted(features)[:3]} ...")
    frames = next(count for count in range(len(features) + 1) if style[0].format(count) not in features)
    if frames < length:
        raise runs.SetupError(f"{where}: expected at least {length} frames, found {frames}")
    start = min(int(draw * (frames - length + 1)), frames - length)
    found: tuple[list[np.ndarray], ...] = ([], [], [])
    for step in range(start, start + length):
        for kind, name in enumerate(part.format(step) for part in style):
            if name not in features:
                raise runs.SetupError(f"{where}: no feature {name}")
            value = features[name]
            if kind == 0:
                value = picture(value if isinstance(value, bytes) else b"", size, f"{where}, {name}")
            elif not isinstance(value, np.ndarray) or value.dtype != np.float32:
                raise runs.SetupError(f"{where}: {name} holds no floats")
            found[kind].append(value)
    return tuple(np.stack(part) for part in found)


def picture(content: bytes, size: int, where: str) -> np.ndarray:
    """(size, size, 3) uint8 of raw bytes, or of an encoded picture, whose middle square is taken and resized."""
    side = round((len(content) / 3) ** 0.5)
    encoded = content.startswith((b"\xff\xd8\xff", b"\x89PNG"))
    if not encoded and side > 0 and side * side * 3 == len(content):
        raw = np.frombuffer(content, np.uint8).reshape(side, side, 3)
        if side != size:
            raise runs.SetupError(f"{where}: expected {size}x{size} pixels, found {side}x{side}")
        return raw
    try:
        from PIL import Image
    except ImportError:
        raise runs.SetupError("encoded pictures are read with Pillow, which is missing\n  pip install pillow") from None
    try:
        image = Image.open(io.BytesIO(content)).convert("RGB")
    except (OSError, SyntaxError, ValueError) as error:  # Pillow raises each of them for damaged pictures
        raise runs.SetupError(f"{where}: not a readable picture of {len(content)} bytes: {error}") from None
    width, height = image.size
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return np.asarray(image.crop((left, top, left + side, top + side)).resize((size, size), 3), np.uint8)  # 3: bicubic
