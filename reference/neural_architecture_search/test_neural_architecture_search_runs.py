"""Neural architecture search: short runs through train.py, what they log and refuse, the texts, and the evidence.

All text here is made up. The test that needs the installed Wikipedia excerpt is skipped where it is missing.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from reference.common import benchmark

from . import clauses, ptb, search, train

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NEEDS_FACTS = pytest.mark.skipif(
    not (HERE / "benchmark.toml").is_file(), reason="no benchmark.toml: no evidence yet for a target"
)
pytestmark = NEEDS_FACTS


def run_smoke(log: Path, *flags: str) -> list[dict]:
    """The events of a smoke run, in this process."""
    assert train.main(["--profile", "smoke", "--log", str(log), "--device", "cpu", *flags]) == 0
    return events(log)


def events(log: Path) -> list[dict]:
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in log.read_text().splitlines()]


def values(log: list[dict], key: str) -> list:
    return [event["value"] for event in log if event["key"] == key]


def test_a_smoke_run_its_log_and_its_drawing(tmp_path: Path) -> None:
    log = run_smoke(tmp_path / "a.txt", "--seed", "7", "--samples", str(tmp_path / "cells"))
    assert values(log, "submission_benchmark") == [HERE.name]
    named = {event["metadata"]["name"]: event["value"] for event in log if event["key"] == "baseline"}
    assert len(clauses.ALPHABET) > named["kneser_ney_1"] > named["kneser_ney_2"]
    (floor,) = values(log, "perplexity_floor")
    assert min(named.values()) > 1.7 * floor > 1
    judged = values(log, "eval_accuracy")
    assert len(judged) == 4
    assert named["kneser_ney_1"] / 2 > judged[-1] > floor  # it has learnt from what stands before
    for key in ("derived_cell", "validation_perplexity", "random_cell_perplexity", "random_cell_best_perplexity"):
        assert [event["metadata"]["epoch_num"] for event in log if event["key"] == key] == [1, 2, 3, 4]
    best, median = values(log, "random_cell_best_perplexity"), values(log, "random_cell_perplexity")
    assert all(floor < one < other for one, other in zip(best, median, strict=True))
    assert [event["metadata"]["epoch_num"] for event in log if event["key"] == "controller_entropy"] == [2, 3, 4]
    epochs = [event["metadata"]["samples_count"] for event in log if event["key"] == "epoch_stop"]
    trained_on = (values(log, "train_samples")[0] - 1) // 16  # of each stream; 58 pieces of 32 and one of what is left
    left = trained_on - 58 * 32
    assert 0 < left < 32
    assert epochs == [16 * (40 * 32 - (32 - left) * here) for here in (0, 1, 1, 0)]
    (drawing,) = (tmp_path / "cells").iterdir()
    assert f"<title>{values(log, 'derived_cell')[-1]}</title>" in drawing.read_text()
    command = [sys.executable, "-m", "compliance.check", str(tmp_path / "a.txt")]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert checked.returncode == 0, checked.stdout


def test_the_seed_decides_every_value(tmp_path: Path) -> None:
    first, second, other = (
        run_smoke(tmp_path / f"{name}.txt", "--seed", seed, "--shared-steps", "10", "--max-epochs", "2")
        for name, seed in (("a", "3"), ("b", "3"), ("c", "4"))
    )
    for key in ("eval_accuracy", "derived_cell", "controller_entropy", "random_cell_best_perplexity", "baseline"):
        assert values(first, key) == values(second, key)
        assert values(first, key)
    for key in ("baseline", "data_source"):  # the text knows no seed
        assert values(first, key) == values(other, key)
    assert values(first, "eval_accuracy") != values(other, "eval_accuracy")


def test_a_random_cell_trained_alone(tmp_path: Path) -> None:
    flags = ["--division", "open", "--cell-choice", "random", "--shared-steps", "5", "--max-epochs", "2"]
    log = run_smoke(tmp_path / "a.txt", "--samples", str(tmp_path), "--seed", "5", *flags)
    first = search.random_cells(1, nodes=3, seed=5)[0]
    assert values(log, "random_cell") == [str(first)] * 2
    for key in ("controller_entropy", "derived_cell", "random_cell_perplexity"):
        assert not values(log, key)
    assert f"<title>{first}</title>" in (tmp_path / "smoke_seed5.svg").read_text()


def test_the_uniform_control_teaches_nothing(tmp_path: Path) -> None:
    """The judged cell is the same at every evaluation; before the controller's phase begins all is as in a search."""
    flags = ["--seed", "5", "--shared-steps", "5", "--max-epochs", "3", "--division", "open"]
    flags += ["--samples", str(tmp_path)]
    usual = run_smoke(tmp_path / "a.txt", *flags)
    log = run_smoke(tmp_path / "b.txt", "--cell-choice", "uniform", *flags)
    assert len(values(usual, "controller_entropy")) == 2
    assert not values(log, "controller_entropy")
    first = search.random_cells(1, nodes=3, seed=5)[0]
    assert values(log, "random_cell") == [str(first)] * 3
    assert values(log, "derived_cell_perplexity")[0] == values(usual, "eval_accuracy")[0]
    for key in ("derived_cell", "random_cell_perplexity"):
        assert values(log, key)[0] == values(usual, key)[0]
        assert values(log, key)[1:] != values(usual, key)[1:]
    assert f"<title>{first}</title>" in (tmp_path / "smoke_seed5.svg").read_text()


def test_a_loss_that_is_not_finite_ends_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        run_smoke(tmp_path / "a.txt", "--division", "open", "--opt-name", "sgd", "--opt-base-learning-rate", "1e38")
    assert stopped.value.code == 2
    assert "training diverged" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--held-out", "validation", "--cell-choice", "random"], "held_out is 'validation'.*cell_choice is 'random'"),
        (["--division", "open", "--held-out", "test"], "--held-out is evaluation or validation"),
        (["--division", "open", "--text", "novel"], "--text is penn-treebank, clauses, wikipedia, not novel"),
        (["--division", "open", "--opt-name", "lamb"], "not lamb and controller"),
        (["--division", "open", "--nodes", "0"], "at least 1"),
        (["--division", "open", "--derive-samples", "0"], "at least 1"),
        (["--division", "open", "--controller-entropy-zero-epoch", "-1"], "entropy-zero-epoch must be 0 or more"),
        (["--division", "open", "--controller-temperature", "0"], "above 0"),
        (["--division", "open", "--opt-base-learning-rate", "-1"], "Invalid learning rate"),
        (["--division", "open", "--vocab-size", "10"], "--vocab-size 10: the training text has 38 symbols"),
        (["--division", "open", "--global-batch-size", "90000"], "cannot be cut into 90000 streams"),
    ],
)
def test_settings_without_sense_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run_smoke(tmp_path / "a.txt", *flags)
    assert stopped.value.code == 2
    assert re.search(message, capsys.readouterr().err)


def test_the_learning_rate_rises_stays_and_falls() -> None:
    hp = train.PROFILES["embedded"]
    rise, start = hp.opt_learning_rate_warmup_steps, hp.lr_decay_start_epoch
    assert train.learning_rate(hp, rise // 2, 1) == pytest.approx(hp.opt_base_learning_rate / 2)
    assert train.learning_rate(hp, rise + 1, start) == hp.opt_base_learning_rate
    fallen = train.learning_rate(hp, 10 * rise, start + 2)
    assert fallen == pytest.approx(hp.opt_base_learning_rate * hp.lr_decay_factor**2)
    assert train.learning_rate(train.PROFILES["full"], 1, 1) == 20.0  # no warm-up


# ---- the profiles' texts ---------------------------------------------------------------------------------------------


def write_ptb(folder: Path, names: str = "ptb.{}.txt") -> None:
    """Three small files in the treebank's layout: a sentence a line, blanks around it, words not in it as <unk>."""
    folder.mkdir(parents=True, exist_ok=True)
    sentences = clauses.text(3000, seed=1)[0].split(".")[:120]
    in_words = ([line[at : at + 2] for at in range(0, len(line), 2)] for line in sentences)
    lines = [f" {' '.join(words)} <unk> " for words in in_words]
    for part, chosen in (("train", lines), ("valid", lines[::3]), ("test", lines[1::5])):
        (folder / names.format(part)).write_text("\n".join(chosen) + "\n")


def test_the_full_profile_says_what_it_expects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_ptb(tmp_path / "small")
    (tmp_path / "empty").mkdir()
    for flags, message in (
        ([], "give --data-dir"),
        (["--data-dir", str(tmp_path / "empty")], "no ptb.train.txt and no train.txt"),
        (
            ["--data-dir", str(tmp_path / "small")],
            "expected 929,589, 73,760 and 82,430 words and a vocabulary of 10,000",
        ),
    ):
        with pytest.raises(SystemExit) as stopped:
            narrow = ["--division", "open", "--hidden-size", "8", "--log", str(tmp_path / "log.txt"), "--device", "cpu"]
            train.main(["--profile", "full", *narrow, *flags])
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "log.txt").exists()


@pytest.mark.parametrize("names", ["ptb.{}.txt", "data/{}.txt"])
def test_the_full_profile_reads_its_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: str) -> None:
    """One epoch of a narrow full model with twelve nodes on made-up files, which the loader is told to expect."""
    (tmp_path / "data").mkdir()
    write_ptb(tmp_path, names)
    text = [(tmp_path / names.format(part)).read_text() for part in ptb.PARTS]
    counts = tuple(len(part.split()) + part.count("\n") for part in text)
    words = len(set(text[0].split())) + 1
    monkeypatch.setattr(ptb, "TOKENS", counts)
    monkeypatch.setattr(ptb, "WORDS", words)
    flags = ["--profile", "full", "--data-dir", str(tmp_path), "--log", str(tmp_path / "log.txt"), "--device", "cpu"]
    flags += ["--division", "open", "--vocab-size", str(words), "--hidden-size", "16", "--global-batch-size", "4"]
    flags += ["--shared-steps", "3", "--controller-steps", "2", "--derive-pieces", "2", "--max-epochs", "1"]
    status = train.main(flags)
    log = events(tmp_path / "log.txt")
    (value,) = values(log, "eval_accuracy")
    assert status == (0 if value <= 100 else 1)
    assert values(log, "nodes") == [12]
    assert values(log, "train_samples") == [counts[0]]
    assert values(log, "eval_samples") == [counts[2] - 1]
    assert [source["file"] for source in values(log, "data_source")] == [names.format(part) for part in ptb.PARTS]


def test_a_word_that_the_training_part_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for part, text in (("train", " a b \n"), ("valid", " a c \n"), ("test", " b \n")):
        (tmp_path / f"{part}.txt").write_text(text)
    monkeypatch.setattr(ptb, "TOKENS", (3, 3, 2))
    monkeypatch.setattr(ptb, "WORDS", 3)
    with pytest.raises(train.runs.SetupError, match="valid.txt: 1 words that the training part lacks, say 'c'"):
        ptb.read(tmp_path)


def test_the_embedded_profile_and_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker's counts are those of benchmark.toml, the tables (here the shorter ones) those of the README."""
    monkeypatch.setitem(train.NGRAM_ORDERS, "clauses", 4)
    flags = ["--log", str(tmp_path / "log.txt"), "--device", "cpu", "--max-epochs", "1", "--shared-steps", "1"]
    assert train.main(["--division", "open", *flags]) == 1  # the target is not reached
    log = events(tmp_path / "log.txt")
    facts = benchmark.load(HERE).profiles["embedded"]
    assert values(log, "train_samples") == [facts.train_samples]
    assert values(log, "eval_samples") == [facts.eval_samples]
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    for row in table_rows(log, 4):
        assert row in readme, row
    assert f"{values(log, 'perplexity_floor')[0]:.3f}" in readme


def table_rows(log: list[dict], orders: int) -> list[str]:
    """The README's rows of n-gram tables."""
    named = {event["metadata"]["name"]: event["value"] for event in log if event["key"] == "baseline"}
    assert len(named) == 2 * orders
    numbers = range(1, orders + 1)
    return [
        f"| {number} | {named[f'witten_bell_{number}']:.3f} | {named[f'kneser_ney_{number}']:.3f} |"
        for number in numbers
    ]


@pytest.mark.skipif(importlib.util.find_spec("gensim") is None, reason="needs the package gensim==4.4.0 (its data)")
def test_wikipedia_by_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step on the real text, in merged symbols and without its tables."""
    monkeypatch.setattr(train, "naive_baselines", lambda run, texts: {"symbols": float(texts.unit_count)})
    flags = ["--log", str(tmp_path / "log.txt"), "--device", "cpu", "--max-epochs", "1", "--shared-steps", "1"]
    flags += ["--hidden-size", "8", "--nodes", "2", "--derive-samples", "2"]
    assert train.main(["--division", "open", "--text", "wikipedia", "--vocab-size", "256", *flags]) == 1
    log = events(tmp_path / "log.txt")
    assert (values(log, "train_samples"), values(log, "eval_samples")) == ([1_156_635], [57_186])
    assert [source["name"] for source in values(log, "data_source")] == ["gensim"]
    assert values(log, "baseline") == [31.0]
    assert not values(log, "perplexity_floor")


def evidence() -> list[list[dict]]:
    """The ten runs, in the order of their seeds."""
    logs = [events(path) for path in (HERE / "evidence" / "embedded").glob("result_*.txt")]
    assert sorted(values(log, "seed")[0] for log in logs) == list(range(1, 11))
    return sorted(logs, key=lambda log: values(log, "seed")[0])


def test_no_random_cell_meets_the_target_in_any_run() -> None:
    """At every evaluation of the ten runs the best of ten random cells is above it; at the last the found one isn't."""
    facts = benchmark.load(HERE).profiles["embedded"]
    for log in evidence():
        judged, best = values(log, "eval_accuracy"), values(log, "random_cell_best_perplexity")
        assert len(judged) == len(best) == len(values(log, "derived_cell"))
        assert facts.reached(judged[-1])
        assert not any(map(facts.reached, best))
        assert not any(map(facts.reached, values(log, "random_cell_perplexity")))


def test_the_readme_shows_the_evidence() -> None:
    """Every log is a row of the table, the cell it found included; tables stay far from the target."""
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    target = benchmark.load(HERE).profiles["embedded"].quality_target
    for log in evidence():
        (seed,), judged = values(log, "seed"), values(log, "eval_accuracy")
        median, best = values(log, "random_cell_perplexity"), values(log, "random_cell_best_perplexity")
        row = f"| {seed} | {values(log, 'derived_cell')[-1]} | {len(judged)} | {judged[-1]:.3f} | "
        (cpu,) = values(log, "cpu_time_ms")
        row += f"{median[-1]:.2f} | {best[-1]:.2f} | {min(best):.2f} | {cpu / 1000:.0f} |"
        assert row in readme, row
        assert target < 0.75 * min(event["value"] for event in log if event["key"] == "baseline")
        assert values(log, "perplexity_floor")[0] < target
        assert all(row in readme for row in table_rows(log, train.NGRAM_ORDERS["clauses"]))


def controls(kind: str, **others: object) -> dict[int, list[dict]]:
    """The logs of a control by their seeds, all of the present target and settings but for `others`."""
    facts, hp = benchmark.load(HERE).profiles["embedded"], train.PROFILES["embedded"]
    found = {}
    for path in (HERE / "controls").glob(f"{kind}_*.txt"):
        log = events(path)
        assert values(log, "quality_target") == [facts.quality_target]
        for name, value in {**vars(hp), **others}.items():
            assert values(log, name) == [value], (path.name, name)
        (seed,), judged = values(log, "seed"), values(log, "eval_accuracy")
        assert facts.reached(judged[-1]) or len(judged) == hp.max_epochs
        assert set(values(log, "random_cell")) <= {str(search.random_cells(1, hp.nodes, seed)[0])}
        found[seed] = log
    return found


def test_the_readme_shows_what_narrowing_down_does_without_rewards() -> None:
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    facts, logs = benchmark.load(HERE).profiles["embedded"], controls("unrewarded", reward_scale=1e-9)
    assert len(logs) >= 4
    for seed, log in logs.items():
        judged, best = values(log, "eval_accuracy"), values(log, "random_cell_best_perplexity")
        assert not any(map(facts.reached, best))
        row = f"| {seed} | {values(log, 'derived_cell')[-1]} | {len(judged)} | {judged[-1]:.3f} | {min(best):.2f} |"
        assert row in readme, row
    with_rewards = [len(values(log, "eval_accuracy")) for log in evidence() if values(log, "seed")[0] in logs]
    without = [len(values(log, "eval_accuracy")) for log in logs.values()]
    assert f"in the mean {sum(without) / len(without):.1f}; with rewards the same seeds" in readme
    assert f"mean\n{sum(with_rewards) / len(with_rewards):.1f}, and all ten" in readme


def test_without_a_taught_controller_nothing_meets_the_target() -> None:
    """Not the random cell judged, not the best of ten beside it, and not the cell derived from those drawn evenly."""
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    facts, logs = benchmark.load(HERE).profiles["embedded"], controls("uniform", cell_choice="uniform")
    assert len(logs) >= 4
    keys = ("eval_accuracy", "random_cell_perplexity", "random_cell_best_perplexity", "derived_cell_perplexity")
    for seed, log in logs.items():
        lowest = [min(values(log, key)) for key in keys]
        assert not any(map(facts.reached, lowest))
        row = f"| {seed} | {' | '.join(f'{value:.2f}' for value in lowest)} |"
        assert row in readme, row


def test_the_readme_shows_what_random_cells_do_alone() -> None:
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    facts, logs = benchmark.load(HERE).profiles["embedded"], controls("random", cell_choice="random")
    assert len(logs) >= 6
    reached = 0
    for seed, log in logs.items():
        judged = values(log, "eval_accuracy")
        there = facts.reached(judged[-1])
        reached += there
        outcome = f"{judged[-1]:.3f} after {len(judged)}" if there else f"not reached, {min(judged):.3f}"
        row = f"| {seed} | {values(log, 'random_cell')[0]} | {outcome} |"
        assert row in readme, row
    assert f"{reached} of {len(logs)} random cells reach the target when they are trained alone" in readme
