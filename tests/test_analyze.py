"""compliance.analyze: numbers checked by hand on made-up logs, DAWNBench entries, and the public logs where given."""

import csv
import io
import json
import math
import os
from fractions import Fraction
from pathlib import Path

import pytest

from compliance import analysis, analyze, dawnbench, loglines, subsets
from compliance.analysis import Options
from compliance.benchmarks import Facts
from compliance.examples import record
from compliance.run import Run
from compliance.spread import bootstrap, olympic, runs_needed, spread
from compliance.trained import Trained, TrainedSet, measure, read_sets


def log(path, benchmark, seconds, epochs, *, status="success", target=0.7, extra=(), init=2):
    """A run of `epochs` epochs in `seconds`, each followed by an evaluation of a tenth of its time."""
    each = seconds * 1000 // epochs
    lines = [
        record(0, f"submission_benchmark {benchmark}"),
        record(0, "init_start"),
        *(record(0, text) for text in ("global_batch_size 32", "train_samples 1000", f"eval_target {target}", *extra)),
        record(init * 1000, "init_stop"),
    ]
    start = init * 1000
    lines.append(record(start, "run_start"))
    for epoch in range(1, epochs + 1):
        end = start + each * epoch
        value = target if epoch == epochs and status == "success" else 0.1 * epoch / epochs
        lines.append(record(end - each // 10, f"eval_start epoch_num={epoch}"))
        lines.append(record(end, f"eval_accuracy {value} epoch_num={epoch}"))
        lines.append(record(end, f"eval_stop epoch_num={epoch}"))
    lines.append(record(start + seconds * 1000, f"run_stop status={status}"))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture
def systems(tmp_path):
    """Two systems with two benchmarks each: small takes 10, 12 and 14 s with 2 epochs; big half of each."""
    for system, factor, nodes in (("small", 2, 1), ("big", 1, 2)):
        for place, seconds in enumerate((10, 12, 14)):
            log(tmp_path / "x/results" / system / "one" / f"result_{place}.txt", "one", seconds * factor, 2)
            log(tmp_path / "x/results" / system / "two" / f"result_{place}.txt", "two", 40 * factor, 4 + place)
        described = {"number_of_nodes": str(nodes), "accelerators_per_node": 4, "accelerator_model_name": "A"}
        (tmp_path / "x/systems").mkdir(exist_ok=True)
        (tmp_path / "x/systems" / f"{system}.json").write_text(json.dumps(described))
    return tmp_path / "x"


def answer(capsys, *call):
    """The tables of one call, by name, from its JSON."""
    assert analyze.main([*map(str, call), "--format", "json"]) == 0
    return {name: table["rows"] for name, table in json.loads(capsys.readouterr().out)["tables"].items()}


def row(rows, name):
    return next(row for row in rows if row["set"] == name)


def test_spread_by_hand():
    found = spread([Fraction(10), Fraction(12), Fraction(14)])
    assert found.mean == 12 and (found.least, found.most) == (10, 14)
    assert found.population == pytest.approx(math.sqrt(8 / 3) / 12)
    assert found.sample == pytest.approx(2 / 12)
    assert spread([Fraction(3)]).sample is None
    assert spread([]) is None and spread([Fraction(-1), Fraction(1)]) is None


def test_olympic_counts_a_missed_run_as_endless():
    a, b, c, d = map(Fraction, (1, 2, 4, 9))
    assert olympic([d, a, c, b], 1) == 3
    assert olympic([None, a, c, b], 1) == 3
    assert olympic([None, None, c, b], 1) is None
    assert olympic([a, b], 1) == Fraction(3, 2), "too few to drop"
    assert olympic([], 1) is None


def test_bootstrap_is_seeded_and_near_the_normal_interval():
    values = [Fraction(100 + (7 * n) % 31) for n in range(40)]
    low, high = bootstrap(values)
    assert (low, high) == bootstrap(values)
    found = spread(values)
    half = 1.96 * found.population * found.mean / math.sqrt(40)
    assert low == pytest.approx(found.mean - half, abs=0.35) and high == pytest.approx(found.mean + half, abs=0.35)
    assert bootstrap(values[:1]) is None


def test_runs_needed_have_the_power_they_promise():
    stats = pytest.importorskip("scipy.stats")
    for variation, difference in ((0.1, 0.05), (0.02, 0.05), (0.3, 0.1)):
        runs = runs_needed(variation, difference)

        def power(n, effect=difference / variation):
            df, shift = 2 * n - 2, effect * math.sqrt(n / 2)
            edge = stats.t.ppf(0.975, df)
            return stats.nct.sf(edge, df, shift) + stats.nct.cdf(-edge, df, shift)

        assert power(runs) > 0.79 and (runs <= 3 or power(runs - 1) < 0.81)
    assert runs_needed(0.0, 0.05) == 2 and runs_needed(None, 0.05) is None


def test_time_progress_and_their_variation(systems, capsys):
    found = answer(capsys, systems)
    one, two = row(found["time"], "small/one"), row(found["time"], "small/two")
    assert one["runs"] == "3/3" and one["olympic_s"] == 24
    assert one["time_variation_sample"] == pytest.approx(1 / 6)
    assert one["time_variation_population"] == pytest.approx(math.sqrt(8 / 3) / 12)
    assert one["progress_variation_sample"] == 0 and one["convergent_rate"] == 2
    assert one["time_per_progress_variation_sample"] == pytest.approx(1 / 6)
    assert two["time_variation_sample"] == 0
    assert two["progress_variation_sample"] == pytest.approx(1 / 5)
    assert (two["convergent_rate"], two["progress_mean"], two["progress_max"]) == (4, 5, 6)
    assert row(found["certainty"], "small/one")["mean_s"] == 24


def test_where_the_time_goes(systems, capsys):
    found = answer(capsys, systems, "--price-per-hour", "3600", "--table", "where")
    one = row(found["where"], "big/one")
    assert one["accelerators"] == 8
    assert one["evaluation_share"] == pytest.approx(0.1)
    assert one["initialization_share"] == pytest.approx(sum(2 / (2 + s) for s in (10, 12, 14)) / 3, abs=1e-6)
    assert one["samples_per_second"] == pytest.approx(sum(2000 / s for s in (10, 12, 14)) / 3, abs=1e-5)
    assert one["samples_per_second_training"] == pytest.approx(one["samples_per_second"] / 0.9, abs=1e-5)
    assert one["dollars"] == pytest.approx(12)


def test_scaling_and_speedups(systems, capsys):
    found = answer(capsys, systems / "results/big", systems / "results/small", "--against", systems / "results/small")
    scaled = row(found["scaling"], "big/two")
    assert (scaled["accelerators"], scaled["over"], scaled["where"]) == (8, 4, "across nodes")
    assert scaled["time_to_accuracy_efficiency"] == pytest.approx(1.0)
    assert scaled["throughput_efficiency"] == pytest.approx(1.0)
    faster = row(found["speedup"], "big/one")
    assert faster["time_to_accuracy_speedup"] == pytest.approx(2) and faster["ratio"] == pytest.approx(1)


def test_throughput_and_time_to_accuracy_differ_by_the_epochs_needed(tmp_path, capsys):
    log(tmp_path / "a/one/result_0.txt", "one", 100, 2)
    log(tmp_path / "b/one/result_0.txt", "one", 50, 5)
    found = answer(capsys, tmp_path / "b", "--against", tmp_path / "a")["speedup"][0]
    assert found["throughput_speedup"] == pytest.approx(5)
    assert found["time_to_accuracy_speedup"] == pytest.approx(2)
    assert found["ratio"] == found["progress_ratio"] == pytest.approx(2.5)


def test_threshold_from_the_evaluations(tmp_path, capsys):
    log(tmp_path / "one/result_0.txt", "one", 100, 5)
    log(tmp_path / "one/result_1.txt", "one", 100, 5, status="aborted")
    found = answer(capsys, tmp_path, "--threshold", "0.05")["time"][0]
    assert (found["runs"], found["olympic_s"], found["progress_mean"]) == ("2/2", 60, 3)
    assert answer(capsys, tmp_path)["time"][0]["runs"] == "1/2"
    assert answer(capsys, tmp_path, "--all-runs")["time"][0]["runs"] == "2/2"
    lower = answer(capsys, tmp_path, "--threshold", "0.05", "--better", "lower")["time"][0]
    assert (lower["olympic_s"], lower["progress_mean"]) == (20, 1)


def test_cost_and_subsets(systems, capsys):
    found = answer(capsys, systems, "--subset", "one,three", "--choose", "1")
    cost = next(row for row in found["cost"] if row["system"] == "small")
    assert cost["hours"] == pytest.approx((3 * 24 + 3 * 80) / 3600)
    assert cost["saved_share"] == pytest.approx(1 - 72 / 312)
    assert [(r["benchmark"], r["chosen"]) for r in found["repeatable"]] == [("one", "yes"), ("two", "no")]
    assert [r["subset"] for r in found["ranking"]] == ["one", "two"], "big is twice as fast on each"
    assert analyze.main([str(systems), "--subset", "one,three"]) == 0
    assert "not among the logs: three" in capsys.readouterr().out


def test_a_subset_that_turns_the_ranking_is_left_out(tmp_path):
    times = {"x": {"a": 10, "b": 90, "c": 10}, "y": {"a": 20, "b": 20, "c": 30}}
    for system, of in times.items():
        for name, seconds in of.items():
            log(tmp_path / system / name / "result_0.txt", name, seconds, 2)
    found = analysis.results(read_sets([tmp_path], []), Options())
    cells = subsets.grid(found, 1)
    assert subsets.ranking(cells, ["a", "b", "c"]) == ["x", "y"], "9000 against 12000"
    table = subsets.ranking_table(found, 2)
    assert [r["subset"] for r in table.rows] == ["a, c"]
    assert table.notes[0].startswith("1 of 3 subsets")
    assert subsets.ranking_table(found[:3], 1).rows == []


def test_valid_flops():
    assert analysis.valid_flops(100.0, 0.5, 1.0, "higher") == pytest.approx(100 / 32)
    assert analysis.valid_flops(100.0, 0.5, 1.0, "lower") == pytest.approx(3200)
    assert analysis.valid_flops(100.0, None, 1.0, "higher") is None
    assert analysis.valid_flops(100.0, 0.0, 1.0, "lower") is None


def test_valid_flops_of_a_log(tmp_path, capsys):
    log(tmp_path / "one/result_0.txt", "one", 100, 2, extra=("flops_per_sample 1e9",))
    assert answer(capsys, tmp_path)["flops"][0]["valid_flops_per_second"] == pytest.approx(2e10)


def test_success_has_to_be_proved_where_there_is_a_target():
    lines = ["run_start", "eval_accuracy 0.5 epoch_num=1", "run_stop status=success", "eval_accuracy 0.8 epoch_num=2"]
    late = loglines.parse("\n".join(record(1000 * n, line) for n, line in enumerate(lines)).encode())
    for profile, target, expected in (
        ("embedded", 0.7, False),
        ("embedded", 0.5, True),
        (None, 0.7, True),
        (None, 0.9, False),
        (None, None, True),
    ):
        facts = Facts(benchmark="one", profile=profile, quality_target=target)
        assert measure(Run(late, late.events, None), facts).converged == expected, (profile, target)


def test_numbers_beyond_reason_are_no_numbers(tmp_path, capsys):
    huge = "1" + "0" * 400
    log(tmp_path / "one/result_0.txt", "one", 100, 2, extra=(f"opt_x {huge}", f"flops_per_sample {huge}"))
    text = (tmp_path / "one/result_0.txt").read_text()
    for change in ('"value": 32', '"value": 1000', '"value": 0.7', '"epoch_num": 2', '"value": 0.05'):
        assert change in text
        (tmp_path / "one/result_0.txt").write_text(text.replace(change, change.partition(": ")[0] + f": {huge}"))
        for form in ("text", "csv", "json", "markdown"):
            assert analyze.main([str(tmp_path), "--all-runs", "--format", form]) == 0
        assert capsys.readouterr().err == ""


def test_csv_is_one_table(systems, capsys):
    assert analyze.main([str(systems), "--format", "csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [(r["set"], r["olympic_s"]) for r in rows][2:] == [("small/one", "24"), ("small/two", "80")]
    assert not [key for key in rows[0] if key.startswith("_")]
    assert analyze.main([str(systems), "--format", "csv", "--table", "time,where"]) == 2
    assert "one table" in capsys.readouterr().err


@pytest.mark.parametrize("call", [["nowhere"], ["{}", "--table", "no"], ["{}/empty"], ["{}", "--subset", ","]])
def test_wrong_calls(systems, capsys, call):
    (systems / "empty").mkdir()
    assert analyze.main([text.format(systems) for text in call]) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith("compliance.analyze: ") and shown.out == ""


@pytest.mark.parametrize("flag", ["--threshold", "--price-per-hour", "--difference", "--choose"])
def test_wrong_numbers(systems, capsys, flag):
    with pytest.raises(SystemExit) as stopped:
        analyze.main([str(systems), flag, "nan"])
    assert stopped.value.code == 2 and flag in capsys.readouterr().err


def test_odd_logs_do_not_stop_it(tmp_path, capsys):
    log(tmp_path / "one/result_0.txt", "one", 100, 2)
    begin = record(0, "run_start")
    odd = {
        "no_stop": begin,
        "no_start": record(0, "run_stop status=success"),
        "no_time": begin.replace('"time_ms"', '"time"'),
        "backwards": record(9, "run_start") + "\n" + record(1, "run_stop status=success"),
        "cut": begin[:30],
        "words": begin + "\n" + record(5, 'eval_accuracy "many" epoch_num=1') + "\n" + record(6, "run_stop"),
    }
    for name, text in odd.items():
        (tmp_path / "one" / f"{name}.txt").write_text(text)
    found = answer(capsys, tmp_path)["time"]
    assert row(found, next(r["set"] for r in found if r["benchmark"] == "one"))["runs"] == "1/1"


def test_markdown(systems, capsys):
    assert analyze.main([str(systems), "--format", "markdown", "--table", "cost"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("### Benchmarking cost") and lines[2] == "| system | benchmarks | hours |"
    assert lines[4] == "| big | 2 | 0.043 |"


def test_accelerators_from_the_log_on_cuda_alone(tmp_path, capsys):
    for device, expected in (("cuda:0", 4), ("cpu", None)):
        log(tmp_path / device / "one/result_0.txt", "one", 10, 1, extra=("world_size 4", f"device {device}"))
        assert answer(capsys, tmp_path / device)["where"][0]["accelerators"] == expected


# --- DAWNBench -----------------------------------------------------------------------------------------------------

ENTRY = {
    "version": "v1.0",
    "author": "A",
    "framework": "F",
    "model": "M",
    "hardware": "H",
    "costPerHour": 36.0,
    "timestamp": "2018-01-01",
}


def entry(folder, name, table=None, **members):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps({**ENTRY, **members}))
    if table is not None:
        (folder / f"{name}.tsv").write_bytes(table.encode())


def test_dawnbench_entries(tmp_path, capsys):
    train = tmp_path / "ImageNet/train"
    entry(train, "a", "epoch\thours\ttop1Accuracy\ttop5Accuracy\n0\t0.5\t70\t92\n1\t1.0\t71\t93.0\n2\t1.5\t71\t94\n")
    entry(train, "b", "\ufeffhours\tepoch\ttop5Accuracy\r\n1\t1.5\t90\r\n2\t3.0\t92.9\r\n", costPerHour=None)
    entry(tmp_path / "ImageNet/inference", "c", latency=1.5, cost=2e-6, top5Accuracy=93.1)
    found = answer(capsys, tmp_path)
    assert row(found["time"], "a")["olympic_s"] == 3600 and row(found["time"], "a")["progress_mean"] == 2
    assert row(found["where"], "a")["dollars"] == pytest.approx(36)
    assert row(found["time"], "b")["runs"] == "0/1"
    assert found["inference"][0]["latency_ms"] == 1.5 and found["inference"][0]["benchmark"] == "dawnbench/ImageNet"
    later = answer(capsys, tmp_path, "--threshold", "94")
    assert row(later["time"], "a")["olympic_s"] == 5400 and row(later["where"], "a")["dollars"] == pytest.approx(54)
    assert later["time"][0]["time_variation_population"] is None, "one run says nothing of variation"


@pytest.mark.parametrize(
    "table",
    ["", "epoch\thours\n1\t1\n", "epoch\thours\ttop1Accuracy\n1\tx\t94\n", "epoch\thours\ttop1Accuracy\n1\t1\n"],
)
def test_damaged_dawnbench_entries_are_named(tmp_path, table):
    entry(tmp_path / "CIFAR10/train", "a", table)
    skipped = []
    assert dawnbench.read_entries([tmp_path], skipped) == ([], [])
    assert len(skipped) == 1 and "damaged DAWNBench entry" in skipped[0][1]


def test_other_json_is_no_entry(tmp_path):
    (tmp_path / "system.json").write_text('{"submitter": "x", "latency": 3}')
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "deep.json").write_text("[" * 100_000)
    skipped = []
    assert dawnbench.read_entries([tmp_path], skipped) == ([], []) and skipped == []


def test_a_set_without_all_progress_has_none():
    runs = [Trained("a", time_ms=Fraction(5), converged=True, progress=Fraction(2)), Trained("b", time_ms=Fraction(6))]
    runs[1].converged = True
    (found,) = analysis.results([TrainedSet("s", "b", runs)], Options())
    assert found.progress is None and found.time.mean == 5.5


# --- public logs ---------------------------------------------------------------------------------------------------

# entry: olympic seconds, variation of time in % (sample, population), mean epochs, variation of epochs (sample)
ROUND_0_5 = {
    "google/cloud_v100x8/results/8xV100/resnet": (8268.0, 0.23, 0.21, 61, 0.0),
    "nvidia/submission/results/dgx2h_multi_ngc18.11_mxnet/resnet": (446.1, 2.55, 2.28, 80.4, 2.72),
    "nvidia/submission/results/dgx1_multi_ngc18.11_pytorch/ssd": (389.7, 7.51, 6.72, 54.8, 7.11),
    "nvidia/submission/results/dgx2_ngc18.11_pytorch/gnmt": (627.1, 14.58, 13.83, 2.8, 15.06),
    "nvidia/submission/results/dgx2h_ngc18.11_pytorch/transformer": (1152.6, 21.35, 20.25, 4.8, 21.52),
    "nvidia/submission/results/dgx1_ngc18.11_pytorch/ncf": (29.2, 9.70, 9.65, 17.11, 12.57),
    "intel/intel_resnet_submission/results/skx_8180_4s_4x/resnet": (79927.3, 2.02, 1.80, 60.6, 0.90),
}


@pytest.mark.long
def test_round_0_5_as_known(capsys):
    """Values worked out from the same logs by an independent script. LOGS: a folder with v0.5 unpacked in it."""
    logs = Path(os.environ.get("LOGS", ""), "v0.5")
    if not logs.is_dir() or not os.environ.get("LOGS"):
        pytest.skip("LOGS names no folder with the logs of round 0.5")
    found = answer(capsys, logs, "--all-runs", "--table", "time")["time"]
    assert len(found) == 35
    for name, (olympic_s, sample, population, epochs, epochs_sample) in ROUND_0_5.items():
        one = row(found, name)
        assert round(one["olympic_s"], 1) == olympic_s
        assert round(one["time_variation_sample"] * 100, 2) == pytest.approx(sample, abs=0.0051)
        assert round(one["time_variation_population"] * 100, 2) == pytest.approx(population, abs=0.0051)
        assert one["progress_mean"] == pytest.approx(epochs)
        assert round(one["progress_variation_sample"] * 100, 2) == pytest.approx(epochs_sample, abs=0.0051)
