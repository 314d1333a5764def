"""A few utterances as sound files and what was read in them, for a person to listen to."""

from __future__ import annotations

import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from reference.common import runs


def write(folder: Path, sounds: Sequence[np.ndarray], sample_rate: int, lines: Sequence[dict[str, str]]) -> None:
    """Write 00.wav, 01.wav ... of sounds (samples,), int16 or -1..1, and transcripts.txt: what each of `lines` says.

    Makes the folder. Raises SetupError when something cannot be written.
    """
    text = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, (sound, line) in enumerate(zip(sounds, lines, strict=True)):
            if sound.dtype != np.int16:
                sound = (sound.clip(-1, 1) * 32767).astype(np.int16)
            with wave.open(str(folder / f"{number:02d}.wav"), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(sample_rate)
                file.writeframes(sound.astype("<i2").tobytes())
            text.append(f"{number:02d}.wav\n" + "".join(f"  {name:<7}{said}\n" for name, said in line.items()))
        (folder / "transcripts.txt").write_text("".join(text), encoding="utf-8")
    except OSError as error:
        raise runs.SetupError(f"cannot write the samples in {folder}: {error.strerror or error}") from None
