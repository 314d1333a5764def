"""The reader: what real logs hold, and every kind of damage, on all paths."""

import gzip
import json
import random

import pytest

from compliance import loglines, scanned
from compliance.careful import Faults, careful
from compliance.fast import fast
from compliance.loglines import parse
from tests.mutated_logs import mutated, plain, record


def kinds(log):
    return [fault.kind for fault in log.faults]


@pytest.fixture(autouse=True, params=["compiled", "python"])
def with_and_without_the_scanner(request, monkeypatch):
    if request.param == "python":
        monkeypatch.setattr(scanned, "COMPILED", False)
    elif not scanned.COMPILED:
        pytest.skip("the scanner was not compiled")


GOOD = b"\n".join([b"some text", record("a"), b"", record("b", {"x": 1}), record("c", None)])


def test_clean_log():
    log = parse(GOOD)
    assert log.clean
    assert log.faults == []
    assert [e.key for e in log.events] == ["a", "b", "c"]
    assert [log.line(e) for e in log.events] == [2, 4, 5]
    assert log.events[1].value == {"x": 1}
    assert log.records == 3


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
def test_line_ends(ending):
    log = parse(GOOD.replace(b"\n", ending))
    assert log.clean
    assert [log.line(e) for e in log.events] == [2, 4, 5]


@pytest.mark.parametrize(
    "before",
    [
        b"",
        b"\xef\xbb\xbf",
        b"\0" * 4096,
        b"\xff\xfe\x80 junk\n",
        b"[rank 3] loss 3.2 ",
        b"::: 50% ::::",
        b"x" * 300_000,
    ],
)
def test_other_text_before_records(before):
    log = parse(before + GOOD)
    assert [e.key for e in log.events] == ["a", "b", "c"]
    assert log.faults == []


def test_both_paths_agree():
    """A damaged line at the end sends the block to the careful path: the other records must come out the same."""
    clean, damaged = parse(GOOD), parse(GOOD + b"\n:::MLLOG {")
    assert not damaged.clean
    assert plain(damaged.events) == plain(clean.events)
    assert [damaged.line(e) for e in damaged.events] == [clean.line(e) for e in clean.events]


@pytest.mark.parametrize(
    ("line", "kind", "keys"),
    [
        (record("x")[:-20], "json", []),
        (record("x").replace(b'"value"', b'"va\0lue"'), "json", []),
        (record("x").replace(b'"a.py"', b'"a\x0c.py"'), "json", []),
        (record("x").replace(b": 1,", b": " + b"9" * 5000 + b","), "json", []),
        (record("x").replace(b'"a.py"', b"[" * 100_000 + b"]" * 100_000), "json", []),
        (b":::MLLOG [1, 2, 3]", "shape", []),
        (b':::MLLOG "abc"', "shape", []),
        (b":::MLLOG 5", "shape", []),
        (b":::MLLOG null", "shape", []),
        (record("x", time_ms=None), "shape", ["x"]),
        (record("x", time_ms="1700000000000"), "shape", ["x"]),
        (record("x", time_ms="1.2.3"), "shape", ["x"]),
        (record("x", time_ms=True), "shape", ["x"]),
        (record("x", time_ms=10**400), "shape", ["x"]),
        (record("x", time_ms=float("inf")), "not_finite", ["x"]),
        (record("x", time_ms=float("nan")), "not_finite", ["x"]),
        (record("x", float("nan")), "not_finite", ["x"]),
        (record("x", [1, {"y": float("-inf")}]), "not_finite", ["x"]),
        (record(5), "shape", []),
        (record(["a"]), "shape", []),
        (record("x", metadata=None), "shape", ["x"]),
        (record("x", metadata=["samples_count"]), "shape", ["x"]),
        (record("x").replace(b'"value":', b'"value": -5, "value":'), "duplicate", ["x"]),
        (record("x").replace(b'"value":', b'"worth":'), "shape", []),
        (record("x").replace(b'"metadata":', b'"meta":'), "shape", ["x"]),
        (record("x").replace(b'"time_ms":', b'"time":'), "shape", ["x"]),
        (record("x").replace(b'"key":', b'"k":'), "shape", []),
        (record("x").replace(b'"event_type": "POINT_IN_TIME", ', b""), "event_type", ["x"]),
        (record("x") + b" loss 3.2", "text_after", ["x"]),
        (record("x") + record("y"), "glued", ["x", "y"]),
        (record("x").replace(b"MLLOG ", b"MLLog "), "look_alike", ["x"]),
        (record("x").replace(b"MLLOG ", b"MLLOG"), "look_alike", ["x"]),
        (record("x").replace(b"MLLOG ", b"MLLOG\t"), "look_alike", ["x"]),
        (record("x", "AB").replace(b"AB", b"\xc3\x28\xff"), "encoding", ["x"]),
    ],
)
def test_damage(line, kind, keys):
    log = parse(b"\n".join([record("first"), line, record("last")]))
    assert kinds(log) == [kind]
    assert log.faults[0].line == 2
    assert log.faults[0].message
    assert [e.key for e in log.events] == ["first", *keys, "last"]
    assert [log.line(e) for e in log.events] == [1, *([2] * len(keys)), 3]


@pytest.mark.parametrize(
    ("text", "value"),
    [(b"1e999", float("inf")), (b"9" * 400, int("9" * 400)), (b"-1e999", float("-inf"))],
)
def test_numbers_beyond_a_floats_range(text, value):
    log = parse(record("x").replace(b'"value": 1,', b'"value": ' + text + b","))
    assert [e.value for e in log.events] == [value]


def test_metadata_is_an_object_on_both_paths():
    hidden = record("x", {"metadata": {}})  # makes up for the object that the second record lacks
    log = parse(hidden + b"\n" + record("y", metadata=None))
    assert [e.metadata for e in log.events][1] == {}


def test_missing_time_and_wrong_key_are_two_faults():
    log = parse(record(5).replace(b'"time_ms":', b'"time":'))
    assert kinds(log) == ["shape", "shape"]


def test_split_record():
    line = record("x")
    log = parse(b"\n".join([line[:60], line[60:], record("y")]))
    assert kinds(log) == ["json"]
    assert [e.key for e in log.events] == ["y"]


def test_two_spaces_after_token_are_fine():
    log = parse(record("x").replace(b":::MLLOG ", b":::MLLOG  "))
    assert log.faults == []
    assert [e.key for e in log.events] == ["x"]


def test_token_inside_a_value():
    text = "see :::MLLOG {"
    log = parse(record("x", text) + b" tail" + record("y", text))
    assert [(e.key, e.value) for e in log.events] == [("x", text), ("y", text)]
    assert sorted(kinds(log)) == ["glued", "text_after"]


def test_utf16():
    log = parse(GOOD.decode().encode("utf-16"))
    assert kinds(log) == ["utf16"]
    assert [e.key for e in log.events] == ["a", "b", "c"]


def test_empty_and_no_records():
    for data in (b"", b"hello\nworld\n"):
        log = parse(data)
        assert (log.events, log.faults, log.records) == ([], [], 0)


def test_gzip(tmp_path):
    path = tmp_path / "result_0.txt.gz"
    path.write_bytes(gzip.compress(GOOD))
    assert [e.key for e in loglines.read(path).events] == ["a", "b", "c"]
    assert loglines.holds_records(path)
    path.write_bytes(gzip.compress(GOOD * 1000)[:-30])
    log = loglines.read(path)
    assert "compression" in kinds(log)
    assert len(log.events) > 2000  # what comes before the damage is read
    path.write_bytes(b"\x1f\x8bnot gzip at all")
    assert kinds(loglines.read(path)) == ["compression"]


@pytest.mark.parametrize("size", [100, 257, 4096])
def test_blocks(monkeypatch, tmp_path, size):
    """A file of many blocks gives what one block gives: events, lines, faults, steps back in time."""
    lines = []
    for number in range(200):
        lines.append(record(f"k{number}", number, time_ms=1_700_000_000_000 + number))
        lines.append(b"text " * (number % 7))
    lines[100] = record("early", time_ms=1_600_000_000_000)
    lines[150] = record("glue") + record("glued")
    lines[160] = record("x" * 500)
    data = b"\r\n".join(lines)
    whole = parse(data)
    path = tmp_path / "log"
    path.write_bytes(data)
    monkeypatch.setattr(loglines, "BLOCK_BYTES", size)
    parts = loglines.read(path)
    assert plain(parts.events) == plain(whole.events)
    assert [parts.line(e) for e in parts.events] == [whole.line(e) for e in whole.events]
    assert parts.faults == whole.faults
    assert [(parts.line_at(s.place), s.time_ms) for s in parts.back_steps] == [
        (whole.line_at(s.place), s.time_ms) for s in whole.back_steps
    ]
    assert parts.records == whole.records == len(whole.events)


def test_keep(monkeypatch, tmp_path):
    lines = [record("head"), record("run_start")] + [record("loss", n) for n in range(50)] + [record("run_stop")]
    path = tmp_path / "log"
    path.write_bytes(b"\n".join(lines))
    monkeypatch.setattr(loglines, "BLOCK_BYTES", 500)
    asked = []

    def keep(beginning):
        asked.append([e.key for e in beginning.events][:2])
        return {"run_start", "run_stop"}

    log = loglines.read(path, keep=keep)
    assert asked == [["head", "run_start"]]
    assert [e.key for e in log.events] == list(log.positions.counts) == ["run_start", "run_stop"]
    assert log.records == 53
    assert [log.line(e) for e in log.events] == [2, 53]


def test_steps_back():
    log = parse(b"\n".join(record("x", time_ms=1_700_000_000_000 + t) for t in (0, 10, 7, 12, 11)))
    assert [(log.line_at(s.place), s.before_ms - s.time_ms) for s in log.back_steps] == [(3, 3), (5, 1)]


def test_faults_and_steps_back_are_counted_but_not_all_kept():
    lines = [record("x", time_ms=1_700_000_000_000 - 2 * n) for n in range(1500)] + [b":::MLLOG {"] * 1500
    log = parse(b"\n".join(lines))
    assert (len(log.faults), log.faults.counts["json"]) == (1000, 1500)
    assert (len(log.back_steps), log.back_steps.total, log.back_steps.worst.size_ms) == (1000, 1499, 2)


def test_many_glued_records_take_linear_time():
    """Half a megabyte on one line: quadratic work would take minutes."""
    log = parse(record("x") * 4000)
    assert len(log.events) == 4000
    assert kinds(log) == ["glued"]


def test_many_unclosed_records_on_one_line():
    log = parse(b':::MLLOG {"a": "' * 20_000)
    assert log.events == []
    assert set(kinds(log)) == {"json"}


@pytest.mark.parametrize("cut", [0, 5_000_000])
def test_enormous_record(cut):
    data = record("x", "y" * 20_000_000)
    log = parse(data[: len(data) - cut] + b"\n" + record("z"))
    assert [e.key for e in log.events] == (["z"] if cut else ["x", "z"])


def test_metadata_named_elsewhere_does_not_hide_that_it_is_missing():
    nested = record("a", {"metadata": {}})
    log = parse(b"\n".join([nested, record("b").replace(b'{"file": "a.py", "lineno": 1}', b"null")]))
    assert kinds(log) == ["shape"]
    assert [e.key for e in log.events] == ["a", "b"]


@pytest.mark.parametrize("token", [b":::mllog ", b":::MLLog ", b"::: MLLOG ", b":::\tMLLOG ", b":::MLLOG"])
def test_look_alikes_are_not_overlooked(token):
    log = parse(GOOD + b"\n" + record("d").replace(b":::MLLOG ", token))
    assert kinds(log) == ["look_alike"]
    assert [e.key for e in log.events] == ["a", "b", "c", "d"]


def test_positions_of_rare_and_frequent_keys():
    log = parse(b"\n".join([record("a"), *[record("b")] * 7, record("a"), record("c")]))
    assert log.positions.counts == {"a": 2, "b": 7, "c": 1}
    assert list(log.positions.of("b")) == [1, 2, 3, 4, 5, 6, 7]
    assert list(log.positions.of("a")) == [0, 8]
    assert list(log.positions.of("other")) == []
    assert log.positions.of_all(["c", "a", "other"]) == [0, 8, 9]


@pytest.mark.parametrize("member", ["time_ms", "key", "value", "metadata", "event_type", "namespace", "other"])
def test_a_member_that_comes_twice_is_found(member):
    line = record("a", **({"other": 1} if member == "other" else {}))
    first = json.dumps(json.loads(line[9:])[member]).encode()
    log = parse(GOOD + b"\n" + line.replace(b"{", b'{"%b": %b, ' % (member.encode(), first), 1))
    assert kinds(log) == ["duplicate"]


def test_records_that_lack_event_type_or_namespace():
    bare = json.dumps({"time_ms": 1_700_000_000_000, "key": "d", "value": 1, "metadata": {}}).encode()
    log = parse(GOOD + b"\n:::MLLOG " + bare)
    assert log.clean
    assert kinds(log) == ["event_type"]
    twice = bare.replace(b'"key"', b'"event_type": "A", "event_type": "B", "key"')
    assert "duplicate" in kinds(parse(GOOD + b"\n:::MLLOG " + twice))


def test_number_beyond_a_floats_range_is_found_wherever_it_is():
    for log in (record("a").replace(b'"value": 1', b'"value": 1e999'), record("a", lr=1), record("a", [1])):
        text = log.replace(b'"lr": 1', b'"lr": 1e999').replace(b"[1]", b"[-1E400]").replace(b'no": 1', b'no": 1e999')
        assert kinds(parse(GOOD + b"\n" + text))[0] == "not_finite"


@pytest.mark.parametrize(
    "value", ["a:b", {"a": {"b": 1}}, {"a:": ["b:c", {"d": ":"}]}, ["::"], {"a": 1}], ids=lambda value: str(value)
)
def test_colons_in_texts_and_objects_in_objects_are_read_fast(value):
    text = b"\n".join([record("a", value), record("b:c", value, metadata={"path": "x:y", "more": {"a": {"b": ":"}}})])
    events = fast(text)
    assert events is not None
    assert events[0].value == events[1].value == value


@pytest.mark.parametrize(
    ("member", "again", "name"),
    [
        (b'"value"', b'"value": "a:b", ', '"value"'),
        (b'"key"', b'"key": "c", ', '"key"'),
        (b'"lineno"', b'"lineno": 1, ', '"lineno" of "metadata"'),
        (b'"x"', b'"x": {"y:": 1}, ', '"x" of "metadata"'),
        (b'"y:"', b'"y:": 1, ', '"y:" of "metadata"'),
        (b'"k"', b'"k": 2, ', '"k" of "value"'),
    ],
)
def test_a_member_that_comes_twice_is_found_at_any_depth_and_among_colons(member, again, name):
    good = record("a", {"k": "x:y"}, metadata={"lineno": 1, "x": [{"y:": 1}]})
    assert parse(GOOD + b"\n" + good).clean
    log = parse(GOOD + b"\n" + good.replace(member, again + member))
    assert [fault.message for fault in log.faults] == [f"the member {name} comes more than once"]


def test_a_member_named_in_another_spelling_is_found():
    log = parse(GOOD + b"\n" + record("a").replace(b'"value"', b'"value": 2, "val\\u0075e"'))
    assert kinds(log) == ["duplicate"]


def test_what_the_fast_path_takes_the_careful_one_takes_alike():
    rng = random.Random(7)
    taken = 0
    for _ in range(6000):
        text = mutated(rng)
        events = fast(text)
        if events is not None:
            faults = Faults()
            expected, _ = careful(text, 1, faults)
            assert repr(plain(events)) == repr(plain(expected)), text
            assert set(faults.counts) <= {"event_type"}, text
            taken += 1
    assert taken > 100
