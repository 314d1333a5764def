"""Neural architecture search: the made-up language, read back by a reader of its own."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from . import baselines, clauses

ALL_PAIRS = {a + b for a in clauses.WORDS for b in clauses.WORDS}


def read_clause(line: str, at: int, depth: int, seen: Counter) -> int:
    """Check the clause that begins at `at`, count its parts in `seen`, and return where it ends."""
    opening, count = line[at : at + 2]
    assert opening in clauses.OPENING and count in clauses.NUMERALS
    seen[f"depth {depth}"] += 1
    words, at = [], at + 2
    while len(words) < int(count):
        if line[at] in clauses.OPENING:
            assert words  # no clause before the first word
            at = read_clause(line, at, depth + 1, seen)
        else:
            words.append(line[at])
            at += 1
    for pair in zip(words, words[1:], strict=False):
        seen[pair] += 1
    assert line[at] == clauses.CLOSING[clauses.OPENING.index(opening)]
    return at + 1


def test_every_clause_closes_as_it_was_opened() -> None:
    line, nats = clauses.text(60_000, seed=7)
    assert len(line) == len(nats) == 60_000
    assert set(line) == set(clauses.ALPHABET)
    line = line[: line.rindex(".") + 1]  # the last sentence is cut off
    seen: Counter = Counter()
    at = 0
    while at < len(line):
        at = read_clause(line, at, 1, seen)
        assert line[at] == "."
        at += 1
    assert {key for key in seen if isinstance(key, str)} == {f"depth {depth}" for depth in range(1, clauses.DEPTH + 1)}
    followed = []
    for word in clauses.WORDS:  # three words follow a word, in the shares of FOLLOWERS, across inner clauses too
        counts = sorted((seen[pair] for pair in seen if isinstance(pair, tuple) and pair[0] == word), reverse=True)
        assert len(counts) == len(clauses.FOLLOWERS)
        followed.append(counts)
    shares = np.array(followed).sum(0) / np.array(followed).sum()
    assert shares == pytest.approx(clauses.FOLLOWERS, abs=0.01)


def test_probabilities_of_a_sentence_by_hand() -> None:
    """The first sentence without an inner clause: every choice in it has a known probability."""
    line, nats = clauses.text(20_000, seed=3)
    start = 0
    for sentence in line.split("."):
        if sum(character in clauses.OPENING for character in sentence) == 1 and int(sentence[1]) > 3:
            break
        start += len(sentence) + 1
    found = np.exp(-nats[start : start + len(sentence) + 1])
    assert found[:3] == pytest.approx([1 / 8, 1 / 9, 1 / 12])
    assert found[-2:] == pytest.approx([1, 1])  # the closing letter and the full stop
    between = found[3:-2]
    assert len(between) == int(sentence[1]) - 1 > 2
    possible = [(1 - clauses.NESTING) * share for share in clauses.FOLLOWERS]
    assert all(min(abs(value - p) for p in possible) < 1e-12 for value in between)


def test_the_floor_is_the_languages_entropy() -> None:
    """The mean of many sentences agrees with the entropy worked out from the grammar, clause by clause."""
    words = sum(int(numeral) for numeral in clauses.NUMERALS) / len(clauses.NUMERALS)
    start = math.log(len(clauses.OPENING) * len(clauses.NUMERALS) * len(clauses.WORDS))
    follow = -sum(share * math.log(share) for share in clauses.FOLLOWERS)
    q = clauses.NESTING
    nats, length = 0.0, 0.0
    for depth in range(clauses.DEPTH, 0, -1):  # of one clause at this depth, from what one a level deeper has
        inner = (words - 1) * (q / (1 - q) if depth < clauses.DEPTH else 0)
        choosing = -(math.log(1 - q) + q / (1 - q) * math.log(q)) if depth < clauses.DEPTH else 0
        nats = start + (words - 1) * (follow + choosing) + inner * nats
        length = words + 3 + inner * length
    _, found = clauses.text(400_000, seed=11)
    assert found.mean() == pytest.approx(nats / (length + 1), rel=0.01)


def test_the_language_knows_no_seed_and_the_text_does() -> None:
    one, again, other = (clauses.text(5_000, seed)[0] for seed in (1, 1, 2))
    assert one == again != other
    pairs = [{a + b for a, b in zip(line, line[1:], strict=False)} & ALL_PAIRS for line in (one, other)]
    assert len(pairs[0] & pairs[1]) == len(pairs[0]) == len(clauses.WORDS) * len(clauses.FOLLOWERS)


def test_tables_of_any_order_stay_far_above_the_floor() -> None:
    """Longer contexts stop helping: what they would have to see lies further back."""
    train, held_out = (clauses.encode(clauses.text(size, seed)[0]) for size, seed in ((200_000, 0), (20_000, 2)))
    floor = math.exp(clauses.text(20_000, 2)[1].mean())
    found = baselines.perplexities(train, held_out, len(clauses.ALPHABET), 7)
    assert min(found.values()) > 1.7 * floor


def test_encoding() -> None:
    assert clauses.encode("AHah19oz.").tolist() == [0, 7, 8, 15, 16, 24, 25, 36, 37]
