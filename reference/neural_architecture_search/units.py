"""Characters, and the longer symbols made of them: pairs that stand together often are merged, within words."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np

ALPHABET = " abcdefghijklmnopqrstuvwxyz0.,#"
OTHER = re.compile(r"[^a-z0 .,]")
WORDS = 8000  # the most frequent ones; merges are counted in them


def normal(text: str) -> str:
    """Lower case, digits as 0, white space as one blank, everything outside ALPHABET as #."""
    text = re.sub(r"[0-9]", "0", text.lower())
    return OTHER.sub("#", re.sub(r"\s+", " ", text))


def characters(text: str) -> np.ndarray:
    """int64: of each character of a `normal` text its place in ALPHABET."""
    table = np.full(128, -1)
    table[[ord(character) for character in ALPHABET]] = np.arange(len(ALPHABET))
    return table[np.frombuffer(text.encode("ascii"), dtype=np.uint8)]


Merges = list[tuple[int, int]]  # symbol len(ALPHABET) + i stands for the pair merges[i] of earlier symbols


def learn(text: str, symbols: int) -> Merges:
    """Byte-pair merges of a `normal` text, up to a vocabulary of `symbols`; a word begins with the blank before it.

    The pair that is most frequent in the WORDS most frequent words is merged, again and again; of equally frequent ones
    the one with the smallest numbers. Fewer come out where no pair is left.
    """
    words = Counter(f" {word}" for word in text.split()).most_common(WORDS)
    end = -1  # between words: pairs across it don't count
    parts = [np.append(characters(word), end) for word, _ in words]
    line = np.concatenate(parts) if parts else np.array([end])
    times = np.repeat([count for _, count in words], [len(part) for part in parts])
    merges: Merges = []
    while len(ALPHABET) + len(merges) < symbols:
        inside = (line[:-1] != end) & (line[1:] != end)
        pairs = line[:-1][inside] * symbols + line[1:][inside]
        if not len(pairs):
            break
        pair = int(np.bincount(pairs, times[:-1][inside]).argmax())
        merges.append((pair // symbols, pair % symbols))
        line, kept = _merged(line, *merges[-1], len(ALPHABET) + len(merges) - 1)
        times = times[kept]
    return merges


def encode(line: np.ndarray, merges: Merges) -> np.ndarray:
    """`characters` in the symbols of `merges`, each merge applied to all of the text before the next."""
    for number, (left, right) in enumerate(merges, start=len(ALPHABET)):
        line, _ = _merged(line, left, right, number)
    return line


def spellings(merges: Merges) -> list[str]:
    """The characters that each symbol stands for."""
    found = list(ALPHABET)
    for left, right in merges:
        found.append(found[left] + found[right])
    return found


def _merged(line: np.ndarray, left: int, right: int, number: int) -> tuple[np.ndarray, np.ndarray]:
    """`line` with every pair (left, right) as `number`, from the left on, and which places are kept (boolean)."""
    at = np.flatnonzero((line[:-1] == left) & (line[1:] == right))
    if left == right and len(at):  # of a run a a a only every second place begins a pair
        run = np.cumsum(np.diff(at, prepend=at[0]) != 1)
        first = at[np.searchsorted(run, run)]
        at = at[(at - first) % 2 == 0]
    kept = np.ones(len(line), dtype=bool)
    kept[at + 1] = False
    line = line.copy()
    line[at] = number
    return line[kept], kept
