"""Text of a made-up language whose clauses must be closed as they were opened, for the small profiles.

    F3oG9vrzszswouguzf.H7vrF5rzxvrfzsG8qupyvrvtgh.

A clause begins with a capital letter and a numeral, goes on with as many words (small letters from o on) as the numeral
says, and ends with the capital's small letter. Clauses stand within clauses, up to DEPTH deep; the words around an
inner clause follow one another as if it weren't there. Which letter ends a clause, and when, only its beginning tells,
which is often further back than tables of n-grams see. Which word follows a word they see well.

The perplexity of the language itself, which no model falls below but by chance, comes with the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

VERSION = "2"
OPENING, CLOSING, NUMERALS, WORDS = "ABCDEFGH", "abcdefgh", "123456789", "opqrstuvwxyz"
ALPHABET = OPENING + CLOSING + NUMERALS + WORDS + "."
DEPTH = 2  # of clauses within clauses
NESTING = 0.2  # probability that a clause stands before a word, but for the first
FOLLOWERS = (0.6, 0.3, 0.1)  # probabilities of the three words that can follow a word


def text(length: int, seed: int) -> tuple[str, np.ndarray]:
    """`length` characters of whole sentences but for the last: the text, and each character's -log probability
    given everything that stands before it (float64, nats).

    The language is the same whatever the seed.
    """
    uniform = _uniform(np.random.default_rng(seed))
    followers = _followers()
    found: list[str] = []
    odds: list[float] = []
    while len(found) < length:
        _clause(found, odds, 1, 1.0, uniform, followers)
        found.append(".")
        odds.append(1.0)
    return "".join(found[:length]), -np.log(odds[:length])


def encode(line: str) -> np.ndarray:
    """int64: of each character its place in ALPHABET."""
    table = np.full(128, -1)
    table[[ord(character) for character in ALPHABET]] = np.arange(len(ALPHABET))
    return table[np.frombuffer(line.encode("ascii"), dtype=np.uint8)]


def _followers() -> list[list[int]]:
    """Of each word the words that can follow it, in the order of FOLLOWERS."""
    generator = np.random.default_rng(0)
    return [generator.choice(len(WORDS), len(FOLLOWERS), replace=False).tolist() for _ in WORDS]


def _uniform(generator: np.random.Generator) -> Callable[[], float]:
    def endless() -> Iterator[float]:
        while True:
            yield from generator.random(1 << 16).tolist()

    return endless().__next__


def _clause(
    found: list[str],
    odds: list[float],
    depth: int,
    begins: float,
    uniform: Callable[[], float],
    followers: list[list[int]],
) -> None:
    """Add one clause and the probabilities of its characters; `begins`: the probability that one begins here."""
    kind, count, word = (int(uniform() * len(among)) for among in (OPENING, NUMERALS, WORDS))
    found += (OPENING[kind], NUMERALS[count], WORDS[word])
    odds += (begins / len(OPENING), 1 / len(NUMERALS), 1 / len(WORDS))
    nesting = NESTING if depth < DEPTH else 0.0
    for _ in range(int(NUMERALS[count]) - 1):
        while uniform() < nesting:
            _clause(found, odds, depth + 1, nesting, uniform, followers)
        drawn = uniform()
        place = (drawn >= FOLLOWERS[0]) + (drawn >= FOLLOWERS[0] + FOLLOWERS[1])
        word = followers[word][place]
        found.append(WORDS[word])
        odds.append((1 - nesting) * FOLLOWERS[place])
    found.append(CLOSING[kind])
    odds.append(1.0)
