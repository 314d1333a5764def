"""The table of scores: strict and official scores, normalization, and that nothing is written."""

import csv
import gzip
import hashlib
import io
import json
from pathlib import Path

import pytest

from compliance import examples
from tests.scored_logs import MEAN, MINUTE, TIMES, cell, description, score, ssd, submission, table


@pytest.fixture
def example_benchmarks(monkeypatch):
    """The suite's benchmarks are the made-up ones of the rules' examples."""
    monkeypatch.setattr("compliance.rulesets.benchmarks", lambda: examples.EXAMPLE_FACTS)


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
