"""The line formats of rounds 0.5 and 0.6, read as the events of the rounds after them."""

from decimal import Decimal

from compliance import loglines
from compliance.run import Run

ROUND_0_5 = b"""starting
:::MLPv0.5.0 resnet 1543785258.927179813 (benchmark_cnn.py:1271) run_start
:::MLPv0.5.0 resnet 1543785258.951 (benchmark_cnn.py:2674) input_batch_size: 2048
INFO:mlperf_compliance::::MLPv0.5.0 resnet 1543785259 (a(b).py:1) train_epoch: 0
:::MLPv0.5.0 resnet 1543785259 (a(b).py:1) train_epoch: 0
:::MLPv0.5.0 resnet 1543785260 (a.py:1) opt_learning_rate : { "deferred": true, "value": 0.5 }
:::MLPv0.5.0 resnet 1543785261 (a.py:1) eval_start: 0
:::MLPv0.5.0 resnet 1543785262 (a.py:1) eval_accuracy: {"epoch": 0, "value": 0.76}
:::MLPv0.5.0 resnet 1543785262 (a.py:1) eval_iteration_accuracy: {"iteration": 7, "value": 0.76}
:::MLPv0.5.0 resnet 1543785263.5 (a.py:1) run_stop: {"success": true}
:::MLPv0.5.0 resnet 1543785264 (a.py:1) run_final
"""

ROUND_0_6 = b"""x :::MLL 0.0 submission_benchmark: {"value": "ssd", "metadata": {"lineno": 226, "file": "utils.py"}}\r
:::MLL 1560881700.827 run_start: {"value": null, "metadata": {"lineno": 1}}\r
:::MLL 1560881701.0001 eval_accuracy : {"value": 0.3, "metadata": {"epoch_num": 4}}\r
:::MLL 1560881702.827 run_stop: {"metadata": {"status": "aborted"}, "value": null}\r
"""


def test_round_0_5():
    log = loglines.parse(ROUND_0_5)
    assert [(e.key, e.value, log.line(e)) for e in log.events] == [
        ("submission_benchmark", "resnet", 2),
        ("run_start", None, 2),
        ("input_batch_size", 2048, 3),
        ("train_epoch", 0, 5),
        ("opt_learning_rate", 0.5, 6),
        ("eval_start", 0, 7),
        ("eval_accuracy", 0.76, 8),
        ("eval_iteration_accuracy", 0.76, 9),
        ("run_stop", {"success": True}, 10),
        ("run_final", None, 11),
    ]
    assert log.faults == []
    by_key = {e.key: e for e in log.events}
    assert by_key["train_epoch"].metadata == {"file": "a(b).py", "lineno": 1, "epoch_num": 0}
    assert by_key["opt_learning_rate"].metadata["deferred"] is True
    assert by_key["eval_accuracy"].metadata["epoch_num"] == 0
    assert by_key["eval_iteration_accuracy"].metadata["step_num"] == 7
    run = Run(log, log.events, None)
    assert (run.benchmark, run.status) == ("resnet", "success")
    assert run.time_ms == Decimal("4572.820187"), "nanoseconds are kept"
    assert [e.value for e in run.counted] == [0.76]


def test_success_of_round_0_5():
    for body, status in ((b': {"success": "true"}', "success"), (b': {"success": false}', "aborted"), (b"", None)):
        log = loglines.parse(ROUND_0_5.replace(b': {"success": true}', body))
        assert Run(log, log.events, None).status == status


def test_round_0_6():
    log = loglines.parse(ROUND_0_6)
    assert log.faults == []
    run = Run(log, log.events, None)
    assert (run.benchmark, run.status, run.time_ms) == ("ssd", "aborted", 2000)
    assert [(e.event_type, log.line(e)) for e in log.events] == [
        ("POINT_IN_TIME", 1),
        ("INTERVAL_START", 2),
        ("POINT_IN_TIME", 3),
        ("INTERVAL_END", 4),
    ]
    assert run.evaluations[0].event.time_ms == Decimal("1560881701000.1")


def test_damage_is_a_fault_with_its_line():
    damaged = {
        b":::MLL 1.0 run_start: {'value': null}": "json",
        b":::MLL 1.0 run_start: [1]": "shape",
        b':::MLL soon run_start: {"value": null}': "shape",
        b':::MLL 1e400 run_start: {"value": null}': "shape",
        b":::MLL 1.0 run_start": "shape",
        b":::MLL 1.0 run_start: " + b"[" * 100000: "json",
        b":::MLPv0.5.0 resnet": "shape",
        b":::MLPv0.5.0 resnet NaN (a.py:1) run_start": "shape",
        b":::MLPv0.5.0 resnet 1.0 run_start": "shape",
    }
    for line, kind in damaged.items():
        log = loglines.parse(b"text\n" + line + b"\n" + ROUND_0_6)
        assert [(f.kind, f.line) for f in log.faults] == [(kind, 2)], line[:60]
        assert len(log.events) == 4, "the rest is still read"


def test_two_records_on_one_line():
    log = loglines.parse(ROUND_0_6.replace(b"\r\n", b"", 2))
    assert [e.key for e in log.events] == ["submission_benchmark", "run_start", "eval_accuracy", "run_stop"]
    assert [log.line(e) for e in log.events] == [1, 1, 1, 2]


def test_a_log_of_today_never_takes_this_path():
    log = loglines.parse(b':::MLLOG {"time_ms": 1, "key": "a", "value": 1, "metadata": {}, "event_type": "x"}\n')
    assert log.clean and log.records == 1


def test_a_log_of_several_blocks(monkeypatch):
    monkeypatch.setattr(loglines, "BLOCK_BYTES", 200)
    log = loglines.parse(b"chatter\n" * 60 + ROUND_0_5)
    assert [(e.key, log.line(e)) for e in log.events][:2] == [("submission_benchmark", 62), ("run_start", 62)]
    assert [e.key for e in log.events].count("submission_benchmark") == 1
    assert log.events[-1].key == "run_final" and log.line(log.events[-1]) == 71
