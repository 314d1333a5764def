"""The table of scores: strict and official scores, weak scaling, energy, normalization, and that nothing is written."""

import csv
import gzip
import hashlib
import io
import json
from pathlib import Path

import pytest

from compliance import examples, score_command
from compliance.systems import FIELDS

MINUTE = 60_000
BEGIN = 1_700_000_000_000


@pytest.fixture
def example_benchmarks(monkeypatch):
    """The suite's benchmarks are the made-up ones of the rules' examples."""
    monkeypatch.setattr("compliance.rulesets.benchmarks", lambda: examples.EXAMPLE_FACTS)


def record(time_ms, key, value=None, **metadata):
    members = {"namespace": "", "time_ms": time_ms, "event_type": "POINT_IN_TIME", "key": key, "value": value}
    return ":::MLLOG " + json.dumps({**members, "metadata": {"file": "train.py", "lineno": 1, **metadata}})


def ssd(path, seed, minutes, *, status="success", accuracy=0.35, shift=0, batch=32, extra=()):
    """A log that round 3.1 accepts as ssd, closed division; `accuracy` at its one evaluation reaches 0.34 or not."""
    begin = BEGIN + seed * 10_000_000 + shift
    settings = {
        "submission_benchmark": "ssd",
        "submission_division": "closed",
        "submission_org": "somebody",
        "submission_platform": "a_system",
        "submission_status": "onprem",
        "cache_clear": True,
        "init_start": None,
        "seed": seed,
        "global_batch_size": batch,
        "gradient_accumulation_steps": 1,
        "opt_name": "adam",
        "opt_base_learning_rate": 0.0001,
        "opt_weight_decay": 0.0,
        "opt_learning_rate_warmup_epochs": 1,
        "opt_learning_rate_warmup_factor": 0.001,
        "train_samples": 117266,
        "eval_samples": 5000,
        **dict(extra),
        "init_stop": None,
    }
    lines = [record(begin, key, value) for key, value in settings.items()]
    stop = begin + int(minutes * MINUTE)
    lines += [record(begin, "run_start"), record(begin + 1, "epoch_start", epoch_num=1)]
    lines += [
        record(stop - 3 - seed, "block_stop", first_epoch_num=1),
        record(stop - 3 - seed, "epoch_stop", epoch_num=1),
    ]
    lines += [record(stop - 2, "eval_start", epoch_num=1), record(stop - 2, "eval_accuracy", accuracy, epoch_num=1)]
    lines += [record(stop - 1, "eval_stop", epoch_num=1), record(stop, "run_stop", status=status)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def description(root, system="a_system", **changes):
    said = dict.fromkeys(FIELDS, "N/A")
    said |= {"submitter": "Somebody", "division": "closed", "status": "Available on-premise", "system_name": "A System"}
    said |= {"number_of_nodes": "2", "host_processors_per_node": "2", "host_processor_model_name": "A Processor"}
    said |= {"accelerators_per_node": "8", "accelerator_model_name": "An Accelerator", "framework": "A Framework"}
    said |= {"hw_notes": "", "sw_notes": "a note", **changes}
    path = root / "systems" / f"{system}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({key: value for key, value in said.items() if value is not None}), encoding="utf-8")


TIMES = (10.0, 11.0, 12.0, 13.0, 20.0)
MEAN = 12.0


def submission(root, times=TIMES, **more):
    """<root>/results/a_system/ssd with one log for each of `times` (minutes)."""
    description(root)
    folder = root / "results" / "a_system" / "ssd"
    for number, minutes in enumerate(times):
        ssd(folder / f"result_{number}.txt", number + 1, minutes, **more)
    return folder


def score(capsys, *arguments):
    status = score_command.main([*map(str, arguments), "--jobs", "1"])
    return status, capsys.readouterr()


def cell(capsys, path, *arguments, name="ssd", ruleset="mlperf-3.1"):
    """Exit status, and the one system's result as JSON."""
    status, captured = score(capsys, path, "--ruleset", ruleset, "--format", "json", *arguments)
    (system,) = json.loads(captured.out)["systems"]
    return status, system["scores"][name]


def table(capsys, path, *arguments):
    _, captured = score(capsys, path, "--ruleset", "mlperf-3.1", "--format", "csv", *arguments)
    return list(csv.DictReader(io.StringIO(captured.out)))


def test_a_score_drops_fastest_and_slowest(tmp_path, capsys):
    submission(tmp_path / "Somebody")
    status, found = cell(capsys, tmp_path)
    assert (status, found["minutes"], found["mean_ms"]) == (0, MEAN, 12 * MINUTE)
    assert [run["kept"] for run in found["runs"]] == [False, True, True, True, False]
    assert found["mlperf_summarizer"] == {"minutes": MEAN, "traceback": None, "defect": None, "explanation": None}


@pytest.mark.parametrize(
    "level", ["", "Somebody", "Somebody/results", "Somebody/results/a_system", "Somebody/results/a_system/ssd"]
)
def test_a_submission_is_found_from_any_level(tmp_path, capsys, level):
    submission(tmp_path / "Somebody")
    (row,) = table(capsys, tmp_path / level)
    assert row == {
        "division": "closed",
        "availability": "Available on-premise",
        "submitter": "Somebody",
        "system": "A System",
        "number_of_nodes": "2",
        "host_processor_model_name": "A Processor",
        "host_processors_count": "4",
        "accelerator_model_name": "An Accelerator",
        "accelerators_count": "16",
        "framework": "A Framework",
        "notes": "a note",
        "private_id": "",
        **dict.fromkeys(("bert", "dlrm_dcnv2", "gpt3", "maskrcnn", "resnet", "rnnt", "unet3d", "stable_diffusion"), ""),
        "ssd": "12.0",
        "details_url": "https://github.com/mlcommons/training_results_v3.1/blob/main/Somebody/systems/a_system.json",
        "code_url": "https://github.com/mlcommons/training_results_v3.1/blob/master/Somebody/benchmarks",
    }


def test_names_are_written_as_the_summarizer_writes_them(tmp_path, capsys):
    folder = submission(tmp_path / "Somebody")
    description(
        tmp_path / "Somebody",
        system_name="tpu-v3",
        accelerator_model_name="tpu-v3",
        framework="TensorFlow 1.15 commit hash = 123",
        hw_notes="first",
    )
    (folder.parent / "privateid.json").write_text('{"private_id": "some-words"}', encoding="utf-8")
    (row,) = table(capsys, tmp_path)
    assert row["system"] == "TPUv3.16"
    assert row["accelerator_model_name"] == "TPUv3"
    assert row["framework"] == "TensorFlow 1.15"
    assert row["notes"] == "first;a note"
    assert row["private_id"] == "some-words"


def test_aborted_runs_give_no_score(tmp_path, capsys):
    submission(tmp_path / "Somebody", status="aborted")
    status, found = cell(capsys, tmp_path)
    assert (status, found["minutes"]) == (1, None)
    assert found["mlperf_summarizer"]["minutes"] == MEAN
    assert found["mlperf_summarizer"]["defect"] == "status"
    (row,) = table(capsys, tmp_path)
    assert row["ssd"] == ""
    (row,) = table(capsys, tmp_path, "--official")
    assert row["ssd"] == "12.0"


def test_one_aborted_run_is_infinite(tmp_path, capsys):
    folder = submission(tmp_path / "Somebody")
    ssd(folder / "result_0.txt", 1, 10.0, status="aborted")
    status, found = cell(capsys, tmp_path)
    assert (status, found["minutes"]) == (0, (12.0 + 13.0 + 20.0) / 3)
    assert found["mlperf_summarizer"]["minutes"] == MEAN
    assert found["mlperf_summarizer"]["defect"] == "status"


def test_one_run_that_missed_is_dropped_by_both(tmp_path, capsys):
    folder = submission(tmp_path / "Somebody")
    ssd(folder / "result_0.txt", 1, 10.0, status="aborted", accuracy=0.2)
    _, found = cell(capsys, tmp_path)
    assert found["minutes"] == found["mlperf_summarizer"]["minutes"] == (12.0 + 13.0 + 20.0) / 3
    assert found["mlperf_summarizer"]["defect"] is None


def test_too_few_runs_need_partial(tmp_path, capsys):
    submission(tmp_path / "Somebody", TIMES[:3])
    status, found = cell(capsys, tmp_path)
    assert (status, found["minutes"]) == (1, None)
    assert found["mlperf_summarizer"]["minutes"] == 11.0
    assert found["mlperf_summarizer"]["defect"] == "run-count"
    status, found = cell(capsys, tmp_path, "--partial")
    assert (status, found["minutes"], found["official_score"]) == (0, 11.0, False)
    _, captured = score(capsys, tmp_path, "--ruleset", "mlperf-3.1", "--partial")
    assert "unofficial" in captured.out
    assert "11.000*" in captured.out


@pytest.mark.parametrize(
    ("spoil", "defect", "official"),
    [
        (lambda folder: ssd(folder / "result_1.txt", 1, 11.0), "set-rule", MEAN),  # a seed used twice
        (lambda folder: ssd(folder / "result_1.txt", 2, 11.0, batch=64), "set-rule", MEAN),
        (lambda folder: ssd(folder / "result_4.txt", 5, 20.0, extra={"opt_name": "sgd"}), "broken-rule", MEAN),
        (lambda folder: (folder / "result_4.txt").rename(folder / "run_4.txt"), "name", None),
        (lambda folder: _cut(folder / "result_4.txt", '"metadata"'), "traceback", None),
    ],
)
def test_what_the_summarizer_does_not_see_is_named(tmp_path, capsys, spoil, defect, official):
    spoil(submission(tmp_path / "Somebody"))
    _, found = cell(capsys, tmp_path)
    said = found["mlperf_summarizer"]
    assert said["defect"] == defect
    assert said["explanation"]
    if official is not None:
        assert (found["minutes"], said["minutes"]) == (None, official)


def _cut(path, member):
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(member, '"other"', 1), encoding="utf-8")


# --- normalization ----------------------------------------------------------------------------------------------------


def test_the_published_factor_is_applied_once(tmp_path, capsys):
    folder = submission(tmp_path / "Somebody")
    (folder / "scaling.json").write_text('{"scaling_factor": 1.5}', encoding="utf-8")
    _, found = cell(capsys, tmp_path)
    assert (found["minutes"], found["factor"], found["factor_source"]) == (18.0, 1.5, "scaling.json")
    assert found["mlperf_summarizer"]["minutes"] == 18.0
    assert found["mean_ms"] == 12 * MINUTE
    _, found = cell(capsys, tmp_path, "--normalize", "none")
    assert (found["minutes"], found["factor"]) == (12.0, 1.0)


def test_the_computed_factor_is_stated_and_applied_on_demand(tmp_path, capsys):
    from compliance import rcp_points
    from compliance.mlperf_sheets import package_folder

    file = package_folder() / "rcp_checker" / "training_3.1.0" / "rcps_ssd.json"
    points = rcp_points.official_pruned(rcp_points.load(file, rcp_points.Rules(5)), rcp_points.Rules(5))
    point = next(one for one in points if one.stdev > 0)
    epochs = round((point.least + point.mean) / 2, 3)
    folder = submission(tmp_path / "Somebody", batch=point.batch_size)
    for path in folder.iterdir():
        text = path.read_text(encoding="utf-8").replace('"epoch_num": 1}', f'"epoch_num": {epochs}}}')
        path.write_text(text, encoding="utf-8")
    _, found = cell(capsys, tmp_path)
    assert (found["minutes"], found["factor"]) == (MEAN, 1.0)
    assert any("not applied" in note for note in found["notes"])
    _, found = cell(capsys, tmp_path, "--normalize", "computed")
    assert found["minutes"] == MEAN * (point.mean / epochs)


@pytest.mark.parametrize("text", ["{", "[]", '{"scaling_factor": "much"}', '{"scaling_factor": -1}', "{}"])
def test_an_unusable_factor_is_named(tmp_path, capsys, text):
    folder = submission(tmp_path / "Somebody")
    (folder / "scaling.json").write_text(text, encoding="utf-8")
    _, found = cell(capsys, tmp_path)
    assert found["minutes"] == MEAN
    assert any(note.startswith("scaling.json is not used") for note in found["notes"])


# --- same bytes, nothing written --------------------------------------------------------------------------------------


def state_of(root):
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("form", ["text", "csv", "json"])
def test_scoring_twice_gives_the_same_and_writes_nothing(tmp_path, capsys, form, monkeypatch):
    folder = submission(tmp_path / "round" / "Somebody")
    (folder / "scaling.json").write_text('{"scaling_factor": 1.5}', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    before = state_of(tmp_path)
    outputs = {score(capsys, "round", "--ruleset", "mlperf-3.1", "--format", form)[1].out for _ in range(2)}
    assert len(outputs) == 1
    assert state_of(tmp_path) == before


def test_explained_to_the_line(tmp_path, capsys):
    folder = submission(tmp_path / "Somebody")
    (folder / "scaling.json").write_text('{"scaling_factor": 1.5}', encoding="utf-8")
    _, captured = score(capsys, tmp_path, "--ruleset", "mlperf-3.1", "--explain-score")
    assert "result_0.txt  600000 ms  run_start line 19, run_stop line 26  dropped: fastest" in captured.out
    assert "result_4.txt  1200000 ms  run_start line 19, run_stop line 26  dropped: slowest" in captured.out
    assert "mean of the 3 kept = 720000 ms" in captured.out
    assert "times 1.5 from scaling.json" in captured.out
    assert "score = 18.000 minutes" in captured.out


def test_halves_are_rounded_up_from_exact_milliseconds(tmp_path, capsys):
    submission(tmp_path / "Somebody", (1.0, 1.0005, 1.0005, 1.0005, 2.0))  # 60030 ms: 1.0005 minutes
    _, captured = score(capsys, tmp_path, "--ruleset", "mlperf-3.1")
    assert "1.001" in captured.out


# --- rows and columns -------------------------------------------------------------------------------------------------


def test_a_system_without_description_is_not_in_the_csv(tmp_path, capsys):
    submission(tmp_path / "Somebody")
    (tmp_path / "Somebody" / "systems" / "a_system.json").unlink()
    assert table(capsys, tmp_path) == []
    _, captured = score(capsys, tmp_path, "--ruleset", "mlperf-3.1")
    assert "12.000" in captured.out
    assert "description is missing" in captured.out


def test_two_divisions_are_two_tables(tmp_path, capsys):
    submission(tmp_path / "Somebody")
    submission(tmp_path / "Other")
    description(tmp_path / "Other", submitter="Other", division="open")
    _, captured = score(capsys, tmp_path, "--ruleset", "mlperf-3.1")
    closed, _, opened = captured.out.partition("division open")
    assert "Somebody" in closed
    assert "Other" in opened
    assert [row["submitter"] for row in table(capsys, tmp_path)] == ["Somebody", "Other"]


def test_folders_that_no_tool_looks_in_are_left_out(tmp_path, capsys):
    folder = submission(tmp_path / "Somebody")
    deep = folder / "again"
    ssd(deep / "result_0.txt", 9, 5.0)
    odd = folder.parent / "speed"
    ssd(odd / "result_0.txt", 9, 5.0)
    _, captured = score(capsys, tmp_path, "--ruleset", "mlperf-3.1")
    assert f"left out: {deep} (a set is expected in results/<system>/<benchmark>)" in captured.out
    assert f"left out: {odd} (speed is no benchmark of the round)" in captured.out


def test_the_detailed_table(tmp_path, capsys):
    folder = submission(tmp_path / "Somebody", batch=256)
    (folder / "scaling.json").write_text('{"scaling_factor": 1.5}', encoding="utf-8")
    (row,) = table(capsys, tmp_path, "--table", "detailed")
    assert row["ssd:time_to_train"] == "18.0"
    assert row["ssd:GBS"] == "256.0"
    assert row["ssd:samples_to_converge"] == "1.0"
    assert row["ssd:RCP"] == "Fail"  # one epoch is far too few
    assert row["ssd:rcp_scaling_factor"] == "1.5"
    assert row["ssd:Energy"] == row["bert:RCP"] == ""


# --- energy and weak scaling ------------------------------------------------------------------------------------------


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


# --- the suite's own, and wrong calls ---------------------------------------------------------------------------------


def suite_set(folder, seconds=(60, 61, 62, 63, 70)):
    sha = "ab" * 32
    for number, length in enumerate(seconds):
        short = ["submission_benchmark example", "submission_division closed", "submission_org somebody"]
        short += [
            "submission_platform a_system",
            "submission_status onprem",
            "init_start",
            "benchmark_profile embedded",
        ]
        short += ["quality_metric top1_accuracy", "quality_better higher", "quality_target 0.749", f"seed {number + 1}"]
        short += ["global_batch_size 32", "opt_name sgd", "opt_base_learning_rate 0.1", "train_samples 1000"]
        short += ["eval_samples 100", f'data_source {{"name":"made_up","sha256":"{sha}"}}', "init_stop", "@100000"]
        short += ["run_start", f"@{100_001 + number}", "epoch_start epoch_num=1", "epoch_stop epoch_num=1"]
        short += ["eval_start epoch_num=1", "eval_accuracy 0.76 epoch_num=1 evaluated_samples=100"]
        short += ["eval_stop epoch_num=1", f"@{100_000 + 1000 * length}", "run_stop status=success"]
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"result_{number}.txt"
        path.write_text("\n".join(examples.expand(short)) + "\n", encoding="utf-8")


@pytest.mark.parametrize("place", ["results/a_system/example", "somewhere"])
def test_the_suites_logs_with_and_without_a_submission(example_benchmarks, tmp_path, capsys, place):
    suite_set(tmp_path / "somebody" / place)
    status, found = cell(capsys, tmp_path, name="example/embedded", ruleset="auto")
    assert (status, found["mean_ms"], found["mlperf_summarizer"]) == (0, 62_000, None)
    _, captured = score(capsys, tmp_path)
    assert "time to train in seconds" in captured.out
    assert "somebody" in captured.out
    assert "62.000" in captured.out


def test_two_sets_of_one_benchmark_are_two_rows(example_benchmarks, tmp_path, capsys):
    suite_set(tmp_path / "first")
    suite_set(tmp_path / "second", (30, 31, 32, 33, 34))
    _, captured = score(capsys, tmp_path, "--format", "json")
    systems = json.loads(captured.out)["systems"]
    assert [one["scores"]["example/embedded"]["mean_ms"] for one in systems] == [62_000, 32_000]


def test_wrong_calls_and_nothing_to_score(tmp_path, capsys):
    assert score(capsys, tmp_path / "nothing")[0] == 2
    status, captured = score(capsys, tmp_path)
    assert (status, captured.out) == (2, "")
    assert "no logs found" in captured.err
    folder = submission(tmp_path / "Somebody")
    status, captured = score(capsys, folder / "result_0.txt", "--ruleset", "mlperf-3.1")
    assert status == 2
    assert "no set" in captured.err
    status, captured = score(capsys, folder)  # ssd is in many rounds
    assert status == 2
    assert "--ruleset" in captured.err


# --- against what MLPerf's summarizer said ----------------------------------------------------------------------------

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.mark.long
def test_a_part_of_round_5_1_as_published(tmp_path, capsys):
    """Three submitters' logs against their rows in the summarizer's table, to the last digit."""
    import shutil
    import subprocess

    archive, said = SHARED / "logs" / "v5.1.tar.zst", SHARED / "truth" / "v5.1.csv.gz"
    if not archive.is_file() or not said.is_file() or shutil.which("zstd") is None:
        pytest.skip("the published logs are not here")
    wanted = ("AMD", "Krai", "HPE")
    subprocess.run(["tar", "--zstd", "-xf", archive, "-C", tmp_path], check=True)
    rows = list(csv.reader(io.StringIO(gzip.decompress(said.read_bytes()).decode())))
    expected = [row for row in rows[1:] if row[2] in wanted]
    assert expected
    paths = [path for name in wanted for path in tmp_path.glob(f"**/{name}") if (path / "results").is_dir()]
    before = {path: hashlib.sha256(path.read_bytes()).digest() for path in paths[0].rglob("*") if path.is_file()}
    _, captured = score(capsys, *paths, "--ruleset", "mlperf-5.1", "--format", "csv")
    assert list(csv.reader(io.StringIO(captured.out)))[1:] == expected
    assert before == {
        path: hashlib.sha256(path.read_bytes()).digest() for path in paths[0].rglob("*") if path.is_file()
    }
