"""compliance.compare: Welch's test, pairing, regressions; compliance.reproduced: verdicts that follow from the logs."""

import json
import os
from pathlib import Path

import pytest

from compliance import analysis, analyze, compare, reproduced
from compliance.analysis import Options
from compliance.examples import record
from compliance.trained import read_sets

FASTER, SLOWER = (100, 102, 98, 101, 99), (120, 122, 118, 121, 119)


def log(path, benchmark, seconds, *, epochs=2, status="success", settings=("opt_name lars",), batch=32):
    lines = [record(0, text) for text in (f"submission_benchmark {benchmark}", "init_start", *settings)]
    lines += [record(0, f"global_batch_size {batch}"), record(0, "train_samples 1000"), record(500, "init_stop")]
    lines.append(record(1000, "run_start"))
    for epoch in range(1, epochs + 1):
        lines.append(record(1000 + seconds * 1000 * epoch // epochs, f"eval_accuracy 0.5 epoch_num={epoch}"))
    lines.append(record(1000 + seconds * 1000, f"run_stop status={status}"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


def runs(folder, seconds, benchmark="one", **more):
    for place, value in enumerate(seconds):
        log(folder / benchmark / f"result_{place}.txt", benchmark, value, **more)
    return str(folder)


def answer(capsys, *call):
    status = compare.main([*call, "--format", "json"])
    return status, json.loads(capsys.readouterr().out)


def test_welch_against_scipy():
    stats = pytest.importorskip("scipy.stats")
    a, b = [1.0, 2.5, 3.0, 4.5], [2.0, 9.0, 7.0]
    ours, theirs = compare.welch(a, b), stats.ttest_ind(b, a, equal_var=False)
    assert (ours.t, ours.df, ours.p) == pytest.approx((theirs.statistic, theirs.df, theirs.pvalue))
    interval = theirs.confidence_interval()
    assert (ours.low * 2.75, ours.high * 2.75) == pytest.approx((interval.low, interval.high))
    assert compare.welch([1.0], b) is None
    assert compare.welch([1.0, 1.0], [2.0, 2.0]) is None, "no variation: no test"


def test_a_difference_that_is_more_than_chance(tmp_path, capsys):
    a, b = runs(tmp_path / "a", FASTER), runs(tmp_path / "b", SLOWER, settings=("opt_name sgd", "seed 7"), batch=64)
    status, found = answer(capsys, a, b)
    assert status == 0, "without --fail-on-regression nothing fails"
    after = found["tables"]["compare"]["rows"][1]
    assert after["change"] == pytest.approx(0.2) and "slower, more than chance" in after["statement"]
    assert after["welch"]["p"] < 1e-6 and after["batch"] == 64
    assert after["samples_per_second"] == pytest.approx(sum(2000 / s for s in SLOWER) / 5, abs=1e-5)
    assert [(r["setting"], r["a"], r["b"]) for r in found["tables"]["settings"]["rows"]] == [
        ("global_batch_size", 32, 64),
        ("opt_name", "lars", "sgd"),
    ]


@pytest.mark.parametrize(
    ("before", "after", "limit", "status"),
    [
        (FASTER, SLOWER, "5%", 1),
        (FASTER, SLOWER, "25", 0),
        (SLOWER, FASTER, "5%", 0),
        ((50, 150, 100), (60, 180, 120), "5%", 0),  # 20 % slower, but that is within chance
        ((100,), (120,), "5%", 1),  # one run a side: nothing says that it is chance
        ((100,), (104,), "5%", 0),
    ],
)
def test_fail_on_regression(tmp_path, capsys, before, after, limit, status):
    a, b = runs(tmp_path / "a", before), runs(tmp_path / "b", after)
    assert compare.main([a, b, "--fail-on-regression", limit]) == status
    text = capsys.readouterr().out
    assert ("REGRESSION one: B is 20.00% slower" in text) == (status == 1)
    assert ("no regression of more than" in text) == (status == 0)


def test_runs_that_stop_converging_are_a_regression(tmp_path, capsys):
    a, b = runs(tmp_path / "a", FASTER), runs(tmp_path / "b", FASTER)
    log(tmp_path / "b/one/result_0.txt", "one", 100, status="aborted")
    assert compare.main([a, b, "--fail-on-regression", "5%"]) == 0, "one may miss"
    log(tmp_path / "b/one/result_1.txt", "one", 100, status="aborted")
    assert compare.main([a, b, "--fail-on-regression", "5%"]) == 1
    assert "2 of 5 runs of B missed the target" in capsys.readouterr().out
    for place in range(5):
        log(tmp_path / "b/one" / f"result_{place}.txt", "one", 100, status="aborted")
    status, found = answer(capsys, a, b)
    assert status == 0 and found["tables"]["compare"]["rows"][1]["statement"].startswith("no comparison")


def test_a_lost_benchmark_is_a_regression(tmp_path, capsys):
    a, b = runs(tmp_path / "a", FASTER), runs(tmp_path / "b", FASTER)
    runs(tmp_path / "a", FASTER, "two")
    assert compare.main([a, b]) == 0
    assert "only in A: two" in capsys.readouterr().out
    assert compare.main([a, b, "--fail-on-regression", "5%"]) == 1
    assert "REGRESSION two: not in" in capsys.readouterr().out


def test_several_systems_are_paired_by_name(tmp_path, capsys):
    for side, factor in (("a", 1), ("b", 2)):
        for system, seconds in (("small", 200), ("big", 100)):
            runs(tmp_path / side / "results" / system, [seconds * factor, seconds * factor + 1])
    _, found = answer(capsys, str(tmp_path / "a"), str(tmp_path / "b"))
    rows = found["tables"]["compare"]["rows"]
    assert [(r["set"], round(r["mean_s"])) for r in rows] == [
        ("big/one", 100),
        ("big/one", 200),
        ("small/one", 200),
        ("small/one", 400),
    ]


def test_wrong_calls(tmp_path, capsys):
    a, b = runs(tmp_path / "a", FASTER), runs(tmp_path / "b", FASTER, "two")
    for call in ([a, b], [a, "nowhere"], [a, str(Path(__file__).parent)]):
        assert compare.main(call) == 2
        assert capsys.readouterr().err.startswith("compliance.compare: ")
    for text in ("x", "-1", "nan", "inf%"):
        with pytest.raises(SystemExit):
            compare.main([a, a, f"--fail-on-regression={text}"])


# --- docs/reproduced.md --------------------------------------------------------------------------------------------


def claims(folder):
    found = analysis.results(read_sets([folder], []), Options(all_runs=True))
    return {one.claim: one for one in reproduced.claims(found, False)}


def test_verdicts_follow_from_the_logs(tmp_path):
    runs(tmp_path / "x/results/steady", FASTER)
    steady = claims(tmp_path)
    assert steady["time to accuracy varies by less than 14 %"].verdict == "holds"
    assert steady["epochs vary up to 45 times as much as time per epoch"].verdict == "cannot be tested"
    runs(tmp_path / "x/results/wild", (100, 50, 150))
    wild = claims(tmp_path)["time to accuracy varies by less than 14 %"]
    assert wild.verdict == "does not hold"
    assert "1 of 2 entries not (wild one 50.00%)" in wild.found and "wild one 40.82%" in wild.found
    assert claims(tmp_path)["time per epoch varies by less than 3 %"].verdict == "does not hold"


def test_speed_ups_and_ratios_follow_from_the_logs(tmp_path):
    for place, epochs in enumerate((2, 3)):
        log(tmp_path / "x/results/a/one" / f"result_{place}.txt", "one", 100 * epochs + place, epochs=epochs)
    name = "epochs vary up to 45 times as much as time per epoch"
    assert claims(tmp_path)[name].verdict == "does not hold"
    runs(tmp_path / "x/results/b", (10, 10), epochs=20)
    runs(tmp_path / "y/results/c", (1, 1))  # another submitter's, which is not compared
    found = claims(tmp_path)["speed-ups of throughput and of time to accuracy differ by up to 3 times"]
    assert found.verdict == "does not hold" and "8.00 (a one to b one)" in found.found


def test_reproduced_wrong_call(capsys):
    assert reproduced.main(["nowhere"]) == 2
    assert capsys.readouterr().err == "compliance.reproduced: nowhere: no such file or folder\n"


@pytest.mark.long
def test_the_page_is_what_the_command_writes(monkeypatch, capsys):
    """LOGS: a folder with v0.5 and dawnbench unpacked in it."""
    logs = Path(os.environ.get("LOGS", ""))
    if not os.environ.get("LOGS") or not (logs / "v0.5").is_dir() or not (logs / "dawnbench").is_dir():
        pytest.skip("LOGS names no folder with v0.5 and dawnbench")
    monkeypatch.chdir(logs)
    assert reproduced.main(["v0.5", "--dawnbench", "dawnbench"]) == 0
    page = Path(analyze.__file__).parent.parent / "docs" / "reproduced.md"
    assert capsys.readouterr().out == page.read_text(encoding="utf-8")
