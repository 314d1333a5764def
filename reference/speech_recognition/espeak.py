"""Speech of eSpeak NG, from the library and voices in the package espeakng-loader, which is not imported.

eSpeak NG draws the noise of breath from a random generator of its own, so that its sound depends on the seed and on
everything spoken before. A list of sentences is therefore spoken by one fresh process, in order, with one seed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

from reference.common import runs, sources

PACKAGE, DISTRIBUTION, VERSION = "espeakng_loader", "espeakng-loader", "0.2.4"
LIBRARIES = {"linux": "libespeak-ng.so", "darwin": "libespeak-ng.dylib", "win32": "espeak-ng.dll"}
SAMPLE_RATE = 22050
SOUND_SEED = 1
ACCENT = "en-us"
# No voice of one list is in another, nor one that shares more than half of its settings. No whispers, no jokes.
_TRAIN = """
adam Alex Alicia Andrea Andy anika announcer antonio aunty benjamin boris caleb croak david Denis Diogo ed f1 f4 Gene
Gene2 grandpa Henrique Hugo ian iven iven2 iven3 Jacky kaukovalta klatt klatt2 klatt3 klatt4 Lee m1 m3 m5 m7 m8
marcelo Marco michel miguel Mike mike2 Nguyen norbert pablo quincy Reed rob sandro shelby steph steph2 travis zac
"""
VOICES = {
    "train": _TRAIN.split(),
    "evaluation": ["f3", "m4", "Annie", "max", "belinda", "edward", "Mario", "victor"],
    "validation": ["f2", "m2", "m6", "f5", "paul", "pedro", "robert", "grandma"],
}
SILENCE, MARGIN = 200, 0.05  # a sample louder than this is sound; seconds kept before the first and after the last


def library() -> tuple[Path, sources.Source]:
    """The shared library in the installed package. Raises SetupError without it, or on a system it isn't made for."""
    if sys.platform not in LIBRARIES:
        raise runs.SetupError(
            f"{DISTRIBUTION}=={VERSION} has no library for {sys.platform}; --written-synthesiser needs none"
        )
    return sources.package_file(PACKAGE, VERSION, LIBRARIES[sys.platform], DISTRIBUTION)


def speak(texts: list[str], voices: list[str], seed: int) -> list[np.ndarray]:
    """Each text as sound (samples,) int16 at 22,050 Hz, silence cut off, by one of the voices.

    `seed` draws voice, speed and pitch; the same seed gives the same sound on one machine.
    """
    rng = np.random.default_rng(seed)
    asked = []
    for text in texts:
        voice = f"{ACCENT}+{voices[rng.integers(len(voices))]}"
        asked.append([voice, int(rng.integers(160, 221)), int(rng.integers(30, 71)), text.lower()])
    path, _ = library()
    for voice in voices:  # the library takes a voice that it doesn't have for its own one
        if not (path.parent / "espeak-ng-data" / "voices" / "!v" / voice).is_file():
            raise runs.SetupError(f"{DISTRIBUTION}=={VERSION} has no voice {voice}; it may be damaged")
    worker = Path(__file__).with_name("espeak_process.py")
    command = [sys.executable, "-I", str(worker), str(path), str(path.parent), str(SOUND_SEED)]
    requests = "".join(json.dumps(each) + "\n" for each in asked).encode()
    done = subprocess.run(command, input=requests, capture_output=True, check=False)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip() or f"it ended with status {done.returncode}"
        raise runs.SetupError(f"eSpeak NG ({DISTRIBUTION}=={VERSION}, {path}) failed: {said}")
    return [_trimmed(sound, text) for sound, text in zip(_unpacked(done.stdout, len(texts)), texts, strict=True)]


def _unpacked(content: bytes, count: int) -> list[np.ndarray]:
    sounds, at = [], 0
    for _ in range(count):
        size = int(np.frombuffer(content, "<i4", 1, at)[0])
        sounds.append(np.frombuffer(content, "<i2", size, at + 4))
        at += 4 + 2 * size
    if at != len(content):
        raise ValueError(f"{len(content) - at} bytes of sound are left over")
    return sounds


def _trimmed(sound: np.ndarray, text: str) -> np.ndarray:
    loud = np.flatnonzero(np.abs(sound.astype(np.int32)) > SILENCE)
    if not len(loud):
        raise runs.SetupError(f"eSpeak NG spoke {text!r} without a sound; the package {DISTRIBUTION} may be damaged")
    margin = int(MARGIN * SAMPLE_RATE)
    return sound[max(loud[0] - margin, 0) : loud[-1] + margin]
