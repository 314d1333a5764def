"""Text made by code, for the smoke profile and the tests: sentences of made-up words under a simple grammar."""

from __future__ import annotations

import numpy as np

VERSION = "1"
SYLLABLES = ("ba", "co", "di", "fu", "ga", "ko", "li", "mo", "nu", "pe", "ra", "so", "ti", "vu")


def text(sentences: int, seed: int) -> str:
    """`sentences` sentences, each article noun verb article noun; nouns and verbs are drawn by Zipf's law."""
    lexicon = np.random.default_rng(0)  # the same words whatever the seed
    words = ["".join(lexicon.choice(SYLLABLES, size)) for size in lexicon.integers(1, 4, 120)]
    nouns, verbs = words[:80], [f"{word}s" for word in words[80:]]
    generator = np.random.default_rng(seed)

    def drawn(kinds: list[str]) -> list[str]:
        weights = 1 / np.arange(1, len(kinds) + 1)
        return [kinds[at] for at in generator.choice(len(kinds), sentences, p=weights / weights.sum())]

    parts = zip(drawn(nouns), drawn(verbs), drawn(nouns), strict=True)
    return " ".join(f"the {subject} {verb} a {thing}." for subject, verb, thing in parts)
