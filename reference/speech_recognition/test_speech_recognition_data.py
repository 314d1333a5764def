"""Speech recognition: LibriSpeech's layout (made up), sentences, the two synthesisers, and which data a run gets."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from reference.common.errors import SetupError

from . import data, decoding, espeak, formants, librispeech, sentences, train

has_espeak = pytest.mark.skipif(
    importlib.util.find_spec("espeakng_loader") is None, reason="needs the package espeakng-loader==0.2.4"
)

# ---- LibriSpeech -----------------------------------------------------------------------------------------------------


def made_up_librispeech(folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str = "flac") -> None:
    """Five parts of two chapters with noises of up to half a second, in the owners' layout."""
    soundfile = pytest.importorskip("soundfile", reason="needs soundfile")
    rng = np.random.default_rng(0)
    texts = ["IT'S A DOG", "THE KING", "NO", "TWO OLD HORSES"]
    for number, part in enumerate(librispeech.COUNTS):
        for chapter in (1, 2):
            where = folder / "LibriSpeech" / part / str(10 + number) / str(chapter)
            where.mkdir(parents=True)
            lines = []
            for index in range(2):
                name = f"{10 + number}-{chapter}-{index:04d}"
                lines.append(f"{name} {texts[(2 * chapter + index + number) % 4]}")
                noise = rng.uniform(-0.5, 0.5, rng.integers(4000, 8000))
                soundfile.write(where / f"{name}.{kind}", noise, 16000)
            (where / f"{10 + number}-{chapter}.trans.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(librispeech, "COUNTS", dict.fromkeys(librispeech.COUNTS, 4))


@pytest.mark.parametrize("kind", ["flac", "wav"])
def test_librispeech_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    made_up_librispeech(tmp_path, monkeypatch, kind)
    part = librispeech.Part(tmp_path, "dev-clean")
    assert [file.name for file in part.files] == [f"13-{c}-000{i}.{kind}" for c in (1, 2) for i in (0, 1)]
    assert part.texts == ["THE KING", "NO", "TWO OLD HORSES", "IT'S A DOG"]
    sounds = [librispeech.read(file) for file in part.files]
    assert part.lengths.tolist() == [len(sound) for sound in sounds]
    assert all(0.4 < np.abs(sound).max() <= 0.5 for sound in sounds)
    assert part.source.version == "dev-clean, transcripts"


def test_librispeech_that_is_not_whole_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up_librispeech(tmp_path, monkeypatch)
    where = tmp_path / "LibriSpeech" / "test-clean" / "14" / "1"
    lines = (where / "14-1.trans.txt").read_text()
    sound = (where / "14-1-0001.flac").read_bytes()

    def refused(message: str) -> None:
        with pytest.raises(SetupError, match=message):
            librispeech.Part(tmp_path, "test-clean")

    (where / "14-1-0001.flac").unlink()
    refused("14-1.trans.txt:2: no 14-1-0001.flac or 14-1-0001.wav beside it")
    (where / "14-1-0001.flac").write_bytes(sound[:30])
    refused("14-1-0001.flac: not a readable sound file")
    (where / "14-1-0001.flac").write_bytes(sound)
    (where / "14-1.trans.txt").write_text(lines.replace("NO", "no"))
    refused("14-1.trans.txt:.*'n'.*not one of the labels")
    (where / "14-1.trans.txt").write_text(lines + "14-1-0002\n")
    refused("14-1.trans.txt:3: expected a file name and a transcript")
    (where / "14-1.trans.txt").write_text(lines.splitlines()[0] + "\n")
    refused("expected 4 utterances, found 3")
    with pytest.raises(SetupError, match="found 0"):
        librispeech.Part(tmp_path / "LibriSpeech", "test-clean")


def test_other_sample_rates_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_up_librispeech(tmp_path, monkeypatch)
    soundfile = pytest.importorskip("soundfile")
    soundfile.write(tmp_path / "LibriSpeech/test-clean/14/1/14-1-0000.flac", np.zeros(4000), 22050)
    with pytest.raises(SetupError, match="expected 16000 Hz and one channel, found 22050 Hz and 1"):
        librispeech.Part(tmp_path, "test-clean")


TEXT_SHA256 = "fc30bd47fc3b4a11"

# ---- sentences -------------------------------------------------------------------------------------------------------


def test_sentences_differ_and_are_the_same_everywhere() -> None:
    """The checksum pins the embedded profile's training text, which a synthesiser then speaks."""
    said = sentences.sentences(data.COUNTS["embedded"][0], data.SEEDS["train"])
    assert len(set(said)) == len(said) == 1000
    assert hashlib.sha256("\n".join(said).encode()).hexdigest().startswith(TEXT_SHA256)
    words = [word for text in said for word in text.split()]
    assert set(words) == set(sentences.vocabulary())
    assert len(sentences.vocabulary()) == 86
    assert min(words.count(word) for word in set(words)) >= 10
    assert {len(text.split()) for text in said} == set(range(3, 10))
    assert all(decoding.encode(text) for text in said)


def test_left_out_sentences_are_not_made() -> None:
    first = sentences.sentences(50, 7)
    again = sentences.sentences(50, 7, without=set(first[:20]))
    assert not set(first[:20]) & set(again)
    assert again[:30] == first[20:]


# ---- synthesisers ----------------------------------------------------------------------------------------------------


def test_the_written_synthesiser_knows_all_words_and_tells_them_apart() -> None:
    assert set(sentences.vocabulary()) <= set(formants.PRONUNCIATIONS)
    assert len({tuple(said) for said in formants.PRONUNCIATIONS.values()}) == len(formants.PRONUNCIATIONS)
    assert {name for said in formants.PRONUNCIATIONS.values() for name in said} <= set(formants.PHONEMES)
    with pytest.raises(ValueError, match="no pronunciation of 'ZEBRA'"):
        formants.speak(["A ZEBRA"], [1], 1)


def test_the_written_synthesiser_follows_its_seed_and_its_speakers() -> None:
    texts = ["THE OLD KING", "A SMALL BOX"]
    sounds = formants.speak(texts, [3], 5)
    assert all(sound.dtype == np.int16 and 8000 < len(sound) < 40000 for sound in sounds)
    assert all(np.abs(sound).max() >= 19999 for sound in sounds)
    for again, equal in ((formants.speak(texts, [3], 5), True), (formants.speak(texts, [4], 5), False)):
        assert [np.array_equal(a, b) for a, b in zip(sounds, again, strict=True)] == [equal, equal]


def test_vowels_of_the_written_synthesiser_have_their_formants() -> None:
    """The spectrum of a long vowel peaks near its first two formants, for a vocal tract of length 1."""
    for vowel in (formants.IY, formants.AA):
        tracks = np.array([[1.0, 0.0, *vowel, 4000.0, 3000.0]]).repeat(200, axis=0).T
        sound = formants._sounded(tracks, 1.0, np.full(200, 60.0), np.random.default_rng(0))
        strength = np.abs(np.fft.rfft(sound[:16000] * np.hanning(16000)))
        for at in vowel[:2]:
            near = strength[round(at * 0.9) : round(at * 1.1)].max()
            assert near > 2 * strength[round(at * 1.35) : round(at * 1.5)].max()


@has_espeak
def test_espeak_speaks_the_same_in_two_processes() -> None:
    texts = [*sentences.sentences(6, 1), "NO"]
    first, second = (espeak.speak(texts, espeak.VOICES["train"], 1) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))
    other = espeak.speak(texts, espeak.VOICES["evaluation"], 1)
    assert not any(np.array_equal(a, b) for a, b in zip(first, other, strict=True))
    seconds = [len(sound) / espeak.SAMPLE_RATE for sound in first]
    assert all(0.1 < value < 4 for value in seconds)
    assert seconds[-1] == min(seconds)
    assert all(np.abs(sound.astype(int)).max() > 1000 for sound in first)


@has_espeak
def test_espeak_knows_every_voice_and_says_which_it_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    voices = [voice for part in espeak.VOICES.values() for voice in part]
    assert len(voices) == len(set(voices))
    espeak.speak([], voices, 1)  # raises for a voice without a file
    with pytest.raises(SetupError, match="espeakng-loader==0.2.4 has no voice nobody"):
        espeak.speak(["A"], ["f1", "nobody"], 1)
    monkeypatch.setattr(espeak, "ACCENT", "xx-nowhere")
    with pytest.raises(SetupError, match=r"eSpeak NG \(espeakng-loader==0.2.4.*no voice xx-nowhere\+f1"):
        espeak.speak(["A"], ["f1"], 1)


@has_espeak
def test_no_voice_is_much_like_one_of_another_list() -> None:
    """A voice is a file of settings, a line each; its name and formants that are left as they are don't count."""
    folder = espeak.library()[0].parent / "espeak-ng-data" / "voices" / "!v"
    settings = {}
    for part, voices in espeak.VOICES.items():
        for voice in voices:
            lines = (folder / voice).read_text(encoding="utf-8", errors="replace").splitlines()
            kept = {" ".join(line.split()) for line in lines if line.strip()}
            kept = {line for line in kept if not line.startswith(("//", "#", "name", "language", "gender"))}
            settings[part, voice] = {line for line in kept if not line.endswith(" 100 100 100")}
    for (part, voice), lines in settings.items():
        for (other_part, other), others in settings.items():
            assert part == other_part or len(lines & others) <= 0.5 * len(lines), (voice, other)


def test_without_its_package_espeak_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(espeak, "PACKAGE", "espeakng_loader_that_is_not_there")
    with pytest.raises(SetupError, match="espeakng-loader==0.2.4, which is not installed"):
        data.load(some_run("embedded"))


def test_sound_that_came_out_incomplete_is_an_error() -> None:
    content = b"\x02\x00\x00\x00abcd"
    assert espeak._unpacked(content, 1)[0].tobytes() == b"abcd"
    with pytest.raises(ValueError, match="1 bytes of sound are left over"):
        espeak._unpacked(content + b"x", 1)
    with pytest.raises(SetupError, match="without a sound"):
        espeak._trimmed(np.zeros(100, np.int16), "A")


# ---- what a run gets -------------------------------------------------------------------------------------------------


def some_run(profile: str, told: list | None = None, **changed: object) -> SimpleNamespace:
    hp = {**vars(train.PROFILES[profile]), **changed}
    describe = (told if told is not None else []).append
    return SimpleNamespace(
        settings=train.Settings(**hp),
        profile=SimpleNamespace(name=profile),
        device=torch.device("cpu"),
        describe_data=lambda *facts: describe(facts),
    )


def test_training_and_evaluation_share_no_sentence_and_no_voice(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list = []
    speech = data.load(some_run("smoke", told))
    other = data.load(some_run("smoke", told, held_out="validation"))
    assert (len(speech.train), len(speech.held_out)) == told[0][:2] == data.COUNTS["smoke"]
    texts = [set(part.texts) for part in (speech.train, speech.held_out, other.held_out)]
    assert [len(a & b) for a, b in ((texts[0], texts[1]), (texts[0], texts[2]), (texts[1], texts[2]))] == [0, 0, 0]
    assert speech.train.texts == other.train.texts
    assert torch.equal(speech.train.read(3), other.train.read(3))
    assert told[0][2][:2] == told[1][2][:2]  # the sources of the training part
    assert told[0][2][3] != told[1][2][3]
    monkeypatch.setitem(formants.VOICES, "evaluation", [39, 100])
    with pytest.raises(ValueError, match="a voice is in the training set and in the evaluation set"):
        data.load(some_run("smoke"))


def test_noise_has_the_stated_strength() -> None:
    rng = np.random.default_rng(0)
    sounds = [(rng.standard_normal(20000) * 3000).astype(np.int16) for _ in range(20)]
    for clean, noisy in zip(sounds, data._noisy(sounds, 1), strict=True):
        noise = noisy.astype(float) - 0.5 * clean
        louder = 20 * np.log10(np.std(0.5 * clean) / np.std(noise))
        assert data.NOISE_DB[0] - 0.2 < louder < data.NOISE_DB[1] + 0.2
