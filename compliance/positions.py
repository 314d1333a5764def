"""Where the records of each key stand: what rules and rule sheets ask a log for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from compliance.scanned import Scanned


class _Places(dict[str, Sequence[int]]):
    """Where the records of each key are, of keys with less than a quarter of them; others when asked for."""

    def __init__(self, keys: list[str], counts: Counter[str]) -> None:
        self._keys, self._counts = keys, counts
        most = len(keys) // 4
        found: dict[str, list[int]] = {name: [] for name, count in counts.items() if count <= most or count == 1}
        for position, name in enumerate(keys):
            if name in found:
                found[name].append(position)
        super().__init__(found)

    def __missing__(self, key: str) -> Sequence[int]:
        places = [place for place, name in enumerate(self._keys) if name == key] if key in self._counts else ()
        self[key] = places
        return places


class _AllPlaces(dict[str, Sequence[int]]):
    """Where the records of each key are."""

    def __missing__(self, key: str) -> Sequence[int]:
        return ()


class Positions:
    """Where in `events` (records with a `key`) those of each key are.

    `counts`: how many records there are of each key, the keys in the order of first appearance. `of`: where those of a
    key are; empty for one that the log does not have.
    """

    def __init__(self, events: Sequence[Any]) -> None:
        self._places: dict[str, Sequence[int]]
        if isinstance(events, Scanned):
            self._places = _AllPlaces(events.places)
            self.counts = Counter({key: len(places) for key, places in events.places.items()})
        else:
            keys = [event.key for event in events]
            self.counts = Counter(keys)
            self._places = _Places(keys, self.counts)
        self.of = self._places.__getitem__

    def of_all(self, keys: Collection[str]) -> list[int]:
        """Where the records of any of `keys` are, in file order."""
        places, counts = self._places, self.counts
        found = [places[key] for key in keys if key in counts]
        return list(found[0]) if len(found) == 1 else sorted([place for some in found for place in some])


def take(events: Sequence[Any], places: Sequence[int]) -> list[Any]:
    """The records of `events` that stand at `places`."""
    return events.take(places) if isinstance(events, Scanned) else [events[place] for place in places]


def times_of(events: Sequence[Any]) -> Sequence[int | float | None]:
    """`time_ms` of each of `events`."""
    return events.times if isinstance(events, Scanned) else [event.time_ms for event in events]
