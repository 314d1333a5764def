"""BERT's data: WordPiece against transformers, pairs, masks, shards, the tables by hand. All text here is made up."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from reference.common.errors import SetupError

from . import baselines, made_up, pairs, shards, words
from .pairs import NO_LABEL, Masker, Masking, Special

SPECIAL = Special(0, 1, 2, 3, 4)
PIECES = [
    *words.SPECIAL,
    "the",
    "cat",
    "##s",
    "un",
    "##want",
    "##ed",
    ",",
    "!",
    "$",
    "a",
    "b",
    "e",
    "##e",
    "中",
    "1",
    "-",
]


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    return path


# ---- words -----------------------------------------------------------------------------------------------------------


def test_wordpieces_by_hand(vocabulary: Path) -> None:
    tokenizer = words.read_wordpiece(vocabulary, len(PIECES))
    assert tokenizer.special == Special(0, 1, 2, 3, 4)
    spelled = [PIECES[number] for number in tokenizer("The CATS unwanted, É dog 中中!\tcat-1")]
    assert spelled == ["the", "cat", "##s", "un", "##want", "##ed", ",", "e", "[UNK]", *"中中!", "cat", "-", "1"]
    assert tokenizer("a" * 101) == [1] and tokenizer("  \n") == []


def test_wordpieces_are_those_of_transformers(vocabulary: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    theirs = transformers.BertTokenizer(vocab=str(vocabulary))
    ours = words.read_wordpiece(vocabulary, len(PIECES))
    texts = [
        "The CATS unwanted, é!",
        "a$b ÉE\u0301e the\u200bcat",
        "cats\u00a0the 中a中b",
        "x\x00the ~cat^ <the>",
        "“the” – cat…",
    ]
    texts += ["THEİ e\u0300", "a1 1a 1-a", "unwantedx cat's", "ﬁ ① ½ thé ＡＢ", "[the] {cat}\tcats\r\n a"]
    for text in texts:
        assert [PIECES[number] for number in ours(text)] == theirs.tokenize(text), text


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (PIECES[1:], r"no \[PAD\] in it"),
        ([*PIECES, "more"], "20,?.* lines|expected: 21|different; expected"),
        ([*PIECES[:-1], "the"], "different; expected"),
    ],
)
def test_vocabularies_that_cannot_be_used(tmp_path: Path, lines: list[str], message: str) -> None:
    (tmp_path / "vocab.txt").write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(SetupError, match=message):
        words.read_wordpiece(tmp_path / "vocab.txt", len(PIECES))


def test_whole_words_and_sentences_by_hand() -> None:
    text = 'Zub (2016) was "blue". It ran at 3.5 km/h! But e.g. this\nNew line? "Yes." 7 more.'
    assert words.text_sentences(text) == [
        'Zub (2016) was "blue".',
        "It ran at 3.5 km/h!",
        "But e.g. this",
        "New line?",
        '"Yes."',
        "7 more.",
    ]
    assert words.whole_words("It's 3.5 km_h!") == ["it", "'", "s", "3", ".", "5", "km", "_", "h", "!"]
    counted = words.Words.counted([["b", "a", "b"], ["c", "a", "d"]], 8)
    assert counted.words == (*words.SPECIAL, "a", "b", "c")  # as often: by the alphabet
    assert counted.numbers([["b", "d"], []]) == [[6, 1], []]


# ---- pairs -----------------------------------------------------------------------------------------------------------


def documents(count: int = 12, sentences: int = 9, seed: int = 0) -> list[list[list[int]]]:
    """Every word names its document and its place: 10,000 (document + 1) + running number."""
    rng, made = random.Random(seed), []
    for number in range(count):
        running, document = 10_000 * (number + 1), []
        for _ in range(sentences):
            length = rng.randint(1, 12)
            document.append(list(range(running, running + length)))
            running += length
        made.append(document)
    return made


def halves(row: np.ndarray, first: int, length: int) -> tuple[list[int], list[int]]:
    assert row[0] == SPECIAL.cls and row[first - 1] == SPECIAL.sep and row[length - 1] == SPECIAL.sep
    assert (row[length:] == SPECIAL.pad).all()
    return row[1 : first - 1].tolist(), row[first : length - 1].tolist()


def test_pairs_follow_each_other_or_come_from_two_documents() -> None:
    made = pairs.sequences(documents(), 32, SPECIAL, random.Random(3))
    assert made.ids.shape[1] == 32 and made.lengths.max() == 32
    for row, length, first, unrelated in zip(made.ids, made.lengths, made.firsts, made.unrelated, strict=True):
        a, b = halves(row, first, length)
        assert a and b
        for text in (a, b):
            assert text == list(range(text[0], text[0] + len(text)))  # nothing left out inside
        assert (a[0] // 10_000 != b[0] // 10_000) == bool(unrelated)
        assert unrelated or a[-1] < b[0]
    assert 0.4 < made.unrelated.mean() < 0.75  # half, and a little more: a last sentence alone has no other B


def test_nothing_is_thrown_away_where_nothing_is_cut() -> None:
    """With room for whole documents, each is one sequence or is cut in two at the place where its B was thrown back."""
    texts = documents(count=40, sentences=3)
    made = pairs.sequences(texts, 200, SPECIAL, random.Random(5))
    seen = set()
    for row, length, first, unrelated in zip(made.ids, made.lengths, made.firsts, made.unrelated, strict=True):
        a, b = halves(row, first, length)
        seen |= {*a} if unrelated else {*a, *b}
    assert seen == {word for document in texts for sentence in document for word in sentence}


def test_a_text_too_long_is_cut_at_both_ends_of_the_longer_half() -> None:
    starts = set()
    for seed in range(40):
        a, b = pairs._cut(list(range(10)), list(range(100, 130)), 20, random.Random(seed))
        assert len(a) == 10 and len(b) == 10
        starts.add(b[0])
    assert len(starts) > 3


def test_one_document_of_one_sentence_makes_a_pair_with_itself() -> None:
    made = pairs.sequences([[[7, 8, 9]]], 16, SPECIAL, random.Random(0))
    assert halves(made.ids[0], made.firsts[0], made.lengths[0]) == ([7, 8, 9], [7, 8, 9])


# ---- masks -----------------------------------------------------------------------------------------------------------


def texts(rows: int = 300, length: int = 64, vocabulary: int = 500) -> pairs.Sequences:
    rng = np.random.default_rng(0)
    ids = rng.integers(5, vocabulary, (rows, length)).astype(np.int32)
    ids[rng.random(ids.shape) < 0.2] = SPECIAL.unknown
    lengths = rng.integers(length // 2, length + 1, rows)
    firsts = lengths // 2
    for row, (stop, middle) in enumerate(zip(lengths, firsts, strict=True)):
        ids[row, [0, middle - 1, stop - 1]] = SPECIAL.cls, SPECIAL.sep, SPECIAL.sep
        ids[row, stop:] = SPECIAL.pad
    return pairs.Sequences(ids, lengths, firsts, np.zeros(rows, dtype=np.int64))


def test_80_10_10_of_15_percent() -> None:
    whole = texts()
    batch = Masker(Masking(0.15, 20, 0.8, 0.1), 500, SPECIAL)(whole, np.random.default_rng(1))
    before = torch.from_numpy(whole.ids.astype(np.int64))
    asked = batch.labels != NO_LABEL
    can = (before > 4).sum(1)
    assert asked.sum(1).tolist() == [round(0.15 * count) for count in can.tolist()]
    there = before.gather(1, batch.positions)
    assert (batch.labels[asked] == there[asked]).all() and (there[asked] > 4).all()
    assert all(len(set(row[ok].tolist())) == ok.sum() for row, ok in zip(batch.positions, asked, strict=True))
    now = batch.ids.gather(1, batch.positions)[asked]
    masked, same = (now == SPECIAL.mask).float().mean(), (now == there[asked]).float().mean()
    assert masked == pytest.approx(0.8, abs=0.03) and same == pytest.approx(0.1, abs=0.02)
    assert now.min() >= SPECIAL.mask  # what is swapped in is a word
    others = torch.ones_like(before, dtype=torch.bool).scatter(1, torch.where(asked, batch.positions, 0), False)
    assert (batch.ids == before)[others].all()
    assert batch.segments.sum(1).tolist() == (whole.lengths - whole.firsts).tolist()


def test_no_more_masks_than_allowed_and_at_least_one() -> None:
    whole = texts()
    many = Masker(Masking(0.5, 7, 1.0, 0.0), 500, SPECIAL)(whole, np.random.default_rng(1))
    assert ((many.labels != NO_LABEL).sum(1) == 7).all() and (many.ids == SPECIAL.mask).sum() == 7 * len(whole)
    few = Masker(Masking(0.001, 7, 1.0, 0.0), 500, SPECIAL)(whole, np.random.default_rng(1))
    assert ((few.labels != NO_LABEL).sum(1) == 1).all()
    bare = pairs.Sequences(np.array([[2, 1, 3, 1, 3]], dtype=np.int32), np.array([5]), np.array([3]), np.array([1]))
    assert (Masker(Masking(0.15, 3, 0.8, 0.1), 500, SPECIAL)(bare, np.random.default_rng(1)).labels == NO_LABEL).all()


def test_mask_sets_share_no_word() -> None:
    whole = texts()
    sets = Masker(Masking(0.15, 20, 1.0, 0.0), 500, SPECIAL).disjoint(whole, np.random.default_rng(1), 4)
    masked = torch.stack([batch.ids == SPECIAL.mask for batch in sets]).int()
    assert masked.sum(0).max() == 1 and (masked.sum((1, 2)) == masked[0].sum()).all()


def test_even_distances() -> None:
    assert pairs.spread(texts(10), 4).lengths.tolist() == texts(10).lengths[[0, 2, 5, 7]].tolist()
    assert len(pairs.spread(texts(3), 4)) == 3


# ---- shards ----------------------------------------------------------------------------------------------------------


def test_shards_by_hand(tmp_path: Path, vocabulary: Path) -> None:
    path = tmp_path / "part-00000-of-00002"
    path.write_text("\n\nThe cat.\ncats !\n\n \nA\n\n\n\x00\n", encoding="utf-8")
    tokenizer = words.read_wordpiece(vocabulary, len(PIECES))
    found = shards.documents(path, tokenizer)
    assert [[[PIECES[word] for word in s] for s in d] for d in found] == [
        [["the", "cat", "[UNK]"], ["cat", "##s", "!"]],
        [["a"]],
    ]
    path.write_text("\n\n", encoding="utf-8")
    with pytest.raises(SetupError, match="no text in it"):
        shards.documents(path, tokenizer)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SetupError, match="cannot be read as text"):
        shards.documents(path, tokenizer)


def test_a_folder_that_is_not_the_published_set_is_no_complete_one(tmp_path: Path, vocabulary: Path) -> None:
    with pytest.raises(SetupError, match=r"no part-\*-of-\*, eval.txt"):
        shards.find(tmp_path)
    (tmp_path / "part-00000-of-00500").write_text("The cat.\n\na\n")
    (tmp_path / "eval.txt").write_text("a\n\nthe\n\n\ncat\n")
    layout = shards.find(tmp_path)
    assert not layout.complete
    assert [shards.count_documents(path) for path in (*layout.parts, layout.evaluation)] == [2, 3]
    first = shards.source(layout)
    (tmp_path / "eval.txt").write_text("b\n\nthe\n\n\ncat\n")
    assert shards.source(layout).sha256 != first.sha256


# ---- tables ----------------------------------------------------------------------------------------------------------


def asked(*rows: tuple[int, list[int]]) -> list[pairs.Batch]:
    """A batch whose word at 2 is masked, with the true word and the five words around it given."""
    ids = torch.tensor([text for _, text in rows])
    labels = torch.tensor([[truth] for truth, _ in rows])
    zeros = torch.zeros(len(rows), dtype=torch.int64)
    return [pairs.Batch(ids, torch.zeros_like(ids), zeros + 5, zeros[:, None] + 2, labels, zeros)]


def test_tables_by_hand() -> None:
    """Words 5 to 9. After 5 comes 6 twice and 7 once; between 5 and 8 there is always 7; 9 is the most frequent."""
    text = [[5, 6, 9, 9, 9, 9, 9, 5, 6, 9, 5, 7, 8, 9]]
    tables = baselines.Tables([text], 10, SPECIAL)
    around = np.array([[-1, 5, 9, -1], [-1, 5, 8, -1], [-1, -1, 8, -1], [-1, -1, -1, -1], [-1, 8, 1, -1]])
    said = {name: guess.tolist() for name, guess in tables.guesses(around).items()}
    assert said["most frequent word"] == [9] * 5
    assert said["left neighbour"] == [6, 6, 9, 9, 9]
    assert said["both neighbours"] == [6, 7, 7, 9, 9]
    assert said["left x right"][:4] == [6, 7, 7, 9]
    assert said["left x right, pairs, trigrams"][:4] == [6, 7, 7, 9]
    shares = baselines.witten_bell(np.array([[3.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), np.array([0.5, 0.25, 0.25]))
    assert shares == pytest.approx(np.array([[(3 + 2 * 0.5) / 6, (1 + 0.5) / 6, 0.5 / 6], [0.5, 0.25, 0.25]]))


def test_tables_see_what_the_model_sees() -> None:
    labels, around = baselines.questions(asked((6, [9, 5, 4, 8, 3]), (7, [2, 4, 4, 1, 0])), SPECIAL)
    assert labels.tolist() == [6, 7]
    assert around.tolist() == [[9, 5, 8, -1], [-1, -1, 1, -1]]  # [SEP], [CLS], [MASK] and padding are not to be seen


def test_accuracy_of_the_tables() -> None:
    found = baselines.accuracies(
        [[[5, 6, 9, 9, 5, 6, 9]]], asked((6, [9, 5, 4, 9, 3]), (5, [9, 5, 4, 9, 3])), 10, SPECIAL
    )
    assert found["left neighbour"] == 0.5 and found["most frequent word"] == 0.0


def test_the_made_up_language_has_one_vocabulary_and_something_to_learn() -> None:
    first, other = made_up.articles(20, seed=1), made_up.articles(20, seed=2)
    assert not {text for _, text in first} & {text for _, text in other}
    spelled, other_spelled = ({w for _, text in part for w in words.whole_words(text)} for part in (first, other))
    assert len(spelled ^ other_spelled) < 3
