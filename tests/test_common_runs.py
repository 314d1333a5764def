"""A run as a script sees it, on a made-up task: what the log says, when it stops, what it refuses."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from reference.common import runs, sources

FACTS = """
title = "Made up"
model = "linear"
quality_metric = "accuracy"
quality_range = [0.0, 1.0]
better = "higher"
progress = "epoch_num"
[profile.embedded]
dataset = "noise"
train_samples = 10
eval_samples = 4
quality_target = 0.75
target_source = "E"
eval_every = 1
runs = 5
[profile.smoke]
dataset = "noise"
train_samples = 10
eval_samples = 4
eval_every = 1
runs = 1
[hyperparameters]
opt_name = { one_of = ["sgd"] }
opt_base_learning_rate = { above = 0.0 }
"""
BY_SAMPLES = FACTS.replace('"epoch_num"', '"samples_count"').replace("eval_every = 1", "eval_every = 8")


@dataclass(frozen=True)
class Settings:
    opt_name: str = "sgd"  # which optimizer
    opt_base_learning_rate: float = 0.1  # 100 % made up
    max_epochs: int = 3
    widths: tuple[int, ...] = (4, 2)
    clip: float | None = None
    augment: bool = True


PROFILES = {"embedded": Settings(), "smoke": Settings(max_epochs=2)}
SOURCE = sources.Source("noise", "1", "", "0" * 64)


@pytest.fixture
def task(tmp_path):
    """A folder with a benchmark.toml; calling it starts a run there and gives (context manager, log path)."""
    folder = tmp_path / "made_up"
    folder.mkdir()
    path = tmp_path / "result_0.txt"

    def start(*flags: str, facts: str = FACTS):
        (folder / "benchmark.toml").write_text(facts)
        return runs.start(str(folder / "train.py"), PROFILES, ["--log", str(path), "--platform", "here", *flags])

    start.log = path
    return start


def train(run: runs.Run, values, batches=(4, 4, 2), seen: list | None = None) -> None:
    """The usual loop; evaluation number i finds values[i]."""
    with run.timed():
        run.describe_data(10, 4, [SOURCE])
        for epoch in run.epochs(run.settings.max_epochs):
            for batch in run.progress([torch.rand(size, 2) for size in batches]):
                if seen is not None:
                    seen.append(float(batch.sum()))
            with run.evaluation():
                run.log("spare", epoch)
                evaluated = sum(len(batch) for batch in run.progress([torch.zeros(3, 1), torch.zeros(1, 1)]))
                reached = run.reached(values[epoch - 1], evaluated)
            if reached:
                break


def records(path: Path) -> list[dict]:
    return [json.loads(line.split(" ", 1)[1]) for line in path.read_text().splitlines()]


def by_key(path: Path, key: str) -> list[dict]:
    return [record for record in records(path) if record["key"] == key]


def order(path: Path) -> list[str]:
    return [record["key"] for record in records(path)]


def test_a_run_that_reaches_its_target(task):
    with task("--seed", "5") as run:
        train(run.rehearsal(), [0.5])
        run.baselines({"chance": 0.25})
        train(run, [0.5, 0.75, 1.0])
    assert run.exit_status == 0
    seen = order(task.log)
    assert seen[:5] == [f"submission_{name}" for name in ("benchmark", "division", "org", "platform", "status")]
    assert seen[5:11] == [
        *("init_start", "benchmark_profile", "quality_metric", "quality_better", "quality_target", "seed"),
    ]
    assert seen[11:17] == list(Settings.__dataclass_fields__)
    assert seen[17:21] == ["train_samples", "eval_samples", "data_source", "baseline"]
    head = ["device", "world_size", "lowest_numerical_precision", "thread_count", "deterministic", "software"]
    assert seen[21:29] == [*head, "init_stop", "run_start"]
    epoch = ["epoch_start", "epoch_stop", "samples_per_second", "eval_start", "spare", "eval_accuracy", "eval_stop"]
    assert seen[29:43] == epoch * 2
    assert seen[43:] == ["run_stop", "time_to_train_ms", "cpu_time_ms", "epoch_time_ms", "peak_memory_bytes"]
    assert by_key(task.log, "seed")[0]["value"] == 5
    assert by_key(task.log, "widths")[0]["value"] == [4, 2]
    assert [r["metadata"]["samples_count"] for r in by_key(task.log, "epoch_stop")] == [10, 10]
    last = by_key(task.log, "eval_accuracy")[-1]
    assert (last["value"], last["metadata"]["epoch_num"], last["metadata"]["evaluated_samples"]) == (0.75, 2, 4)
    (stop,) = by_key(task.log, "run_stop")
    assert (stop["metadata"]["status"], stop["metadata"]["epoch_num"]) == ("success", 2)
    (start,) = by_key(task.log, "run_start")
    assert by_key(task.log, "time_to_train_ms")[0]["value"] == stop["time_ms"] - start["time_ms"]
    assert len(by_key(task.log, "epoch_time_ms")[0]["value"]) == 2


def test_the_log_names_no_place(task):
    with task() as run:
        train(run.rehearsal(), [0.5])
        train(run, [1.0])
    text = task.log.read_text()
    assert str(Path.home()) not in text.replace('"/"', "")
    assert str(task.log.parent) not in text
    assert not any(str(record["metadata"]["file"]).startswith("/") for record in records(task.log))


def test_the_budget_spent_without_the_target_is_aborted(task):
    with task() as run:
        train(run.rehearsal(), [0.5])
        train(run, [0.1, 0.2, 0.7499])
    assert run.exit_status == 1
    (stop,) = by_key(task.log, "run_stop")
    assert stop["metadata"]["status"] == "aborted"
    assert stop["metadata"]["reason"] == "quality target not reached"


def test_a_profile_without_a_target_succeeds_at_the_end_of_its_budget(task):
    with task("--profile", "smoke") as run:
        train(run.rehearsal(), [0.5])
        train(run, [1.0, 0.0])
    assert run.exit_status == 0
    assert len(by_key(task.log, "eval_accuracy")) == 2
    assert by_key(task.log, "quality_target")[0]["value"] is None


def test_leaving_the_loop_early_is_no_success(task):
    with task("--profile", "smoke") as run:
        train(run.rehearsal(), [0.5])
        with run.timed():
            for _ in run.epochs(2):
                break
    assert run.exit_status == 1
    assert "before its budget" in by_key(task.log, "run_stop")[0]["metadata"]["reason"]
    assert order(task.log).count("epoch_stop") == 1


def test_lower_is_better_where_the_benchmark_says_so(task):
    facts = FACTS.replace('better = "higher"', 'better = "lower"').replace("[0.0, 1.0]", "[0.0, inf]")
    with task(facts=facts) as run:
        train(run.rehearsal(), [0.5])
        train(run, [5.0, 0.76, 0.75])
    assert run.exit_status == 0
    assert by_key(task.log, "run_stop")[0]["metadata"]["epoch_num"] == 3


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 75.0, -0.1, "0.9", None, True, torch.tensor([0.5, 0.5])])
def test_impossible_values_of_the_metric_stop_the_run(task, value):
    with pytest.raises(ValueError, match="accuracy must be a number from 0 to 1"), task() as run:
        train(run.rehearsal(), [0.5])
        train(run, [value])
    assert by_key(task.log, "run_stop")[0]["metadata"]["status"] == "aborted"
    assert by_key(task.log, "eval_accuracy") == []


def test_a_rehearsal_finds_an_impossible_value_before_the_clock(task):
    with pytest.raises(ValueError, match="percentage"), task() as run:
        train(run.rehearsal(), [75.0])
    assert not task.log.exists()  # no run began, so there is no log of one


def test_an_evaluation_of_a_part_of_the_set_is_refused(task):
    with pytest.raises(ValueError, match="3 samples were evaluated of the evaluation set's 4"), task() as run:
        train(run.rehearsal(), [0.5])
        with run.timed():
            for _ in run.epochs(1):
                with run.evaluation():
                    run.reached(0.5, 3)


def test_an_evaluation_needs_a_value_and_a_value_needs_an_evaluation(task):
    with task() as run:
        train(run.rehearsal(), [0.5])
        with pytest.raises(RuntimeError, match="without run.reached"), run.evaluation():
            pass
        with pytest.raises(RuntimeError, match="belongs inside"):
            run.reached(0.5, 4)


def test_data_must_be_described_and_must_not_change(task):
    with pytest.raises(RuntimeError, match="no data was described"), task() as run, run.timed():
        pass
    with pytest.raises(ValueError, match="changed since the rehearsal"), task() as run:
        train(run.rehearsal(), [0.5])
        run.describe_data(11, 4, [SOURCE])


def test_a_rehearsal_takes_one_step_logs_nothing_and_changes_nothing(task):
    def draws(rehearse: bool) -> list[float]:
        with task("--overwrite") as run:
            seen: list[float] = []
            if rehearse:
                rehearsed: list[float] = []
                train(run.rehearsal(), [0.5], seen=rehearsed)
                assert len(rehearsed) == 1
                assert "epoch_start" not in order(task.log)
            else:
                run.describe_data(10, 4, [SOURCE])
            seen.append(random.random() + float(np.random.rand()))
            train(run, [0.1, 0.2, 0.3], seen=seen)
        return seen

    assert draws(rehearse=True) == draws(rehearse=False)


def test_the_same_seed_gives_the_same_values_and_another_does_not(task):
    def values(seed: str) -> list[float]:
        with task("--overwrite", "--seed", seed) as run:
            train(run.rehearsal(), [0.5])
            train(run, [float(torch.rand(()) * 0.5) for _ in range(3)])
        return [record["value"] for record in by_key(task.log, "eval_accuracy")]

    assert values("1") == values("1") != values("2")


def test_iteration_based_runs_count_samples_and_never_epochs(task):
    with task(facts=BY_SAMPLES) as run:
        for each, values in ((run.rehearsal(), [0.5]), (run, [0.1, 0.2, 0.8])):
            found = iter(values)
            with each.timed():
                each.describe_data(10, 4, [SOURCE])
                for _ in each.samples((torch.zeros(3, 1) for _ in range(100)), max_samples=40):
                    if each.evaluation_due:
                        with each.evaluation():
                            each.progress([torch.zeros(4, 1)])
                            reached = each.reached(next(found), 4)
                        if reached:
                            break
    assert run.exit_status == 0
    assert "epoch_num" not in task.log.read_text()
    evaluations = [record["metadata"]["samples_count"] for record in by_key(task.log, "eval_accuracy")]
    assert evaluations == [9, 18, 24]  # the first batch ends at or after 8, 16, 24 samples
    assert [record["metadata"]["samples_count"] for record in by_key(task.log, "block_start")] == [0, 9, 18]
    assert [record["metadata"]["samples_count"] for record in by_key(task.log, "block_stop")] == evaluations
    assert by_key(task.log, "run_stop")[0]["metadata"]["samples_count"] == 24
    blocks = ["block_start", "block_stop", "samples_per_second", "eval_start", "eval_accuracy", "eval_stop"] * 3
    seen = order(task.log)
    assert seen[seen.index("run_start") + 1 : seen.index("run_stop")] == blocks


def test_a_stream_that_ends_before_the_budget_is_no_spent_budget(task):
    with task("--profile", "smoke", facts=BY_SAMPLES) as run:
        run.describe_data(10, 4, [SOURCE])
        with run.timed():
            for _ in run.samples([torch.zeros(3, 1)], max_samples=9):
                pass
    assert run.exit_status == 1


def test_evaluation_follows_the_schedule_of_the_benchmark(task):
    with task(facts=FACTS.replace("eval_every = 1", "eval_every = 2")) as run:
        run.describe_data(10, 4, [SOURCE])
        with run.timed():
            due = [run.evaluation_due for _ in run.epochs(4)]
    assert due == [False, True, False, True]
    assert order(task.log).count("epoch_stop") == 4


@pytest.mark.parametrize(
    "batch", [torch.zeros(5, 2), (torch.zeros(5), None), {"x": [torch.zeros(5)]}, [np.zeros((5, 1))]]
)
def test_samples_of_a_batch_are_the_length_of_its_first_tensor(task, batch):
    with task("--profile", "smoke") as run:
        run.describe_data(10, 4, [SOURCE])
        with run.timed():
            for _ in run.epochs(1):
                list(run.progress([batch, batch]))
    assert by_key(task.log, "epoch_stop")[0]["metadata"]["samples_count"] == 10


def test_a_batch_that_cannot_be_counted_is_an_error(task):
    with pytest.raises(TypeError, match="cannot count"), task() as run:
        run.describe_data(10, 4, [SOURCE])
        with run.timed():
            for _ in run.epochs(1):
                list(run.progress([["text"]]))


def test_flags_replace_the_settings_of_the_profile(task):
    flags = [
        "--opt-base-learning-rate",
        "0.5",
        "--widths",
        "8",
        "9",
        "--clip",
        "1",
        "--no-augment",
        "--profile",
        "smoke",
    ]
    with task(*flags) as run:
        assert run.settings == Settings("sgd", 0.5, 2, (8, 9), 1.0, False)


def test_help_shows_the_comment_of_each_setting(task, capsys):
    with pytest.raises(SystemExit) as ended, task("--help"):
        pass
    assert ended.value.code == 0
    assert "100 % made up" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--opt-name", "adam"], "opt_name is 'adam', allowed is one_of ['sgd']"),
        (["--opt-base-learning-rate", "0"], "opt_base_learning_rate is 0.0, allowed is above 0.0"),
        (["--opt-base-learning-rate", "nan"], "opt_base_learning_rate is nan"),
        (["--device", "cuda"], "torch sees no GPU"),
        (["--log", "/proc/none/x.txt"], "cannot write the log"),
    ],
)
def test_wrong_calls_end_with_one_message_and_status_2(task, flags, said, capsys):
    if flags[0] == "--device" and torch.cuda.is_available():
        pytest.skip("there is a GPU here")
    with pytest.raises(SystemExit) as ended, task(*flags):
        pass
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert not task.log.exists()


@pytest.mark.parametrize("flags", [["--profile", "none"], ["--seed", "-1"], ["--seed", "x"], ["--nonsense"]])
def test_flags_that_make_no_sense_end_with_status_2(task, flags):
    with pytest.raises(SystemExit) as ended, task(*flags):
        pass
    assert ended.value.code == 2


def test_the_open_division_may_change_what_the_closed_one_fixes(task):
    with task("--division", "open", "--opt-name", "adam") as run:
        assert run.settings.opt_name == "adam"


def test_an_existing_log_is_kept(task, capsys):
    task.log.write_text("precious")
    with pytest.raises(SystemExit) as ended, task():
        pass
    assert ended.value.code == 2
    assert task.log.read_text() == "precious"
    assert "--overwrite" in capsys.readouterr().err


def test_missing_data_is_said_before_anything_is_trained(task, capsys, tmp_path):
    for flags, said in ([], "give --data-dir"), (["--data-dir", str(tmp_path / "none")], "is not a folder"):
        with pytest.raises(SystemExit) as ended, task(*flags) as run:
            run.require_data_dir("x/y.csv, 3 columns")
        assert ended.value.code == 2
        error = capsys.readouterr().err
        assert said in error
        assert "x/y.csv, 3 columns" in error
        assert not task.log.exists()


def test_baselines_are_logged_and_shown_beside_the_target(task, capsys):
    with task() as run:
        train(run.rehearsal(), [0.5])
        run.baselines({"chance": 0.25, "majority": 0.5})
        train(run, [1.0])
    assert [(r["value"], r["metadata"]["name"]) for r in by_key(task.log, "baseline")] == [
        (0.25, "chance"),
        (0.5, "majority"),
    ]
    assert "target 0.75; naive baselines: chance 0.25, majority 0.5" in capsys.readouterr().out
