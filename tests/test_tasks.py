"""What holds for every task of the suite, found by its benchmark.toml: a new folder is tested without being named."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compliance import benchmarks

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = sorted(path.parent for path in ROOT.glob("reference/*/benchmark.toml"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_copy_of_the_folder_under_another_name_works(folder, tmp_path):
    """Run as a script and with the smoke profile, beside nothing but the parts that all tasks share."""
    (tmp_path / "reference").mkdir()
    shutil.copy(ROOT / "reference" / "__init__.py", tmp_path / "reference")
    for part in ("logging", "compliance", "reference/common"):
        (tmp_path / part).symlink_to(ROOT / part)
    shutil.copytree(folder, tmp_path / "reference/renamed", ignore=shutil.ignore_patterns("evidence", "__pycache__"))
    command = [sys.executable, "reference/renamed/train.py", "--profile", "smoke", "--log", "log.txt"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    lines = (tmp_path / "log.txt").read_text(encoding="utf-8").splitlines()
    events = [json.loads(line.partition(":::MLLOG ")[2]) for line in lines if ":::MLLOG " in line]
    assert [event["value"] for event in events if event["key"] == "submission_benchmark"] == ["renamed"]
    assert [event["metadata"]["status"] for event in events if event["key"] == "run_stop"] == ["success"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_evidence_is_ten_seeds_judged_by_todays_target(folder):
    """A run succeeded if its last evaluation reaches the target; none before it does. Nearly every seed got there."""
    facts = benchmarks.load(folder / "benchmark.toml")["embedded"]
    seeds, reached = [], 0
    for path in (folder / "evidence" / "embedded").glob("result_*.txt"):
        lines = path.read_text(encoding="utf-8").splitlines()
        events = [json.loads(line.partition(":::MLLOG ")[2]) for line in lines if ":::MLLOG " in line]
        seeds += [event["value"] for event in events if event["key"] == "seed"]
        *before, last = [event["value"] for event in events if event["key"] == "eval_accuracy"]
        (status,) = [event["metadata"]["status"] for event in events if event["key"] == "run_stop"]
        assert not any(map(facts.reaches, before)), path.name
        assert facts.reaches(last) == (status == "success"), path.name
        reached += status == "success"
    assert sorted(seeds) == list(range(1, 11))
    assert reached >= 9
