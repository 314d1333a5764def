"""The log layer: what a line holds, what is refused, and what a run leaves when it ends badly."""

from __future__ import annotations

import enum
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
import runlog
import torch
from mlperf_logging.compliance_checker import mlp_parser
from runlog import keys

ROOT = Path(__file__).resolve().parents[1]


def records(path: Path) -> list[dict]:
    """All records of a log; every line must be one."""
    lines = path.read_text(encoding="ascii").splitlines()
    assert all(line.startswith(":::MLLOG ") for line in lines)
    return [json.loads(line[len(":::MLLOG ") :]) for line in lines]


@pytest.fixture
def log(tmp_path):
    with runlog.open_log(tmp_path / "result_0.txt", root=ROOT) as opened:
        yield opened


class Colour(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "logged"),
    [
        (None, None),
        (True, True),
        (np.bool_(True), True),
        (np.int64(3), 3),
        (np.float32(0.5), 0.5),
        (np.arange(3), [0, 1, 2]),
        (torch.tensor(0.25), 0.25),
        (torch.tensor([1, 2]), [1, 2]),
        ((1, (2, 3)), [1, [2, 3]]),
        (Colour.RED, "red"),
        ({"a": np.int8(1)}, {"a": 1}),
        (PurePosixPath("data/x.csv"), "data/x.csv"),
        (ROOT / "reference" / "x", "reference/x"),
        ("ü\n\ud800", "ü\n\ud800"),
    ],
)
def test_values_are_converted(log, value, logged):
    log.event("some_key", value)
    (record,) = records(log.path)
    assert record["value"] == logged
    assert type(record["value"]) is type(logged)


@pytest.mark.parametrize("value", [{1, 2}, frozenset(), b"x", object(), 1j, {1: "x"}, lambda: 0, np.array([1j])])
def test_what_cannot_be_encoded_raises_and_names_the_key(log, value):
    with pytest.raises(TypeError, match="some_key"):
        log.event("some_key", value)
    with pytest.raises(TypeError, match="some_key"):
        log.event("some_key", 1, {"deep": [value]})
    assert records(log.path) == []


def test_an_absolute_path_outside_the_project_is_refused(log):
    with pytest.raises(ValueError, match="some_key.*absolute"):
        log.event("some_key", Path("/somewhere/else"))


@pytest.mark.parametrize(
    "bad", [float("nan"), float("inf"), np.float32("nan"), torch.tensor(float("-inf")), [1.0, float("nan")]]
)
def test_judged_numbers_are_finite(log, bad):
    with pytest.raises(ValueError, match="opt_base_learning_rate"):
        log.event("opt_base_learning_rate", bad)  # before run_start everything is judged
    with pytest.raises(ValueError, match="eval_accuracy"):
        log.event("eval_accuracy", 0.5, {"epoch_num": bad})
    log.start(keys.RUN_START)
    with pytest.raises(ValueError, match="eval_accuracy"):
        log.event("eval_accuracy", bad)
    log.event("training_loss", bad)  # a diverged loss is a fact, and nobody judges it
    assert [record["key"] for record in records(log.path)] == ["run_start", "training_loss"]


def test_the_log_fills_in_file_and_line_itself(log):
    with pytest.raises(ValueError, match="lineno"):
        log.event("some_key", 1, {"lineno": 3})


def test_a_line_has_mlperfs_members_in_mlperfs_order(log):
    before = log.event("seed", 1, {"x": 1})
    (record,) = records(log.path)
    assert list(record) == ["namespace", "time_ms", "event_type", "key", "value", "metadata"]
    assert record["time_ms"] == before
    assert record["metadata"]["file"] == "tests/test_runlog.py"
    assert ":::MLLOG" not in record["metadata"]["file"]
    source = Path(__file__).read_text().splitlines()[record["metadata"]["lineno"] - 1]
    assert 'log.event("seed", 1, {"x": 1})' in source


def test_mechanics_are_skipped_when_the_line_is_named(tmp_path):
    with runlog.open_log(tmp_path / "a.txt", root=ROOT, mechanics=[Path(__file__).parent]) as log:
        log.event("seed", 1)
    (record,) = records(tmp_path / "a.txt")
    assert record["metadata"]["file"] != "tests/test_runlog.py"
    assert not os.path.isabs(record["metadata"]["file"])


def test_a_file_outside_the_root_is_named_without_its_folder(tmp_path):
    script = tmp_path / "train (1).py"  # mllog takes root_dir as a regular expression
    script.write_text("import runlog, sys\nwith runlog.open_log(sys.argv[1]) as log:\n    log.event('seed', 1)\n")
    _run(script, tmp_path / "a.txt")
    (record,) = records(tmp_path / "a.txt")
    assert (record["metadata"]["file"], record["metadata"]["lineno"]) == ("train (1).py", 3)


def test_an_existing_file_is_refused_or_replaced_but_never_appended_to(tmp_path):
    path = tmp_path / "deep" / "result_0.txt"
    with runlog.open_log(path) as log:
        log.event("seed", 1)
    with pytest.raises(runlog.LogExistsError, match="result_0.txt"):
        runlog.open_log(path)
    assert [record["value"] for record in records(path)] == [1]
    with runlog.open_log(path, overwrite=True) as log:
        log.event("seed", 2)
    assert [record["value"] for record in records(path)] == [2]


def test_logging_switched_off_loses_no_record(log):
    logging.disable(logging.CRITICAL)
    try:
        log.event("seed", 1)
    finally:
        logging.disable(logging.NOTSET)
    assert [record["key"] for record in records(log.path)] == ["seed"]


def test_two_open_logs_do_not_mix(tmp_path):
    with runlog.open_log(tmp_path / "a.txt") as first, runlog.open_log(tmp_path / "b.txt") as second:
        first.event("a")
        second.event("b")
    assert [r["key"] for r in records(tmp_path / "a.txt")] == ["a"]
    assert [r["key"] for r in records(tmp_path / "b.txt")] == ["b"]


def test_only_rank_0_writes_unless_asked(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    with runlog.open_log(tmp_path / "result_0.txt") as log:
        log.event("seed", 1)
        with pytest.raises(TypeError, match="seed"):  # other ranks still notice what cannot be logged
            log.event("seed", {1})
    assert list(tmp_path.iterdir()) == []
    with runlog.open_log(tmp_path / "result_0.txt", every_rank=True) as log:
        log.event("seed", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["result_0.rank3.txt"]


def test_lines_from_many_threads_stay_whole(tmp_path):
    path = tmp_path / "a.txt"
    with runlog.open_log(path) as log:
        threads = [
            threading.Thread(target=lambda n=n: [log.event("x", "y" * 5000) for _ in range(20)]) for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(records(path)) == 160


def test_time_never_runs_backwards_when_the_wall_clock_does(log, monkeypatch):
    first = log.event("a")
    monkeypatch.setattr("time.time", lambda: 0.0)
    monkeypatch.setattr("time.time_ns", lambda: 0)
    assert log.event("b") >= first


def test_a_full_disk_is_an_error_not_a_lost_record(tmp_path, monkeypatch):
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with runlog.open_log(tmp_path / "a.txt") as log:
        full = os.open("/dev/full", os.O_WRONLY)
        monkeypatch.setattr(log._mllogger.logger.handlers[0], "descriptor", full)
        with pytest.raises(OSError, match="No space left"):
            log.event("seed", 1)
        os.close(full)


def test_interval_closes_on_an_exception(log):
    with pytest.raises(RuntimeError), log.interval("epoch", {"epoch_num": 1}) as extra:
        extra["samples_count"] = 7
        raise RuntimeError("x")
    start, stop = records(log.path)
    assert (start["key"], start["event_type"]) == ("epoch_start", "INTERVAL_START")
    assert (stop["key"], stop["event_type"]) == ("epoch_stop", "INTERVAL_END")
    assert stop["metadata"]["epoch_num"] == 1
    assert stop["metadata"]["samples_count"] == 7


def test_an_exception_inside_the_clock_aborts_the_run_and_goes_on(log):
    with pytest.raises(FileNotFoundError), log.clock() as outcome:
        outcome.status = keys.SUCCESS
        Path("/no/such/folder/x.csv").read_text()
    last = records(log.path)[-1]
    assert (last["key"], last["metadata"]["status"]) == ("run_stop", "aborted")
    assert last["metadata"]["reason"].startswith("FileNotFoundError")
    assert "/no/such" not in last["metadata"]["reason"]  # a log names no places
    assert "x.csv" in last["metadata"]["reason"]


def test_the_outcome_is_what_run_stop_says(log):
    with log.clock() as outcome:
        outcome.status = keys.SUCCESS
        outcome.metadata = {"epoch_num": 4}
    start, stop = records(log.path)
    assert stop["metadata"]["status"] == "success"
    assert stop["metadata"]["epoch_num"] == 4
    assert outcome.stop_ms - outcome.start_ms == stop["time_ms"] - start["time_ms"]


def test_a_run_without_a_verdict_is_aborted(log):
    with log.clock():
        pass
    assert records(log.path)[-1]["metadata"]["status"] == "aborted"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_inside_the_clock_aborts_the_run_and_ends_the_process(tmp_path, name):
    script = tmp_path / "victim.py"
    script.write_text(
        "import os, signal, sys, time, runlog\n"
        f"signal.signal(signal.{name}, signal.SIG_DFL)\n"  # under nohup a child ignores SIGHUP
        "try:\n"
        "    with runlog.open_log(sys.argv[1]) as log, log.clock(), log.interval('epoch', {'epoch_num': 1}):\n"
        f"        os.kill(os.getpid(), signal.{name})\n"
        f"        os.kill(os.getpid(), signal.{name})\n"
        "        time.sleep(30)\n"
        "except runlog.Stopped as stopped:\n"
        "    runlog.end_by(stopped)\n"
    )
    done = _run(script, tmp_path / "a.txt", check=False)
    assert done.returncode == -getattr(signal, name), done.stderr
    keys_seen = [record["key"] for record in records(tmp_path / "a.txt")]
    assert keys_seen == ["run_start", "epoch_start", "epoch_stop", "run_stop"]
    assert records(tmp_path / "a.txt")[-1]["metadata"]["reason"] == f"stopped by {name}"


def test_handlers_are_put_back_after_the_clock(log):
    before = signal.getsignal(signal.SIGTERM)
    with log.clock(), runlog.stopping():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_discard_removes_the_file(tmp_path):
    log = runlog.open_log(tmp_path / "a.txt")
    log.event("seed", 1)
    log.discard()
    assert list(tmp_path.iterdir()) == []


def test_nothing_can_be_written_after_closing(log):
    log.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        log.event("seed", 1)


def test_the_end_of_a_run_is_synced_to_the_disk(log, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(records(log.path)[-1]["key"]))
    with log.clock():
        log.event("x", 1)
    assert synced == ["run_stop"]


def test_the_official_parser_takes_every_line(log):
    log.event("seed", 1, {"text": ":::MLLOG is only a word here"})
    log.event("names", "ünïcode \u2028 line\nbreaks \x85")
    with log.clock() as outcome, log.interval("epoch", {"epoch_num": 1}):
        outcome.status = keys.SUCCESS
    log.close()
    lines, errors = mlp_parser.parse_file(str(log.path), ruleset="5.1.0")
    assert errors == []
    assert len(lines) == len(records(log.path)) == 6
    assert lines[0].value["metadata"]["text"] == ":::MLLOG is only a word here"


def test_runlog_loads_neither_torch_nor_the_tasks():
    code = "import sys, runlog; print([m for m in ('torch', 'reference', 'rich') if m in sys.modules])"
    assert _run("-c", code).stdout.strip() == "[]"


def test_the_standard_logging_is_not_shadowed():
    code = "import logging, sys; print(logging.__file__); logging.getLogger('x').setLevel(logging.INFO)"
    assert str(ROOT) not in _run("-c", code).stdout
    assert not (ROOT / "logging" / "__init__.py").exists()


def _run(*arguments: object, check: bool = True) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "logging")}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=check)
