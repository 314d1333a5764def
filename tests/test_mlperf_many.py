"""Rules over many records at once find, say and leave behind what the same rules do record by record."""

import random
from collections import Counter
from dataclasses import replace

import pytest

from compliance import mlperf_engine
from compliance.loglines import parse
from compliance.mlperf_engine import SheetRun
from compliance.mlperf_many import bulk_action, bulk_test, names
from compliance.mlperf_records import official_records
from compliance.mlperf_sheets import ruleset
from tests.mutated_logs import record

SHEET = """
- BEGIN:
    CODE: " s.update({'open': False, 'first': 9e99, 'seen': [], 'sum': 0}) "
- KEY:
    NAME: opened
    CHECK: " not s['open'] "
    POST: " s['open'] = True; s['first'] = min(s['first'], ll.timestamp) "
- KEY:
    NAME: closed
    CHECK: [ " s['open'] ", " v['value'] < 3 " ]
    POST: " s['open'] = False "
- KEY:
    NAME: tensor
    CHECK: " 'name' in v['metadata'] "
    POST: " s['seen'] += [v['metadata']['name']]; s['sum'] += v['value'] "
- KEY:
    NAME: only_statements
    POST: " s['sum'] += v['value'] "
- KEY:
    NAME: local
    POST: |
        if v['value'] == 1:
            x = 5
        s['sum'] += x
- KEY:
    NAME: free
    CHECK: " v['value'] != 2 "
- KEY:
    NAME: free_and_often
    CHECK: " v['value'] in (0, 1, 2, 3) "
- KEY:
    NAME: once
    CHECK: " v['metadata']['missing'] > 0 "
"""
KEYS = ("opened", "closed", "tensor", "only_statements", "local", "free", "free_and_often", "once")


@pytest.fixture
def rules(tmp_path):
    folder = tmp_path / "mlperf_logging" / "compliance_checker" / "training_5.1.0"
    folder.mkdir(parents=True)
    (folder / "common.yaml").write_text(SHEET)
    return ruleset("mlperf-5.1", tmp_path / "mlperf_logging")


def log(rng):
    """Up to eight stretches of one key each, with a few values and members that rules fail or raise on."""
    lines = []
    for _ in range(rng.randint(1, 8)):
        key = rng.choice(KEYS)
        for _ in range(rng.choice([1, 2, 12])):
            metadata = rng.choice([{}, {"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "d"}])
            value = rng.choice([0, 1, 1, 1, 2, 3, "text"])
            lines.append(record(key, value, 1_700_000_000_000 + rng.randint(0, 50), metadata=metadata))
    return b"\n".join(lines)


def outcome(sheet, rules, text):
    run = SheetRun(sheet, official_records(parse(text), rules))
    run.run()
    return list(run.keyed.items()), run.lasting, run.warnings, run.s


def test_many_at_once_as_one_by_one(rules, monkeypatch):
    sheet = rules.sheet(rules.start)
    assert set(sheet.loops) == {"opened", "closed", "tensor", "only_statements"}
    assert set(sheet.free) == {"free", "free_and_often", "once"}
    assert sheet.timed == {"opened"}
    single = replace(sheet, loops={}, free={}, timed=frozenset())
    monkeypatch.setattr(mlperf_engine, "MANY", 2)
    rng = random.Random(5)
    kinds = Counter()
    for _ in range(2000):
        text = log(rng)
        expected = outcome(single, rules, text)
        assert outcome(sheet, rules, text) == expected, text
        kinds.update(note.kind for _, note in expected[0])
    assert min(kinds[kind] for kind in ("check", "check_exec", "action_exec")) > 100


def test_what_cannot_be_done_at_once():
    assert bulk_test(("v['value'] > s['x']",)) is None
    assert bulk_test(("v['value'] >",)) is None
    assert bulk_action((), "x = 1; s['x'] = x") is None, "a local name would last from record to record"
    assert bulk_action((), "enqueue_config('a.yaml')") is None
    assert bulk_action((), "s[") is None
    assert names(("v['value'] > s['x']", "not valid (")) == {"v", "s"}
