"""The judged facts of a benchmark: benchmark.toml and what it allows."""

import subprocess
from pathlib import Path

import pytest

from compliance import benchmarks
from compliance.benchmarks import Constraint, FactsError, load

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ('model = "x"\nmodle = "y"', "did you mean model"),
        ("model = 3", "expected a string"),
        ('better = "faster"', "one of higher, lower"),
        ("quality_target = 1.5", "outside quality_range"),
        ("", None),
    ],
)
def test_benchmark_toml(tmp_path, change, words):
    folder = tmp_path / "task"
    folder.mkdir()
    lines_ = {
        "title": '"T"',
        "model": '"m"',
        "quality_metric": '"q"',
        "quality_range": "[0.0, 1.0]",
        "better": '"higher"',
        "progress": '"epoch_num"',
    }
    target = "quality_target = 0.5"
    for line in change.splitlines():
        key = line.split(" = ")[0]
        if key == "quality_target":
            target = line
        else:
            lines_[key] = line.split(" = ")[1]
    text = "\n".join(f"{k} = {v}" for k, v in lines_.items())
    text += f'\n[profile.embedded]\ndataset = "d"\ntrain_samples = 1\neval_samples = 1\n{target}\ntarget_source = "E"\n'
    (folder / "benchmark.toml").write_text(text + "eval_every = 1\nruns = 5\n")
    if words is None:
        assert load(folder / "benchmark.toml")["embedded"].quality_target == 0.5
    else:
        with pytest.raises(FactsError, match=words):
            load(folder / "benchmark.toml")


@pytest.mark.parametrize(
    ("constraint", "good", "bad"),
    [
        (Constraint(above=0.0), [1e-9, 3], [0, -1, True, "1", None, float("inf"), float("nan")]),
        (Constraint(type="integer", min=1), [1, 7], [0, 1.5, True, "1"]),
        (Constraint(one_of=("sgd", "lars")), ["sgd"], ["adam", 1, None]),
        (Constraint(equals=0.1), [0.1, 0.1 + 1e-17], [0.2, "0.1"]),
        (Constraint(equals=True), [True], [1, False]),
        (Constraint(type="list"), [[1]], [1]),
        (Constraint(), [1, "x", None], [float("nan")]),
        (Constraint(max=2), [2, -5.5], [2.01]),
    ],
)
def test_constraints(constraint, good, bad):
    assert all(map(constraint.allows, good))
    assert not any(map(constraint.allows, bad))
    assert constraint.describe()


def test_every_benchmark_of_the_suite_loads():
    """The embedded target was measured: ten logs at least lie in the task's evidence folder."""
    for name, profiles in benchmarks.benchmarks().items():
        tracked = subprocess.run(["git", "ls-files", f"reference/{name}"], cwd=ROOT, capture_output=True, text=True)
        if tracked.returncode == 0 and not tracked.stdout:
            continue  # a folder that somebody is working on need not be whole yet
        assert {"full", "embedded", "smoke"} <= set(profiles), name
        assert profiles["smoke"].quality_target is None
        assert profiles["embedded"].target_source == "E", name
        assert len(list((ROOT / "reference" / name / "evidence" / "embedded").glob("result_*.txt"))) >= 10, name
