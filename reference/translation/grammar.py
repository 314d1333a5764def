"""English sentences with their German translations, made by one grammar that speaks both languages.

What a word-by-word translation gets wrong is in it on purpose: the German verb stands second, also after a fronted
adverbial or clause, and last in a subordinate clause; prefixes separate; participles and infinitives close the clause;
articles and adjectives agree in gender, number and case; "not" is `nicht` at a place of its own, or `kein`.
Every sentence is drawn from a stream of its own, [seed, number], so that a set does not depend on its size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from . import lexicon as lex

NAME, VERSION = "english_german_grammar", "1"
LONGEST = 24  # tokens of a sentence, in either language
DRAWS = 160  # random numbers a sentence has at most
HELD_SHARE = 10  # one of so many (verb, object) pairs does not occur in training

T = TypeVar("T")
Words = list[str]
Objects = frozenset[tuple[str, str]]  # (verb, object noun): English base and singular
Endings = dict[str, dict[str, str]]  # by case and gender


class Pair(NamedTuple):
    """A sentence in both languages, as tokens, and the (verb, object noun) pairs in it (English base, singular)."""

    english: Words
    german: Words
    objects: Objects

    @property
    def held(self) -> bool:
        """Whether it combines a verb with an object that are never together in training."""
        return any(is_held(*both) for both in self.objects)


class Draw:
    """The random numbers of one sentence. numpy guarantees the raw stream, so sentences are the same everywhere."""

    def __init__(self, seed: int, number: int) -> None:
        raw = np.random.PCG64([seed, number]).random_raw(DRAWS)
        self.numbers = iter(((raw >> np.uint64(11)) * 2.0**-53).tolist())

    def chance(self, probability: float) -> bool:
        return next(self.numbers) < probability

    def pick(self, choices: Sequence[T]) -> T:
        return choices[int(next(self.numbers) * len(choices))]


@dataclass(frozen=True)
class Phrase:
    """Something that a verb agrees with or acts on. `person` is "first", "third" or "plural"; German by case.

    `noun` is the head ("" for a pronoun). `none` is the German with `kein`, where the phrase is indefinite.
    """

    english: Words  # as a subject
    english_object: Words
    german: dict[str, Words]
    person: str
    gender: str  # "m", "f", "n", or "p" for the plural
    noun: str = ""
    none: dict[str, Words] | None = None


@dataclass(frozen=True)
class Clause:
    """What happens, before any language orders it. `tense` is "present", "perfect" or an entry of lex.MODALS."""

    subject: Phrase
    verb: lex.Verb | None  # None: "to be" with `adjective`
    adjective: tuple[str, str] | None
    complement: Phrase | None
    tense: str | tuple[str, ...]
    negated: bool
    time: tuple[str, str] | None
    manner: tuple[str, str] | None
    place: tuple[Words, Words] | None
    objects: Objects  # with those of relative clauses


def is_held(verb: str, noun: str) -> bool:
    return int(hashlib.md5(f"{verb} {noun}".encode()).hexdigest(), 16) % HELD_SHARE == 0


# ---- noun phrases ----------------------------------------------------------------------------------------------------

ADJECTIVES = {
    kind: [tuple(word.split()) for word in f"{text},{lex.ADJECTIVES['any']}".split(",")]
    for kind, text in lex.ADJECTIVES.items()
}
NOUNS = {kind: [noun for noun in lex.NOUNS if noun.kind == kind] for kind in ("being", "thing", "place")}


def noun_phrase(draw: Draw, kind: str) -> Phrase:
    """A noun with its determiner and perhaps an adjective."""
    noun = draw.pick(NOUNS[draw.pick(("being", "thing", "place")) if kind == "any" else kind])
    plural = draw.chance(0.3)
    english, german, ending = _determiner(draw, plural)
    gender = "p" if plural else noun.gender
    adjective = draw.pick(ADJECTIVES[noun.kind]) if draw.chance(0.3) else None
    words = [*english, *([adjective[0]] if adjective else []), noun.plural if plural else noun.singular]
    if words[0] == "a" and words[1][0] in "aeiou":
        words[0] = "an"

    def declined(stem: str | None, endings: Endings | None, ending: str) -> dict[str, Words]:
        by_case = {}
        for case in ("nom", "acc", "dat"):
            determiner = [] if stem is None else [stem + endings[case][gender]] if endings else [stem]
            inflected = [f"{adjective[1]}{lex.ADJECTIVE_ENDINGS[ending][case][gender]}"] if adjective else []
            head = noun.german_plural if plural else noun.german
            if plural and case == "dat" and head[-1] not in "ns":
                head += "n"
            by_case[case] = [*determiner, *inflected, head]
        return by_case

    bare = english in ([], ["a"])
    none = declined("kein", lex.LIKE_A, "mixed") if bare else None
    person = "plural" if plural else "third"
    return Phrase(words, words, declined(*german, ending), person, gender, noun.singular, none)


def _determiner(draw: Draw, plural: bool) -> tuple[Words, tuple[str | None, Endings | None], str]:
    """English words, the German stem with its endings, and which endings adjectives take after it."""
    luck = next(draw.numbers)
    if luck < 0.42:
        return ["the"], ("", lex.DEFINITE), "weak"
    if luck < 0.62:
        return ([], (None, None), "strong") if plural else (["a"], ("ein", lex.LIKE_A), "mixed")
    if luck < 0.84:
        english, german = draw.pick(lex.POSSESSIVES)
        return [english], (german, lex.LIKE_A), "mixed"
    if luck < 0.92:
        return ["these" if plural else "this"], ("dies", lex.THIS), "weak"
    if plural:
        english, german = draw.pick(lex.NUMBERS)
        return [english], (german, None), "strong"
    return ["every"], ("jed", lex.THIS), "weak"


def with_relative_clause(draw: Draw, phrase: Phrase) -> tuple[Phrase, Objects]:
    """The phrase with a clause about it, in which it is the subject; and that clause's pairs."""
    relative = replace(phrase, english=["that"], german={"nom": [lex.DEFINITE["nom"][phrase.gender]]})
    clause = clause_of(draw, relative)
    german = [",", *german_last(clause), ","]
    by_case = {case: [*words, *german] for case, words in phrase.german.items()}
    return replace(phrase, english=[*phrase.english, *english_main(clause)], german=by_case), clause.objects


def pronoun(draw: Draw) -> Phrase:
    subject, object_, person, nominative, accusative, dative = draw.pick(lex.PRONOUNS)
    return Phrase([subject], [object_], {"nom": [nominative], "acc": [accusative], "dat": [dative]}, person, "")


# ---- clauses ---------------------------------------------------------------------------------------------------------


def clause_of(draw: Draw, subject: Phrase | None = None) -> Clause:
    """A clause, about `subject` where it's given. Only a subject has relative clauses: who acts when stays clear."""
    objects: Objects = frozenset()
    if subject is None:
        if draw.chance(0.25):
            subject = pronoun(draw)
        else:
            subject = noun_phrase(draw, "being")
            if draw.chance(0.1):
                subject, objects = with_relative_clause(draw, subject)
    time = draw.pick(lex.TIMES) if draw.chance(0.3) else None
    negated = draw.chance(0.2)
    if draw.chance(0.1):
        adjective = draw.pick(ADJECTIVES["being"])
        return Clause(subject, None, adjective, None, "present", negated, time, None, None, objects)
    verb = draw.pick(lex.VERBS)
    complement = None
    if verb.object in ("being", "any") and draw.chance(0.2):
        complement = pronoun(draw)
    elif verb.object:
        complement = noun_phrase(draw, verb.object)
        objects |= {(verb.base, complement.noun)}
    luck = next(draw.numbers)
    tense = "present" if luck < 0.45 else "perfect" if luck < 0.65 else draw.pick(lex.MODALS)
    manner = draw.pick(lex.MANNERS) if draw.chance(0.12) else None
    place = _place(draw) if draw.chance(0.25) else None
    return Clause(subject, verb, None, complement, tense, negated, time, manner, place, objects)


def _place(draw: Draw) -> tuple[Words, Words]:
    kind = draw.pick(("place", "place", "thing", "being"))
    english, german, case = draw.pick(lex.PREPOSITIONS[kind])
    phrase = noun_phrase(draw, kind)
    words = phrase.german[case]
    short = lex.CONTRACTIONS.get((german, words[0]))
    return [*english.split(), *phrase.english], [short, *words[1:]] if short else [german, *words]


def english_main(clause: Clause) -> Words:
    """Subject, verb, object, manner, place, time."""
    auxiliary, rest = _english_verb(clause)
    return [*clause.subject.english, *auxiliary, *rest, *_english_end(clause)]


def english_question(clause: Clause) -> Words:
    auxiliary, rest = _english_verb(replace(clause, negated=False), question=True)
    return [*auxiliary, *clause.subject.english, *rest, *_english_end(clause)]


def _english_verb(clause: Clause, question: bool = False) -> tuple[Words, Words]:
    """What agrees with the subject (and goes before it in a question), and what follows."""
    person = clause.subject.person
    not_ = ["not"] if clause.negated else []
    if clause.verb is None:
        assert clause.adjective is not None
        return [{"first": "am", "third": "is", "plural": "are"}[person]], [*not_, clause.adjective[0]]
    if clause.tense == "perfect":
        return ["has" if person == "third" else "have"], [*not_, clause.verb.participle]
    does = "does" if person == "third" else "do"
    if clause.tense != "present" and not clause.tense[1]:
        return [clause.tense[0]], [*not_, clause.verb.base]
    to = [] if clause.tense == "present" else ["to", clause.verb.base]
    base = clause.verb.base if clause.tense == "present" else clause.tense[0]
    if clause.negated or question:
        return [does], [*not_, base, *to]
    third = clause.verb.third if clause.tense == "present" else base + "s"
    return [], [third if person == "third" else base, *to]


def _english_end(clause: Clause) -> Words:
    return [
        *(clause.complement.english_object if clause.complement else []),
        *(clause.manner[0].split() if clause.manner else []),
        *(clause.place[0] if clause.place else []),
        *(clause.time[0].split() if clause.time else []),
    ]


FORM = {"first": 0, "third": 1, "plural": 2}
TO_BE, TO_HAVE = ("bin", "ist", "sind"), ("habe", "hat", "haben")


def _german_verb(clause: Clause) -> tuple[str, Words, str]:
    """The finite verb, what closes the clause, and the separated prefix (which a final verb takes back)."""
    form = FORM[clause.subject.person]
    verb = clause.verb
    if verb is None:
        assert clause.adjective is not None
        return TO_BE[form], [lex.UNINFLECTED.get(clause.adjective[1], clause.adjective[1])], ""
    if clause.tense == "present":
        return (verb.first_german, verb.third_german, verb.plural_german)[form], [], verb.prefix
    if clause.tense == "perfect":
        return (TO_BE if verb.to_be else TO_HAVE)[form], [verb.participle_german], ""
    return clause.tense[2 + form], [verb.prefix + verb.plural_german], ""


def _german_middle(clause: Clause, with_time: bool = True) -> Words:
    """Between the finite verb and the end: pronoun, time, object, nicht, manner, place."""
    time = clause.time[1].split() if clause.time and with_time else []
    words, not_ = [], ["nicht"] if clause.negated else []
    if clause.complement is not None and clause.verb is not None:
        words = clause.complement.german[clause.verb.case]
        if clause.negated and clause.complement.none is not None:
            words, not_ = clause.complement.none[clause.verb.case], []
        elif clause.negated and words[0].startswith("jed"):
            words, not_ = ["nicht", *words], []
        time, words = ([], [*words, *time]) if not clause.complement.noun else (time, words)
    manner = clause.manner[1].split() if clause.manner else []
    return [*time, *words, *not_, *manner, *(clause.place[1] if clause.place else [])]


def german_main(clause: Clause, front: bool = False) -> Words:
    """The finite verb second: after the subject or, with `front`, after the time (which must be there)."""
    finite, end, prefix = _german_verb(clause)
    subject = clause.subject.german["nom"]
    first, third = (clause.time[1].split(), subject) if front and clause.time else (subject, [])
    closed = [*end, prefix] if prefix else end
    return [*first, finite, *third, *_german_middle(clause, with_time=not front), *closed]


def german_first(clause: Clause) -> Words:
    """The finite verb first: a question, or what follows a subordinate clause."""
    finite, end, prefix = _german_verb(clause)
    closed = [*end, prefix] if prefix else end
    return [finite, *clause.subject.german["nom"], *_german_middle(clause), *closed]


def german_last(clause: Clause) -> Words:
    """The finite verb last, as in a subordinate clause."""
    finite, end, prefix = _german_verb(clause)
    return [*clause.subject.german["nom"], *_german_middle(clause), *end, prefix + finite]


# ---- sentences -------------------------------------------------------------------------------------------------------


def sentence(seed: int, number: int) -> Pair:
    """The sentence with this number of the set with this seed; of at most LONGEST tokens in either language."""
    for attempt in range(100):
        pair = _sentence(Draw(seed, number * 100 + attempt))
        if max(len(pair.english), len(pair.german)) <= LONGEST:
            return pair
    raise RuntimeError(f"no short sentence [{seed}, {number}]")


def _sentence(draw: Draw) -> Pair:
    clause, end = clause_of(draw), "."
    objects = clause.objects
    luck = next(draw.numbers)
    if luck < 0.4:
        english, german = english_main(clause), german_main(clause)
    elif luck < 0.55:
        clause = replace(clause, time=clause.time or draw.pick(lex.TIMES))
        time = clause.time[0].split() if clause.time else []
        english, german = [*time, *english_main(replace(clause, time=None))], german_main(clause, front=True)
    elif luck < 0.67:
        clause, end = replace(clause, negated=False), "?"
        english, german = english_question(clause), german_first(clause)
    else:
        other = clause_of(draw)
        objects |= other.objects
        english, german = _two_clauses(draw, clause, other)
    return Pair([*english, end], _punctuated([*german, end]), objects)


def _two_clauses(draw: Draw, main: Clause, other: Clause) -> tuple[Words, Words]:
    luck = next(draw.numbers)
    if luck < 0.3:
        base, third, *forms = draw.pick(lex.SAYING)
        says = third if main.subject.person == "third" else base
        english = [*main.subject.english, says, "that", *english_main(other)]
        says = forms[FORM[main.subject.person]]
        return english, [*main.subject.german["nom"], says, ",", "dass", *german_last(other)]
    if luck < 0.5:
        return [*english_main(main), "and", *english_main(other)], [*german_main(main), "und", *german_main(other)]
    english_word, german_word = draw.pick(lex.SUBORDINATORS)
    if luck < 0.75:
        english = [*english_main(main), english_word, *english_main(other)]
        return english, [*german_main(main), ",", german_word, *german_last(other)]
    english = [english_word, *english_main(other), ",", *english_main(main)]
    return english, [german_word, *german_last(other), ",", *german_first(main)]


def _punctuated(words: Words) -> Words:
    """Without a comma before another mark: a relative clause ends with one wherever it stands."""
    marks = {",", ".", "?"}
    return [word for word, after in zip(words, [*words[1:], ""], strict=True) if word != "," or after not in marks]
