"""benchmark.toml's reader, data sources, seeds, the system description, following a log."""

from __future__ import annotations

import hashlib
import io
import json
import random

import numpy as np
import pytest
import torch
from rich.console import Console

from reference.common import benchmark, catalogue, machine, seeds, sources, system
from reference.common.display import PROGRESS_FILE, Display
from reference.common.errors import SetupError
from reference.common.following import Following

GOOD = """
title = "Made up"
model = "linear"
quality_metric = "error"
quality_range = [0.0, inf]
better = "lower"
progress = "samples_count"
[profile.full]
dataset = "noise"
train_samples = 10
eval_samples = 4
quality_target = 3
target_source = "O"
eval_every = 5
runs = 10
better = "higher"
quality_metric = "score"
[profile.smoke]
dataset = "noise"
train_samples = 10
eval_samples = 4
eval_every = 5
runs = 1
[hyperparameters]
"""


def load(tmp_path, text):
    (tmp_path / "benchmark.toml").write_text(text)
    return benchmark.load(tmp_path)


def test_a_benchmark_is_named_by_its_folder_and_a_profile_may_override(tmp_path):
    found = load(tmp_path, GOOD)
    assert found.name == tmp_path.name
    full, smoke = found.profiles["full"], found.profiles["smoke"]
    assert (full.better, full.quality_metric, full.quality_target) == ("higher", "score", 3.0)
    assert (smoke.better, smoke.quality_metric, smoke.quality_target) == ("lower", "error", None)


def test_reached_has_a_direction_and_includes_the_target(tmp_path):
    full = load(tmp_path, GOOD).profiles["full"]
    assert full.reached(3.0)
    assert not full.reached(2.999)
    lower = load(tmp_path, GOOD.replace('better = "higher"', 'better = "lower"')).profiles["full"]
    assert lower.reached(3.0)
    assert not lower.reached(3.001)
    assert not load(tmp_path, GOOD).profiles["smoke"].reached(0.0)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("eval_every = 5", "eval_evry = 5", "did you mean 'eval_every'"),
        ("title", "titel", "did you mean 'title'"),
        ('model = "linear"', "", "missing model"),
        ("train_samples = 10", 'train_samples = "10"', "train_samples must be int"),
        ("train_samples = 10", "train_samples = true", "train_samples must be int"),
        ("train_samples = 10", "train_samples = 0", "at least 1"),
        ('better = "higher"', 'better = "larger"', "higher, lower"),
        ('"samples_count"', '"steps"', "epoch_num, samples_count"),
        ("[0.0, inf]", "[1.0, 0.0]", "quality_range"),
        ("quality_target = 3", "quality_target = -3", "outside quality_range"),
        ("[profile.smoke]", "[profile.tiny]", "full, embedded, smoke"),
        ("runs = 10", "runs = 10 10", "not TOML"),
    ],
)
def test_a_wrong_benchmark_is_named(tmp_path, old, new, said):
    with pytest.raises(SetupError, match="benchmark.toml") as raised:
        load(tmp_path, GOOD.replace(old, new))
    assert said in str(raised.value)


def test_a_missing_benchmark_is_named(tmp_path):
    with pytest.raises(SetupError, match="cannot be read"):
        benchmark.load(tmp_path)


@pytest.mark.parametrize(
    ("limits", "good", "bad"),
    [
        ("{ one_of = [1, 2] }", 2, 3),
        ("{ equals = true }", True, False),
        ("{ equals = [1, 2] }", (1, 2), (2, 1)),
        ("{ above = 0 }", 0.1, 0),
        ("{ min = 0, max = 1 }", 1, 1.1),
        ("{ min = 0 }", 0, float("nan")),
        ("{ min = 0 }", 1, True),
        ('{ type = "integer" }', 1, 1.0),
        ('{ type = "integer" }', 1, True),
        ('{ type = "number" }', 1.5, "1.5"),
        ('{ type = "boolean" }', False, 0),
        ('{ type = "list" }', (1,), 1),
        ('{ type = "string" }', "x", None),
    ],
)
def test_limits_of_the_closed_division(tmp_path, limits, good, bad):
    found = load(tmp_path, GOOD + f"key = {limits}\n")

    class Settings:
        key = good

    benchmark.check_closed(found, Settings())
    Settings.key = bad
    with pytest.raises(SetupError, match="key is"):
        benchmark.check_closed(found, Settings())


def test_a_setting_that_must_be_logged_must_exist(tmp_path):
    with pytest.raises(SetupError, match="key is not among the settings"):
        benchmark.check_closed(load(tmp_path, GOOD + "key = { min = 0 }\n"), object())


def test_a_broken_benchmark_does_not_hide_the_others(tmp_path):
    for name, text in (("good", GOOD), ("bad", "nonsense")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "benchmark.toml").write_text(text)
    found = catalogue.tasks(tmp_path)
    assert isinstance(found["bad"], SetupError)
    assert found["good"].title == "Made up"


def test_package_files_are_found_without_importing(tmp_path, monkeypatch):
    (tmp_path / "made_up_data").mkdir()
    (tmp_path / "made_up_data" / "__init__.py").write_text("raise RuntimeError('imported')")
    (tmp_path / "made_up_data" / "x.csv").write_bytes(b"1,2\n")
    info = tmp_path / "made_up_data-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up-data\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    path, source = sources.package_file("made_up_data", "1.0", "x.csv", distribution="made-up-data")
    assert path.read_bytes() == b"1,2\n"
    assert source.file == "x.csv"
    assert source.sha256 == hashlib.sha256(b"1,2\n").hexdigest()
    with pytest.raises(SetupError, match=r"made-up-data==2\.0.*1\.0 is installed"):
        sources.package_file("made_up_data", "2.0", "x.csv", distribution="made-up-data")
    with pytest.raises(SetupError, match=r"no file y\.csv"):
        sources.package_file("made_up_data", "1.0", "y.csv", distribution="made-up-data")


def test_a_missing_package_is_named_with_its_version():
    with pytest.raises(SetupError, match=r"no-such-data==1\.2\.3, which is not installed"):
        sources.package_file("no_such_data", "1.2.3", "x", distribution="no-such-data")


def test_hashes_follow_the_content(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"abc")
    first = sources.sha256_of_file(path)
    assert first == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2's example
    path.write_bytes(b"abcd")
    assert sources.sha256_of_file(path) != first


def test_a_folders_hash_follows_names_and_contents_but_not_the_order(tmp_path):
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
    files = [tmp_path / "a", tmp_path / "b"]
    first = sources.data_folder(tmp_path, "x", "1", files).sha256
    assert sources.data_folder(tmp_path, "x", "1", reversed(files)).sha256 == first
    (tmp_path / "a").rename(tmp_path / "c")
    assert sources.data_folder(tmp_path, "x", "1", [tmp_path / "b", tmp_path / "c"]).sha256 != first


def test_generated_data_is_named_by_its_arrays():
    ones = np.ones((2, 3), dtype=np.float32)
    first = sources.generated("g", "1", ones).sha256
    assert sources.generated("g", "1", ones.T.copy()).sha256 != first  # same bytes, another shape
    assert sources.generated("g", "1", ones.T.copy().T).sha256 == first


def test_one_seed_seeds_everything():
    def draws(seed):
        seeds.seed_everything(seed)
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    first = draws(1)
    assert draws(1) == first
    assert all(a != b for a, b in zip(first, draws(2), strict=True))


def test_loader_workers_draw_different_numbers_and_the_same_ones_again():
    class Draws(torch.utils.data.Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return random.random(), float(np.random.rand())

    def all_draws():
        seeds.seed_everything(3)
        loader = torch.utils.data.DataLoader(Draws(), batch_size=2, num_workers=2, worker_init_fn=seeds.seed_worker)
        return [float(value) for batch in loader for column in batch for value in column]

    first = all_draws()
    assert all_draws() == first
    assert len(set(first)) == len(first)


def test_the_system_description_has_mlperfs_fields_and_only_text(tmp_path):
    from mlperf_logging.system_desc_checker import system_desc_checker as official

    path = tmp_path / "here.json"
    said = system.describe("us", "here", "closed", "onprem")
    empty = system.write(path, said)
    assert all(isinstance(value, str) for value in said.values())
    assert official.check_system_desc(str(path), "training", "5.1.0")[0] is True
    assert len(said) == 33
    assert said["host_memory_capacity"]
    assert said["framework"] == f"PyTorch {torch.__version__}"
    assert set(empty) == {key for key, value in said.items() if not value} - {"hw_notes", "sw_notes"}


def test_what_the_user_filled_in_stays(tmp_path):
    path = tmp_path / "here.json"
    said = {**dict.fromkeys(system.FIELDS, ""), "cooling": "", "framework": "new"}
    path.write_text(json.dumps({"cooling": "liquid", "framework": "old", "own": "1"}))
    assert "cooling" not in system.write(path, said)
    kept = json.loads(path.read_text())
    assert (kept["cooling"], kept["framework"], kept["own"]) == ("liquid", "new", "1")


def test_bars_may_nest_and_lines_stay_whole_beside_them():
    shown = io.StringIO()
    display = Display()
    display._console = Console(file=shown, force_terminal=True, width=60, highlight=False)
    for outer in display.bar(range(3), "training", None):
        for _ in display.bar(iter("ab"), "evaluating", None):
            display.line(f"line {outer}")
    assert display._bars is not None
    assert not display._bars.live.is_started
    assert "training" in shown.getvalue()
    assert shown.getvalue().count("line 1") == 2


def test_nothing_but_lines_is_shown_without_a_terminal(capsys):
    display = Display()
    for _ in display.bar(range(3), "training", None):
        display.line("[bold]as it is[/bold] " + "x" * 200)
    assert capsys.readouterr().out == ("[bold]as it is[/bold] " + "x" * 200 + "\n") * 3
    for _ in Display(quiet=True).bar(range(3), "training", None):
        Display(quiet=True).line("x")
    assert capsys.readouterr().out == ""


def test_a_bar_stops_when_its_loop_is_left(tmp_path, monkeypatch):
    monkeypatch.setenv(PROGRESS_FILE, str(tmp_path / "progress.json"))
    display = Display()
    bar = display.bar(range(3), "training", None)
    next(bar)
    bar.close()
    assert display._bars is not None
    assert not display._bars.tasks
    assert json.loads((tmp_path / "progress.json").read_text()) == {"label": "training", "done": 0, "total": 3}


def test_software_names_versions_and_commit():
    said = machine.software()
    assert said["torch"] == torch.__version__
    assert said["timetoaccuracy"]
    assert said["git_commit"] is None or len(str(said["git_commit"])) == 40


def test_following_reads_whole_lines_only_and_survives_anything(tmp_path):
    log = tmp_path / "result_0.txt"
    state = Following(log, tmp_path / "progress.json")
    state.update()
    assert state.doing() == "starting"

    def line(key, value, **metadata):
        return b":::MLLOG " + json.dumps({"key": key, "value": value, "metadata": metadata}).encode() + b"\n"

    first = line("eval_accuracy", 0.5, epoch_num=1)
    log.write_bytes(line("quality_target", 0.75) + b":::MLLOG {broken\n" + b":::MLLOG []\n\xff\n" + first[:20])
    state.update()
    assert (state.value, state.target) == (None, 0.75)
    with log.open("ab") as file:
        file.write(first[20:])
    state.update()
    assert (state.quality(), state.doing()) == ("0.5 / 0.75", "epoch 1")
    (tmp_path / "progress.json").write_text('{"label": "epoch 2", "done": 1, "total": 4}')
    assert state.doing() == "epoch 2, 25 %"
    with log.open("ab") as file:
        file.write(line("run_stop", None, status="aborted", reason="why") + line("time_to_train_ms", 12))
    state.update()
    assert (state.status, state.reason, state.time_ms) == ("aborted", "why", 12)
