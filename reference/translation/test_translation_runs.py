"""Translation: preparing WMT's text, short runs through train.py, what they log and refuse, and the evidence.

All text here is made up.
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from . import grammar, prepare, train, wmt

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
    log = run_smoke(tmp_path / "a.txt", "--seed", "7", "--samples", str(tmp_path / "read"))
    assert values(log, "submission_benchmark") == [HERE.name]
    assert values(log, "train_samples") == [320]
    evaluations = [event for event in log if event["key"] == "eval_accuracy"]
    assert [event["metadata"]["epoch_num"] for event in evaluations] == [1, 2]
    assert {event["metadata"]["evaluated_samples"] for event in evaluations} == {40}
    assert len(values(log, "bleu")) == len(values(log, "new_combinations_accuracy")) == 2
    epochs = [event["metadata"]["samples_count"] for event in log if event["key"] == "epoch_stop"]
    assert epochs == [320, 320]
    named = {event["metadata"]["name"]: event["value"] for event in log if event["key"] == "baseline"}
    assert named["most_frequent"] < named["bigram"] < named["trigram_x_dictionary"] < 1
    (text,) = (tmp_path / "read").iterdir()
    assert text.read_text(encoding="utf-8").count("reference ") == 20
    command = [sys.executable, "-m", "compliance.check", str(tmp_path / "a.txt")]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout


def test_the_seed_decides_every_value(tmp_path: Path) -> None:
    first, second, other = (
        run_smoke(tmp_path / f"{name}.txt", "--seed", seed) for name, seed in (("a", "3"), ("b", "3"), ("c", "4"))
    )
    for key in ("bleu", "eval_accuracy", "baseline", "data_source"):
        assert values(first, key) == values(second, key)
    for key in ("baseline", "data_source"):  # the sentences know no seed
        assert values(first, key) == values(other, key)
    assert values(first, "eval_accuracy") != values(other, "eval_accuracy")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--held-out", "validation"], "held_out is 'validation'"),
        (["--division", "open", "--held-out", "test"], "evaluation or validation, not test"),
        (["--division", "open", "--opt-name", "sgd"], "not sgd"),
        (["--division", "open", "--opt-learning-rate-schedule", "cosine"], "not adam and cosine"),
        (["--shared-embeddings"], "a vocabulary for each language"),
        (["--attention-heads", "5"], "no model of width"),
        (["--division", "open", "--dropout", "1.0"], "from 0 to below 1"),
    ],
)
def test_settings_without_sense_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run_smoke(tmp_path / "a.txt", *flags)
    assert stopped.value.code == 2
    assert re.search(message, capsys.readouterr().err)


# ---- WMT -------------------------------------------------------------------------------------------------------------


def made_up_wmt(folder: Path) -> dict[str, int]:
    """The published layout, with sentences of the grammar; one pair of each training part has an empty side."""
    counts = {"train": 0, "newstest2013": 0, "newstest2014": 0}
    for seed, (part, names) in enumerate(wmt.TEXT.items()):
        pairs = [grammar.sentence(seed, number) for number in range(6)]
        sides = [[" ".join(pair.english) for pair in pairs], [" ".join(pair.german) for pair in pairs]]
        if part in wmt.TRAIN_PARTS:
            sides[seed % 2][2] = ""
        counts["train" if part in wmt.TRAIN_PARTS else part] += sum(bool(a and b) for a, b in zip(*sides, strict=True))
        for name, lines in zip(names, sides, strict=True):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if name.endswith(".sgm"):
                segments = "".join(f'<seg id="{k}"> {line} &amp; co </seg>\n' for k, line in enumerate(lines))
                text = f'<srcset setid="x"><doc><p>\n{segments}</p></doc></srcset>\n'
            else:
                text = "".join(f"{line}\n" for line in lines)
            (folder / name).write_text(text, encoding="utf-8")
    return counts


needs_tokenizers = pytest.mark.skipif(
    importlib.util.find_spec("tokenizers") is None, reason="needs the package tokenizers"
)


@needs_tokenizers
def test_an_epoch_of_the_full_profile_on_prepared_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = made_up_wmt(tmp_path / "text")
    assert counts == {"train": 15, "newstest2013": 6, "newstest2014": 6}
    monkeypatch.setattr(wmt, "COUNTS", counts)
    out = tmp_path / "prepared"
    assert prepare.main(["--data-dir", str(tmp_path / "text"), "--out", str(out), "--pieces", "300"]) == 0
    words = wmt.vocabulary(out)
    assert words[:4] == ["<pad>", "<s>", "</s>", "<unk>"]
    numbers, starts = wmt.arrays(out, "newstest2014", "de")
    wanted = [german for _, german in wmt.pairs(tmp_path / "text", "newstest2014")]
    assert wanted[0].endswith("& co")
    for row, text in enumerate(wanted):  # pieces join to the text again, but for letters that training lacks
        joined = wmt.joined([words[number] for number in numbers[starts[row] : starts[row + 1]]])
        assert re.fullmatch(re.escape(joined).replace("<unk>", "."), text)

    flags = ["--profile", "full", "--data-dir", str(out), "--log", str(tmp_path / "log.txt"), "--device", "cpu"]
    assert train.main([*flags, "--max-epochs", "1", "--bleu-pairs", "1", "--layers", "1"]) == 1  # 6 take ten seconds
    log = events(tmp_path / "log.txt")
    assert values(log, "train_samples") == [15]
    assert values(log, "model_width") == [512]
    assert values(log, "data_source")[0]["name"] == "wmt14-en-de"
    assert len(values(log, "eval_accuracy")) == 1

    (out / "train.de.bin").write_bytes(b"\0\0")
    with pytest.raises(SystemExit):
        train.main([*flags, "--overwrite"])


@needs_tokenizers
def test_text_that_is_not_whole_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text"
    flags = ["--data-dir", str(text), "--out", str(tmp_path / "out")]
    assert prepare.main(flags) == 2
    assert "is not a folder" in capsys.readouterr().err
    made_up_wmt(text)
    assert prepare.main(flags) == 2
    assert "'train': 4508785" in capsys.readouterr().err
    with (text / "commoncrawl.de-en.de").open("a", encoding="utf-8") as file:
        file.write("zu viel\n")
    assert prepare.main(flags) == 2
    assert "commoncrawl.de-en.en has 6 lines, commoncrawl.de-en.de has 7" in capsys.readouterr().err
    (text / "commoncrawl.de-en.en").unlink()
    assert prepare.main(flags) == 2
    assert "cannot read commoncrawl.de-en.en" in capsys.readouterr().err


def test_the_full_profile_says_what_it_expects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flags, message in (([], "give --data-dir"), (["--data-dir", str(tmp_path)], "no readable manifest.json")):
        with pytest.raises(SystemExit) as stopped:
            train.main(["--profile", "full", "--log", str(tmp_path / "log.txt"), "--device", "cpu", *flags])
        assert stopped.value.code == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "log.txt").exists()


# ---- evidence --------------------------------------------------------------------------------------------------------


def test_the_readme_shows_the_evidence() -> None:
    """Every log's seed, epochs and last values are a row of the table."""
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    logs = [events(path) for path in sorted((HERE / "evidence" / "embedded").glob("result_*.txt"))]
    assert len(logs) == 10
    for log in logs:
        before, last = values(log, "eval_accuracy")[-2:]
        (seed,), bleus, new = values(log, "seed"), values(log, "bleu"), values(log, "new_combinations_accuracy")
        assert f"| {seed} | {len(bleus)} | {before:.4f} | {last:.4f} | {new[-1]:.4f} | {bleus[-1]:.1f} |" in readme
