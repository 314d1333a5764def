"""Where the records of each key stand: what rules and rule sheets ask a log for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any


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


class Positions:
    """Where in `events` (records with a `key`) those of each key are."""

    def __init__(self, events: Sequence[Any]) -> None:
        keys = [event.key for event in events]
        self.counts = Counter(keys)
        """How many records there are of each key, the keys in the order of first appearance."""
        self._places = _Places(keys, self.counts)
        self.of = self._places.__getitem__
        """Where the records of a key are; empty for one that the log does not have."""

    def of_all(self, keys: Collection[str]) -> list[int]:
        """Where the records of any of `keys` are, in file order."""
        places = self._places
        return sorted([place for key in keys if key in self.counts for place in places[key]])
