"""Bytes in, events out: the reader of result logs.

A result log is any text that holds MLPerf log records, each on one line: the token ``:::MLLOG `` and one JSON object
with ``time_ms``, ``key``, ``value`` and ``metadata`` (``event_type`` and ``namespace`` beside them). Real logs hold
more: other programs' output before, after and between the records, several records glued on one line, carriage
returns, NUL and non-UTF-8 bytes, lines of many megabytes, records cut off in the middle. The reader takes all of it,
in time linear in the input. What it cannot take becomes a `Fault` with its physical line; nothing is left out silently.

Three paths give the same result. The fastest (`scanned.py`) finds and checks all records of a block in compiled code
and decodes those that are asked for; the fast one (`fast.py`) decodes all of them at once. Both hold for blocks in
which every token starts one well-formed record up to the end of its line. Any doubt sends the block to the next path,
in the end to the careful one, record by record.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

from compliance import old_formats
from compliance.careful import (
    MOST_FAULTS,
    TOKEN,
    TOKEN_LIKE,
    Event,
    Fault,
    Faults,
    PartialEvent,
    careful,
    untyped,
)
from compliance.fast import fast, pattern
from compliance.positions import Positions, take, times_of
from compliance.scanned import Scanned, line_feeds, scan

BLOCK_BYTES = 4 << 20
FEW_LINES = 3
"""So many line numbers are worked out one by one before those of all records are."""

PlacesOf = Callable[[Sequence[int]], Sequence[int]]
"""The places of the records of a block with these numbers."""


class BackStep(NamedTuple):
    """A record whose time is earlier than that of the record before it; times in milliseconds."""

    place: int
    before_ms: int | float
    time_ms: int | float

    @property
    def size_ms(self) -> int | float:
        return self.before_ms - self.time_ms


class BackSteps(list[BackStep]):
    """A log's steps back in time: the first MOST_FAULTS and the largest of all; `total` counts all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.total = 0
        self.worst: BackStep | None = None

    def add(self, steps: list[BackStep]) -> None:
        """Add the steps, one at least, that follow those noted so far."""
        self += steps[: max(0, MOST_FAULTS - self.total)]
        self.total += len(steps)
        sizes = [before_ms - time_ms for _, before_ms, time_ms in steps]
        largest = steps[sizes.index(max(sizes))]
        if self.worst is None or largest.size_ms > self.worst.size_ms:
            self.worst = largest


@dataclass
class Log:
    """One file's records.

    `events` holds the records in file order; of a file larger than a block only those whose key the caller asked
    for. `records` counts all. `clean` says that the fast path took every block:
    each line with the token holds one token and one well-formed record, and no JSON value is NaN or infinite. `ascii`
    says that such a log's records are ASCII.
    A place is where a record stands: its number from 0 in a log of one clean block, else minus its physical line.
    """

    path: str
    open: Callable[[], IO[bytes]]
    events: Sequence[Event] = field(default_factory=list)
    faults: Faults = field(default_factory=Faults)
    back_steps: BackSteps = field(default_factory=BackSteps)
    records: int = 0
    size: int = 0
    clean: bool = True
    ascii: bool = True
    _block: bytes | None = None
    _places: Sequence[int] = field(default_factory=list)
    _index: dict[int, int] | None = None
    _record_lines: list[int] | None = None
    _lines_asked: int = 0
    _last_line: tuple[int, int] = (0, 1)

    @property
    def data(self) -> bytes:
        """The file's bytes, decompressed; read again where they were not one clean block."""
        if self._block is not None:
            return self._block
        with self.open() as file:
            return file.read()

    @cached_property
    def positions(self) -> Positions:
        """Where in `events` the records of each key are."""
        return Positions(self.events)

    def line(self, event: Event) -> int:
        """Physical line of `event` (from 1); 0 if it is not of this log. Worked out on first use."""
        if self._index is None or (isinstance(self.events, Scanned) and id(event) not in self._index):
            self._index = self._indexed()
        place = self._index.get(id(event))
        return 0 if place is None else self.line_at(place)

    def _indexed(self) -> dict[int, int]:
        if isinstance(self.events, Scanned):
            return self.events.given()
        return {id(event): place for event, place in zip(self.events, self._places, strict=True)}

    @cached_property
    def _returns(self) -> bool:
        return b"\r" in self.data

    def line_at(self, place: int) -> int:
        """Physical line of the record numbered `place` (from 0); a negative place is a line already known."""
        if place < 0:
            return -place
        if self._record_lines is None and self._lines_asked < FEW_LINES:
            self._lines_asked += 1
            events, (known, line) = self.events, self._last_line
            if isinstance(events, Scanned):
                start = events.starts()[place]
            else:
                start = _record_start(self.data, place, self.records)
            if start < known:
                known, line = 0, 1
            line += _line_ends(self.data, known, start, self._returns)
            self._last_line = start, line
            return line
        if self._record_lines is None:
            self._record_lines = _lines_at(self.data, 1, _starts(self.data))
        return self._record_lines[place]


Keep = Callable[[Log], "Collection[str] | None"]


def read(path: Path, name: str | None = None, keep: Keep | None = None) -> Log:
    """Read the log at `path` (plain or gzip).

    keep: asked once about a file larger than a block, with the log of its first block: the keys of the records to hold,
    None for all.

    Raises OSError where the file cannot be opened; damage inside becomes faults of the log.
    """

    def opener() -> IO[bytes]:
        file = path.open("rb")
        return gzip.GzipFile(fileobj=file) if _is_gzip(file) else file  # type: ignore[return-value]

    return _read(Log(name or str(path), opener), keep)


def parse(data: bytes, name: str = "log") -> Log:
    """The log whose text is `data`."""
    return _read(Log(name, lambda: io.BytesIO(data)), None)


def holds_records(path: Path | str) -> bool:
    """Whether the file holds anything like a record's token; it is read up to there."""
    with open(path, "rb") as raw:
        file: Any = gzip.GzipFile(fileobj=raw) if _is_gzip(raw) else raw
        tail = b""
        try:
            size = io.DEFAULT_BUFFER_SIZE
            while block := file.read(size):
                size = 1 << 20
                text = tail + block
                if TOKEN_LIKE.search(text.replace(b"\0", b"")) or b":::MLL" in text or b":::MLP" in text:
                    return True
                tail = block[-32:]
        except (EOFError, OSError, zlib.error):
            return False
    return False


def _is_gzip(file: io.BufferedReader) -> bool:
    return file.peek(2)[:2] == b"\x1f\x8b"


def _read(log: Log, keep: Keep | None) -> Log:
    last_ms: int | float | None = None
    first_line = 1
    kept: Collection[str] | None = None
    held: list[Event] = []
    held_places: list[int] = []
    log.events, log._places = held, held_places
    for block, whole in _blocks(log):
        log.size += len(block)
        events, places_of = _records(log, block, whole, first_line)
        log.records += len(events)
        if events:
            last_ms = _follow_time(events, places_of, last_ms, log.back_steps)
        if whole:
            log.events, log._places = events, places_of(range(len(events)))
            return log
        if keep is not None and first_line == 1:  # the first block
            log.events = events
            kept = keep(log)
            log.events = held
            log.__dict__.pop("positions", None)
        first_line += _line_ends(block, 0, len(block), b"\r" in block)
        where = range(len(events)) if kept is None else Positions(events).of_all(kept)
        held += take(events, where)
        held_places += places_of(where)
    return log


def _records(log: Log, block: bytes, whole: bool, first_line: int) -> tuple[Sequence[Event], PlacesOf]:
    """The records of a block, by the fastest path that can be taken, and what gives their places."""
    scanned = scan(block)
    if scanned:
        log._block = block if whole else None
        return scanned, _itself if whole else _lines_of(block, first_line, scanned.starts)
    events = fast(block)
    if events is None or (not events and old_formats.TOKEN.search(block)):
        log.clean = False
        if events is None:
            slow, places = careful(block, first_line, log.faults)
        else:
            slow, places = old_formats.events(block, first_line, log.faults, begins=not log.records)
        return slow, lambda where: [places[number] for number in where]
    if log.ascii and not block.isascii():
        log.ascii = all(map(bytes.isascii, pattern(block).findall(block)))
    if events and type(events[0]) is PartialEvent:
        for event, line in zip(events, _lines_at(block, first_line, _starts(block)), strict=True):
            if not event.event_type:
                log.faults.append(untyped(line))
    log._block = block if whole else None
    return events, _itself if whole else _lines_of(block, first_line, lambda: _starts(block))


def _itself(where: Sequence[int]) -> Sequence[int]:
    """The places of a log of one clean block: they are the records' numbers."""
    return where


def _lines_of(block: bytes, first_line: int, starts: Callable[[], Sequence[int]]) -> PlacesOf:
    """The places of one clean block of several, whose records begin at `starts`."""

    def places_of(where: Sequence[int]) -> Sequence[int]:
        begins = starts()
        return [-line for line in _lines_at(block, first_line, [begins[number] for number in where])]

    return places_of


def _blocks(log: Log) -> Iterator[tuple[bytes, bool]]:
    """The text in blocks that end at a line's end, each with whether it is the whole text."""
    rest: list[bytes] = []
    first = True
    with log.open() as file:
        while True:
            block, error = _take(file)
            if error is not None:
                text = f"the compressed file is damaged: {error}"
                log.faults.append(Fault("compression", 1, text, "a whole gzip file", "its beginning"))
                log.clean = False
            if first and block[:2] in _UTF16_MARKS and (b":\0" * 3 in block or b"\0:" * 3 in block):
                yield _from_utf16(log, block + file.read()), True
                return
            if len(block) < BLOCK_BYTES or error is not None:
                if rest or block or first:
                    yield b"".join([*rest, block]), first
                return
            cut = max(block.rfind(b"\n"), block.rfind(b"\r", 0, len(block) - 1)) + 1
            if cut == 0:
                rest.append(block)
                continue
            yield b"".join([*rest, block[:cut]]), False
            rest, first = [block[cut:]], False


def _take(file: IO[bytes]) -> tuple[bytes, Exception | None]:
    """The next block of a file, shorter at its end; of a damaged gzip file what comes before the damage, and why."""
    if isinstance(file, io.BufferedReader):
        left = (
            os.fstat(file.fileno()).st_size - file.tell()
        )  # asking for a whole block costs more than reading a small file
        return file.read(left + 1 if 0 < left < BLOCK_BYTES else BLOCK_BYTES), None
    if not isinstance(file, gzip.GzipFile):
        return file.read(BLOCK_BYTES), None
    pieces: list[bytes] = []
    size = 0
    try:
        while size < BLOCK_BYTES and (piece := file.read1(min(1 << 16, BLOCK_BYTES - size))):
            pieces.append(piece)
            size += len(piece)
    except (EOFError, OSError, zlib.error) as error:
        return b"".join(pieces), error
    return b"".join(pieces), None


def _from_utf16(log: Log, data: bytes) -> bytes:
    log.faults.append(Fault("utf16", 1, "the file is UTF-16 text", "UTF-8", "a UTF-16 byte order mark"))
    log.clean = False
    return data.decode("utf-16", errors="replace").encode()


_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def _follow_time(
    events: Sequence[Event], places_of: PlacesOf, last: int | float | None, out: BackSteps
) -> int | float | None:
    """Note each record that is earlier than the one before it, and return the last time; `last` is that before."""
    times = times_of(events)
    if isinstance(events, Scanned):
        numbers, before = events.steps, [times[number - 1] for number in events.steps]
        if last is not None and times[0] < last:  # type: ignore[operator]
            numbers, before = [0, *numbers], [last, *before]
        last = times[-1]
    else:
        numbers, before, last = _steps(times, last)
    if numbers:
        now = [times[number] for number in numbers]
        out.add(list(map(BackStep, places_of(numbers), before, now)))  # type: ignore[arg-type]
    return last


def _steps(
    times: Sequence[int | float | None], last: int | float | None
) -> tuple[list[int], list[int | float | None], int | float | None]:
    """The numbers of the records that are earlier than the one before, the times before them, and the last time."""
    if None not in times and (last is None or times[0] >= last) and times == sorted(times):  # type: ignore[operator, type-var]
        return [], [], times[-1]
    numbers: list[int] = []
    before: list[int | float | None] = []
    for number, time_ms in enumerate(times):
        if time_ms is None:
            continue
        if last is not None and time_ms < last:
            numbers.append(number)
            before.append(last)
        last = time_ms
    return numbers, before, last


def _starts(data: bytes) -> list[int]:
    """Where each record of a clean text begins."""
    return [match.start() for match in pattern(data).finditer(data)]


def _record_start(data: bytes, place: int, records: int) -> int:
    """Where record number `place` of a clean text of `records` begins, sought from the nearer end."""
    if place < records // 2:
        return next(islice(pattern(data).finditer(data), place, None)).start()
    start = len(data)
    for _ in range(records - place):
        start = data.rfind(TOKEN, 0, start)
    return start


def _line_ends(data: bytes, start: int, stop: int, returns: bool) -> int:
    """How many lines end in data[start:stop]: at LF, CR LF or CR. `returns`: whether there can be a CR."""
    ends = line_feeds(data, start, stop)
    if returns:
        ends += data.count(b"\r", start, stop) - data.count(b"\r\n", start, stop)
    return ends


def _lines_at(data: bytes, line: int, starts: Iterable[int]) -> list[int]:
    """Physical line of each of `starts`, which ascend, in a text whose first line is numbered `line`."""
    lines, position, returns = [], 0, b"\r" in data
    for start in starts:
        line += _line_ends(data, position, start, returns)
        lines.append(line)
        position = start
    return lines
