"""English sentences made by code: a grammar of 86 words, free enough that a sentence cannot be guessed from a part."""

from __future__ import annotations

from collections.abc import Container

import numpy as np

NAME, VERSION = "sentences", "1"

_TABLE = """
determiners|THE|A|MY|YOUR|THIS
adjectives|SMALL|BIG|RED|GREEN|YELLOW|OLD|NEW|HEAVY|COLD|BROKEN|WOODEN|SILVER
people|TEACHER|DOCTOR|FARMER|BROTHER|SISTER|CHILD|DRIVER|KING|DOG|HORSE
things|BOX|DOOR|WINDOW|LAMP|TABLE|BOTTLE|LETTER|BASKET|PICTURE|TICKET
places|GARDEN|KITCHEN|RIVER|BRIDGE|MARKET|FOREST
did|FOUND|CARRIED|PAINTED|OPENED|CLOSED|LOST|FOLLOWED|MOVED|WANTED
do|TAKE|BRING|FIND|PAINT|PUSH|FOLLOW|HIDE
where|UNDER|BEHIND|NEAR|FROM
how|SLOWLY|ALWAYS|NEVER
when|TODAY|AGAIN|ON MONDAY|AT NOON|LAST NIGHT
numbers|TWO|THREE|FIVE|SIX|SEVEN|NINE|TEN|TWENTY
many|LAMPS|CHAIRS|LETTERS|CANDLES
"""
WORDS = {kind: words for kind, *words in (line.split("|") for line in _TABLE.strip().splitlines())}


def vocabulary() -> list[str]:
    """All words, sorted."""
    return sorted({word for phrases in WORDS.values() for phrase in phrases for word in phrase.split()})


def sentences(count: int, seed: int, without: Container[str] = ()) -> list[str]:
    """`count` different sentences of three to nine words, none of them in `without`. The same for the same seed."""
    rng = np.random.default_rng(seed)
    made: dict[str, None] = {}
    while len(made) < count:
        sentence = " ".join(_sentence(rng))
        if sentence not in without:
            made[sentence] = None
    return list(made)


def _sentence(rng: np.random.Generator) -> list[str]:
    kind = rng.integers(5)
    if kind == 0:
        return [*_group(rng, "people"), _one(rng, "did"), *_group(rng, "things")]
    if kind == 1:
        return [_one(rng, "do"), *_group(rng, "things"), *_maybe(rng, 0.5, _one(rng, "where"), *_group(rng, "places"))]
    if kind == 2:
        return [_one(rng, "do"), *_several(rng), *_maybe(rng, 0.5, _one(rng, "when"))]
    if kind == 3:
        return [*_group(rng, "people"), *_maybe(rng, 0.5, _one(rng, "how")), _one(rng, "did"), *_several(rng)]
    return [*_group(rng, "people"), _one(rng, "did"), *_group(rng, "people"), *_maybe(rng, 0.3, _one(rng, "when"))]


def _group(rng: np.random.Generator, nouns: str) -> list[str]:
    return [_one(rng, "determiners"), *_maybe(rng, 0.35, _one(rng, "adjectives")), _one(rng, nouns)]


def _several(rng: np.random.Generator) -> list[str]:
    return [_one(rng, "numbers"), *_maybe(rng, 0.35, _one(rng, "adjectives")), _one(rng, "many")]


def _one(rng: np.random.Generator, kind: str) -> str:
    words = WORDS[kind]
    return words[rng.integers(len(words))]


def _maybe(rng: np.random.Generator, share: float, *words: str) -> tuple[str, ...]:
    return words if rng.random() < share else ()
