"""What holds for every task of the suite, found by its benchmark.toml: a new folder is tested without being named."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
