"""check on submissions: found at any level, everything at once, overrides shown, read only."""

import json
import random
import re
from pathlib import Path

import pytest

from compliance import check, example_submissions, examples, rcp, score_command, submission, systems
from compliance.example_submissions import good_description
from compliance.rule import all_rules
from compliance.verdict import Checker, observe_submission

SHA = "ab" * 32


@pytest.fixture(autouse=True)
def example_benchmarks(monkeypatch):
    """The suite's benchmarks are the made-up ones of the rules' examples."""
    monkeypatch.setattr("compliance.rulesets.benchmarks", lambda: examples.EXAMPLE_FACTS)


def log(path, seed, seconds=60, **changes):
    keys = {
        "submission_benchmark": "example",
        "submission_division": "closed",
        "submission_org": "Somebody",
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
        **changes,
    }
    short = [f"{key} {value}".strip() for key, value in keys.items() if value is not None]
    short += [
        "@100000",
        "run_start",
        f"@{100_000 + seconds * 500 + len(path.parts[-3]) * 7}",
        "epoch_start epoch_num=1",
    ]
    short += ["epoch_stop epoch_num=1", "eval_start epoch_num=1"]
    short += ["eval_accuracy 0.76 epoch_num=1 evaluated_samples=100", "eval_stop epoch_num=1"]
    short += [f"@{100_000 + seconds * 1000}", "run_stop status=success"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(examples.expand(short)) + "\n", encoding="utf-8")


def describe(root, system="a_system", **changes):
    path = root / "systems" / f"{system}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(good_description(**changes)), encoding="utf-8")
    return path


def a_submission(root, system="a_system", first=1):
    describe(root, system, submitter=root.name, system_name=system)
    folder = root / "results" / system / "example"
    for number in range(5):
        log(folder / f"result_{number}.txt", first + number, 60 + first + number, submission_platform=system)
    return folder


def run(capsys, *arguments):
    status = check.main([*map(str, arguments), "--format", "json", "--jobs", "1"])
    return status, json.loads(capsys.readouterr().out)


def found(report):
    """(rule, severity) of every finding about submissions."""
    return [(f["rule"], f["severity"]) for one in report["submissions"] for f in one["findings"]]


@pytest.mark.parametrize("level", ["", "Somebody", "Somebody/results", "Somebody/results/a_system/example"])
def test_a_good_submission_from_any_level(tmp_path, capsys, level):
    a_submission(tmp_path / "Somebody")
    status, report = run(capsys, tmp_path / level)
    (one,) = report["submissions"]
    assert (status, one["valid"], one["name"], one["systems"], one["findings"]) == (
        0,
        True,
        "Somebody",
        ["a_system"],
        [],
    )
    assert Path(one["path"]).absolute() == (tmp_path / "Somebody").absolute()


def test_from_inside(tmp_path, capsys, monkeypatch):
    folder = a_submission(tmp_path / "Somebody")
    monkeypatch.chdir(folder)
    status, report = run(capsys, ".")
    assert (status, [one["name"] for one in report["submissions"]]) == (0, ["Somebody"])


def test_logs_outside_of_a_submission_are_none(tmp_path, capsys):
    log(tmp_path / "somewhere" / "result_0.txt", 1)
    _, report = run(capsys, tmp_path, "--partial")
    assert report["submissions"] == []


def test_a_round_is_several_submissions(tmp_path, capsys):
    a_submission(tmp_path / "Somebody")
    a_submission(tmp_path / "Other", "other_system", first=11)
    (tmp_path / "Other" / "systems" / "other_system.json").unlink()
    status, report = run(capsys, tmp_path)
    assert status == 1
    assert [(one["name"], one["valid"]) for one in report["submissions"]] == [("Other", False), ("Somebody", True)]
    assert found(report) == [("U001", "error")]


def test_all_faults_of_a_description_at_once(tmp_path, capsys):
    root = tmp_path / "Somebody"
    a_submission(root)
    describe(root, cooling=None, hw_notes=None, status="soon", division="close", framework=5, number_of_nodes="none")
    _, report = run(capsys, root)
    rules = sorted(rule for rule, _ in found(report))
    assert rules == ["U003", "U004", "U004", "U005", "U006"]
    text = json.dumps(report["submissions"])
    for word in ("cooling", "hw_notes", "soon", "close", "framework", "number_of_nodes"):
        assert word in text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"submitter": "Some', "no JSON"),
        (b"[]", "no JSON object"),
        (b"null", "no JSON object"),
        (b"\xff\xfe{", "UTF-8"),
        (b"[" * 100_000, "cannot be read"),
        (b"", "no JSON"),
    ],
)
def test_an_unreadable_description_is_one_finding(tmp_path, capsys, content, reason):
    root = tmp_path / "Somebody"
    a_submission(root)
    (root / "systems" / "a_system.json").write_bytes(content)
    status, report = run(capsys, root)
    (finding,) = report["submissions"][0]["findings"]
    assert (status, finding["rule"]) == (1, "U002")
    assert reason in finding["message"]


def test_status_vocabulary_by_round(tmp_path):
    text = "ruleset {}\n--- Somebody/systems/a_system.json\nstatus onprem\n"
    text += "--- Somebody/results/a_system/bert/result_0.txt\nseed 1"
    from compliance.rule import all_rules, run_rules

    rule = [one for one in all_rules() if one.id == "U005"]
    old = example_submissions.submission(text.format("mlperf-3.1"), tmp_path / "old")
    new = example_submissions.submission(text.format("mlperf-4.0"), tmp_path / "new")
    assert run_rules(rule, old, "", suite=False) == []
    assert [finding.rule for finding in run_rules(rule, new, "", suite=False)] == ["U005"]


def test_a_copy_in_another_system_is_found(tmp_path, capsys):
    root = tmp_path / "Somebody"
    first = a_submission(root)
    second = a_submission(root, "b_system", first=11)
    assert run(capsys, root)[0] == 0
    copy = (first / "result_3.txt").read_text(encoding="utf-8").replace('"seed", "value": 4', '"seed", "value": 99')
    (second / "result_0.txt").write_text(copy.replace('"a_system"', '"b_system"'), encoding="utf-8")
    status, report = run(capsys, root)
    assert (status, found(report)) == (1, [("U011", "error")])
    (finding,) = report["submissions"][0]["findings"]
    assert finding["path"].endswith("b_system/example/result_0.txt")
    assert "a_system/example/result_3.txt" in finding["message"]


def test_ignored_files_are_named_with_the_reason(tmp_path, capsys):
    folder = a_submission(tmp_path / "Somebody")
    (folder / "notes.md").write_text("# notes", encoding="utf-8")
    (folder / "result_5.txt").write_text("it crashed\n", encoding="utf-8")
    (folder / "result_4.txt").rename(folder / "result_4.log")
    status, report = run(capsys, tmp_path)
    reasons = {Path(one["path"]).name: one["reason"] for one in report["skipped"]}
    assert reasons["notes.md"] == "a .md file is no log"
    assert reasons["result_5.txt"] == "no log record in it"
    assert sorted(found(report)) == [("U012", "error"), ("U013", "error")]
    assert status == 1


def test_links_names_and_sizes(tmp_path, capsys):
    root = tmp_path / "Somebody"
    folder = a_submission(root)
    (folder / "good_link").symlink_to("result_0.txt")
    (root / "benchmarks").mkdir()
    (root / "benchmarks" / "bad link").symlink_to("nowhere")
    with (root / "benchmarks" / "weights.bin").open("wb") as file:
        file.truncate((50 << 20) + 1)
    _, report = run(capsys, root)
    rules = [rule for rule, _ in found(report)]
    assert sorted(set(rules) - {"U012"}) == ["U015", "U016", "U017"]


# --- overrides --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["", "example"])
@pytest.mark.parametrize("text", ["seed-checker-bypass", "seed-checker-bypass\n", "  --seed_checker_bypass \r\n\n"])
def test_a_flag_is_honoured_and_shown(tmp_path, capsys, place, text):
    folder = a_submission(tmp_path / "Somebody")
    log(folder / "result_1.txt", 1, 99)
    status, report = run(capsys, tmp_path)
    assert status == 1
    (folder.parent / place / "package_checker_params").write_text(text, encoding="utf-8")
    status, report = run(capsys, tmp_path)
    (one,) = report["submissions"]
    assert status == 0
    assert [(flag["flag"], flag["line"]) for flag in one["overrides"]] == [("seed-checker-bypass", 1)]
    (finding,) = report["result_sets"][0]["findings"]
    assert (finding["rule"], finding["severity"]) == ("S003", "warning")
    assert "overridden" in finding["message"]
    assert report["result_sets"][0]["score_ms"] is not None
    check.main([str(tmp_path), "--jobs", "1"])
    text = capsys.readouterr().out
    assert "package_checker_params:1: override seed-checker-bypass" in text
    assert "overrides by package_checker_params: seed-checker-bypass" in text.splitlines()[-1]


def test_an_unknown_flag_is_an_error(tmp_path, capsys):
    folder = a_submission(tmp_path / "Somebody")
    (folder.parent / "package_checker_params").write_text("rcp-bypas\n", encoding="utf-8")
    status, report = run(capsys, tmp_path)
    (finding,) = report["submissions"][0]["findings"]
    assert (status, finding["rule"], finding["line"]) == (1, "U018", 1)


def test_a_failed_convergence_test_can_be_overridden(tmp_path):
    from compliance.rule import all_rules, run_rules
    from compliance.verdict import overridden

    (rule,) = [one for one in all_rules() if one.id == "U019"]
    (text,) = rule.examples("Fails")
    text += "\n--- Somebody/results/a_system/ssd/package_checker_params\ntext: rcp-bypass"
    model = example_submissions.submission(text, tmp_path)
    (finding,) = run_rules([rule], model, "", suite=False)
    assert overridden(finding, model.folders[0].params.mild).severity == "warning"


# --- places, read only ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("org/results/system/ssd", ("org", "system", "", "ssd")),
        ("results/org/results/system/ssd", ("org", "system", "", "ssd")),
        ("org/results/system/weak/cosmoflow", ("org", "system", "weak", "cosmoflow")),
        ("org/results/system", None),
        ("org/results/system/other/cosmoflow", None),
        ("org/system/ssd", None),
    ],
)
def test_places(path, expected):
    place = submission.place_of(Path("/data") / path)
    assert (place and (place.root.name, place.system, place.scaling, place.folder)) == expected


def test_mask_is_maskrcnn():
    place = submission.place_of(Path("/org/results/system/mask"))
    assert place.benchmark == "maskrcnn"


@pytest.mark.parametrize(
    ("value", "expected"),
    [("4", 4), (4, 4), (" 4 ", 4), ("4x", None), (True, None), (-1, None), (None, None), ([], None)],
)
def test_counts(value, expected):
    assert systems.System("a", Path("a.json"), {"number_of_nodes": value}).count("number_of_nodes") == expected


def test_weak_scaling_may_have_more_runs_than_asked_for():
    from compliance.benchmarks import Facts
    from compliance.result_set import ResultSet
    from compliance.rule import all_rules, run_rules

    (rule,) = [one for one in all_rules() if one.id == "S001"]
    facts = Facts(benchmark="cosmoflow", runs=10)

    def fires(folder, count):
        model = ResultSet(folder, [], ["x"] * count, facts, suite=False)
        return bool(run_rules([rule], model, "", suite=False))

    assert not fires("org/results/system/weak/cosmoflow", 12)
    assert fires("org/results/system/weak/cosmoflow", 9)
    assert fires("org/results/system/strong/cosmoflow", 12)


def test_nothing_is_written(tmp_path, capsys, monkeypatch):
    folder = a_submission(tmp_path / "round" / "Somebody")
    (folder / "scaling.json").write_text('{"scaling_factor": 1.1}', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    run(capsys, "round")
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


# --- damaged input ----------------------------------------------------------------------------------------------------

ODD = ("null", "[]", "{}", '"x"', "1e400", "-1", "NaN", "true", "0", '"\\ud800"', "[" * 50 + "]" * 50, "9" * 400, '""')


def damage(path, rng):
    """Cut, replace a value, shuffle, double or drop lines, insert bytes, or empty the file."""
    data = path.read_bytes()
    lines = data.split(b"\n")
    values = list(re.finditer(rb': ("[^"]*"|-?[0-9.]+|null|true)', data))
    what = rng.choice(["cut", "bytes", "value", "value", "value", "shuffle", "double", "drop", "empty"])
    if what == "value" and values:
        match = rng.choice(values)
        data = data[: match.start(1)] + rng.choice(ODD).encode() + data[match.end(1) :]
    elif what == "bytes":
        place = rng.randrange(len(data) + 1)
        data = data[:place] + rng.randbytes(5) + data[place:]
    elif what in ("shuffle", "double", "drop"):
        if what == "shuffle":
            rng.shuffle(lines)
        elif what == "double":
            lines.insert(rng.randrange(len(lines)), rng.choice(lines))
        else:
            del lines[rng.randrange(len(lines))]
        data = b"\n".join(lines)
    else:
        data = data[: rng.randrange(len(data) + 1)] if what == "cut" else b""
    path.write_bytes(data)


@pytest.mark.parametrize("seed", range(15))
def test_damaged_submissions_get_answers(tmp_path, capsys, seed):
    rng = random.Random(seed)
    folder = a_submission(tmp_path / "Somebody")
    (folder / "scaling.json").write_text('{"scaling_factor": 1.1}', encoding="utf-8")
    (folder.parent / "package_checker_params").write_text("rcp-bypass\n", encoding="utf-8")
    meters = folder / "power" / "result_0"
    meters.mkdir(parents=True)
    power = ["power_measurement_start", "power_reading 100", "power_measurement_stop"]
    (meters / "node_0.txt").write_text("\n".join(examples.expand(power)), encoding="utf-8")
    files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    for _ in range(4):
        damage(rng.choice(files), rng)
    for main, forms in ((check.main, ("text", "json")), (score_command.main, ("text", "csv", "json"))):
        for form in forms:
            assert main([str(tmp_path), "--ruleset", "suite", "--jobs", "1", "--format", form]) in (0, 1)
            assert "X001" not in capsys.readouterr().out
    assert rcp.main(["check", str(tmp_path), "--ruleset", "suite"]) in (0, 1)


@pytest.mark.parametrize("runs, partial, tested", [(1, True, False), (1, False, True), (2, True, False)])
def test_a_partial_set_of_too_few_runs_is_not_held_to_the_reference(tmp_path, monkeypatch, runs, partial, tested):
    """The embedded profile of a task of the suite, whose convergence points lie beside it."""
    monkeypatch.undo()
    evidence = next(iter(sorted((Path(__file__).parents[1] / "reference").glob("*/evidence/embedded"))))
    folder = tmp_path / "org" / "results" / "a_system" / evidence.parents[1].name
    folder.mkdir(parents=True)
    for number in range(runs):
        (folder / f"result_{number}.txt").write_bytes((evidence / f"result_{number}.txt").read_bytes())
    report = Checker(all_rules(), partial=partial, observe=observe_submission).check([tmp_path / "org"])
    rules = {finding.rule for one in report.submissions for finding in one.findings}
    assert ("U019" in rules) == tested
