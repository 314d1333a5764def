"""Turn Criteo's 1 TB logs from text into the two binary files that train.py reads some hundred times faster.

    python -m reference.advertising.prepare --data-dir CRITEO_1TB --out PREPARED

Reads day_0 ... day_23 once and writes train_data.bin and test_data.bin, 160 bytes a row, in the layout that MLPerf's
reference reads. Training on them gives the same samples as training on the text.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

if not __package__:  # run as a script: python reference/<task>/prepare.py
    sys.path[:0] = [str(Path(__file__).resolve().parents[2] / part) for part in ("", "logging")]
    __package__ = f"reference.{Path(__file__).resolve().parent.name}"

import numpy as np

from reference.common.errors import SetupError

from . import criteo

NAMES = ("train_data.bin", "test_data.bin")


def convert(folder: Path, out: Path, max_ind_range: int) -> list[int]:
    """Write both files to `out` and return their numbers of rows.

    Raises SetupError for data that is not the 1 TB logs, files that are there already, and integers beyond 32 bits.
    """
    layout = criteo.find(folder, max_ind_range)
    if layout.binary or layout.name != "criteo-1tb":
        raise SetupError(f"{folder.name}: only the text of the 1 TB logs is prepared, this is {layout.name}")
    out.mkdir(parents=True, exist_ok=True)
    existing = [name for name in NAMES if (out / name).exists()]
    if existing:
        raise SetupError(f"{out.name}: {' and '.join(existing)} exists already; choose another --out or remove it")
    reader = criteo.Reader(layout, max_ind_range)
    counts = []
    for name, parts in zip(NAMES, criteo.parts(layout), strict=True):
        part_file, count = out / f"{name}.part", 0
        with part_file.open("wb") as file:
            for labels, dense, numbers in reader.rows(parts):
                columns = np.concatenate([labels[:, None].astype(np.int64), dense.astype(np.int64), numbers], axis=1)
                if columns.max() > np.iinfo(np.int32).max:
                    raise SetupError(f"{name}: an integer after row {count:,} does not fit 32 bits")
                columns.astype("<i4").tofile(file)
                count += len(columns)
                print(f"\r{name}: {count:,} rows", end="", flush=True)
        print()
        counts.append(count)
    for name in NAMES:  # whole or not at all
        (out / f"{name}.part").rename(out / name)
    return counts


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True, help="folder of day_0 ... day_23, plain or .gz")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--max-ind-range", type=int, default=40_000_000, help="codes are taken modulo this")
    given = parser.parse_args(argv)
    try:
        if not given.data_dir.is_dir():
            raise SetupError(f"--data-dir {given.data_dir} is not a folder")
        convert(given.data_dir, given.out, given.max_ind_range)
    except (SetupError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
