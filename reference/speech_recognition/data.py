"""Utterances of the run's profile: LibriSpeech, or sentences made by code and spoken by a synthesiser."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from reference.common import runs, sources

from . import espeak, formants, librispeech, sentences
from .batches import READERS, Spectrogram, Utterances

# Seeds of the sentences and, with another one beside them, of their voices: evaluation and validation have their own.
SEEDS = {"train": 1, "evaluation": 2, "validation": 3}
COUNTS = {"embedded": (1000, 200), "smoke": (24, 8)}  # training and evaluation utterances
NOISE_DB = (15.0, 30.0)  # how much louder than the noise added to it the made-up speech is


@dataclass(frozen=True)
class Speech:
    """Training and evaluation utterances; `sound(i)` is evaluation utterance i, (samples,), to listen to."""

    train: Utterances
    held_out: Utterances
    sound: Callable[[int], np.ndarray]
    sample_rate: int


def load(run: runs.Run) -> Speech:
    """The data set of the run's profile. With --held-out validation, other speakers stand in for the evaluation's."""
    hp = run.settings
    if hp.held_out not in ("evaluation", "validation"):
        raise runs.SetupError(f"--held-out is evaluation or validation, not {hp.held_out}")
    speech, found = _librispeech(run) if run.profile.name == "full" else _spoken(run)
    run.describe_data(len(speech.train), len(speech.held_out), found)
    return speech


def sample_rate(run: runs.Run) -> int:
    """Samples a second of the sound of the run's profile."""
    if run.profile.name == "full":
        return librispeech.SAMPLE_RATE
    return formants.SAMPLE_RATE if _is_written(run) else espeak.SAMPLE_RATE


def spectrogram(run: runs.Run) -> Spectrogram:
    hp = run.settings
    return Spectrogram(sample_rate(run), hp.window_samples, hp.hop_samples, hp.mel_bands)


# ---- LibriSpeech -----------------------------------------------------------------------------------------------------


def _librispeech(run: runs.Run) -> tuple[Speech, list[sources.Source]]:
    data_dir = run.require_data_dir(librispeech.LAYOUT)
    held_out = librispeech.Part(data_dir, "test-clean" if run.settings.held_out == "evaluation" else "dev-clean")
    parts = [librispeech.Part(data_dir, name) for name in librispeech.TRAIN]
    features = spectrogram(run)

    def utterances(parts: list[librispeech.Part]) -> Utterances:
        files = [file for part in parts for file in part.files]
        texts = [text for part in parts for text in part.texts]
        lengths = np.concatenate([part.lengths for part in parts])
        return Utterances(lambda index: features(librispeech.read(files[index])), lengths, texts, READERS)

    speech = Speech(
        utterances(parts),
        utterances([held_out]),
        lambda index: librispeech.read(held_out.files[index]),
        librispeech.SAMPLE_RATE,
    )
    return speech, [part.source for part in (*parts, held_out)]


# ---- spoken by code --------------------------------------------------------------------------------------------------


def _spoken(run: runs.Run) -> tuple[Speech, list[sources.Source]]:
    written, held_out = _is_written(run), run.settings.held_out
    count, eval_count = COUNTS[run.profile.name]
    texts = {"train": sentences.sentences(count, SEEDS["train"])}
    texts[held_out] = sentences.sentences(eval_count, SEEDS[held_out], without=set(texts["train"]))
    if set(texts["train"]) & set(texts[held_out]):
        raise ValueError("a sentence is in the training set and in the evaluation set")
    module = formants if written else espeak
    if set(module.VOICES["train"]) & set(module.VOICES[held_out]):
        raise ValueError("a voice is in the training set and in the evaluation set")
    sounds, features, described = {}, {}, []
    make = spectrogram(run)
    for part, said in texts.items():
        sounds[part] = _noisy(module.speak(said, module.VOICES[part], SEEDS[part]), SEEDS[part])
        features[part] = [make(sound) for sound in sounds[part]]
        letters = np.frombuffer("\n".join(said).encode(), np.uint8)
        described.append(sources.generated(f"{sentences.NAME}, {part}", sentences.VERSION, letters))
        name = f"{formants.NAME if written else 'espeak-ng'} speech, {part}"
        version = formants.VERSION if written else espeak.VERSION
        described.append(sources.generated(name, version, *sounds[part]))

    def utterances(part: str) -> Utterances:
        lengths = np.array([len(sound) for sound in sounds[part]])
        return Utterances(features[part].__getitem__, lengths, texts[part])

    speech = Speech(utterances("train"), utterances(held_out), sounds[held_out].__getitem__, module.SAMPLE_RATE)
    return speech, described if written else [espeak.library()[1], *described]


def _is_written(run: runs.Run) -> bool:
    return run.profile.name == "smoke" or run.settings.written_synthesiser


def _noisy(sounds: list[np.ndarray], seed: int) -> list[np.ndarray]:
    """Each sound (samples,) int16 with white noise added, of a strength of its own."""
    rng = np.random.default_rng([seed, 1])
    noisy = []
    for sound in sounds:
        loud = sound.astype(np.float32)
        level = np.sqrt(np.mean(loud**2)) / 10 ** (rng.uniform(*NOISE_DB) / 20)
        mixed = 0.5 * (loud + level * rng.standard_normal(len(sound), np.float32))  # half: room for the noise
        noisy.append(mixed.clip(-32768, 32767).round().astype(np.int16))
    return noisy
