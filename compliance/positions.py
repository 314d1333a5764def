"""Where the records of each key stand: what rules and rule sheets ask a log for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any


class Positions:
    """Where in `events` (records with a `key`) those of each key are. Frequent keys are looked up when asked for."""

    def __init__(self, events: Sequence[Any]) -> None:
        self._keys = [event.key for event in events]
        self.counts = Counter(self._keys)
        """How many records there are of each key, the keys in the order of first appearance."""
        self._found: dict[str, list[int]] | None = None

    def of(self, key: str) -> Sequence[int]:
        """Where the records of `key` are."""
        if key not in self.counts:
            return ()
        if self._found is None:
            most = len(self._keys) // 4
            self._found = {name: [] for name, count in self.counts.items() if count <= most or count == 1}
            found = self._found
            for position, name in enumerate(self._keys):
                if name in found:
                    found[name].append(position)
        if key not in self._found:
            self._found[key] = [position for position, name in enumerate(self._keys) if name == key]
        return self._found[key]

    def of_all(self, keys: Iterable[str]) -> list[int]:
        """Where the records of any of `keys` are, in file order."""
        return sorted([position for key in keys if key in self.counts for position in self.of(key)])
