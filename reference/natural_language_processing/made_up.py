"""A made-up language for the smoke profile and the tests: nobody's text, no file."""

from __future__ import annotations

import random

import numpy as np

VERSION = "1"
LETTERS = "abdegiklmnoprstuvz"


def articles(count: int, seed: int, vocabulary: int = 60) -> list[tuple[str, str]]:
    """`count` titles and texts. Each word is mostly followed by one of two others, so that there is something to learn.

    The language (its words and what follows what) is the same for every seed; a text is about 20 sentences in four
    paragraphs.
    """
    shared = random.Random(0)
    words = sorted({"".join(shared.choices(LETTERS, k=shared.randint(2, 5))) for _ in range(vocabulary)})
    follows = {word: shared.sample(words, 2) for word in words}
    own = random.Random(seed)
    made = []
    for number in range(count):
        paragraphs = []
        for _ in range(4):
            sentences = []
            for _ in range(own.randint(4, 6)):
                text = [own.choice(words)]
                for _ in range(own.randint(4, 10)):
                    text.append(own.choice(follows[text[-1]]) if own.random() < 0.8 else own.choice(words))
                sentences.append(" ".join(text).capitalize() + ".")
            paragraphs.append(" ".join(sentences))
        made.append((f"Article {seed}-{number}", "\n".join(paragraphs)))
    return made


def arrays(texts: list[tuple[str, str]]) -> list[np.ndarray]:
    """The texts as arrays of bytes, for their hash."""
    return [np.frombuffer(text.encode(), dtype=np.uint8) for _, text in texts]
