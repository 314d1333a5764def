"""The compiled scanner: what it takes is read alike in every other way, and what is doubtful it leaves alone."""

import array
import random

import pytest

from compliance import scanned
from compliance.careful import Faults, WholeEvent, careful
from compliance.examples import logs
from compliance.loglines import parse
from compliance.rule import all_rules
from compliance.scanned import Timed, scan
from compliance.verdict import Checker
from tests.mutated_logs import METADATA, VALUES, mutated, plain, record

if not scanned.COMPILED:
    pytest.skip("the scanner was not compiled", allow_module_level=True)

GOOD = record("a")


def assert_read_alike(text):
    """What the scanner says of `text` is what the careful path reads, which has no fault to find. False: not taken."""
    found = scan(text)
    if found is None:
        return False
    faults = Faults()
    expected, _ = careful(text, 1, faults)
    assert not faults, text
    assert repr(plain(found)) == repr(plain(expected)), text
    assert all(type(event) is WholeEvent for event in found)
    times = [event.time_ms for event in expected]
    assert found.times.tolist() == times
    assert found.time_range == (min(times, default=0), max(times, default=0))
    assert found.steps == [n for n in range(1, len(times)) if times[n] < times[n - 1]]
    keys = [event.key for event in expected]
    assert found.places == {key: [n for n, other in enumerate(keys) if other == key] for key in keys}
    assert list(found.places) == list(dict.fromkeys(keys))
    return True


def test_mutated_logs_are_read_alike_or_left_alone():
    rng = random.Random(11)
    taken = sum(assert_read_alike(mutated(rng)) for _ in range(6000))
    assert 100 < taken < 5900


def test_a_log_cut_anywhere_is_read_alike_or_left_alone():
    text = b"\n".join([b"12:30:00 ::: x", record("a", {"x": [1, -0.5e-3, "y"]}), record("b", None), record("c", "s")])
    assert sum(assert_read_alike(text[:end]) for end in range(len(text) + 1)) > 3


@pytest.mark.parametrize(
    "value",
    [
        *VALUES[:-1],
        0,
        -1,
        1.5e-07,
        10**17,
        True,
        False,
        [],
        [[], {}],
        {},
        "a:b",
        "::",
        'a "quoted\\" \n\t/',
        {"a": {"a": 1}},
    ],
    ids=repr,
)
@pytest.mark.parametrize("metadata", METADATA)
def test_what_is_taken(value, metadata):
    assert assert_read_alike(b"[0] " + record("k", value, metadata=metadata) + b" \t\r\n" + record("", value))


def test_white_space_within_a_record_is_taken():
    text = GOOD.replace(b": ", b"\t :  ").replace(b", ", b",").replace(b"}", b" }").replace(b"MLLOG {", b"MLLOG  { ")
    assert assert_read_alike(text)


DOUBTFUL = {
    "a member twice": GOOD.replace(b'"value"', b'"value": 2, "value"'),
    "a member twice in metadata": GOOD.replace(b'"file"', b'"file": 2, "file"'),
    "a member twice within a value": record("a", [{"x": 1, "y": 2}]).replace(b'"y"', b'"x"'),
    "a member missing": GOOD.replace(b'"namespace": "", ', b""),
    "an unknown member": GOOD.replace(b'"value"', b'"more": 2, "value"'),
    "an escaped name": GOOD.replace(b'"value"', b'"valu\\u0065"'),
    "an escaped key": record("a\n"),
    "an escaped character": GOOD.replace(b"a.py", b"\\u0061.py"),
    "a bad escape": GOOD.replace(b"a.py", b"\\a.py"),
    "beyond ASCII": GOOD.replace(b"a.py", "ä.py".encode()),
    "a control character": GOOD.replace(b"a.py", b"\x01.py"),
    "NUL in a text": GOOD.replace(b"a.py", b"\0.py"),
    "NUL after a record": GOOD + b"\0",
    "text after a record": GOOD + b" and more",
    "two records on a line": GOOD + GOOD,
    "a token in a text": record("a", "see :::MLLOG {"),
    "three colons in a text": record("a", "a:::b"),
    "a token in lower case": b":::mllog {}\n" + GOOD,
    "a token with a space": b"::: MLLOG {}\n" + GOOD,
    "a token without a space": GOOD.replace(b"MLLOG ", b"MLLOG"),
    "no object": b":::MLLOG null\n" + GOOD,
    "a key that is no text": record(1),
    "metadata that is no object": GOOD.replace(b'"metadata": {"file": "a.py", "lineno": 1}', b'"metadata": []'),
    "an event_type that is no text": GOOD.replace(b'"POINT_IN_TIME"', b"null"),
    "a time with a fraction": record(time_ms=1.5),
    "a time below zero": record(time_ms=-1),
    "a time in quotes": record(time_ms="1700000000000"),
    "a time of 19 digits": record(time_ms=10**18),
    "a time with a leading zero": GOOD.replace(b"1700000000000", b"01700000000000"),
    "deep nesting": GOOD.replace(b'"value": 1', b'"value": ' + b"[" * 9 + b"]" * 9),
    "many members": record("a", {str(n): n for n in range(33)}),
    "NaN": record("a", float("nan")),
    "infinity": record("a", float("-inf")),
    "a cut word": GOOD.replace(b'"value": 1', b'"value": nul'),
    "a comma too many": GOOD.replace(b"}}", b",}}"),
    "a comma too few": GOOD.replace(b'1, "metadata"', b'1 "metadata"'),
    "an open object": GOOD[:-1],
}
DOUBTFUL |= {
    f"the number {text}": GOOD.replace(b'"value": 1', b'"value": ' + text.encode())
    for text in ("01", "-", "1.", ".5", "+1", "1e", "1e+", "1e100", "1234567890123456789", "0x1", "1_0", "--1")
}


@pytest.mark.parametrize("text", DOUBTFUL.values(), ids=DOUBTFUL)
def test_what_is_doubtful_is_left_to_others(text):
    assert scan(GOOD) is not None
    assert scan(GOOD + b"\n" + text) is None


def test_records_are_decoded_when_asked_for_and_stay_the_same():
    lines = [record("loss", n) for n in range(10)] + [record("seed", 7), record("run_stop", None)]
    events = scan(b"\n".join(lines))
    assert not events.given()
    assert events[3].value == 3
    assert sorted(events.given().values()) == [3, 10, 11], "those of rare keys are decoded with the first"
    assert events[3] is events[3] is events.take([3])[0] is events[2:4][1] is list(events)[3]
    assert events[-1].key == "run_stop"
    assert len(events) == 12
    with pytest.raises(IndexError):
        events[12]


def test_of_some_keys_only_the_times():
    events = scan(b"\n".join([record("x", 1), record("y", 2), record("x", 3, time_ms=5)]))
    first, second, third = events.take_timed([0, 1, 2], ["x"])
    assert (first, third) == (Timed(1_700_000_000_000, "x"), Timed(5, "x"))
    assert second.value == 2


def test_lines_of_records_decoded_one_after_the_other():
    log = parse(b"\n\n".join(record("x", n) for n in range(20)))
    assert [log.line(log.events[n]) for n in (3, 17, 0, 19, 3)] == [7, 35, 1, 39, 7]
    other = parse(GOOD)
    assert log.line(other.events[0]) == 0


def test_picking_what_is_not_there_is_an_error():
    text = GOOD + b"\n" + GOOD
    spans = scanned._scan.scan(text)[2]
    pick = scanned._scan.pick
    assert pick(text, spans, [1, 0]) == (GOOD[9:] + b"\n") * 2
    for places in ([2], [-1], [0, 1 << 40]):
        with pytest.raises(IndexError, match="there is no record"):
            pick(text, spans, places)
    for wrong in (["0"], (0,), None):
        with pytest.raises(TypeError):
            pick(text, spans, wrong)
    for bad in ([-1, 5], [9, 5], [0, len(text) + 1]):
        with pytest.raises(ValueError, match="another text"):
            pick(text, array.array("q", bad).tobytes(), [0])
    with pytest.raises(TypeError):
        scanned._scan.scan("text")


WORDS = (b"a_b", b"aa_b", b"ab_a_b", b"b_", b"b__a", b"a_bb")


def test_records_that_hold_words():
    """As a search of each record's own text finds them, also where words overlap or go on beyond a record."""
    rng = random.Random(5)
    held = 0
    for _ in range(5000):
        text = bytes(rng.choices(b"ab_", k=rng.randrange(90)))
        cuts = sorted(rng.sample(range(len(text) + 1), min(len(text) + 1, 6) // 2 * 2))
        words = tuple(rng.sample(WORDS, rng.randrange(4)))
        spans = list(zip(cuts[::2], cuts[1::2], strict=True))
        expected = [n for n, (start, stop) in enumerate(spans) if any(word in text[start:stop] for word in words)]
        assert scanned._scan.holding(text, array.array("q", cuts).tobytes(), words) == expected, (text, cuts, words)
        held += len(expected)
    assert 1000 < held < 12000


def test_records_that_hold_words_come_with_their_text():
    events = scan(b"run_stop\n" + record("note", "a run_stop") + b"\n" + record("run_stop") + b"\n" + record("run"))
    (text, first), (_, second) = events.holding((b"run_stop",))
    assert text == record("note", "a run_stop").removeprefix(b":::MLLOG ")
    assert (first, second) == (events[0], events[1])


def test_words_that_cannot_be_looked_for_are_an_error():
    holding = scanned._scan.holding
    for words, error in (
        ((b"run",), ValueError),
        ((b"_run",), ValueError),
        ((b"",), ValueError),
        ((b"a_b",) * 17, ValueError),
        (("a_b",), TypeError),
        ([b"a_b"], TypeError),
    ):
        with pytest.raises(error):
            holding(b"", b"", words)
    with pytest.raises(ValueError, match="another text"):
        holding(b"a_b", array.array("q", [0, 4]).tobytes(), (b"a_b",))


def test_line_feeds(monkeypatch):
    text = b"a\n\nb\n\rc\n"
    for _ in range(2):
        assert scanned.line_feeds(text, 0, len(text)) == 4
        assert scanned.line_feeds(text, 1, 3) == 2
        assert scanned.line_feeds(text, 3, 3) == 0
        monkeypatch.setattr(scanned, "COMPILED", False)
    for start, stop in ((-1, 2), (3, 2), (0, 9)):
        with pytest.raises(IndexError, match="there is no part"):
            scanned._scan.line_feeds(text, start, stop)


def test_every_verdict_is_the_same_without_the_scanner(monkeypatch):
    checker = Checker(all_rules())
    texts = [
        log.data
        for rule in all_rules()
        for heading in ("Fails", "Passes")
        for example in rule.examples(heading)
        for log in logs(example).values()
    ]
    with_it = [checker.judge(parse(text)).findings for text in texts]
    assert sum(bool(findings) for findings in with_it) > 50
    monkeypatch.setattr(scanned, "COMPILED", False)
    assert [checker.judge(parse(text)).findings for text in texts] == with_it
