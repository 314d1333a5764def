"""Reference convergence points: made from evidence."""

import json
from pathlib import Path

import pytest

from compliance import examples, rcp, rcp_make

SHA = "ab" * 32


@pytest.fixture
def example_benchmarks(monkeypatch):
    """The suite's benchmarks are the made-up ones of the rules' examples."""
    monkeypatch.setattr("compliance.rulesets.benchmarks", lambda: examples.EXAMPLE_FACTS)


def log(path, seed, epochs, *, status="success", batch=32, rate=0.1, profile="embedded"):
    """A good log that reaches its target at epoch `epochs`."""
    keys = {
        "submission_benchmark": "example",
        "submission_division": "closed",
        "submission_org": "somebody",
        "submission_platform": "a_system",
        "submission_status": "onprem",
        "init_start": "",
        "benchmark_profile": profile,
        "quality_metric": "top1_accuracy",
        "quality_better": "higher",
        "quality_target": 0.749,
        "seed": seed,
        "global_batch_size": batch,
        "opt_name": "sgd",
        "opt_base_learning_rate": rate,
        "lowest_numerical_precision": "fp32",
        "train_samples": 1000,
        "eval_samples": 100,
        "data_source": json.dumps({"name": "made_up", "sha256": SHA}).replace(" ", ""),
        "init_stop": "",
    }
    short = [f"{key} {value}".strip() for key, value in keys.items()] + ["run_start"]
    for epoch in range(1, epochs + 1):
        value = 0.76 if epoch == epochs and status == "success" else 0.5 + seed / 1000
        mark = f"epoch_num={epoch}"
        short += [f"epoch_start {mark}", f"epoch_stop {mark}", f"eval_start {mark}"]
        short += [f"eval_accuracy {value} {mark} evaluated_samples=100", f"eval_stop {mark}"]
    short.append(f"run_stop status={status}" + ("" if status == "success" else " reason=budget"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(examples.expand(short)) + "\n", encoding="utf-8")


def evidence(folder, epochs=(3, 4, 5, 6), **changes):
    for number, count in enumerate(epochs):
        log(folder / f"result_{number}.txt", number + 1, count, **changes)


@pytest.mark.parametrize("path", rcp_make.committed(), ids=lambda path: path.parent.name)
def test_committed_points_are_what_the_evidence_gives(path):
    assert path.read_text(encoding="utf-8") == rcp_make.make(path.parent / "evidence", path.parent)


def test_every_task_with_evidence_has_points():
    with_evidence = {path.parent for path in rcp_make.REFERENCE.glob("*/evidence")}
    assert with_evidence == {path.parent for path in rcp_make.committed()}


def test_make_writes_one_record_a_batch_size(example_benchmarks, tmp_path, capsys):
    evidence(tmp_path / "evidence" / "embedded")
    evidence(tmp_path / "evidence" / "large", epochs=(7, 6, 9), batch=64)
    out = tmp_path / "rcps.json"
    assert rcp.main(["make", str(tmp_path / "evidence"), "--out", str(out)]) == 0
    records = json.loads(out.read_text(encoding="utf-8"))
    assert list(records) == ["example_embedded_32", "example_embedded_64"]
    assert records["example_embedded_32"] == {
        "Benchmark": "example",
        "Profile": "embedded",
        "BS": 32,
        "Hyperparams": {"opt_base_learning_rate": 0.1, "opt_name": "sgd"},
        "Epochs to converge": [3, 4, 5, 6],
        "Seeds": [1, 2, 3, 4],
        "Creator": "somebody",
        "When": "2023-11-14",
        "Platform": "a_system",
        "Precision": "fp32",
        "Logs": [f"evidence/embedded/result_{n}.txt" for n in range(4)],
    }
    first = out.read_bytes()
    assert rcp.main(["make", str(tmp_path / "evidence"), "--out", str(out)]) == 0
    assert out.read_bytes() == first


def test_make_names_the_seed_that_did_not_converge(example_benchmarks, tmp_path):
    evidence(tmp_path / "logs")
    log(tmp_path / "logs" / "result_9.txt", 10, 3, status="aborted")
    (record,) = json.loads(rcp_make.make(tmp_path / "logs", tmp_path)).values()
    assert record["Seeds that did not converge"] == [10]
    assert record["Seeds"] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"seed": 1}, "S003"),
        ({"rate": -1.0}, "H002"),
        ({"rate": 0.2}, "opt_base_learning_rate differs within one record"),
        ({"status": "failed"}, "run_stop"),
    ],
)
def test_make_refuses_evidence_that_breaks_a_rule(example_benchmarks, tmp_path, capsys, change, reason):
    evidence(tmp_path / "logs")
    log(tmp_path / "logs" / "result_9.txt", **{"seed": 10, "epochs": 3, **change})
    out = tmp_path / "rcps.json"
    assert rcp.main(["make", str(tmp_path / "logs"), "--out", str(out)]) == 1
    assert reason in capsys.readouterr().err
    assert not out.exists()


def test_make_wants_logs_and_a_task(tmp_path, capsys):
    assert rcp.main(["make", str(tmp_path), "--out", str(tmp_path / "rcps.json")]) == 1
    assert "no result logs" in capsys.readouterr().err
    assert rcp.main(["make", str(tmp_path)]) == 1
    assert "benchmark.toml" in capsys.readouterr().err
    assert rcp.main(["make", str(Path(tmp_path, "nothing")), "--out", str(tmp_path / "rcps.json")]) == 1
    assert "no such folder" in capsys.readouterr().err
