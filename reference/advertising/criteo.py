"""The two Criteo click logs, streamed from their published files (full profile).

Three layouts are known: the 1 TB logs (day_0 ... day_23, plain or .gz), the Kaggle challenge (train.txt, plain or .gz),
and the binary files that DLRM's authors and MLPerf make of the 1 TB logs (train_data.bin, test_data.bin). A row of text
has 40 fields between tabs: label, 13 integers, 26 hexadecimal codes of up to 8 digits; integers and codes may be empty.
A binary row has the same 40 as int32, the codes already numbered.

Memory holds one piece of a file, and for text the number given to each code (4 bytes times the codes' range a field).
"""

from __future__ import annotations

import functools
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from reference.common.errors import SetupError

from .samples import Samples

NUMBERS, TABLES = 13, 26
FIELDS = 1 + NUMBERS + TABLES
DAYS = 24
PIECE = 32 << 20  # bytes read at a time
LONGEST_LINE = 1 << 16  # bytes; real ones have at most 400
# Distinct codes of each field, codes taken modulo 40,000,000 (DLRM's authors' scripts, MLPerf v0.7) ...
TERABYTE_ROWS = (39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10, 2208, 11938,
                 155, 4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36)  # fmt: skip
# ... and of the Kaggle data, not reduced (same source).
KAGGLE_ROWS = (1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194, 27, 14992, 5461306, 10,
               5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572)  # fmt: skip

Rows = tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.int64]]  # labels, dense, codes


@dataclass(frozen=True)
class Part:
    """Rows `start` to `stop` (not included) of one file."""

    path: Path
    start: int
    stop: int


@dataclass(frozen=True)
class Layout:
    """A folder of a known layout: its `files` in the order they are read in, and the rows of each table."""

    name: str  # criteo-1tb or criteo-kaggle
    files: tuple[Path, ...]
    table_rows: tuple[int, ...]
    binary: bool = False


def find(folder: Path, max_ind_range: int) -> Layout:
    """The layout of `folder`. Tables have the published number of rows, at most `max_ind_range`.

    Raises SetupError that names what was expected and what is there.
    """
    present = {path.name: path for path in folder.iterdir()}

    def capped(rows: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(min(count, max_ind_range) for count in rows)

    if "train_data.bin" in present and "test_data.bin" in present:
        files = (present["train_data.bin"], present["test_data.bin"])
        return Layout("criteo-1tb", files, capped(TERABYTE_ROWS), binary=True)
    days = [present.get(f"day_{day}") or present.get(f"day_{day}.gz") for day in range(DAYS)]
    if all(days):
        return Layout("criteo-1tb", tuple(path for path in days if path), capped(TERABYTE_ROWS))
    kaggle = present.get("train.txt") or present.get("train.txt.gz")
    if kaggle:
        return Layout("criteo-kaggle", (kaggle,), capped(KAGGLE_ROWS))
    missing = ", ".join(f"day_{day}" for day, path in enumerate(days) if path is None)
    raise SetupError(
        f"no Criteo data in {folder.name!r}: expected day_0 to day_23 (plain or .gz), or train.txt (plain or .gz),"
        f" or train_data.bin and test_data.bin; found {', '.join(sorted(present)[:30]) or 'nothing'}"
        + (f"; of the days {missing} is missing" if any(days) else "")
    )


def parts(layout: Layout) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """The rows that train, and those held out. Text files are read once to be counted; binary ones tell by their size.

    1 TB logs: days 0 to 22 train, the first half of day 23 is held out. Kaggle: its rows stand for seven days of equal
    length; six train, the first half of the seventh is held out. (The other halves are MLPerf's validation data.)
    """
    if layout.binary:
        train, test = (Part(path, 0, binary_rows(path)) for path in layout.files)
        return (train,), (test,)
    counts = [text_rows(path) for path in layout.files]
    if layout.name == "criteo-kaggle":
        count = counts[0]
        last_day = count - count // 7
        middle = last_day + (count - last_day + 1) // 2
        return (Part(layout.files[0], 0, last_day),), (Part(layout.files[0], last_day, middle),)
    days = [Part(path, 0, count) for path, count in zip(layout.files, counts, strict=True)]
    return tuple(days[:-1]), (Part(days[-1].path, 0, (counts[-1] + 1) // 2),)


def binary_rows(path: Path) -> int:
    """Rows of a binary file. Raises SetupError where its size is no multiple of a row's 160 bytes."""
    size = path.stat().st_size
    if size % (4 * FIELDS):
        raise SetupError(f"{path.name}: {size:,} bytes are not a whole number of rows of {4 * FIELDS} bytes")
    return size // (4 * FIELDS)


def text_blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a text file, plain or .gz, block by block. Raises SetupError where it cannot be read to its end."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            while block := file.read(PIECE):
                yield block
    except (OSError, EOFError, zlib.error) as error:
        raise SetupError(f"{path.name}: cannot be read to its end: {error}") from None


def text_rows(path: Path) -> int:
    """Lines of a text file; the last one need not end in a line break. Remembered while the file stays the same."""
    stat = path.stat()
    return count_lines(path, stat.st_size, stat.st_mtime_ns)


@functools.cache
def count_lines(path: Path, size: int, modified: int) -> int:
    count, last = 0, b"\n"
    for block in text_blocks(path):
        count += block.count(b"\n")
        last = block[-1:]
    return count + (last != b"\n")


@dataclass
class Reader:
    """Reads parts of a layout, piece by piece. Keep one reader a run: it remembers the number it gave to each code.

    Text codes are taken modulo `max_ind_range` and numbered by first appearance: what the authors' preparation writes
    to disk in a pass of its own. Numbers are then taken modulo the rows of the table, which changes none of them while
    the data is the published one.
    """

    layout: Layout
    max_ind_range: int
    numbering: list[NDArray[np.int32]] = field(default_factory=list)  # for each field: code -> number + 1, 0 = new
    numbered: list[int] = field(default_factory=lambda: [0] * TABLES)

    def pieces(self, parts: tuple[Part, ...]) -> Iterator[Samples]:
        """All rows of `parts` in file order, some hundred thousand at a time, as a model takes them."""
        for labels, dense, numbers in self.rows(parts):
            numbers %= np.array(self.layout.table_rows)
            yield Samples(labels, np.log1p(dense), numbers, self.layout.table_rows)

    def rows(self, parts: tuple[Part, ...]) -> Iterator[Rows]:
        """The same rows with the integers as they are, but not below 0, and the codes' numbers before the modulo."""
        for part in parts:
            for labels, dense, codes in binary_pieces(part) if self.layout.binary else text_pieces(part):
                yield labels, np.maximum(dense, 0), codes if self.layout.binary else self.number(codes)

    def number(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers from 0 for `codes` (n, 26), in order of first appearance in each field."""
        if not self.numbering:  # zeros cost no memory until they are written to
            self.numbering = [np.zeros(self.max_ind_range, dtype=np.int32) for _ in range(TABLES)]
        codes = codes % self.max_ind_range
        for column, numbers in zip(range(TABLES), self.numbering, strict=True):
            mine = codes[:, column]
            new, first = np.unique(mine[numbers[mine] == 0], return_index=True)
            new = new[np.argsort(first)]
            numbers[new] = self.numbered[column] + 1 + np.arange(len(new))
            self.numbered[column] += len(new)
            codes[:, column] = numbers[mine] - 1
        return codes


def binary_pieces(part: Part) -> Iterator[Rows]:
    """Rows of a part of a binary file."""
    rows_at_a_time = PIECE // (4 * FIELDS)
    with open(part.path, "rb") as file:
        file.seek(part.start * 4 * FIELDS)
        for start in range(part.start, part.stop, rows_at_a_time):
            wanted = min(rows_at_a_time, part.stop - start)
            rows = np.fromfile(file, dtype="<i4", count=wanted * FIELDS).reshape(-1, FIELDS)
            if len(rows) < wanted:
                raise SetupError(
                    f"{part.path.name}: ends after {start + len(rows):,} rows, {part.stop:,} were expected"
                )
            labels, dense, codes = np.split(rows, [1, 1 + NUMBERS], axis=1)
            if codes.min() < 0 or not np.isin(labels, (0, 1)).all():
                raise SetupError(
                    f"{part.path.name}: a label other than 0 and 1, or a negative index, after row {start:,}"
                )
            yield labels[:, 0].astype(np.float32), dense.astype(np.float32), codes.astype(np.int64)


def text_pieces(part: Part) -> Iterator[Rows]:
    """Rows of a part of a text file. Rows before the part are read and passed over."""
    row = 0
    for text in whole_lines(part.path):
        count = text.count(b"\n")
        if row + count > part.start:
            labels, dense, codes = parse(text, part.path.name, row)
            keep = slice(max(part.start - row, 0), part.stop - row)
            yield labels[keep], dense[keep], codes[keep]
        row += count
        if row >= part.stop:
            return
    raise SetupError(f"{part.path.name}: ends after {row:,} rows, {part.stop:,} were expected")


def whole_lines(path: Path) -> Iterator[bytes]:
    """The text of a file in pieces that end in a line break; the last line gets one if it has none."""
    rest = b""
    for block in text_blocks(path):
        text, found, rest = (rest + block).rpartition(b"\n")
        if found:
            yield text + found
        if len(rest) > LONGEST_LINE:
            raise SetupError(f"{path.name}: a line of over {LONGEST_LINE:,} bytes; this is no Criteo log")
    if rest:
        yield rest + b"\n"


def parse(text: bytes, file: str, first_row: int) -> Rows:
    """Labels (n,), integers (n, 13) and codes (n, 26) of whole lines; an empty integer or code is 0.

    Raises SetupError with file and line for a wrong number of fields, a label other than 0 and 1, or a bad digit.
    """
    text = text.replace(b"\r\n", b"\n")
    data = np.frombuffer(text, dtype=np.uint8)
    ends = np.flatnonzero((data == ord("\t")) | (data == ord("\n")))
    breaks = data[ends] == ord("\n")
    lines = int(breaks.sum())
    if len(ends) != lines * FIELDS or not breaks.reshape(lines, FIELDS)[:, -1].all():
        fields = np.diff(np.flatnonzero(breaks), prepend=-1)
        line = int(np.flatnonzero(fields != FIELDS)[0])
        raise SetupError(f"{file}:{first_row + line + 1}: expected {FIELDS} fields, found {fields[line]}")
    starts = np.concatenate([[0], ends[:-1] + 1]).reshape(lines, FIELDS)
    ends = ends.reshape(lines, FIELDS)
    decimal = slice(0, 1 + NUMBERS)
    negative = data[starts[:, decimal]] == ord("-")
    alone = negative & (ends[:, decimal] - starts[:, decimal] == 1)  # a minus without digits: leave it, to be refused
    numbers = digits(data, starts[:, decimal] + (negative & ~alone), ends[:, decimal], 10, file, first_row)
    numbers = np.where(negative, -numbers, numbers)
    codes = digits(data, starts[:, 1 + NUMBERS :], ends[:, 1 + NUMBERS :], 16, file, first_row)
    labels = numbers[:, 0]
    bad = np.flatnonzero((labels != 0) & (labels != 1) | (starts[:, 0] == ends[:, 0]))
    if len(bad):
        raise SetupError(f"{file}:{first_row + int(bad[0]) + 1}: the label must be 0 or 1")
    return labels.astype(np.float32), numbers[:, 1:].astype(np.float32), codes


def digits(
    data: NDArray[np.uint8], starts: NDArray[np.intp], ends: NDArray[np.intp], base: int, file: str, first_row: int
) -> NDArray[np.int64]:
    """Values of the fields of `data` between `starts` and `ends` (lines, fields), written in `base`."""
    longest = 10 if base == 10 else 8
    value = np.zeros(starts.shape, dtype=np.int64)
    wrong = ends - starts > longest
    for back in range(longest, 0, -1):  # from the first digit to the last
        place = ends - back
        inside = place >= starts
        digit = DIGITS[data[np.maximum(place, 0)]]
        wrong |= inside & (digit >= base)
        value = np.where(inside, value * base + digit, value)
    if wrong.any():
        line, column = np.argwhere(wrong)[0]
        found = bytes(data[starts[line, column] : ends[line, column]][:20])
        kind = "integer" if base == 10 else "code of up to 8 hexadecimal digits"
        raise SetupError(f"{file}:{first_row + int(line) + 1}: {found!r} is no {kind}")
    return value


DIGITS = np.full(256, 99, dtype=np.int64)  # by character; 99 is no digit in any base
for _value, _character in enumerate(b"0123456789abcdef"):
    DIGITS[_character] = DIGITS[ord(chr(_character).upper())] = _value
