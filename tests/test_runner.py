"""`python -m reference`: found by folder, run in processes, stopped in order, reported honestly.

The runs happen in a copy of the project in which one task is made up, so that they take seconds and no data.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from mlperf_logging.compliance_checker import mlp_parser

from reference.common import catalogue
from reference.common.errors import SetupError

ROOT = Path(__file__).resolve().parents[1]

FACTS = """
title = "Made up"
model = "none"
quality_metric = "accuracy"
quality_range = [0.0, 1.0]
better = "higher"
progress = "epoch_num"
subsets = ["wc"]
[profile.embedded]
dataset = "noise"
train_samples = 4
eval_samples = 4
quality_target = 0.5
target_source = "E"
eval_every = 1
runs = 5
[profile.smoke]
dataset = "noise"
train_samples = 4
eval_samples = 4
eval_every = 1
runs = 1
[hyperparameters]
"""

TRAIN = '''"""A made-up task: its quality is its setting."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import torch

from reference.common import runs, sources


@dataclass(frozen=True)
class Settings:
    value: float = 0.9
    seconds: float = 0.0
    crash_seed: int = -1


def train(run):
    with run.timed():
        run.describe_data(4, 4, [sources.Source("noise", "1", "", "0" * 64)])
        for _ in run.epochs(2):
            for _ in run.progress([torch.zeros(4, 1)]):
                time.sleep(0 if run.rehearsing else run.settings.seconds)
                if run.seed == run.settings.crash_seed and not run.rehearsing:
                    raise RuntimeError("made-up failure")
            with run.evaluation():
                reached = run.reached(run.settings.value, 4)
            if reached:
                break


def main(argv=None):
    with runs.start(__file__, {"embedded": Settings(), "smoke": Settings()}, argv) as run:
        train(run.rehearsal())
        train(run)
    return run.exit_status


if __name__ == "__main__":
    raise SystemExit(main())
'''


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """A copy of the project with the made-up task, and a copy of a real task under a new name."""
    root = tmp_path_factory.mktemp("project")
    ignored = shutil.ignore_patterns("__pycache__", "evidence")
    for part in ("reference/common", "reference/spatial_transformer", "logging"):
        shutil.copytree(ROOT / part, root / part, ignore=ignored)
    for name in ("__init__.py", "__main__.py"):
        shutil.copy(ROOT / "reference" / name, root / "reference" / name)
    (root / "reference" / "spatial_transformer").rename(root / "reference" / "under_a_new_name")
    folder = root / "reference" / "made_up"
    folder.mkdir()
    (folder / "benchmark.toml").write_text(FACTS)
    (folder / "train.py").write_text(TRAIN)
    return root


def call(project: Path, *arguments: object, timeout: float = 100) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "reference", *map(str, arguments)]
    return subprocess.run(command, cwd=project, env=environment(), capture_output=True, text=True, timeout=timeout)


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


def records(path: Path) -> list[dict]:
    return [json.loads(line.split(" ", 1)[1]) for line in path.read_text().splitlines()]


def value(path: Path, key: str):
    return next(record["value"] for record in records(path) if record["key"] == key)


def test_list_shows_every_folder_with_a_benchmark(project):
    done = call(project, "list")
    assert done.returncode == 0, done.stderr
    assert "made_up" in done.stdout
    assert "subsets: wc" in done.stdout
    assert "under_a_new_name" in done.stdout
    assert ">= 0.5 (E)" in done.stdout


def test_a_copied_task_runs_under_its_new_name(project, tmp_path):
    done = call(project, "run", "under_a_new_name", "--profile", "smoke", "--out", tmp_path, "--system", "here")
    assert done.returncode == 0, done.stdout + done.stderr
    log = tmp_path / "timetoaccuracy/results/here/under_a_new_name/result_0.txt"
    assert value(log, "submission_benchmark") == "under_a_new_name"
    script = project / "reference" / "under_a_new_name" / "train.py"
    flags = ["--profile", "smoke", "--log", tmp_path / "as_script.txt"]
    as_script = subprocess.run([sys.executable, script, *flags], cwd=tmp_path, env=environment(), capture_output=True)
    assert as_script.returncode == 0, as_script.stderr
    assert value(tmp_path / "as_script.txt", "submission_benchmark") == "under_a_new_name"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "-m", "reference.under_a_new_name.train"]
    flags = ["--profile", "smoke", "--log-file", tmp_path / "by_torchrun.txt"]
    by_torchrun = subprocess.run([*torchrun, *flags], cwd=project, env=environment(), capture_output=True, timeout=100)
    assert by_torchrun.returncode == 0, by_torchrun.stderr
    values = [
        [record["value"] for record in records(tmp_path / name) if record["key"] == "eval_accuracy"]
        for name in ("as_script.txt", "by_torchrun.txt")
    ]
    assert values[0] == values[1]


def test_runs_are_laid_out_as_a_submission(project, tmp_path):
    out = tmp_path / "logs"
    flags = ["--seeds", 3, "--out", out, "--org", "acme", "--system", "box", "--workers", 3, "--status", "research"]
    done = call(project, "run", "made_up", *flags)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = out / "acme" / "results" / "box" / "made_up"
    assert sorted(path.name for path in folder.iterdir()) == ["result_0.txt", "result_1.txt", "result_2.txt"]
    assert [value(folder / f"result_{n}.txt", "seed") for n in range(3)] == [1, 2, 3]
    assert value(folder / "result_0.txt", "submission_org") == "acme"
    assert value(folder / "result_0.txt", "submission_platform") == "box"
    assert value(folder / "result_0.txt", "thread_count") == 1
    described = json.loads((out / "acme" / "systems" / "box.json").read_text())
    assert (described["submitter"], described["system_name"]) == ("acme", "box")
    assert described["status"] == "Research, Development, or Internal (RDI)"
    assert "3 of 3 runs succeeded" in done.stdout
    assert "\x1b" not in done.stdout  # no terminal, no escape codes

    again = call(project, "run", "made_up", *flags)
    assert again.returncode == 2
    assert "result_2.txt" in again.stderr
    assert len(list(folder.iterdir())) == 3
    fewer = call(project, "run", "made_up", "--seed", 7, *flags[2:], "--overwrite")
    assert fewer.returncode == 0, fewer.stdout + fewer.stderr
    assert [path.name for path in folder.iterdir()] == ["result_0.txt"]  # nothing stale is left to mix with
    assert value(folder / "result_0.txt", "seed") == 7


def test_a_failed_run_is_reported_and_does_not_stop_the_others(project, tmp_path):
    flags = ["--seeds", 3, "--out", tmp_path, "--system", "box", "--workers", 1]
    done = call(project, "run", "made_up", *flags, "--", "--crash-seed", 2)
    assert done.returncode == 1
    assert "made_up seed 2: aborted: RuntimeError: made-up failure" in done.stdout
    assert "2 of 3 runs succeeded" in done.stdout
    folder = tmp_path / "timetoaccuracy/results/box/made_up"
    stops = [records(folder / f"result_{n}.txt") for n in range(3)]
    stops = [next(r for r in log if r["key"] == "run_stop")["metadata"]["status"] for log in stops]
    assert stops == ["success", "aborted", "success"]


def test_a_missed_target_is_exit_status_1(project, tmp_path):
    done = call(project, "run", "made_up", "--out", tmp_path, "--", "--value", "0.25")
    assert done.returncode == 1
    assert "quality target not reached" in done.stdout


def test_a_run_that_cannot_start_says_why(project, tmp_path):
    done = call(project, "run", "made_up", "--out", tmp_path, "--system", "box", "--", "--no-such-flag")
    assert done.returncode == 1
    assert "failed before the clock started" in done.stdout
    assert "--no-such-flag" in done.stdout
    assert not list(tmp_path.glob("**/result_*"))


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_the_runs_in_order(project, tmp_path, name):
    command = [sys.executable, "-m", "reference", "run", "made_up", "--seeds", "3", "--workers", "2"]
    command += ["--out", str(tmp_path), "--system", "box", "--", "--seconds", "60"]
    runner = subprocess.Popen(
        command,
        cwd=project,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(getattr(signal, name), signal.SIG_DFL),  # ignored in a shell's background
    )
    folder = tmp_path / "timetoaccuracy/results/box/made_up"
    logs = [folder / "result_0.txt", folder / "result_1.txt"]
    deadline = time.monotonic() + 90
    while not all(log.exists() and "epoch_start" in log.read_text() for log in logs):
        assert time.monotonic() < deadline
        assert runner.poll() is None
        time.sleep(0.1)
    runner.send_signal(getattr(signal, name))
    said, _ = runner.communicate(timeout=60)
    assert runner.returncode == -getattr(signal, name)
    for log in logs:
        keys = [record["key"] for record in records(log)]
        assert keys[-4:] == ["epoch_start", "epoch_stop", "samples_per_second", "run_stop"]
        assert records(log)[-1]["metadata"]["status"] == "aborted"
        assert records(log)[-1]["metadata"]["reason"] == "stopped by SIGTERM"
    assert "never started: made_up seed 3" in said
    assert not (folder / "result_2.txt").exists()


def test_a_killed_run_leaves_a_log_that_the_checker_calls_valid_and_not_converged(tmp_path):
    log = tmp_path / "result_0.txt"
    command = [sys.executable, "-m", "reference.spatial_transformer.train", "--log", str(log)]
    command += ["--profile", "smoke", "--max-epochs", "100000"]
    run = subprocess.Popen(command, cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 90
    while not (log.exists() and "eval_accuracy" in log.read_text()):
        assert time.monotonic() < deadline
        assert run.poll() is None
        time.sleep(0.1)
    run.send_signal(signal.SIGTERM)
    _, error = run.communicate(timeout=60)
    assert run.returncode == -signal.SIGTERM
    assert "Traceback" not in error
    lines, errors = mlp_parser.parse_file(str(log), ruleset="5.1.0")
    assert errors == []
    assert (lines[-1].key, lines[-1].value["metadata"]["status"]) == ("run_stop", "aborted")
    check = [sys.executable, "-m", "compliance.check", str(log), "--format", "json"]
    verdict = json.loads(subprocess.run(check, cwd=ROOT, capture_output=True, text=True, timeout=60).stdout)
    assert (verdict["logs"][0]["valid"], verdict["logs"][0]["converged"]) == (True, False), verdict["logs"][0][
        "findings"
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "made_upp"], "did you mean 'made_up'"),
        (["run", "rpr"], "no task belongs to 'rpr'"),
        (["run", "made_up", "--profile", "full"], "no profile 'full'"),
        (["run", "made_up", "--seeds", "0"], "at least 1"),
        (["run", "made_up", "--org", "../x"], "cannot name a folder"),
        (["run"], "TASK"),
        ([], "command"),
    ],
)
def test_wrong_calls_end_with_status_2(project, tmp_path, arguments, said):
    done = call(project, *arguments, *(["--out", tmp_path] if "made_up" in arguments else []))
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_missing_data_packages_stop_the_runner_before_any_run(project, tmp_path):
    folder = project / "reference" / "needs_data"
    shutil.copytree(project / "reference" / "made_up", folder)
    text = FACTS.replace('dataset = "noise"', 'dataset = "noise"\npackages = ["no-such-data==1.0"]', 1)
    (folder / "benchmark.toml").write_text(text)
    try:
        done = call(project, "run", "needs_data", "--out", tmp_path)
        listed = call(project, "list")
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 2
    assert "no-such-data==1.0 (not installed)" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert "missing:" in listed.stdout


def test_selection_takes_each_task_once_and_in_order():
    names = [task.name for task in catalogue.select(["wc", "spatial_transformer"], "embedded")]
    assert names.count("spatial_transformer") == 1
    assert {task.name for task in catalogue.select(["all"], "smoke")} == set(catalogue.tasks())
    with pytest.raises(SetupError, match="tasks: "):
        catalogue.select(["nothing_like_it"], "smoke")
