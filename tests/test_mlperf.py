"""The official verdict: the grammar of the rule sheets, the engine, and agreement with the official checker itself.

The logs are made up and the sheets of the single tests are written here; the installed mlperf-logging serves as the
oracle, also for those sheets.
"""

import json
import random
import time

import pytest
from mlperf_logging.compliance_checker import mlp_compliance

from benchmarks import agreement, made_up
from compliance import loglines, mlperf
from compliance import mlperf_grammar as grammar
from compliance.mlperf_records import official_records
from compliance.mlperf_sheets import SheetError, available, ruleset

RULESETS = list(available())


def test_every_installed_sheet_compiles_but_the_one_that_is_no_yaml():
    broken = []
    for name in RULESETS:
        rules = ruleset(name)
        for path in sorted(rules.folder.glob("*.yaml")):
            try:
                rules.sheet(f"{rules.folder.name}/{path.name}")
            except SheetError as error:
                broken.append(str(error))
    assert broken == []
    old = ruleset("mlperf-0.7")
    with pytest.raises(SheetError, match=r"training_0.7.0_warn/bert.yaml is not valid YAML at line \d+"):
        old.sheet("training_0.7.0_warn/bert.yaml")


@pytest.mark.parametrize(("round_", "progress"), [("mlperf-3.1", "step_num"), ("mlperf-4.0", "samples_count")])
def test_the_merging_of_two_metrics_is_known_by_its_shape(round_, progress):
    rules = ruleset(round_)
    merge = rules.sheet(f"{rules.folder.name}/closed_stable_diffusion.yaml").begin
    assert isinstance(merge, grammar.Merge)
    assert (merge.source, merge.metric, merge.progress) == ("eval_accuracy", "metric", progress)


# Sheets of our own, judged by both checkers ---------------------------------------------------------------------------


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A function that writes a package of rule sheets and gives its ruleset; the official checker uses it too."""

    def write(files, benchmark_meta=""):
        folder = tmp_path / "mlperf_logging" / "compliance_checker"
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (folder.parent / "benchmark_meta.py").write_text(benchmark_meta)
        monkeypatch.setattr(mlp_compliance, "__file__", str(folder / "mlp_compliance.py"))
        return ruleset("mlperf-5.1", folder.parent)

    return write


def lines(*records):
    """A log of (key, value) or (key, value, metadata), a second apart."""
    text = []
    for number, (key, value, *metadata) in enumerate(records):
        members = {"time_ms": 1000 * number, "key": key, "value": value, "metadata": metadata[0] if metadata else {}}
        text.append(":::MLLOG " + json.dumps({"namespace": "", "event_type": "POINT_IN_TIME", **members}))
    return "\n".join(text) + "\n"


def both(tmp_path, rules, text):
    """Our verdict on `text`, after making sure that the official checker gives the same one."""
    path = tmp_path / "result_0.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    expected, found = agreement.official(path, rules), agreement.ours(path, rules)
    assert agreement.difference(expected, found) is None, agreement._tell(
        agreement.Task("test"), path, "", expected, found
    )
    return mlperf.judge(loglines.read(path), rules)


KEY = "- KEY:\n    NAME: {}\n"
COMMON = "training_5.1.0/common.yaml"


def test_the_last_message_about_a_key_stands(tmp_path, package):
    rules = package({COMMON: KEY.format("a") + "    CHECK: [\"v['value'] > 1\", \"v['value'] > 2\"]\n"})
    judged = both(tmp_path, rules, lines(("a", 0), ("b", 0), ("a", 2), ("a", 3)))
    assert judged.valid is False
    assert [(m.kind, m.key, m.detail, m.line) for m in judged.messages] == [("check", "a", [2, "v['value'] > 2"], 3)]
    assert judged.failing_keys == ["a"]


def test_a_later_sheet_withdraws_messages_and_starts_afresh(tmp_path, package):
    common = (
        KEY.format("a") + "    CHECK: v['value'] > 5\n"
        "    POST: s['n'] = 1; enqueue_config('training_5.1.0/more.yaml')\n" + KEY.format("b") + "    CHECK: False\n"
    )
    more = KEY.format("a") + "    CHECK: s.get('n') is None\n"
    judged = both(tmp_path, package({COMMON: common, "training_5.1.0/more.yaml": more}), lines(("a", 1), ("b", 1)))
    assert judged.failing_keys == ["b"]


def test_only_the_first_record_of_a_submission_key_is_tested(tmp_path, package):
    sheet = (
        KEY.format("submission_x") + "    CHECK: v['value'] == 1\n" + KEY.format("x") + "    CHECK: v['value'] == 1\n"
    )
    rules = package({COMMON: sheet})
    assert both(tmp_path, rules, lines(("submission_x", 1), ("submission_x", 2))).valid is True
    assert both(tmp_path, rules, lines(("x", 1), ("x", 2))).valid is False


def test_occurrences(tmp_path, package):
    needs = {"one": "EXACTLY_ONE", "some": "AT_LEAST_ONE", "two": "AT_LEAST(2)", "a": "AT_LEAST_ONE_OR(b)",
             "b": "AT_LEAST_ONE_OR(a)", "maybe": "OPTIONAL", "free": None}  # fmt: skip
    text = "".join(KEY.format(k) + (f"    REQ: {need}\n" if need else "") for k, need in needs.items())
    rules = package({COMMON: text})
    none = both(tmp_path, rules, lines(("other", 1)))
    assert {m.key for m in none.messages} == {"one", "some", "two", "a|b"}
    equal = both(tmp_path, rules, lines(("one", 1), ("one", 1), ("some", 1), ("two", 1), ("two", 3), ("b", 1)))
    assert equal.valid is True and [w.key for w in equal.warnings] == ["one"]
    mixed = both(tmp_path, rules, lines(("one", 1), ("one", 2), ("some", 1), ("two", 1), ("a", 1)))
    assert [(m.key, m.detail) for m in mixed.messages] == [
        ("one", ["EXACTLY_ONE", 2, "diff"]),
        ("two", ["AT_LEAST(2)", 1, ""]),
    ]


def test_one_passing_record_is_enough_and_none_at_all_too(tmp_path, package):
    rules = package({COMMON: KEY.format("eval_accuracy") + "    ATLEAST_ONE_CHECK: v['value'] >= 0.5\n"})
    assert both(tmp_path, rules, lines(("eval_accuracy", 0.4), ("eval_accuracy", 0.6))).valid is True
    assert both(tmp_path, rules, lines(("eval_accuracy", 0.4))).messages[0].kind == "atleast_one_check"
    assert both(tmp_path, rules, lines(("other", 1))).valid is True
    crash = both(tmp_path, rules, lines(("eval_accuracy", 0.6), ("eval_accuracy", "0.6")))
    assert crash.valid is None and crash.crash_line == 2 and "eval_accuracy" in crash.crash


def test_first_check_and_end(tmp_path, package):
    sheet = (
        "- BEGIN:\n    CODE: \"s.update({'n': 0})\"\n"
        + KEY.format("a") + "    FIRST_CHECK: v['value'] == 1\n    POST: s['n'] += 1\n"
        + "- END:\n    PRE: s['n'] += 0\n    CHECK: [\"s['n'] == 2\", \"s['m'] == 2\"]\n"
    )  # fmt: skip
    rules = package({COMMON: sheet})
    judged = both(tmp_path, rules, lines(("a", 1), ("a", 5)))
    assert [m.kind for m in judged.messages] == ["end_exec"]
    judged = both(tmp_path, rules, lines(("a", 2)))
    assert [m.kind for m in judged.messages] == ["check", "end_check", "end_exec"]


def test_a_state_that_cannot_be_printed_ends_the_official_checker(tmp_path, package):
    sheet = KEY.format("a") + "    POST: s[v['value']] = 1\n" + KEY.format("b") + "    CHECK: False\n"
    rules = package({COMMON: sheet})
    assert both(tmp_path, rules, lines(("a", "x"), ("b", 1))).valid is False
    crash = both(tmp_path, rules, lines(("a", "x"), ("a", None), ("b", 1)))
    assert crash.valid is None and "cannot be printed" in crash.crash and crash.crash_line == 3


def test_a_sheet_outside_the_grammar_is_said_not_skipped(package):
    rules = package({COMMON: KEY.format("a") + "    CHECK: any(x for x in v['value'])\n"})
    judged = mlperf.judge(loglines.parse(lines(("b", 1)).encode()), rules)
    assert judged.valid is None and judged.cause == "sheet"
    assert "common.yaml" in judged.crash and "key a" in judged.crash and "GeneratorExp" in judged.crash


@pytest.mark.parametrize(
    "text",
    [
        "a: 1",
        "- 3",
        "- [",
        "- KEY: x",
        "- KEY: {REQ: EXACTLY_ONE}",
        "- KEY: {NAME: a, REQ: AT_LEAST(x)}",
        "- KEY: {NAME: a, REQ: AT_LEAST_ONE_OR(b)}",
        "- KEY: {NAME: a, CHECK: {b: c}}",
        "- BEGIN: {CODE: import os}",
    ],
)
def test_a_malformed_sheet_is_said(package, text):
    judged = mlperf.judge(loglines.parse(lines(("b", 1)).encode()), package({COMMON: text}))
    assert judged.valid is None and judged.cause == "sheet" and "common.yaml" in judged.crash


def test_a_value_never_becomes_a_path_out_of_the_sheets(tmp_path, package):
    ask = KEY.format("division") + "    POST: enqueue_config('training_5.1.0/{}_x.yaml'.format(v['value']))\n"
    bad = KEY.format("division") + "    CHECK: False\n"
    rules = package({COMMON: ask, "training_4.0.0/closed_x.yaml": bad})
    (tmp_path / "outside_x.yaml").write_text(bad)
    assert both(tmp_path, rules, lines(("division", "../training_4.0.0/closed"))).valid is False
    for value in ("../../../outside", "../nothing", "{0}", "", "a\0b", "\ud800", "x" * 5000, ["closed"], None, {}):
        text = lines(("other", 1), ("division", value))
        judged = mlperf.judge(loglines.parse(text.encode()), rules)
        assert judged.valid is None and judged.crash_line == 2 and len(judged.crash) < 400
        assert judged.messages[-1].kind == "no_config"


def test_sheets_without_end_are_given_up(package):
    ask = KEY.format("a") + "    POST: enqueue_config('training_5.1.0/common.yaml')\n"
    judged = mlperf.judge(loglines.parse(lines(("a", 1)).encode()), package({COMMON: ask}))
    assert judged.valid is None and "more than" in judged.crash


TARGETS = [
    ("(v['value'] <= 0.9) and v['value'] > 0.0", (0.9, "lower")),
    ("v['value'] >= 0.7 and v['value'] < 1.0", (0.7, "higher")),
    ("v['value'] >= 0.7 and v['value'] <= 1.", (0.7, "higher")),
    ("v['value'] <= 2.69 and v['value'] > 2.6", (2.69, "lower")),
    ("v['value'] > s['target']", (0.25, "higher")),
    ("v['value'] < 1.0", None),
    ("v['value']['BBOX'] >= 0.3 and v['value']['SEGM'] >= 0.3", None),
    ("(v['value'] >= 0.7 if s['n'] else v['value'] >= 0.6) and v['value'] < 1", None),
    ("v['value'] >=", None),
]


@pytest.mark.parametrize(("text", "expected"), TARGETS)
def test_the_target_is_read_off_the_sheet(package, text, expected):
    sheet = "- BEGIN:\n    CODE: \"s.update({'target': 0.25})\"\n" + KEY.format("eval_error")
    rules = package({COMMON: "", "training_5.1.0/closed_x.yaml": f"{sheet}    ATLEAST_ONE_CHECK: {json.dumps(text)}\n"})
    assert rules.quality_target("x") == expected
    assert rules.quality_key("x") == "eval_error" and rules.quality_key("y") is None
    assert rules.quality_target("y") is None and rules.quality_target("../x") is None


def test_a_new_round_needs_no_change(package):
    folders = ("training_5.1.0", "training_10.1.0", "hpc_9.0.0", "training_7.0.0_warn")
    sheets = {f"{folder}/common.yaml": f"# {folder}" for folder in folders}
    rules = package(sheets, "COUNTS = {'training': {'x': 12}, 'hpc': {'y': 3}}\nNAMES = {'training': ['x']}\n")
    assert list(available(rules.folder.parent.parent)) == [
        "mlperf-hpc-9.0.0",
        "mlperf-training-5.1.0",
        "mlperf-training-10.1.0",
    ]
    newest = ruleset("mlperf-10.1", rules.folder.parent.parent)
    assert (newest.name, newest.version) == ("mlperf-training-10.1.0", "10.1.0")
    assert newest.required_runs("x") == 12 and newest.required_runs("y") is None
    assert len(newest.sha256) == 64 and newest.sha256 != rules.sha256


def test_an_unknown_ruleset_lists_those_there_are():
    with pytest.raises(ValueError, match="mlperf-training-5.1"):
        ruleset("mlperf-99.9")
    assert ruleset("mlperf-5.1") == ruleset("mlperf-training-5.1") == ruleset("mlperf-training-5.1.0")


# Agreement with the official checker on the installed rounds ----------------------------------------------------------


@pytest.mark.parametrize("name", RULESETS)
def test_agreement_on_made_up_and_damaged_logs(name):
    _, counts, differences = agreement.carry_out(agreement.Task(name, made_up=24, seed=3))
    assert not differences, "\n".join(differences[:3])
    assert counts["logs"] == 24


def test_made_up_logs_reach_every_verdict():
    """The agreement above means something only if the logs are not all refused for the same reason."""
    totals = {"valid": 0, "invalid": 0, "traceback": 0}
    for name in ("mlperf-training-2.0.0", "mlperf-hpc-3.0.0"):
        _, counts, _ = agreement.carry_out(agreement.Task(name, made_up=30, seed=5))
        for kind, number in counts.items():
            totals[kind.split(": ")[-1]] = totals.get(kind.split(": ")[-1], 0) + number
    assert totals["valid"] > 3 and totals["invalid"] > 3 and totals["traceback"] > 3


RECORD = b':::MLLOG {"time_ms": %s, "key": %s, "value": %s, "metadata": {}}\n'
DAMAGE = {
    "empty": lambda b: b"",
    "no records": lambda b: b"epoch 1\nepoch 2\n",
    "carriage returns": lambda b: b.replace(b"\n", b"\r"),
    "crlf": lambda b: b.replace(b"\n", b"\r\n"),
    "byte order mark": lambda b: b"\xef\xbb\xbf" + b,
    "nul before": lambda b: b"\0" * 100 + b,
    "nul inside": lambda b: b.replace(b'"seed"', b'"se\0ed"', 1),
    "glued": lambda b: b.replace(b"}\n:::MLLOG", b"} :::MLLOG", 3),
    "text before": lambda b: b.replace(b":::MLLOG", b"0: :::MLLOG"),
    "text after": lambda b: b.replace(b"}\n", b"} done\n", 2),
    "latin-1": lambda b: b.replace(b'"onprem"', b'"onpr\xe9m"'),
    "utf-8 that reads otherwise": lambda b: b.replace(b'"x"', '"\u00e9"'.encode()),
    "white space at the end": lambda b: b.replace(b"}\n", b"} \xa0\x85\x0b\n"),
    "other line ends": lambda b: b.replace(b', "key"', b',\x0b "key"', 1),
    "only the token": lambda b: b + b":::MLLOG \n:::MLLOG\n",
    "null": lambda b: b + b":::MLLOG null\n",
    "a list": lambda b: b + b":::MLLOG [1]\n",
    "a string": lambda b: b + b':::MLLOG "time_ms"\n',
    "no metadata": lambda b: b + b':::MLLOG {"time_ms": 1, "key": "a", "value": 1}\n',
    "no key": lambda b: b + b':::MLLOG {"time_ms": 1, "value": 1, "metadata": {}}\n',
    "bad time before a missing key": lambda b: b + b':::MLLOG {"time_ms": "1.2.3", "value": 1}\n',
    "time null": lambda b: b + RECORD % (b"null", b'"a"', b"1"),
    "time in quotes": lambda b: b + RECORD % (b'"5"', b'"a"', b"1"),
    "time too large": lambda b: b + RECORD % (b"1" + b"0" * 400, b'"a"', b"1"),
    "number too long": lambda b: b + RECORD % (b"1", b'"a"', b"9" * 5000),
    "nan twice": lambda b: b + RECORD % (b"1", b'"seed"', b"NaN") * 2,
    "key is a list": lambda b: b + RECORD % (b"1", b'["a"]', b"1"),
    "key is a number": lambda b: b + RECORD % (b"1", b"7", b"1"),
    "metadata null": lambda b: b.replace(b'"metadata": {', b'"metadata": null, "m": {', 9),
    "member twice": lambda b: b.replace(b'"key": ', b'"key": "x", "key": '),
    "too deep": lambda b: b + b':::MLLOG {"time_ms": 1, "key": "a", "value": %s}\n' % (b"[" * 100_000),
    "two logs": lambda b: b + b,
}


@pytest.mark.parametrize("name", DAMAGE)
@pytest.mark.parametrize("round_", ["mlperf-5.1", "mlperf-0.6"])
def test_agreement_on_the_reading_of_damaged_text(tmp_path, name, round_):
    rules = ruleset(round_)
    case = next(case for case in made_up.cases(rules) if case.benchmark in ("llama2_70b_lora", "resnet"))
    both(tmp_path, rules, DAMAGE[name](made_up.log(case, random.Random(4)).encode()))


def test_the_metrics_of_one_evaluation_are_judged_together(tmp_path):
    rules = ruleset("mlperf-4.1")
    case = next(case for case in made_up.cases(rules) if case.benchmark == "stable_diffusion")
    head = "\n".join(line for line in made_up.log(case, random.Random(1)).split("\n") if "eval_accuracy" not in line)
    metrics = [("FID", 80.0), ("CLIP", 0.2), ("FID", 70.0), ("CLIP", 0.3)]
    keys = []
    for counts in ([512, 512, 1024, 1024], [1, 2, 3, 4]):
        pairs = zip(metrics, counts, strict=True)
        text = lines(*(("eval_accuracy", value, {"metric": m, "samples_count": n}) for (m, value), n in pairs))
        keys.append(both(tmp_path, rules, f"{head}\n{text}").failing_keys)
    assert "aggregated_eval_accuracy" not in keys[0] and "aggregated_eval_accuracy" in keys[1]


def test_judging_leaves_the_log_as_it_was():
    rules = ruleset("mlperf-4.1")
    case = next(case for case in made_up.cases(rules) if case.benchmark == "stable_diffusion")
    log = loglines.parse(made_up.log(case, random.Random(2)).encode())
    before = [(id(e), e.key, e.time_ms, repr(e.value), repr(e.metadata)) for e in log.events]
    first, second = mlperf.judge(log, rules), mlperf.judge(log, rules)
    assert [(id(e), e.key, e.time_ms, repr(e.value), repr(e.metadata)) for e in log.events] == before
    assert first == second


def test_a_long_record_takes_time_linear_in_its_length():
    record = b':::MLLOG {"time_ms": 1, "key": "seed", "value": "%s", "metadata": {"n": NaN}}\n' % (b"x" * 4_000_000)
    started = time.process_time()
    assert mlperf.judge(loglines.parse(record), ruleset("mlperf-5.1")).valid is False
    assert time.process_time() - started < 2


@pytest.mark.parametrize("padding", [0, loglines.BLOCK_BYTES])
def test_texts_beyond_ascii_are_read_as_the_official_reader_does(padding):
    """It opens logs as latin-1, whatever their size."""
    member = {"time_ms": 5, "event_type": "POINT_IN_TIME", "namespace": "", "key": "submission_org", "value": "Ü"}
    line = ":::MLLOG " + json.dumps({**member, "metadata": {"file": "a.py", "lineno": 1}}, ensure_ascii=False)
    log = loglines.parse((line + "\n").encode() + b"other text\n" * (padding // 11 + 1) + line.encode())
    assert log.clean and log.events[0].value == "Ü"
    records = official_records(log, ruleset("mlperf-5.1"))
    assert [record.value for record in records.items] == ["Ü".encode().decode("latin-1")] * 2
