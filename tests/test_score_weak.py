"""Scores of energy and of weak scaling."""

import csv
import io
import json

import pytest

from tests.scored_logs import BEGIN, MEAN, MINUTE, cell, description, record, score, submission


def meter(folder, watts, *, seconds=10, efficiency=None, switch=None):
    folder.mkdir(parents=True)
    lines = [record(BEGIN, "power_measurement_start")]
    lines += [record(BEGIN + 1000 * (step + 1), "power_reading", watts) for step in range(seconds)]
    lines += [record(BEGIN + 1000 * seconds, "power_measurement_stop")]
    lines += [record(BEGIN, "conversion_eff", efficiency)] if efficiency else []
    (folder / "node_0.txt").write_text("\n".join(lines), encoding="utf-8")
    if switch:
        text = record(BEGIN, "interconnect_power_est", switch)
        (folder / "sw_0.txt").write_text(text, encoding="utf-8")


def test_energy_is_power_times_the_runs_own_time(tmp_path, capsys):
    folder = submission(tmp_path / "Somebody")
    for number in range(5):
        meter(folder / "power" / f"result_{number}", 100, efficiency=0.9, switch=10)
    _, found = cell(capsys, tmp_path)
    assert found["energy_joules"] == pytest.approx((100 * 0.9 + 10) * 12 * 60)  # watts times seconds of the kept runs


def test_energy_without_readings_ends_the_summarizer(tmp_path, capsys):
    folder = submission(tmp_path / "Somebody")
    (folder / "power").mkdir()
    _, found = cell(capsys, tmp_path)
    assert found["minutes"] == MEAN
    assert found["energy_joules"] is None
    assert found["mlperf_summarizer"]["defect"] == "traceback"


def test_weak_scaling_is_models_a_minute():
    from compliance.official_score import FolderFacts, Observed, weak_score

    runs = [Observed(f"result_{n}.txt", n * 1000.0, 600_000.0 + n, scale=8) for n in range(10)]
    weak = weak_score(FolderFacts(runs), 10)
    assert (weak.models, weak.scale, weak.minutes) == (10, 8, 600_009.0 / 60 / 1000)
    assert weak.models_per_minute == pytest.approx(10 / (600_009 / 60_000))
    assert weak_score(FolderFacts(runs[:9]), 10).minutes is None
    assert "differ" in weak_score(FolderFacts([*runs[:9], Observed("x", 0.0, 1.0, scale=4)]), 10).reason


def cosmoflow(path, seed, minutes, *, nodes=2):
    """A log of HPC's cosmoflow, round 3.0."""
    begin, stop = BEGIN + seed, BEGIN + int(minutes * MINUTE)
    before = {
        "submission_benchmark": "cosmoflow",
        "submission_division": "closed",
        "submission_org": "somebody",
        "submission_platform": "a_system",
        "submission_status": "onprem",
        "number_of_nodes": nodes,
        "accelerators_per_node": 8,
        "seed": seed,
        "init_start": None,
        "global_batch_size": 64,
        "opt_name": "sgd",
        "opt_base_learning_rate": 0.001,
        "opt_learning_rate_warmup_epochs": 4,
        "opt_learning_rate_warmup_factor": 1,
        "opt_learning_rate_decay_boundary_epochs": [16, 32],
        "opt_learning_rate_decay_factor": [0.25, 0.125],
        "train_samples": 524288,
        "eval_samples": 65536,
        "cache_clear": True,
        "init_stop": None,
        "run_start": None,
    }
    lines = [record(begin, key, value) for key, value in before.items()]
    for key in ("epoch_start", "epoch_stop", "eval_start", "eval_stop"):
        lines.append(record(stop - 3, key, epoch_num=9))
    lines += [record(stop - 2, "eval_error", 0.1, epoch_num=9), record(stop, "run_stop", status="success")]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_weak_scaling_has_a_table_of_its_own(tmp_path, capsys):
    root = tmp_path / "Somebody"
    description(root)
    for number in range(12):
        cosmoflow(root / "results" / "a_system" / "weak" / "cosmoflow" / f"result_{number}.txt", number, 10 + number)
    arguments = (tmp_path, "--ruleset", "mlperf-hpc-3.0", "--format")
    _, captured = score(capsys, *arguments, "json")
    (system,) = json.loads(captured.out)["systems"]
    found = system["weak_scaling"]["cosmoflow"]
    _, captured = score(capsys, *arguments, "csv", "--table", "weak")
    rows = list(csv.DictReader(io.StringIO(captured.out)))
    _, captured = score(capsys, *arguments, "csv")
    assert list(csv.DictReader(io.StringIO(captured.out))) == []  # there is no folder strong
    minutes = 21 * MINUTE / 60 / 1000  # from the first start to the last stop
    assert (found["models"], found["accelerators_per_model"], found["minutes"]) == (12, 16, minutes)
    assert found["models_per_minute"] == 12 / minutes
    assert rows[0]["cosmoflow:number_of_models"] == "12.0"
    assert rows[0]["cosmoflow:instance_scale"] == "16.0"
    assert rows[0]["cosmoflow:time_to_train_all"] == repr(minutes)
    _, captured = score(capsys, tmp_path, "--ruleset", "mlperf-hpc-3.0")
    assert "0.571 (12 / 21.000, 16)" in captured.out


def test_weak_scaling_with_a_broken_rule_has_only_an_official_score(tmp_path, capsys):
    """Two models with one seed: MLPerf's summarizer does not look."""
    root = tmp_path / "Somebody"
    description(root)
    for number in range(12):
        seed = max(number, 1)
        cosmoflow(root / "results" / "a_system" / "weak" / "cosmoflow" / f"result_{number}.txt", seed, 10 + number)
    officially = (21 * MINUTE - 1) / 60 / 1000  # the first one starts at BEGIN + 1 ms
    for more, minutes in (((), None), (("--official",), officially)):
        _, captured = score(capsys, tmp_path, "--ruleset", "mlperf-hpc-3.0", "--format", "json", *more)
        found = json.loads(captured.out)["systems"][0]["weak_scaling"]["cosmoflow"]
        assert found["minutes"] == minutes
