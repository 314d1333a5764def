"""Made-up sentences with headlines, for the smoke profile and the tests: the layout of the real ones, nobody's data."""

from __future__ import annotations

import numpy as np

from reference.common import sources

from .docs import Item

NAME, VERSION = "made_up_headlines", "1"
VERBS = {"returns": "get", "creates": "create", "removes": "delete", "changes": "update", "shows": "list"}
THINGS = ("lamp", "table", "garden", "letter", "window", "bridge", "kettle", "ladder", "basket", "mirror")
KINDS = ("old", "round", "open", "silent", "heavy")
SERVICES, EACH = 60, 12


def read() -> tuple[list[Item], sources.Source]:
    """Services with operations on things of their own, whose names only copying can say."""
    rng = np.random.default_rng(7)
    items: dict[tuple[str, ...], Item] = {}
    for number in range(SERVICES):
        own = f"thing{chr(97 + number // 8)}{chr(97 + number % 8)}"
        for _ in range(EACH):
            verb, kind = (list(VERBS)[rng.integers(5)], KINDS[rng.integers(5)])
            thing = own if rng.random() < 0.3 else THINGS[rng.integers(10)]
            place = THINGS[rng.integers(10)]
            source = (verb, "the", kind, thing, "that", "belongs", "to", "this", place, "of", "service", own)
            items.setdefault(source, Item(f"service{number}", source, (VERBS[verb], kind, thing)))
    found = list(items.values())
    text = "\n".join(f"{' '.join(item.source)}\t{' '.join(item.title)}" for item in found)
    return found, sources.generated(NAME, VERSION, np.frombuffer(text.encode(), np.uint8))
