"""Translation: the grammar's German against German written by hand, and what its sets of sentences promise."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from . import data, grammar
from . import lexicon as lex
from .metric import UNKNOWN

NOUNS = {noun.singular: noun for noun in lex.NOUNS}
VERBS = {verb.base: verb for verb in lex.VERBS}
MODALS = {modal[0]: modal for modal in lex.MODALS}


class Luck(grammar.Draw):
    """A draw that answers with given picks (words in any language) and chances, then with "no"."""

    def __init__(self, determiner: float, noun: lex.Noun, plural: bool, adjective: str) -> None:
        self.numbers = iter([determiner])
        self.noun, self.chances, self.adjective = noun, iter([plural, bool(adjective)]), adjective

    def chance(self, probability: float) -> bool:
        return next(self.chances)

    def pick(self, choices):
        if self.noun in choices:
            return self.noun
        return next((choice for choice in choices if choice[0] == self.adjective), choices[0])


DETERMINERS = {"the": 0.0, "a": 0.5, "": 0.5, "my": 0.7, "this": 0.9, "these": 0.9, "every": 0.99, "two": 0.99}


def phrase(english: str) -> grammar.Phrase:
    """The phrase of these English words: a determiner, perhaps an adjective, a noun."""
    pronoun = next((row for row in lex.PRONOUNS if row[0] == english or row[1] == english), None)
    if pronoun is not None:
        subject, object_, person, *cases = pronoun
        return grammar.Phrase(
            [subject], [object_], {"nom": [cases[0]], "acc": [cases[1]], "dat": [cases[2]]}, person, ""
        )
    *before, head = english.split()
    noun = next(noun for noun in lex.NOUNS if head in (noun.singular, noun.plural))
    determiner = before[0] if before and before[0] in DETERMINERS else ""
    adjective = before[-1] if len(before) > bool(determiner) else ""
    made = grammar.noun_phrase(Luck(DETERMINERS[determiner], noun, head == noun.plural, adjective), noun.kind)
    assert " ".join(made.english) == english
    return made


def clause(subject: str, verb: str, object_: str = "", tense: str = "present", **more) -> grammar.Clause:
    fields = {"negated": False, "time": None, "manner": None, "place": None, "adjective": None, **more}
    of = None if verb == "be" else VERBS[verb]
    complement = phrase(object_) if object_ else None
    kind = MODALS.get(tense, tense)
    return grammar.Clause(phrase(subject), of, complement=complement, tense=kind, objects=frozenset(), **fields)


TODAY = ("today", "heute")
CASES = [
    # agreement: gender, number, case, endings after the, a, my, this, nothing
    (clause("the man", "see", "the dog"), "the man sees the dog", "der Mann sieht den Hund"),
    (clause("a man", "see", "a small dog"), "a man sees a small dog", "ein Mann sieht einen kleinen Hund"),
    (clause("the small child", "help", "the man"), "the small child helps the man", "das kleine Kind hilft dem Mann"),
    (clause("a small child", "help", "a woman"), "a small child helps a woman", "ein kleines Kind hilft einer Frau"),
    (
        clause("my big cat", "see", "my big cow"),
        "my big cat sees my big cow",
        "meine große Katze sieht meine große Kuh",
    ),
    (clause("the dogs", "thank", "the old men"), "the dogs thank the old men", "die Hunde danken den alten Männern"),
    (clause("dogs", "thank", "old men"), "dogs thank old men", "Hunde danken alten Männern"),
    (
        clause("two small dogs", "hear", "these men"),
        "two small dogs hear these men",
        "zwei kleine Hunde hören diese Männer",
    ),
    (clause("every king", "follow", "this queen"), "every king follows this queen", "jeder König folgt dieser Königin"),
    (clause("i", "see", "him"), "i see him", "ich sehe ihn"),
    (clause("they", "thank", "us"), "they thank us", "sie danken uns"),
    # the verbal bracket: prefixes, participles, infinitives
    (clause("the man", "open", "the door"), "the man opens the door", "der Mann macht die Tür auf"),
    (clause("we", "open", "the door", "perfect"), "we have opened the door", "wir haben die Tür aufgemacht"),
    (clause("he", "arrive", "", "perfect"), "he has arrived", "er ist angekommen"),
    (clause("i", "close", "the door", "will"), "i will close the door", "ich werde die Tür zumachen"),
    (clause("she", "call", "me", "want"), "she wants to call me", "sie will mich anrufen"),
    # nicht and kein, and their places
    (clause("he", "see", "the dog", negated=True), "he does not see the dog", "er sieht den Hund nicht"),
    (clause("he", "see", "a dog", negated=True), "he does not see a dog", "er sieht keinen Hund"),
    (clause("he", "see", "old dogs", negated=True), "he does not see old dogs", "er sieht keine alten Hunde"),
    (clause("he", "help", "dogs", negated=True), "he does not help dogs", "er hilft keinen Hunden"),
    (clause("i", "see", "every dog", negated=True), "i do not see every dog", "ich sehe nicht jeden Hund"),
    (clause("he", "open", "the door", negated=True), "he does not open the door", "er macht die Tür nicht auf"),
    (
        clause("he", "see", "the dog", "perfect", negated=True, manner=("quickly", "schnell"), time=TODAY),
        "he has not seen the dog quickly today",
        "er hat heute den Hund nicht schnell gesehen",
    ),
    (clause("he", "see", "her", time=TODAY), "he sees her today", "er sieht sie heute"),
    (
        clause("they", "be", adjective=("tired", "müd"), negated=True, time=TODAY),
        "they are not tired today",
        "sie sind heute nicht müde",
    ),
]


@pytest.mark.parametrize(("made", "english", "german"), CASES, ids=[case[1] for case in CASES])
def test_main_clauses(made: grammar.Clause, english: str, german: str) -> None:
    assert " ".join(grammar.english_main(made)) == english
    assert " ".join(grammar.german_main(made)) == german


def test_the_finite_verb_moves() -> None:
    made = clause("the man", "open", "the door", time=TODAY)
    assert " ".join(grammar.german_main(made, front=True)) == "heute macht der Mann die Tür auf"
    assert " ".join(grammar.german_first(made)) == "macht der Mann heute die Tür auf"
    assert " ".join(grammar.german_last(made)) == "der Mann heute die Tür aufmacht"
    made = clause("we", "open", "the door", "perfect")
    assert " ".join(grammar.german_last(made)) == "wir die Tür aufgemacht haben"
    assert " ".join(grammar.english_question(made)) == "have we opened the door"
    assert " ".join(grammar.english_question(clause("he", "sleep"))) == "does he sleep"
    assert " ".join(grammar.english_question(clause("he", "sleep", "", "want"))) == "does he want to sleep"


def test_german_commas() -> None:
    assert grammar._punctuated(["a", ",", ",", "b", ",", "."]) == ["a", ",", "b", "."]


def test_a_relative_clause_agrees_with_its_head() -> None:
    subject, _ = grammar.with_relative_clause(grammar.Draw(5, 5), phrase("the woman"))
    assert subject.english[:3] == ["the", "woman", "that"]
    assert subject.german["nom"][:4] == ["die", "Frau", ",", "die"]
    assert subject.german["nom"][-1] == ","


def sentences(seed: int, count: int) -> Iterator[grammar.Pair]:
    return (grammar.sentence(seed, number) for number in range(count))


def test_sentences_do_not_depend_on_how_many_there_are_and_differ_by_seed() -> None:
    first = list(sentences(1, 5))
    assert grammar.sentence(1, 3) == first[3]
    assert all(one != other for one, other in zip(first, sentences(2, 5), strict=True))


def test_no_sentence_has_two_translations() -> None:
    """BLEU and token accuracy can reach their highest values."""
    found: dict[str, str] = {}
    for pair in sentences(3, 4000):
        assert len(pair.english) <= grammar.LONGEST
        german = " ".join(pair.german)
        assert found.setdefault(" ".join(pair.english), german) == german
    assert len(found) > 3900


def test_every_german_noun_stands_with_an_article_of_its_gender() -> None:
    """Read back from the sentences: what stands before "Hund", "Frau" and "Kind" fits some case of their gender."""
    allowed = {}
    for noun in lex.NOUNS:
        if noun.german != noun.german_plural:
            forms = {row[noun.gender] for row in lex.DEFINITE.values()}
            allowed[noun.german] = forms
    seen = 0
    for pair in sentences(4, 3000):
        for before, word in zip(pair.german, pair.german[1:], strict=False):
            if word in allowed and before in ("der", "die", "das", "den", "dem"):
                assert before in allowed[word], pair.german
                seen += 1
    assert seen > 500


def test_held_out_sentences_are_new_and_some_combine_what_training_never_does() -> None:
    corpus, (source,) = data.generated(800, 200, validation=False, device=torch.device("cpu"))
    train = data._distinct(data.TRAIN_SEED, 800, set(), with_held=False)
    held_out = data._distinct(data.EVAL_SEED, 200, set(), with_held=True)
    known = {" ".join(pair.english) for pair in train}
    assert len(known) == len(corpus.train) == 800
    assert not any(pair.held for pair in train)
    assert sum(" ".join(pair.english) in known for pair in held_out) < 5  # left out of the corpus, checked next
    texts = {corpus.source_words.text(row) for batch, _, _ in corpus.held_out.in_order(50) for row in batch.tolist()}
    assert len(texts) == 200
    assert not texts & known
    assert 0.03 < corpus.held_out.held.mean() < 0.15
    other, (source_again,) = data.generated(800, 200, validation=True, device=torch.device("cpu"))
    assert source.sha256 != source_again.sha256
    assert other.train.source.flat.tolist() == corpus.train.source.flat.tolist()


def test_hardly_a_word_of_the_embedded_evaluation_is_unknown() -> None:
    for validation in (False, True):
        corpus, _ = data.generated(*data.COUNTS["embedded"], validation, torch.device("cpu"))
        for side in (corpus.held_out.source, corpus.held_out.target):
            assert (side.flat == UNKNOWN).mean() < 0.001
