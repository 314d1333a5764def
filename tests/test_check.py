"""Whole logs through the checker: verdicts, scores, exit statuses, the JSON contract."""

import gzip
import json
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest

from compliance import benchmarks, check, examples
from compliance.score import exact
from compliance.verdict import BYTES_A_PROCESS, Checker

ROOT = Path(__file__).resolve().parent.parent
SHA = "ab" * 32


@pytest.fixture(autouse=True)
def example_benchmarks(monkeypatch):
    """The suite's benchmarks are the made-up ones of the rules' examples."""
    monkeypatch.setattr("compliance.rulesets.benchmarks", lambda: examples.EXAMPLE_FACTS)


def lines(seed=1, seconds=60, values=(0.5, 0.76), status="success", extra=(), **changes):
    """Short lines of a good log; `changes` replaces the value of a key, None leaves the record out."""
    keys = {
        "submission_benchmark": "example",
        "submission_division": "closed",
        "submission_org": "somebody",
        "submission_platform": "a_system",
        "submission_status": "onprem",
        "init_start": "",
        "benchmark_profile": "embedded",
        "quality_metric": "top1_accuracy",
        "quality_better": "higher",
        "quality_target": 0.749,
        "seed": seed,
        "global_batch_size": 32,
        "opt_name": "sgd",
        "opt_base_learning_rate": 0.1,
        "train_samples": 1000,
        "eval_samples": 100,
        "data_source": json.dumps({"name": "made_up", "sha256": SHA}).replace(" ", ""),
        "init_stop": "",
    }
    keys.update(changes)
    out = ["@0"] + [f"{key} {value}".strip() for key, value in keys.items() if value is not None] + list(extra)
    out += ["@100000", "run_start"]
    for epoch, value in enumerate(values, 1):
        at = 100_000 + int(seconds * 1000 * epoch / (len(values) + 1)) + seed
        out += [f"@{at}", f"epoch_start epoch_num={epoch}", f"@{at + 1}", f"epoch_stop epoch_num={epoch}", f"@{at + 2}"]
        out += [f"eval_start epoch_num={epoch}", f"@{at + 3}"]
        out += [
            f"eval_accuracy {value} epoch_num={epoch} evaluated_samples=100",
            f"@{at + 4}",
            f"eval_stop epoch_num={epoch}",
        ]
    reason = "" if status == "success" else " reason=budget"
    return [*out, f"@{100_000 + int(seconds * 1000)}", f"run_stop status={status}{reason}"]


def write(path, short):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(examples.expand(short)) + "\n", encoding="utf-8")
    return path


def a_set(folder, runs):
    for number, run in enumerate(runs):
        write(folder / f"result_{number}.txt", lines(**{"seed": number + 1, **run}))
    return folder


def run(capsys, *args):
    """Exit status and JSON report."""
    status = check.main([*map(str, args), "--format", "json"])
    out = capsys.readouterr().out
    return status, json.loads(out, parse_float=Decimal) if out.strip() else None


def test_good_log(tmp_path, capsys):
    status, report = run(capsys, write(tmp_path / "a.txt", lines()))
    assert status == 0
    assert report["schema"] == 1
    assert report["valid"] is True
    assert report["ruleset"]["name"] == "suite"
    (log,) = report["logs"]
    assert log["findings"] == []
    assert (log["valid"], log["converged"], log["time_ms"]) == (True, True, 60_000)
    assert log["progress"] == {"unit": "epoch_num", "at_target": 2}
    assert report["result_sets"] == []


def test_fraction_of_a_millisecond_is_kept(tmp_path, capsys):
    path = write(tmp_path / "a.txt", lines())
    text = path.read_text()
    head, _, tail = text.rpartition('"time_ms": ')
    path.write_text(head + '"time_ms": ' + tail.replace("1700000160000", "1700000160000.25", 1))
    assert run(capsys, path)[1]["logs"][0]["time_ms"] == Decimal("60000.25")


def test_score(tmp_path, capsys):
    """Olympic mean: 50 and 90 s are dropped, (60 + 70 + 81) / 3 s stays."""
    folder = a_set(tmp_path / "s", [{"seconds": s} for s in (60, 90, 70, 50, 81)])
    status, report = run(capsys, folder)
    (one,) = report["result_sets"]
    assert status == 0
    assert one["score_ms"] == Decimal("70333.333333")
    assert sorted(one["kept"]) == ["result_0.txt", "result_2.txt", "result_4.txt"]
    assert [w["reason"] for w in one["working"]] == ["dropped: fastest", "kept", "kept", "kept", "dropped: slowest"]
    assert one["convergent_rate"]["mean"] == 2
    assert one["convergent_rate"]["variation_population"] == 0
    assert one["official_score"] is True


def test_variation_has_both_deviations(tmp_path, capsys):
    """Epochs 2, 2, 2, 2, 4: mean 2.4, population deviation 0.8, sample deviation 0.894."""
    runs = [{"seconds": s} for s in (60, 61, 62, 63)] + [{"seconds": 64, "values": (0.1, 0.2, 0.3, 0.8)}]
    (one,) = run(capsys, a_set(tmp_path / "s", runs))[1]["result_sets"]
    assert float(one["convergent_rate"]["variation_population"]) == pytest.approx(0.8 / 2.4)
    assert float(one["convergent_rate"]["variation_sample"]) == pytest.approx(0.8**0.5 / 2.4)


def test_one_missed_run_is_the_slowest(tmp_path, capsys):
    runs = [{"seconds": s} for s in (60, 70, 80, 90)] + [{"seconds": 50, "values": (0.1, 0.2), "status": "aborted"}]
    status, report = run(capsys, a_set(tmp_path / "s", runs))
    (one,) = report["result_sets"]
    assert (status, one["score_ms"], one["converged"]) == (0, 80_000, 4)
    assert one["working"][-1]["reason"] == "dropped: did not converge"


def test_two_missed_runs_invalidate_the_set(tmp_path, capsys):
    missed = {"values": (0.1, 0.2), "status": "aborted"}
    runs = [{"seconds": s} for s in (60, 70, 80)] + [{"seconds": 91, **missed}, {"seconds": 92, **missed}]
    status, report = run(capsys, a_set(tmp_path / "s", runs))
    (one,) = report["result_sets"]
    assert (status, one["valid"], one["score_ms"]) == (1, False, None)
    assert [f["rule"] for f in one["findings"]] == ["S002"]
    assert all(log["valid"] for log in report["logs"])


def test_a_broken_rule_is_not_dropped(tmp_path, capsys):
    runs = [{"seconds": s} for s in (60, 70, 80, 90)] + [{"seconds": 95, "opt_name": "adam"}]
    status, report = run(capsys, a_set(tmp_path / "s", runs))
    assert (status, report["result_sets"][0]["score_ms"], report["result_sets"][0]["valid"]) == (1, None, False)


@pytest.mark.parametrize(
    ("count", "partial", "score"),
    [(4, False, None), (6, False, None), (4, True, 61_500), (2, True, 60_500), (1, True, 60_000)],
)
def test_run_counts(tmp_path, capsys, count, partial, score):
    folder = a_set(tmp_path / "s", [{"seconds": 60 + n} for n in range(count)])
    status, report = run(capsys, folder, *(["--partial"] if partial else []))
    (one,) = report["result_sets"]
    assert one["score_ms"] == score
    assert status == (0 if partial else 1)
    if partial:
        assert one["official_score"] is False
        assert "unofficial" in one["score_note"]


def test_no_score_when_all_runs_abort(tmp_path, capsys):
    runs = [{"seconds": 60 + n, "values": (0.8,), "status": "aborted"} for n in range(5)]
    status, report = run(capsys, a_set(tmp_path / "s", runs))
    assert (status, report["result_sets"][0]["score_ms"]) == (1, None)


def test_lower_is_better(monkeypatch, tmp_path, capsys):
    from dataclasses import replace

    facts = replace(examples.EXAMPLE_FACTS["example"]["embedded"], better="lower", quality_target=0.2)
    monkeypatch.setattr("compliance.rulesets.benchmarks", lambda: {"example": {"embedded": facts}})
    changes = {"quality_better": "lower", "quality_target": 0.2}
    good = write(tmp_path / "a.txt", lines(values=(0.5, 0.2), **changes))
    bad = write(tmp_path / "b.txt", lines(values=(0.5, 0.21), **changes))
    assert run(capsys, good)[0] == 0
    status, report = run(capsys, bad)
    assert (status, report["logs"][0]["findings"][0]["rule"]) == (1, "Q001")
    assert "at most 0.2" in report["logs"][0]["findings"][0]["expected"]


def test_profile_without_target(tmp_path, capsys):
    short = ["submission_benchmark example_samples", "benchmark_profile smoke", "run_start", "run_stop status=success"]
    status, report = run(capsys, write(tmp_path / "a.txt", short), "--select", "Q,S,C006")
    assert status == 0
    assert report["logs"][0]["converged"] is None
    assert "Q001" not in report["rules_left_out"]
    assert "C001" in report["rules_left_out"]


def test_aborted_run_is_valid_and_not_converged(tmp_path, capsys):
    status, report = run(capsys, write(tmp_path / "a.txt", lines(values=(0.5,), status="aborted")))
    assert (status, report["logs"][0]["valid"], report["logs"][0]["converged"]) == (0, True, False)


def test_all_findings_at_once(tmp_path, capsys):
    short = lines(seed=1, opt_name="adam", train_samples=999, submission_status="garage")
    status, report = run(capsys, write(tmp_path / "a.txt", short))
    assert status == 1
    assert {f["rule"] for f in report["logs"][0]["findings"]} == {"H002", "H006", "I004"}
    for finding in report["logs"][0]["findings"]:
        assert finding["line"]
        assert finding["expected"]
        assert finding["found"]


def test_two_runs_in_one_file(tmp_path, capsys):
    first, second = lines(seed=1), lines(seed=2)
    second = [f"@{int(s[1:]) + 200_000}" if s.startswith("@") else s for s in second]
    path = write(tmp_path / "a.txt", first + second)
    status, report = run(capsys, path)
    (finding,) = report["logs"][0]["findings"]
    total = len(path.read_text().splitlines())
    assert (status, finding["rule"]) == (1, "C004")
    assert f"lines 1-{total // 2} and {total // 2 + 1}-{total}" in finding["message"]
    assert report["logs"][0]["time_ms"] is None


def test_folders_files_and_what_is_left_out(tmp_path, capsys):
    a_set(tmp_path / "x", [{"seconds": 60 + n} for n in range(5)])
    (tmp_path / "x" / "notes.txt").write_text("nothing here\n")
    (tmp_path / "x" / "train.py").write_text("print(':::MLLOG {}')\n")
    (tmp_path / ".git").mkdir()
    (tmp_path / "x" / "odd name").write_bytes((tmp_path / "x" / "result_0.txt").read_bytes())
    (tmp_path / "x" / "odd name").rename(tmp_path / "alone")
    packed = tmp_path / "y" / "b.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress((tmp_path / "alone").read_bytes()))
    status, report = run(capsys, tmp_path)
    assert len(report["logs"]) == 7
    assert {Path(s["path"]).name: s["reason"] for s in report["skipped"]} == {
        ".git": "a hidden folder",
        "notes.txt": "no log record in it",
        "train.py": "a .py file is no log",
    }
    assert len(report["result_sets"]) == 3
    assert status == 1


def test_exit_status_2(tmp_path, capsys):
    assert run(capsys, tmp_path / "nothing")[0] == 2
    assert run(capsys, tmp_path)[0] == 2
    assert run(capsys, tmp_path, "--ruleset", "mlperf-99.9")[0] == 2
    assert run(capsys, tmp_path, "--select", "Z9")[0] == 2
    with pytest.raises(SystemExit) as stop:
        check.main([])
    assert stop.value.code == 2


def test_text_report(tmp_path, capsys):
    folder = a_set(tmp_path / "s", [{"seconds": 60 + n} for n in range(5)])
    write(folder / "result_4.txt", lines(seed=5, seconds=64, values=(0.5, 0.7)))
    assert check.main([str(folder)]) == 1
    text = capsys.readouterr().out.splitlines()
    (finding,) = [line for line in text if " Q001 " in line]
    path = folder / "result_4.txt"
    last = len(path.read_text().splitlines())
    assert finding.startswith(f"{path}:{last}: Q001 error: top1_accuracy never reached 0.749 inside the clock")
    assert "0.7 at best" in finding
    assert sum(line.startswith(f"{path}: INVALID") for line in text) == 1
    assert text[-1] == "verdict: INVALID (5 logs, 1 result sets)"
    assert "\x1b" not in "".join(text)


def test_hostile_text_does_not_reach_the_terminal(tmp_path, capsys):
    path = write(tmp_path / "a.txt", lines(submission_benchmark='"\\u001b[2Jx\\ud800"'))
    assert check.main([str(path)]) == 1
    assert "\x1b" not in capsys.readouterr().out
    status, report = run(capsys, path)
    assert status == 1


def test_a_folder_without_logs_says_why(tmp_path, capsys):
    for number in range(check.MOST_LEFT_OUT + 3):
        (tmp_path / f"{number}.txt").write_text("no record\n")
    assert check.main([str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.count("(no log record in it)") == check.MOST_LEFT_OUT
    assert "3 more" in error
    assert f"no logs found in {tmp_path}" in error
    assert check.main([str(tmp_path), "--verbose"]) == 2
    assert capsys.readouterr().err.count("(no log record in it)") == check.MOST_LEFT_OUT + 3


def test_twice_the_same_bytes(tmp_path, capsys):
    folder = a_set(tmp_path / "s", [{"seconds": 60 + n} for n in range(5)])
    outputs = []
    for _ in range(2):
        check.main([str(folder), "--format", "json"])
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]


def test_processes_are_started_where_they_are_worth_it(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "compliance.parallel.spread", lambda work, pieces, weights, jobs, show: (asked.append(jobs), [])[1]
    )
    for number in range(100):
        write(tmp_path / f"{number}.txt", ["seed 1"])
    few, many = [[tmp_path / f"{number}.txt" for number in range(count)] for count in (10, 100)]
    for paths, jobs in ((few, 8), (many, 8), (many, 2)):
        Checker([]).check(paths, jobs)
    with (tmp_path / "0.txt").open("ab") as file:
        file.truncate(BYTES_A_PROCESS * 2)
    Checker([]).check(few, 8)
    Checker([], keep_runs=True).check(many, 8)
    assert asked == [0, 3, 2, 2, 1]


def test_any_number_of_processes_gives_the_same_bytes(tmp_path, capsys):
    for system in range(14):
        a_set(tmp_path / f"s{system}", [{"seconds": 60 + n + system} for n in range(5)])
    outputs = []
    for jobs in ("1", "2"):
        status = check.main([str(tmp_path), "--format", "json", "--jobs", jobs])
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]
    assert status in (0, 1)
    assert len(json.loads(outputs[0])["logs"]) == 70


def test_rules_can_be_listed_and_explained(capsys):
    assert check.main(["--list-rules"]) == 0
    assert "Q001" in capsys.readouterr().out
    assert check.main(["--explain", "q001"]) == 0
    text = capsys.readouterr().out
    assert "Fails::" in text
    assert check.main(["--explain", "X001"]) == 0
    assert check.main(["--explain", "Q999"]) == 2


def test_command_from_a_checkout(tmp_path):
    """Works from the root without anything of ours installed, and a closed pipe is no traceback."""
    path = write(tmp_path / "a.txt", ["seed 1"])
    command = f"{sys.executable} -m compliance.check {path} | head -1"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.startswith("ruleset suite")


def test_exact():
    assert exact(Fraction(10, 2)) == 5
    assert exact(Fraction(1, 8)) == Decimal("0.125")
    assert exact(Fraction(2, 3)) == Decimal("0.666667")


@pytest.mark.parametrize(
    "path", sorted(ROOT.glob("reference/*/evidence/*/result_*.txt")), ids=lambda p: "/".join(p.parts[-4:])
)
def test_evidence_abides_by_the_rules(path, capsys, monkeypatch):
    monkeypatch.setattr("compliance.rulesets.benchmarks", benchmarks.benchmarks)
    status, report = run(capsys, path)
    assert (status, report["logs"][0]["findings"]) == (0, [])


@pytest.mark.parametrize(("error", "reached"), [(0.1, True), (0.2, False)])
def test_a_round_may_judge_an_error_and_not_an_accuracy(tmp_path, capsys, error, reached):
    """HPC's CosmoFlow logs eval_error, and lower is better."""
    short = ["submission_benchmark cosmoflow", "submission_division closed", "run_start"]
    short += [f"eval_error {error} epoch_num=1", "run_stop status=success"]
    path = write(tmp_path / "a.txt", short)
    _, report = run(capsys, path, "--ruleset", "mlperf-hpc-3.0", "--select", "Q")
    assert [f["rule"] for f in report["logs"][0]["findings"]] == ([] if reached else ["Q001"])
    assert report["logs"][0]["converged"] is reached


def test_weak_scaling_has_no_mean_of_its_runs(tmp_path, capsys):
    """Models trained at the same time are no repetitions: their set has another score, in compliance.score."""
    folder = tmp_path / "weak" / "cosmoflow"
    for number in range(12):
        short = ["submission_benchmark cosmoflow", f"seed {number}", "run_start", f"@{2000 + number}"]
        write(folder / f"result_{number}.txt", [*short, "eval_error 0.1 epoch_num=1", "run_stop status=success"])
    _, report = run(capsys, folder, "--ruleset", "mlperf-hpc-3.0", "--select", "Q,S")
    (one,) = report["result_sets"]
    assert (one["valid"], one["converged"], one["score_ms"]) == (True, 12, None)
    assert "weak scaling" in one["score_note"]
