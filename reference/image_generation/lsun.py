"""LSUN's bedrooms in their owners' layout: an LMDB folder of encoded pictures, read with lmdb and Pillow."""

from __future__ import annotations

import functools
import hashlib
import io
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from reference.common import runs, sources

FOLDER = "bedroom_train_lmdb"
LAYOUT = f"{FOLDER}/data.mdb and lock.mdb, unpacked from bedroom_train_lmdb.zip (3,033,042 pictures)"
PICTURES = 3_033_042


class Bedrooms:
    """All pictures of the folder, in the order of their keys: `len(...)`, and `decoded(numbers)`.

    Raises SetupError when the folder or a package that reads it is missing, or the number of pictures is another.
    """

    def __init__(self, data_dir: Path, side: int) -> None:
        self.side = side
        path = data_dir / FOLDER
        if not (path / "data.mdb").is_file():
            raise runs.SetupError(f"{path} has no data.mdb\n  expected: {LAYOUT}")
        self._image = _reading()[1]
        self._environment = _opened(path.resolve())
        with self._environment.begin() as transaction:
            self.keys = [bytes(key) for key in transaction.cursor().iternext(values=False)]
        if len(self.keys) != PICTURES:
            raise runs.SetupError(f"{path}: expected {PICTURES} pictures, found {len(self.keys)}\n  expected: {LAYOUT}")
        self._pool = ThreadPoolExecutor()  # Pillow decodes outside the interpreter's lock

    def __len__(self) -> int:
        return len(self.keys)

    def source(self) -> sources.Source:
        """The hash is over the keys, not over the pictures' 43 GB."""
        total = hashlib.sha256(b"\0".join(self.keys))
        return sources.Source("lsun", "bedroom_train_lmdb, keys only", f"{FOLDER}/data.mdb", total.hexdigest())

    def decoded(self, numbers: Sequence[int]) -> np.ndarray:
        """Pictures (n, side, side, 3) uint8: the shorter side resized to `side`, then the middle cut out."""
        with self._environment.begin() as transaction:
            encoded = [bytes(transaction.get(self.keys[number])) for number in numbers]
        return np.stack(list(self._pool.map(self._picture, encoded, numbers)))

    def _picture(self, encoded: bytes, number: int) -> np.ndarray:
        try:
            with self._image.open(io.BytesIO(encoded)) as image:
                picture = image.convert("RGB")
        except (OSError, SyntaxError, ValueError) as error:  # Pillow raises each of them for damaged files
            raise runs.SetupError(f"{FOLDER}: picture {self.keys[number]!r} is not readable: {error}") from None
        width, height = picture.size
        scale = self.side / min(width, height)
        picture = picture.resize((max(round(width * scale), self.side), max(round(height * scale), self.side)), 2)
        left, top = (picture.width - self.side) // 2, (picture.height - self.side) // 2
        return np.asarray(picture.crop((left, top, left + self.side, top + self.side)), np.uint8)


@functools.cache
def _opened(path: Path) -> Any:
    """LMDB allows one open handle of a folder in a process, so that it stays open and is shared."""
    lmdb = _reading()[0]
    try:
        return lmdb.open(str(path), readonly=True, lock=False, readahead=False, meminit=False)
    except lmdb.Error as error:
        raise runs.SetupError(f"{path}: not a readable LMDB folder: {error}") from None


def _reading() -> tuple[Any, Any]:
    try:
        import lmdb
        from PIL import Image
    except ImportError as error:
        raise runs.SetupError(f"LSUN is read with lmdb and Pillow: {error}\n  pip install lmdb pillow") from None
    return lmdb, Image
