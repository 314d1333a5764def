"""Text to word numbers: BERT's WordPiece with a vocabulary file, and whole words with a counted vocabulary."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from reference.common.errors import SetupError

from .pairs import Special

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # in the order of the fields of pairs.Special
LONGEST_WORD = 100  # characters; longer ones are unknown
REMEMBERED = 1 << 20  # stretches of text whose pieces are kept at hand
_WORD = re.compile(r"[^\W\d_]+|\d|[^\w\s]|_")
_SENTENCE_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"'”’)]))\s+(?=[\"'“‘(]*[A-Z0-9])")


@dataclass
class WordPiece:
    """The tokenizer of uncased BERT: lower case, no accents, punctuation apart, the longest known pieces first."""

    vocabulary: dict[str, int]
    special: Special
    _known: dict[str, list[int]] = field(default_factory=dict, repr=False)

    def __call__(self, text: str) -> list[int]:
        """Numbers of the pieces of `text`."""
        found: list[int] = []
        for stretch in text.split():
            pieces = self._known.get(stretch)
            if pieces is None:
                pieces = [piece for word in basic_words(stretch) for piece in self._pieces(word)]
                if len(self._known) < REMEMBERED:
                    self._known[stretch] = pieces
            found += pieces
        return found

    def _pieces(self, word: str) -> list[int]:
        if len(word) > LONGEST_WORD:
            return [self.special.unknown]
        pieces, start = [], 0
        while start < len(word):
            mark = "##" if start else ""
            for stop in range(len(word), start, -1):
                number = self.vocabulary.get(mark + word[start:stop])
                if number is not None:
                    pieces.append(number)
                    start = stop
                    break
            else:
                return [self.special.unknown]
        return pieces


def read_wordpiece(path: Path, vocab_size: int) -> WordPiece:
    """The tokenizer of a vocab.txt: one piece a line, its number is the line's.

    Raises SetupError for a file without the five special pieces, with a piece twice, or not of `vocab_size` lines.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{path.name}: cannot be read as a vocabulary: {error}") from None
    vocabulary = {piece: number for number, piece in enumerate(lines)}
    missing = [piece for piece in SPECIAL if piece not in vocabulary]
    if missing:
        raise SetupError(f"{path.name}: no {', '.join(missing)} in it; expected: one WordPiece a line")
    if len(lines) != vocab_size or len(vocabulary) != vocab_size:
        raise SetupError(
            f"{path.name}: {len(lines):,} lines, {len(vocabulary):,} of them different; expected: {vocab_size:,}"
        )
    return WordPiece(vocabulary, Special(*(vocabulary[piece] for piece in SPECIAL)))


def basic_words(text: str) -> list[str]:
    """Words of `text` in lower case without accents; punctuation and Chinese characters are words of their own."""
    text = unicodedata.normalize("NFD", unicodedata.normalize("NFC", text).lower())
    made: list[str] = []
    for character in text:
        kind = unicodedata.category(character)
        if kind == "Mn" or character == "\ufffd" or (kind in ("Cc", "Cf", "Co", "Cs") and character not in "\t\n\r"):
            continue
        apart = kind.startswith("P") or _is_ascii_sign(character) or _is_chinese(ord(character))
        made.append(f" {character} " if apart else character)
    return "".join(made).split()


def _is_ascii_sign(character: str) -> bool:
    """ASCII signs count as punctuation even where Unicode calls them symbols: $ + < = > ^ ` | ~."""
    return character.isascii() and character.isprintable() and not character.isalnum() and character != " "


def _is_chinese(code: int) -> bool:
    """In one of the blocks of CJK ideographs (not Kana or Hangul, which are written with spaces or in words)."""
    blocks = ((0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F))
    return any(low <= code <= high for low, high in (*blocks, (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)))


def whole_words(text: str) -> list[str]:
    """Lower-case words, single digits and punctuation marks of `text`."""
    return _WORD.findall(text.lower())


def text_sentences(text: str) -> list[str]:
    """Sentences of a text whose paragraphs are lines: cut behind a full stop before a capital letter or a digit."""
    return [sentence for line in text.split("\n") for sentence in _SENTENCE_END.split(line) if sentence.strip()]


@dataclass(frozen=True)
class Words:
    """A vocabulary of whole words; numbers 0 to 4 are the special ones, then the most frequent first."""

    words: tuple[str, ...]

    special = Special(0, 1, 2, 3, 4)

    @staticmethod
    def counted(sentences: Iterable[Iterable[str]], vocab_size: int) -> Words:
        """The vocab_size - 5 most frequent words of `sentences`; equally frequent ones in alphabetical order."""
        counts = Counter(word for sentence in sentences for word in sentence)
        ordered = sorted(counts, key=lambda word: (-counts[word], word))
        return Words((*SPECIAL, *ordered[: vocab_size - len(SPECIAL)]))

    def numbers(self, sentences: Iterable[Iterable[str]]) -> list[list[int]]:
        known = {word: number for number, word in enumerate(self.words)}
        return [[known.get(word, self.special.unknown) for word in sentence] for sentence in sentences]
