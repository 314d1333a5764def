"""LibriSpeech as its owners publish it: folders of speakers and chapters, .flac files and transcripts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from reference.common import runs, sources

from . import decoding

SAMPLE_RATE = 16000
LAYOUT = (
    "LibriSpeech/{train-clean-100,train-clean-360,train-other-500,dev-clean,test-clean}/<speaker>/<chapter>/ with "
    "<speaker>-<chapter>.trans.txt and a .flac (or .wav) file for each of its lines"
)
TRAIN = ("train-clean-100", "train-clean-360", "train-other-500")
COUNTS = {
    "train-clean-100": 28539,
    "train-clean-360": 104014,
    "train-other-500": 148688,
    "dev-clean": 2703,
    "test-clean": 2620,
}
READERS = 8  # threads


class Part:
    """One part of the set: sound files, their texts and lengths, in the order of their names.

    lengths (n,) int64 are samples. Raises SetupError for a missing, surplus or damaged file.
    """

    def __init__(self, data_dir: Path, name: str) -> None:
        folder = data_dir / "LibriSpeech" / name
        transcripts = sorted(folder.glob("*/*/*.trans.txt"))
        self.files: list[Path] = []
        self.texts: list[str] = []
        for path in transcripts:
            self._add(path)
        if len(self.files) != COUNTS[name]:
            found = f"expected {COUNTS[name]:,} utterances, found {len(self.files):,}"
            raise runs.SetupError(f"{folder}: {found}\n  expected: {LAYOUT}")
        with ThreadPoolExecutor(READERS) as pool:
            self.lengths = np.array(list(pool.map(_samples, self.files)))
        about = f"{name}, transcripts"
        self.source = sources.data_folder(folder, "librispeech", about, transcripts)

    def _add(self, path: Path) -> None:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            name, _, text = line.partition(" ")
            try:
                decoding.encode(text)
            except ValueError as error:
                raise runs.SetupError(f"{path}:{number}: {error}") from None
            if not text.strip():
                raise runs.SetupError(f"{path}:{number}: expected a file name and a transcript, found {line!r}")
            candidates = [path.parent / f"{name}{suffix}" for suffix in (".flac", ".wav")]
            file = next((each for each in candidates if each.is_file()), None)
            if file is None:
                raise runs.SetupError(f"{path}:{number}: no {name}.flac or {name}.wav beside it")
            self.files.append(file)
            self.texts.append(text)


def read(path: Path) -> np.ndarray:
    """The sound of a file, (samples,) float32 in -1..1. Raises SetupError when it cannot be read."""
    soundfile = _soundfile()
    try:
        sound, _ = soundfile.read(path, dtype="float32")
    except (soundfile.LibsndfileError, OSError) as error:
        raise runs.SetupError(f"{path}: not a readable sound file: {error}") from None
    return sound


def _samples(path: Path) -> int:
    soundfile = _soundfile()
    try:
        about = soundfile.info(path)
    except (soundfile.LibsndfileError, OSError) as error:
        raise runs.SetupError(f"{path}: not a readable sound file: {error}") from None
    if (about.samplerate, about.channels) != (SAMPLE_RATE, 1):
        found = f"{about.samplerate} Hz and {about.channels} channels"
        raise runs.SetupError(f"{path}: expected {SAMPLE_RATE} Hz and one channel, found {found}")
    return int(about.frames)


def _soundfile() -> Any:
    try:
        import soundfile
    except (ImportError, OSError):  # OSError: the package without its library
        raise runs.SetupError(
            "LibriSpeech's files are read with soundfile, which is missing\n  pip install soundfile"
        ) from None
    return soundfile
