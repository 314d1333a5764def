"""The fastest path of the reader: records are found and checked without decoding them, and decoded when asked for.

Most records of a real log have a key that no rule asks about. The scanner (`native/scan.c`, compiled at installation
where there is a C compiler) checks their JSON as strictly as the others' and notes key, time and place. Where it was
not compiled, or finds the least thing doubtful, `compliance.fast` and `compliance.careful` read the text, with the same
result.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import Any, overload

import msgspec

from compliance.careful import Event
from compliance.fast import decode_whole

try:
    from compliance import _scan
except ImportError:
    COMPILED = False
else:
    COMPILED = _scan.VERSION == 3
"""Whether the scanner is there, compiled from the source beside it; without it a check takes twice as long."""

RARE = 4
"""Records of keys with at most so many are decoded together, the first time that any record is asked for."""


def scan(block: bytes) -> Scanned | None:
    """The records of a block, or None where it has to be read in another way."""
    found = _scan.scan(block) if COMPILED else None
    return None if found is None else Scanned(block, *found)


def line_feeds(text: bytes, start: int, stop: int) -> int:
    """How many line feeds text[start:stop] holds; both places are within it."""
    return _scan.line_feeds(text, start, stop) if COMPILED else text.count(b"\n", start, stop)


class Timed(msgspec.Struct, gc=False):
    """What is known of a record before it is decoded."""

    time_ms: int
    key: str


class Scanned(Sequence[Event]):
    """The records of a clean block in file order, each decoded when it is first asked for and kept.

    `places`: the numbers of the records of each key, the keys in the order of first appearance. `steps`: the numbers of
    those that are earlier than the one before. `time_range`: the earliest and the latest time.
    """

    def __init__(
        self,
        block: bytes,
        places: dict[str, list[int]],
        times: bytes,
        spans: bytes,
        steps: list[int],
        earliest: int,
        latest: int,
    ) -> None:
        self.places, self.steps, self.time_range = places, steps, (earliest, latest)
        self._block, self._times, self._spans = block, times, spans
        self._known: dict[int, Event] = {}

    def __len__(self) -> int:
        return len(self._times) // 8

    @cached_property
    def times(self) -> memoryview:
        """`time_ms` of each record."""
        return memoryview(self._times).cast("q")

    def starts(self) -> memoryview:
        """Where in the block each record begins."""
        return memoryview(self._spans).cast("q")[::2]

    def take(self, places: Sequence[int]) -> list[Event]:
        """The records with these numbers."""
        known = self._known
        missing = [place for place in places if place not in known]
        if missing:
            if not known:
                rare = [found for found in self.places.values() if len(found) <= RARE]
                missing = list({*missing, *(place for found in rare for place in found)})
            known.update(zip(missing, decode_whole(_scan.pick(self._block, self._spans, missing)), strict=True))
        return [known[place] for place in places]

    def holding(self, words: tuple[bytes, ...]) -> list[tuple[bytes, Event]]:
        """The records of which the text holds one of `words`, each with its text."""
        places = _scan.holding(self._block, self._spans, words)
        texts = _scan.pick(self._block, self._spans, places).splitlines()
        return list(zip(texts, self.take(places), strict=True))

    def take_timed(self, places: Sequence[int], keys: Collection[str]) -> list[Event | Timed]:
        """As `take`, but of the records with one of `keys` no more than the time."""
        times = self.times
        known: dict[int, Event | Timed] = {n: Timed(times[n], key) for key in keys for n in self.places.get(key, ())}
        others = [place for place in places if place not in known]
        known.update(zip(others, self.take(others), strict=True))
        return [known[place] for place in places]

    def given(self) -> dict[int, int]:
        """The number of every record that was handed out, by its id()."""
        return {id(event): place for place, event in self._known.items()}

    @overload
    def __getitem__(self, place: int) -> Event: ...
    @overload
    def __getitem__(self, place: slice) -> list[Event]: ...
    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return self.take(range(len(self))[place])
        event = self._known.get(place)
        return event if event is not None else self.take([range(len(self))[place]])[0]

    def __iter__(self) -> Iterator[Event]:
        return iter(self.take(range(len(self))))
