"""Judged logs that lie beside a checkout, in ../shared/cases: each folder has a verdict.json. Skipped without them."""

import json
from decimal import Decimal
from pathlib import Path

import pytest

from compliance import check

CASES = Path(__file__).resolve().parent.parent.parent / "shared" / "cases"
FOLDERS = sorted(path.parent for path in CASES.glob("*/verdict.json"))

if not FOLDERS:
    pytest.skip("no ../shared/cases beside this checkout", allow_module_level=True)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_case(folder, capsys):
    want = json.loads((folder / "verdict.json").read_text())
    logs = sorted(folder.glob("result_*.txt"))
    ruleset = "mlperf-" + want["ruleset"].split()[1].rsplit(".", 1)[0]
    paths = [str(logs[0])] if want["files"] == 1 else [str(folder)]
    status = check.main([*paths, "--ruleset", ruleset, "--format", "json"])
    report = json.loads(capsys.readouterr().out, parse_float=Decimal)
    assert report["valid"] is want["valid"]
    assert status == (0 if want["valid"] else 1)
    log = report["logs"][0]
    if want["files"] == 1:
        text = " ".join(f["message"] for f in log["findings"])
        lines = {f["line"] for f in log["findings"]} | {
            int(word) for word in text.replace("-", " ").replace(")", " ").split() if word.isdigit()
        }
        assert set(want.get("lines", [])) <= lines
        if "converged" in want:
            assert log["converged"] is want["converged"]
        if "time_ms" in want:
            assert log["time_ms"] == want["time_ms"]
        if "never_time_ms" in want:
            assert log["time_ms"] != want["never_time_ms"]
        if "best_inside" in want:
            assert any(f["rule"] == "Q001" and str(want["best_inside"]) in f["found"] for f in log["findings"])
    else:
        (one,) = report["result_sets"]
        assert one["score_ms"] == want.get("score_ms")
        if "convergence" in want:
            assert f"{one['converged']}/{one['runs']}" == want["convergence"]
