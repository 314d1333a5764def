"""Speech recognition: runs through train.py, what they log, write and refuse, and the evidence."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import wave
from pathlib import Path

import pytest
import torch

from reference.common import benchmark

from . import data, espeak, librispeech, train
from .test_speech_recognition_data import made_up_librispeech, some_run

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
    log = run_smoke(tmp_path / "a.txt", "--seed", "7", "--samples", str(tmp_path / "samples"))
    assert values(log, "submission_benchmark") == [HERE.name]
    assert (values(log, "train_samples"), values(log, "eval_samples")) == ([24], [8])
    assert len(values(log, "cer")) == len(values(log, "eval_accuracy")) == 2
    epochs = [event["metadata"]["samples_count"] for event in log if event["key"] == "epoch_stop"]
    assert epochs == [24, 24]
    named = {event["metadata"]["name"]: event["value"] for event in log if event["key"] == "baseline"}
    assert named["empty"] == 1
    assert {"frequent_words", "nearest_utterance"} < set(named)
    (folder,) = (tmp_path / "samples").iterdir()
    sounds = sorted(folder.glob("*.wav"))
    assert len(sounds) == 8
    with wave.open(str(sounds[0])) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getsampwidth()) == (16000, 1, 2)
        assert 8000 < sound.getnframes() < 80000
    text = (folder / "transcripts.txt").read_text()
    said = data.load(some_run("smoke")).held_out.texts
    assert text.count(".wav\n  said") == text.count("  greedy") == text.count("  beam") == 8
    assert f"00.wav\n  said   {said[0]}\n" in text
    command = [sys.executable, "-m", "compliance.check", str(tmp_path / "a.txt")]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert checked.returncode == 0, checked.stdout


def test_the_seed_decides_every_value(tmp_path: Path) -> None:
    first, second, other = (
        run_smoke(tmp_path / f"{name}.txt", "--seed", seed, "--max-epochs", "1")
        for name, seed in (("a", "3"), ("b", "3"), ("c", "4"))
    )
    for key in ("cer", "eval_accuracy", "baseline", "data_source"):
        assert values(first, key) == values(second, key)
    for key in ("baseline", "data_source"):  # the speech knows no seed
        assert values(first, key) == values(other, key)
    assert values(first, "cer") != values(other, "cer")


def test_training_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trained on the eight evaluation utterances, the network reads them: a mislabelled or deaf one would not."""
    load = data.load

    def evaluated_on_its_training_data(run: object) -> data.Speech:
        speech = load(run)
        return data.Speech(speech.held_out, speech.held_out, speech.sound, speech.sample_rate)

    monkeypatch.setattr(data, "load", evaluated_on_its_training_data)
    flags = ["--gru-width", "96", "--max-epochs", "15", "--opt-base-learning-rate", "0.01", "--global-batch-size", "2"]
    log = run_smoke(tmp_path / "a.txt", *flags, "--shifted-bins", "0", "--masked-bins", "0")
    assert min(values(log, "eval_accuracy")) < 0.5


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--held-out", "validation"], "held_out is 'validation'"),
        (["--written-synthesiser"], "written_synthesiser is True"),
        (["--division", "open", "--held-out", "test"], "--held-out is evaluation or validation"),
        (["--division", "open", "--opt-name", "lamb"], "--opt-name is sgd or adamw, not lamb"),
        (["--division", "open", "--conv-kernels", "4", "3", "3", "3"], "two odd kernels"),
        (["--division", "open", "--global-batch-size", "0"], "must be at least 1"),
    ],
)
def test_settings_without_sense_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run_smoke(tmp_path / "a.txt", *flags)
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err


# ---- the other profiles ----------------------------------------------------------------------------------------------


def test_settings_fit_the_benchmark() -> None:
    facts = benchmark.load(HERE)
    assert set(train.PROFILES) == set(facts.profiles)
    for settings in train.PROFILES.values():
        benchmark.check_closed(facts, settings)
    assert facts.profiles["full"].train_samples == sum(librispeech.COUNTS[name] for name in librispeech.TRAIN)
    assert facts.profiles["full"].eval_samples == librispeech.COUNTS["test-clean"]
    for name, counts in data.COUNTS.items():
        assert (facts.profiles[name].train_samples, facts.profiles[name].eval_samples) == counts


def test_an_epoch_of_the_full_network_moves_every_tensor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through train.py with the full settings, on twelve training noises in LibriSpeech's layout."""
    made_up_librispeech(tmp_path, monkeypatch)
    kept: dict[torch.nn.Module, list[torch.Tensor]] = {}
    build = train.build

    def keep(run: object) -> tuple:
        net, optimizer = build(run)
        kept[net] = [p.detach().clone() for p in net.parameters()]
        return net, optimizer

    monkeypatch.setattr(train, "build", keep)
    flags = ["--profile", "full", "--data-dir", str(tmp_path), "--log", str(tmp_path / "log.txt"), "--device", "cpu"]
    train.main([*flags, "--max-epochs", "1", "--samples", str(tmp_path / "samples")])
    assert len(kept) == 2  # rehearsed once
    for net, before in kept.items():
        assert sum(p.numel() for p in net.parameters()) == 41_187_968
        moved = [not torch.equal(old, p) for old, p in zip(before, net.parameters(), strict=True)]
        assert all(moved)
    log = events(tmp_path / "log.txt")
    assert (values(log, "train_samples"), values(log, "eval_samples")) == ([12], [4])
    said = [(source["name"], source["version"]) for source in values(log, "data_source")]
    assert said == [("librispeech", f"{name}, transcripts") for name in (*librispeech.TRAIN, "test-clean")]
    assert len(list((tmp_path / "samples").glob("*/*.wav"))) == 4


def test_the_full_profile_says_what_it_expects(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flags, message in (
        ([], "give --data-dir"),
        (["--data-dir", str(tmp_path)], "expected 2,620 utterances, found 0"),
    ):
        with pytest.raises(SystemExit) as stopped:
            train.main(["--profile", "full", "--log", str(tmp_path / "log.txt"), "--device", "cpu", *flags])
        assert stopped.value.code == 2
        said = capsys.readouterr().err
        assert message in said
        assert ".trans.txt" in said
        assert not (tmp_path / "log.txt").exists()


@pytest.mark.skipif(
    importlib.util.find_spec("espeakng_loader") is None, reason="needs the package espeakng-loader==0.2.4"
)
def test_the_embedded_profile_is_what_the_benchmark_says() -> None:
    told: list = []
    speech = data.load(some_run("embedded", told))
    facts = benchmark.load(HERE).profiles["embedded"]
    assert told[0][:2] == (facts.train_samples, facts.eval_samples)
    assert facts.packages == (f"{espeak.DISTRIBUTION}=={espeak.VERSION}",)
    names = [source.name for source in told[0][2]]
    assert names[0] == "espeakng_loader"
    assert names[1:3] == ["sentences, train", "espeak-ng speech, train"]
    assert not set(speech.train.texts) & set(speech.held_out.texts)
    for part in (speech.train, speech.held_out):
        for index, text in enumerate(part.texts):  # a frame for each label, and a blank between double ones
            frames = (part.read(index).shape[1] - 1) // 2 + 1
            assert frames >= len(text) + sum(a == b for a, b in zip(text, text[1:], strict=False)), text


def test_the_readme_shows_the_evidence() -> None:
    """Every log is a row of the table; they heard the same speech."""
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    logs = [events(path) for path in sorted((HERE / "evidence" / "embedded").glob("result_*.txt"))]
    assert len(logs) == 10
    assert len({str(values(log, "data_source")) for log in logs}) == 1
    for log in logs:
        rates = values(log, "eval_accuracy")
        (seed,), (cpu_ms,) = values(log, "seed"), values(log, "cpu_time_ms")
        reached = log[[e["key"] for e in log].index("run_stop")]["metadata"]["status"] == "success"
        epochs = str(len(rates)) if reached else f"not in {len(rates)}"
        assert f"| {seed} | {epochs} | {rates[-2]:.4f} | {rates[-1]:.4f} | {values(log, 'cer')[-1]:.4f} |" in readme
        assert f"| {cpu_ms / 1000:.0f} |" in readme
