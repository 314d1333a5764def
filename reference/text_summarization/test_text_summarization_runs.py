"""Text summarization: preparing Gigaword, short runs through train.py, what they log and refuse, and the evidence.

All text here is made up. The test that needs the installed botocore is skipped where it is missing.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from . import docs, gigaword, made_up, prepare, train

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def run_smoke(log: Path, *flags: str) -> list[dict]:
    """The events of a smoke run, in this process."""
    assert train.main(["--profile", "smoke", "--log", str(log), "--device", "cpu", *flags]) == 0
    return events(log)


def events(log: Path) -> list[dict]:
    return [json.loads(line.removeprefix(":::MLLOG ")) for line in log.read_text().splitlines()]


def values(log: list[dict], key: str) -> list:
    return [event["value"] for event in log if event["key"] == key]


def test_a_smoke_run_its_log_and_its_samples(tmp_path: Path) -> None:
    log = run_smoke(tmp_path / "a.txt", "--seed", "7", "--samples", str(tmp_path / "read"), "--max-epochs", "3")
    assert values(log, "submission_benchmark") == [HERE.name]
    assert values(log, "train_samples") == [684]
    evaluations = [event for event in log if event["key"] == "eval_accuracy"]
    assert [event["metadata"]["epoch_num"] for event in evaluations] == [1, 2, 3]
    assert {event["metadata"]["evaluated_samples"] for event in evaluations} == {36}
    assert values(log, "eval_accuracy") == values(log, "rougel")
    assert len(values(log, "rouge1")) == len(values(log, "rouge2")) == 3
    epochs = [event["metadata"]["samples_count"] for event in log if event["key"] == "epoch_stop"]
    assert epochs == [684, 684, 684]
    named = {event["metadata"]["name"]: event["value"] for event in log if event["key"] == "baseline"}
    assert named["kept_words"] < named["verb_and_kept_words"]
    assert {"nearest_sentence"} < set(named)
    (text,) = (tmp_path / "read").iterdir()
    assert text.read_text(encoding="utf-8").count("written ") == 2
    command = [sys.executable, "-m", "compliance.check", str(tmp_path / "a.txt")]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout


def test_training_learns(tmp_path: Path) -> None:
    log = run_smoke(tmp_path / "a.txt", "--max-epochs", "8")
    assert values(log, "eval_accuracy")[-1] > 0.6  # 0.2 after two epochs


def test_the_seed_decides_every_value(tmp_path: Path) -> None:
    first, second, other = (
        run_smoke(tmp_path / f"{name}.txt", "--seed", seed) for name, seed in (("a", "3"), ("b", "3"), ("c", "4"))
    )
    for key in ("rouge1", "eval_accuracy", "baseline", "data_source"):
        assert values(first, key) == values(second, key)
    for key in ("baseline", "data_source"):  # the sentences know no seed
        assert values(first, key) == values(other, key)
    assert values(first, "rouge1") != values(other, "rouge1")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--held-out", "validation"], "held_out is 'validation'"),
        (["--beam-width", "1"], "beam_width is 1"),
        (["--division", "open", "--held-out", "test"], "evaluation or validation, not test"),
        (["--division", "open", "--opt-name", "sgd"], "not sgd"),
        (["--min-title-words", "10"], "below --max-title-words"),
        (["--division", "open", "--hidden-size", "0"], "must be at least 1"),
    ],
)
def test_settings_without_sense_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run_smoke(tmp_path / "a.txt", *flags)
    assert stopped.value.code == 2
    assert re.search(message, capsys.readouterr().err)


# ---- Gigaword --------------------------------------------------------------------------------------------------------


def made_up_gigaword(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The published layout with sentences of made_up.py; digits and rare words are marked as there."""
    folder.mkdir()
    counts = {"train": 40, "valid": 9}
    items = made_up.read()[0]
    for part, names in gigaword.TEXT.items():
        chosen = items[: counts[part]] if part == "train" else items[-counts[part] :]
        for name, side in zip(names, ("source", "title"), strict=True):
            lines = [" ".join([*getattr(item, side), "#.#", "UNK" if side == "source" else "<unk>"]) for item in chosen]
            (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    monkeypatch.setattr(gigaword, "COUNTS", counts)
    monkeypatch.setattr(gigaword, "HELD_OUT", 4)


def test_an_epoch_of_the_full_model_on_prepared_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, out = tmp_path / "text", tmp_path / "prepared"
    made_up_gigaword(text, monkeypatch)
    assert prepare.main(["--data-dir", str(text), "--out", str(out), "--known-words", "25"]) == 0
    assert gigaword.check(out) == 25
    words = gigaword.words(out)
    assert words[:4] == ["<pad>", "<s>", "</s>", "<unk>"]
    assert len(words) == len(set(words)) > 25
    numbers, starts = gigaword.arrays(out, "valid", "title")
    read = [" ".join(words[number] for number in numbers[a:b]) for a, b in zip(starts, starts[1:], strict=False)]
    assert read == [" ".join(line) for line in gigaword.lines(text, "valid", "title")]
    assert read[0].endswith("#.# unk")

    flags = ["--profile", "full", "--data-dir", str(out), "--log", str(tmp_path / "log.txt"), "--device", "cpu"]
    train.main([*flags, "--max-epochs", "1"])
    log = events(tmp_path / "log.txt")
    assert values(log, "train_samples") == [40]
    assert values(log, "eval_samples") == [4]
    assert values(log, "hidden_size") == [512]
    assert values(log, "data_source")[0]["name"] == "gigaword-headlines"
    assert len(values(log, "eval_accuracy")) == 1

    (out / "train.title.bin").write_bytes(b"\0\0")
    with pytest.raises(SystemExit):
        train.main([*flags, "--overwrite"])


def test_text_that_is_not_whole_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text"
    flags = ["--data-dir", str(text), "--out", str(tmp_path / "out")]
    assert prepare.main(flags) == 2
    assert "is not a folder" in capsys.readouterr().err
    made_up_gigaword(text, monkeypatch)
    monkeypatch.setitem(gigaword.COUNTS, "train", 3_803_957)
    assert prepare.main(flags) == 2
    assert "expected 3,803,957 lines in train.article.txt, found 40" in capsys.readouterr().err
    with (text / "train.title.txt").open("a", encoding="utf-8") as file:
        file.write("one more\n")
    assert prepare.main(flags) == 2
    assert "train.article.txt has 40 lines, train.title.txt has 41" in capsys.readouterr().err
    (text / "valid.article.filter.txt").unlink()
    assert prepare.main(flags) == 2
    assert "cannot read valid.article.filter.txt" in capsys.readouterr().err


def test_the_full_profile_says_what_it_expects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flags, message in (([], "give --data-dir"), (["--data-dir", str(tmp_path)], "no readable manifest.json")):
        with pytest.raises(SystemExit) as stopped:
            train.main(["--profile", "full", "--log", str(tmp_path / "log.txt"), "--device", "cpu", *flags])
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "log.txt").exists()


# ---- botocore --------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(importlib.util.find_spec("botocore") is None, reason="needs the package botocore==1.44.8")
def test_the_embedded_profile_reads_botocore() -> None:
    items, source = docs.read()
    train_items, held_out = docs.split(items, validation=False)
    assert (len(train_items), len(held_out)) == (15_477, 1_409)
    assert source.sha256.startswith("862926fa45")
    assert len({item.source for item in items}) == len(items)
    assert not {item.service for item in train_items} & {item.service for item in held_out}
    assert all(len(item.source) in docs.SOURCE_LENGTHS and len(item.title) in docs.TITLE_LENGTHS for item in items)


# ---- evidence --------------------------------------------------------------------------------------------------------


def test_the_readme_shows_the_evidence() -> None:
    """Every log's seed, epochs and last values are a row of the table."""
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    logs = [events(path) for path in sorted((HERE / "evidence" / "embedded").glob("result_*.txt"))]
    assert len(logs) == 10
    for log in logs:
        before, last = values(log, "eval_accuracy")[-2:]
        (seed,), one, two = values(log, "seed"), values(log, "rouge1"), values(log, "rouge2")
        assert f"| {seed} | {len(one)} | {before:.4f} | {last:.4f} | {one[-1]:.4f} | {two[-1]:.4f} |" in readme
