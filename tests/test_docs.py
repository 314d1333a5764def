"""rules.md says what the code says."""

import re
import subprocess
from pathlib import Path

import pytest

from compliance import docs
from compliance.rule import all_rules

ROOT = Path(__file__).resolve().parent.parent
RULES_MD = (ROOT / "rules.md").read_text(encoding="utf-8")


def untracked(*patterns):
    command = ["git", "ls-files", "--others", "--exclude-standard", "--", *patterns]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.split() if done.returncode == 0 else []


def test_generated_parts_are_fresh():
    new = untracked("reference/*/benchmark.toml", "compliance/rules/*.py")
    if new:
        pytest.skip(f"not committed yet, so not in rules.md: {', '.join(new)}")
    assert docs.refresh(RULES_MD) == RULES_MD, "run: make docs"


def test_every_rule_names_a_section_that_exists():
    headings = {h.lower().replace(" ", "-") for h in re.findall(r"^##+ (.+)$", RULES_MD, flags=re.MULTILINE)}
    for rule in all_rules():
        document, _, section = rule.source.partition("#")
        assert document == "rules.md", rule.id
        assert section in headings, f"{rule.id}: {section}"


def test_stale_file_is_told(tmp_path, capsys):
    path = tmp_path / "x.md"
    path.write_text("a\n<!-- generated: rules -->\nold\n<!-- end -->\nb\n", encoding="utf-8")
    assert docs.main([str(path), "--check"]) == 1
    assert "old" in path.read_text(encoding="utf-8")
    assert docs.main([str(path)]) == 0
    assert "Q001" in path.read_text(encoding="utf-8")
    assert docs.main([str(path), "--check"]) == 0
