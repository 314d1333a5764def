"""Reference convergence points: made from evidence, and the test against them."""

import gzip
import json
import math
import random
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy
import pytest

from compliance import examples, rcp, rcp_check, rcp_make, rcp_points, rcp_runs, rulesets
from tests.scored_logs import mllog

SHA = "ab" * 32


@pytest.fixture
def example_benchmarks(monkeypatch):
    """The suite's benchmarks are the made-up ones of the rules' examples."""
    monkeypatch.setattr("compliance.rulesets.benchmarks", lambda: examples.EXAMPLE_FACTS)


def log(path, seed, epochs, *, status="success", batch=32, rate=0.1, profile="embedded"):
    """A good log that reaches its target at epoch `epochs`."""
    keys = {
        "submission_benchmark": "example",
        "submission_division": "closed",
        "submission_org": "somebody",
        "submission_platform": "a_system",
        "submission_status": "onprem",
        "init_start": "",
        "benchmark_profile": profile,
        "quality_metric": "top1_accuracy",
        "quality_better": "higher",
        "quality_target": 0.749,
        "seed": seed,
        "global_batch_size": batch,
        "opt_name": "sgd",
        "opt_base_learning_rate": rate,
        "lowest_numerical_precision": "fp32",
        "train_samples": 1000,
        "eval_samples": 100,
        "data_source": json.dumps({"name": "made_up", "sha256": SHA}).replace(" ", ""),
        "init_stop": "",
    }
    short = [f"{key} {value}".strip() for key, value in keys.items()] + ["run_start"]
    for epoch in range(1, epochs + 1):
        value = 0.76 if epoch == epochs and status == "success" else 0.5 + seed / 1000
        mark = f"epoch_num={epoch}"
        short += [f"epoch_start {mark}", f"epoch_stop {mark}", f"eval_start {mark}"]
        short += [f"eval_accuracy {value} {mark} evaluated_samples=100", f"eval_stop {mark}"]
    short.append(f"run_stop status={status}" + ("" if status == "success" else " reason=budget"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(examples.expand(short)) + "\n", encoding="utf-8")


def evidence(folder, epochs=(3, 4, 5, 6), **changes):
    for number, count in enumerate(epochs):
        log(folder / f"result_{number}.txt", number + 1, count, **changes)


@pytest.mark.parametrize("path", rcp_make.committed(), ids=lambda path: path.parent.name)
def test_committed_points_are_what_the_evidence_gives(path):
    assert path.read_text(encoding="utf-8") == rcp_make.make(path.parent / "evidence", path.parent)


def test_every_task_with_evidence_has_points():
    with_evidence = {path.parent for path in rcp_make.REFERENCE.glob("*/evidence")}
    assert with_evidence == {path.parent for path in rcp_make.committed()}


def test_make_writes_one_record_a_batch_size(example_benchmarks, tmp_path, capsys):
    evidence(tmp_path / "evidence" / "embedded")
    evidence(tmp_path / "evidence" / "large", epochs=(7, 6, 9), batch=64)
    out = tmp_path / "rcps.json"
    assert rcp.main(["make", str(tmp_path / "evidence"), "--out", str(out)]) == 0
    records = json.loads(out.read_text(encoding="utf-8"))
    assert list(records) == ["example_embedded_32", "example_embedded_64"]
    assert records["example_embedded_32"] == {
        "Benchmark": "example",
        "Profile": "embedded",
        "BS": 32,
        "Hyperparams": {"opt_base_learning_rate": 0.1, "opt_name": "sgd"},
        "Epochs to converge": [3, 4, 5, 6],
        "Seeds": [1, 2, 3, 4],
        "Creator": "somebody",
        "When": "2023-11-14",
        "Platform": "a_system",
        "Precision": "fp32",
        "Logs": [f"evidence/embedded/result_{n}.txt" for n in range(4)],
    }
    first = out.read_bytes()
    assert rcp.main(["make", str(tmp_path / "evidence"), "--out", str(out)]) == 0
    assert out.read_bytes() == first


def test_make_names_the_seed_that_did_not_converge(example_benchmarks, tmp_path):
    evidence(tmp_path / "logs")
    log(tmp_path / "logs" / "result_9.txt", 10, 3, status="aborted")
    (record,) = json.loads(rcp_make.make(tmp_path / "logs", tmp_path)).values()
    assert record["Seeds that did not converge"] == [10]
    assert record["Seeds"] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"seed": 1}, "S003"),
        ({"rate": -1.0}, "H002"),
        ({"rate": 0.2}, "opt_base_learning_rate differs within one record"),
        ({"status": "failed"}, "run_stop"),
    ],
)
def test_make_refuses_evidence_that_breaks_a_rule(example_benchmarks, tmp_path, capsys, change, reason):
    evidence(tmp_path / "logs")
    log(tmp_path / "logs" / "result_9.txt", **{"seed": 10, "epochs": 3, **change})
    out = tmp_path / "rcps.json"
    assert rcp.main(["make", str(tmp_path / "logs"), "--out", str(out)]) == 1
    assert reason in capsys.readouterr().err
    assert not out.exists()


def test_make_wants_logs_and_a_task(tmp_path, capsys):
    assert rcp.main(["make", str(tmp_path), "--out", str(tmp_path / "rcps.json")]) == 1
    assert "no result logs" in capsys.readouterr().err
    assert rcp.main(["make", str(tmp_path)]) == 1
    assert "benchmark.toml" in capsys.readouterr().err
    assert rcp.main(["make", str(Path(tmp_path, "nothing")), "--out", str(tmp_path / "rcps.json")]) == 1
    assert "no such folder" in capsys.readouterr().err


# --- the test against the points --------------------------------------------------------------------------------------

RULES = rcp_points.Rules(runs=5)


def points_file(folder, means, spread=1.0, name="example"):
    """A reference file with ten values around each mean, by batch size."""
    records = {}
    for size, mean in means.items():
        values = [mean + spread * step for step in (-2, -1, -1, 0, 0, 0, 0, 1, 1, 2)]
        records[f"{name}_ref_{size}"] = {"Benchmark": name, "BS": size, "Hyperparams": {}, "Epochs to converge": values}
    path = folder / f"rcps_{name}.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    return path


def points(folder, means, rules=RULES, **more):
    return rcp_points.load(points_file(folder, means, **more), rules)


def test_a_changed_points_file_is_read_again(tmp_path):
    assert [points(tmp_path, {64: mean})[0].mean for mean in (40, 50, 40)] == [40, 50, 40]


def test_the_least_mean_is_where_the_t_test_turns(tmp_path):
    from scipy import stats

    (point,) = points(tmp_path, {64: 40})
    assert point.mean == 40
    assert point.stdev == pytest.approx(1.0954451150103321)  # population: sqrt(12 / 10)
    for mean, tells_apart in ((point.least - 0.001, True), (point.least + 0.001, False)):
        two_sided = stats.ttest_ind_from_stats(mean, point.stdev, 8, point.mean, point.stdev, 3, equal_var=True).pvalue
        assert bool(two_sided / 2 <= 0.05) is tells_apart


def test_a_point_without_spread_allows_nothing_faster(tmp_path):
    (point,) = points(tmp_path, {64: 40}, spread=0)
    assert point.least == 40
    assert rcp_points.judge(64, [40] * 5, [point], RULES).passed
    assert not rcp_points.judge(64, [39.9] * 5, [point], RULES).passed


def test_batch_sizes_found_between_below_and_above(tmp_path):
    known = points(tmp_path, {64: 40, 128: 44})

    def outcome(size, epochs):
        result = rcp_points.judge(size, [epochs] * 5, known, RULES)
        return result.passed, result.message, result.factor

    assert outcome(64, 41) == (True, "RCP found", 1.0)
    assert outcome(64, 39.5) == (True, "RCP found", 40 / 39.5)
    assert outcome(64, 20) == (False, "RCP found", 2.0)
    assert outcome(96, 42) == (True, "RCP Interpolation", 1.0)
    assert outcome(96, 21) == (False, "RCP Interpolation", 2.0)
    assert outcome(32, 50) == (True, "RCP not found but slower convergence on smaller batch size", 1.0)
    assert outcome(32, 20)[:2] == (False, "Missing RCP, please submit RCP with BS = 32")
    assert outcome(256, 99)[:2] == (False, "Missing RCP, please submit RCP with BS = 256")
    assert rcp_points.judge(64, [40] * 5, [], RULES).message == "Cannot find any RCPs"


def test_fastest_and_slowest_run_do_not_count(tmp_path):
    (point,) = points(tmp_path, {64: 40})
    outcome = rcp_points.judge(64, [1, 41, 42, 43, rcp_runs.INFINITE], [point], RULES)
    assert (outcome.passed, outcome.mean) == (True, 42)


def test_official_pruning_leaves_a_point_that_the_hull_drops(tmp_path):
    # 128 lies below the line from 64 to 256, but above that from 64 to 512, once 256 is gone
    known = points(tmp_path, {32: 99, 64: 10, 128: 14, 256: 24.1, 512: 30})
    official = [point.batch_size for point in rcp_points.official_pruned(known, RULES)]
    hull = [point.batch_size for point in rcp_points.lower_hull(known)]
    assert official == [64, 128, 512]
    assert hull == [64, 512]


@pytest.mark.parametrize("seed", range(20))
def test_the_hull_is_convex_lies_below_all_points_and_holds_the_fastest(seed, tmp_path):
    rng = random.Random(seed)
    known = points(tmp_path, {size: rng.uniform(10, 50) for size in rng.sample(range(1, 5000), rng.randint(1, 12))})
    hull = rcp_points.lower_hull(known)
    assert hull[0].mean == min(point.mean for point in known)
    slopes = [(b.mean - a.mean) / (b.batch_size - a.batch_size) for a, b in zip(hull, hull[1:], strict=False)]
    assert slopes == sorted(slopes)
    for point in known:
        if point.batch_size >= hull[0].batch_size:
            sizes, means = [p.batch_size for p in hull], [p.mean for p in hull]
            assert point.mean >= numpy.interp(point.batch_size, sizes, means) - 1e-9


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[]", "an object of records"),
        ("{", "Expecting"),
        ('{"a": 1}', "a: expected an object"),
        ('{"a": {"BS": 1, "Epochs to converge": [1, 2]}}', "at least 3 numbers"),
        ('{"a": {"BS": 1, "Epochs to converge": [1, 2, null]}}', "at least 3 numbers"),
        ('{"a": {"BS": "1", "Epochs to converge": [1, 2, 3]}}', '"BS"'),
        ('{"a": {"BS": 0, "Samples to converge": [1, 2, 3]}}', '"BS"'),
    ],
)
def test_a_bad_points_file_is_named(tmp_path, text, fault):
    path = tmp_path / "rcps.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(rcp_points.PointsError, match=re.escape(fault)) as error:
        rcp_points.load(path, RULES)
    assert "rcps.json" in str(error.value)


# --- folders ----------------------------------------------------------------------------------------------------------


def check(capsys, *arguments):
    status = rcp.main(["check", *map(str, arguments), "--format", "json"])
    return status, json.loads(capsys.readouterr().out)["folders"]


def round_folder(folder, runs, benchmark="resnet"):
    for number, (size, epochs, status) in enumerate(runs):
        lines = [mllog("submission_benchmark", benchmark), mllog("global_batch_size", size), mllog("run_start")]
        lines += [mllog("eval_accuracy", 0.9, epoch_num=epochs), mllog("run_stop", status=status)]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"result_{number}.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


def test_a_round_is_tested_by_its_own_points(tmp_path, capsys):
    good = round_folder(tmp_path / "good", [(3264, 38, "success")] * 5)
    status, (one,) = check(capsys, good, "--ruleset", "mlperf-1.0")
    assert (status, one["official"]["passed"], one["official"]["message"]) == (0, True, "RCP found")
    fast = round_folder(tmp_path / "fast", [(3264, 20, "success")] * 5)
    status, (one,) = check(capsys, fast, "--ruleset", "mlperf-1.0")
    assert (status, one["official"]["passed"]) == (1, False)


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([(64, 40, "success"), (32, 40, "success")], "batch sizes differ: 64 and 32"),
        ([(64, 40, "aborted")] * 2 + [(64, 40, "success")] * 3, "Insufficient convergence"),
        ([(64, 40, "success")], "too few runs to drop the fastest and the slowest"),
        ([(-1, 40, "success")] * 5, "Could not detect global_batch_size"),
        ([("many", 40, "success")] * 5, "Could not detect global_batch_size"),
    ],
)
def test_every_folder_gets_an_answer(tmp_path, capsys, runs, message):
    folder = round_folder(tmp_path / "set", runs)
    status, (one,) = check(capsys, folder, "--ruleset", "mlperf-1.0")
    assert (one["corrected"]["passed"], one["corrected"]["message"]) == (False, message)
    assert status == 1


def test_benchmarks_that_end_the_official_tool_get_an_answer(tmp_path, capsys):
    dlrm = round_folder(tmp_path / "dlrm", [(32768, 1.8, "success")] * 5, "dlrm")
    _, (one,) = check(capsys, dlrm, "--ruleset", "mlperf-1.0")
    assert one["official"] is None
    assert "KeyError: 'dlrm'" in one["official_crash"]
    assert one["corrected"]["message"] == "RCP found"
    minigo = round_folder(tmp_path / "minigo", [(64, 40, "success")] * 10, "minigo")
    status, (one,) = check(capsys, minigo, "--ruleset", "mlperf-1.0")
    assert (status, one["corrected"]["passed"]) == (0, None)
    empty = tmp_path / "empty"
    empty.mkdir()
    status, (one,) = check(capsys, empty)
    assert (status, one["corrected"]["message"]) == (1, "no result logs")


def test_the_suites_own_points(example_benchmarks, tmp_path, capsys):
    evidence(tmp_path / "evidence", epochs=(8, 9, 9, 10, 10, 10, 11, 11, 12, 12))
    own = tmp_path / "rcps.json"
    assert rcp.main(["make", str(tmp_path / "evidence"), "--out", str(own)]) == 0
    evidence(tmp_path / "same", epochs=(9, 10, 10, 11, 12))
    evidence(tmp_path / "fast", epochs=(2, 2, 2, 2, 2))
    capsys.readouterr()
    status, (same,) = check(capsys, tmp_path / "same", "--points", own)
    assert (status, same["official"], same["corrected"]["passed"]) == (0, None, True)
    status, (fast,) = check(capsys, tmp_path / "fast", "--points", own)
    assert (status, fast["corrected"]["passed"]) == (1, False)
    assert fast["corrected"]["factor"] == pytest.approx(fast["corrected"]["point"]["mean"] / 2)


def test_a_plot_is_well_formed_and_shows_every_point(tmp_path, capsys):
    folder = round_folder(tmp_path / "set", [(3264, 38, "success")] * 5)
    file = tmp_path / "plot.svg"
    assert rcp.main(["check", str(folder), "--ruleset", "mlperf-1.0", "--plot", str(file)]) == 0
    titles = [element.text for element in ElementTree.parse(file).iter("{http://www.w3.org/2000/svg}title")]
    assert any(title.startswith("resnet_ref_3264: mean") for title in titles)
    assert titles.count("a run: 38") == 5


def test_wrong_calls(tmp_path, capsys):
    folder = round_folder(tmp_path / "set", [(64, 38, "success")])
    assert rcp.main(["check", str(tmp_path / "nothing")]) == 2
    assert rcp.main(["check", str(folder), "--ruleset", "mlperf-99"]) == 2
    assert rcp.main(["check", str(folder), "--ruleset", "mlperf-1.0", "--points", str(tmp_path / "none.json")]) == 2
    assert rcp.main(["check", str(folder)]) == 2  # resnet is in several rounds
    assert "Traceback" not in capsys.readouterr().err


# --- against what MLPerf's tool said ----------------------------------------------------------------------------------

TRUTH = Path(__file__).resolve().parents[2] / "shared" / "truth"


@pytest.mark.long
@pytest.mark.parametrize("version", ["1.0", "2.0", "5.1"])
def test_same_result_as_the_official_tool_for_every_folder_of_a_round(version):
    file = TRUTH / f"v{version}.rcp.jsonl.gz"
    if not file.is_file():
        pytest.skip(f"{file.name} is not here")
    ruleset = rulesets.resolve(f"mlperf-{version}")
    compared = 0
    for line in gzip.decompress(file.read_bytes()).splitlines():
        said = json.loads(line)
        if "crash" in said or said["epochs"] is None:
            continue
        rules = rcp_check.rules_of(ruleset, said["bm"])
        known = rcp_points.load(rcp_check.points_file(ruleset, said["bm"]), rules)
        if said["pass"] == "pruned_rcps":
            known = rcp_points.official_pruned(known, rules)
        outcome = rcp_points.judge(said["bs"], said["epochs"], known, rules)
        assert (outcome.passed, outcome.message) == (said["ok"], said["msg"]), said["dir"]
        assert outcome.factor == said["norm"] or (math.isnan(outcome.factor) and math.isnan(said["norm"])), said["dir"]
        compared += 1
    assert compared > 200
