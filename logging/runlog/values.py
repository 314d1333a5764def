"""From Python objects to values that JSON can hold, or an error that names the key. Nothing is dropped or guessed."""

from __future__ import annotations

import math
import re
from enum import Enum
from pathlib import Path, PurePath
from typing import TypeAlias

Plain: TypeAlias = "None | bool | int | float | str | list[Plain] | dict[str, Plain]"

_ABSOLUTE = re.compile(r"(?<![\w.:/\\])(?:[A-Za-z]:)?[/\\](?:[^\s'\"/\\:,;()<>]+[/\\])+")


def plain(value: object, key: str, root: Path | None = None) -> Plain:
    """Convert `value` for the record `key`.

    Taken: None, bool, int, float, str, dict with text keys, list, tuple, Enum (its value), numpy and torch scalars and
    arrays (anything with `shape` and `item`/`tolist`), relative paths, and absolute paths below `root` (made relative
    to it). Raises TypeError for everything else, sets and bytes included; ValueError for another absolute path.
    """
    if isinstance(value, Enum):
        return plain(value.value, key, root)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, PurePath):
        return _relative(value, key, root)
    if isinstance(value, dict):
        for name in value:
            if not isinstance(name, str):
                raise TypeError(f"{key}: a dict key must be text, not {type(name).__name__} ({name!r})")
        return {name: plain(item, key, root) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, key, root) for item in value]
    shape = getattr(value, "shape", None)
    convert = getattr(value, "item" if shape == () else "tolist", None)
    if shape is not None and callable(convert):
        converted = convert()
        if type(converted) is not type(value):
            return plain(converted, key, root)
    raise TypeError(f"{key}: cannot log a value of type {type(value).__name__}; convert it first ({value!r:.80})")


def _relative(path: PurePath, key: str, root: Path | None) -> str:
    if not path.is_absolute():
        return path.as_posix()
    if root is not None and path.is_relative_to(root):
        return path.relative_to(root).as_posix()
    raise ValueError(f"{key}: a log names no absolute path; log the package or folder name and a hash ({path.name})")


def require_finite(value: Plain, key: str) -> None:
    """Raise ValueError, naming `key`, when a number anywhere in `value` is NaN or infinite."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{key}: {value} is not a finite number, and this value is judged")
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        require_finite(item, key)


def without_places(text: str) -> str:
    """`text` with the folders of absolute paths cut off: an exception's message must not put them into a log."""
    return _ABSOLUTE.sub("", text)
