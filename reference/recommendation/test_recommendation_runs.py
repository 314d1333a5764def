"""Recommendation: short runs through train.py, what they log and refuse, and the evidence.

All ratings here are made up. The test that needs the installed MovieLens-100K is skipped where it is missing.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from . import data, train

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def run_smoke(log: Path, *flags: str) -> list[dict]:
    """The events of a smoke run, in this process."""
    assert train.main(["--profile", "smoke", "--log", str(log), "--device", "cpu", *flags]) == 0
    return events(log)


def events(log: Path) -> list[dict]:
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in log.read_text().splitlines()]


def values(log: list[dict], key: str) -> list:
    return [event["value"] for event in log if event["key"] == key]


def test_a_smoke_run_and_its_log(tmp_path: Path) -> None:
    log = run_smoke(tmp_path / "a.txt", "--seed", "7")
    assert values(log, "submission_benchmark") == [HERE.name]
    assert values(log, "seed") == [7]
    assert values(log, "train_samples") == [5690]
    assert values(log, "eval_samples") == [200]
    assert values(log, "mlp_layer_sizes") == [[64, 32, 16]]
    named = {event["metadata"]["name"]: event["value"] for event in log if event["key"] == "baseline"}
    assert 0 < named["popularity"] < named["item_knn"] < 1
    evaluations = [event for event in log if event["key"] == "eval_accuracy"]
    assert [event["metadata"]["epoch_num"] for event in evaluations] == [1, 2, 3]
    assert {event["metadata"]["evaluated_samples"] for event in evaluations} == {200}
    assert len(values(log, "ndcg_at_10")) == 3
    epochs = [event["metadata"]["samples_count"] for event in log if event["key"] == "epoch_stop"]
    assert epochs == [5 * 5690] * 3  # four negatives a rating
    (stop,) = [event for event in log if event["key"] == "run_stop"]
    assert stop["metadata"]["status"] == "success"
    command = [sys.executable, "-m", "compliance.check", str(tmp_path / "a.txt")]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout


def test_training_learns(tmp_path: Path) -> None:
    """Ten epochs on the made-up tastes beat popularity by far, which an untrained or mislabelled model doesn't."""
    log = run_smoke(tmp_path / "a.txt", "--max-epochs", "10")
    popularity = next(event["value"] for event in log if event["key"] == "baseline")
    assert max(values(log, "eval_accuracy")) > popularity + 0.15


def test_the_seed_decides_every_value(tmp_path: Path) -> None:
    first, second, other = (
        run_smoke(tmp_path / f"{name}.txt", "--seed", seed) for name, seed in (("a", "3"), ("b", "3"), ("c", "4"))
    )
    for key in ("ndcg_at_10", "eval_accuracy", "baseline", "data_source"):
        assert values(first, key) == values(second, key)
    assert values(first, "data_source") == values(other, "data_source")  # the fixed negatives know no seed
    assert values(first, "ndcg_at_10") != values(other, "ndcg_at_10")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--mf-dim", "32", "--train-negatives", "2"], "mf_dim is 32.*train_negatives is 2"),
        (["--division", "open", "--opt-name", "sgd"], "not sgd"),
        (["--division", "open", "--held-out", "test"], "not adam and test"),
        (["--division", "open", "--global-batch-size", "0"], "must be at least 1"),
        (["--division", "open", "--mlp-layer-sizes", "5", "3"], "even first width"),
        (["--division", "open", "--opt-base-learning-rate", "-1"], "Invalid learning rate"),
    ],
)
def test_settings_without_sense_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run_smoke(tmp_path / "a.txt", *flags)
    assert stopped.value.code == 2
    assert re.search(message, capsys.readouterr().err)


# ---- the profiles' data ----------------------------------------------------------------------------------------------


def test_the_full_profile_says_what_it_expects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "ratings.csv").write_text(data.made_up_ratings(60, 150))
    for folder, message in (
        (None, "give --data-dir"),
        (tmp_path, "found no ratings.csv"),
        (other, "expected movielens-20m with 138493 users, 26744 films and 20000263 ratings, found 60, 150 and"),
    ):
        with pytest.raises(SystemExit) as stopped:
            where = [] if folder is None else ["--data-dir", str(folder)]
            train.main(["--profile", "full", "--log", str(tmp_path / "log.txt"), "--device", "cpu", *where])
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "log.txt").exists()


def test_the_full_profile_reads_its_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One epoch of the full settings on a tiny made-up ratings.csv, which the loader is told to expect."""
    text = data.made_up_ratings(100, 1200)
    (tmp_path / "ratings.csv").write_text(text)
    tiny = data.DataSet("movielens-20m", 100, 1200, text.count("\n") - 1, negatives=999)
    monkeypatch.setitem(data.DATA_SETS, "full", tiny)
    flags = ["--profile", "full", "--data-dir", str(tmp_path), "--log", str(tmp_path / "log.txt"), "--device", "cpu"]
    assert train.main([*flags, "--max-epochs", "1"]) == 1  # the target is not reached
    log = events(tmp_path / "log.txt")
    assert values(log, "mf_dim") == [64]
    assert values(log, "data_source")[0]["file"] == "ratings.csv"
    (stop,) = [event for event in log if event["key"] == "run_stop"]
    assert stop["metadata"]["reason"] == "quality target not reached"


@pytest.mark.skipif(importlib.util.find_spec("recbole") is None, reason="needs the package recbole==1.2.1 (its data)")
def test_the_embedded_profile_reads_movielens_100k(tmp_path: Path) -> None:
    """One epoch on the real data; the fixed negatives' checksum is verified by the loader."""
    flags = ["--log", str(tmp_path / "log.txt"), "--device", "cpu", "--max-epochs", "1"]
    assert train.main(flags) == 1
    log = events(tmp_path / "log.txt")
    assert values(log, "train_samples") == [99_057]
    named = {event["metadata"]["name"]: event["value"] for event in log if event["key"] == "baseline"}
    assert named["popularity"] == pytest.approx(0.414, abs=0.001)
    assert named["item_knn"] == pytest.approx(0.627, abs=0.005)


def test_the_readme_shows_the_evidence() -> None:
    """Every log's seed, epochs and last values are a row of the table."""
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    logs = [events(path) for path in sorted((HERE / "evidence" / "embedded").glob("result_*.txt"))]
    assert len(logs) == 10
    for log in logs:
        before, last = values(log, "eval_accuracy")[-2:]
        (seed,), ndcg = values(log, "seed"), values(log, "ndcg_at_10")
        assert f"| {seed} | {len(ndcg)} | {before:.4f} | {last:.4f} | {ndcg[-1]:.4f} |" in readme
