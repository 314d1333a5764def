"""A written speech synthesiser: pulses and noise through the formants of phonemes. Nobody's data, no package.

It knows the words of sentences.py. It is clear and dull: all speakers say a word alike but for the length of their
vocal tract, pitch and speed. Formants of the vowels are about those of Peterson and Barney (1952).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NAME, VERSION = "formants", "1"
SAMPLE_RATE = 16000
HOP, WINDOW = 80, 320  # samples: the spectrum of the sound changes every 5 ms
VOICES = {"train": list(range(40)), "evaluation": list(range(100, 108)), "validation": list(range(200, 208))}


class Piece(NamedTuple):
    """A stretch of sound: seconds, strengths of voice and noise, formants in Hz, centre and width of the noise."""

    seconds: float
    voice: float
    noise: float
    formants: tuple[int, int, int]
    centre: float = 4000.0
    width: float = 3000.0


IY, IH, EH, AE, AA = (270, 2290, 3010), (390, 1990, 2550), (530, 1840, 2480), (660, 1720, 2410), (730, 1090, 2440)
AO, UH, UW, AH, ER = (570, 840, 2410), (440, 1020, 2240), (300, 870, 2240), (640, 1190, 2390), (490, 1350, 1690)
LIPS, TEETH, PALATE = (250, 800, 2200), (250, 1700, 2600), (250, 2100, 2500)


def _vowel(*targets: tuple[int, int, int]) -> list[Piece]:
    return [Piece(0.11 if len(targets) == 1 else 0.08, 1.0, 0.0, target) for target in targets]


def _stop(place: tuple[int, int, int], centre: float, voiced: bool) -> list[Piece]:
    closure = Piece(0.045, 0.12 if voiced else 0.0, 0.0, place)
    return [closure, Piece(0.015 if voiced else 0.035, 0.3 if voiced else 0.0, 0.5, place, centre, 1200.0)]


def _hiss(place: tuple[int, int, int], voice: float, noise: float, centre: float, width: float) -> list[Piece]:
    return [Piece(0.09, voice, noise, place, centre, width)]


_TONES = {"IY": [IY], "IH": [IH], "EH": [EH], "AE": [AE], "AA": [AA], "AO": [AO], "UH": [UH], "UW": [UW], "AH": [AH]}
_TONES |= {"ER": [ER], "EY": [EH, IY], "AY": [AA, IY], "OW": [AO, UW], "AW": [AA, UW]}
_GLIDES = {"L": (360, 1000, 2700), "R": (310, 1060, 1380), "W": (290, 610, 2150), "Y": (260, 2070, 3020)}
_STOPS = {"P": (LIPS, 900, False), "T": (TEETH, 4500, False), "K": (PALATE, 2200, False)}
_STOPS |= {"B": (LIPS, 900, True), "D": (TEETH, 4500, True), "G": (PALATE, 2200, True)}
_HISSES = {"S": (TEETH, 0, 0.8, 6500, 1800), "Z": (TEETH, 0.3, 0.5, 6500, 1800), "SH": (PALATE, 0, 0.8, 3200, 1200)}
_HISSES |= {"F": (LIPS, 0, 0.25, 5000, 5000), "V": (LIPS, 0.4, 0.12, 5000, 5000), "TH": (TEETH, 0, 0.2, 6000, 4000)}
_HISSES |= {"DH": (TEETH, 0.4, 0.08, 6000, 4000), "HH": (AH, 0, 0.3, 1500, 2500)}
PHONEMES = {name: _vowel(*targets) for name, targets in _TONES.items()}
PHONEMES |= {name: [Piece(0.06, 0.6, 0.0, target)] for name, target in _GLIDES.items()}
PHONEMES |= {name: [Piece(0.07, 0.4, 0.0, at)] for name, at in (("M", LIPS), ("N", TEETH), ("NG", PALATE))}
PHONEMES |= {name: _stop(*how) for name, how in _STOPS.items()} | {name: _hiss(*how) for name, how in _HISSES.items()}
PHONEMES["AX"] = [Piece(0.06, 0.8, 0.0, AH)]
PHONEMES["CH"] = [*PHONEMES["T"][:1], Piece(0.07, 0.0, 0.8, PALATE, 3200.0, 1200.0)]
PHONEMES["JH"] = [*PHONEMES["D"][:1], Piece(0.05, 0.3, 0.6, PALATE, 3200.0, 1200.0)]
PAUSE = Piece(0.04, 0.0, 0.0, AH)

_SAID = """
A AX|THE DH AX|MY M AY|YOUR Y AO R|EVERY EH V R IY|THIS DH IH S|OUR AW R|SMALL S M AO L|BIG B IH G|RED R EH D
GREEN G R IY N|BLUE B L UW|YELLOW Y EH L OW|OLD OW L D|NEW N UW|HEAVY HH EH V IY|EMPTY EH M P T IY|QUIET K W AY AX T
COLD K OW L D|WARM W AO R M|DARK D AA R K|BROKEN B R OW K AX N|WOODEN W UH D AX N|SILVER S IH L V ER|ROUND R AW N D
LUCKY L AH K IY|HUNGRY HH AH NG G R IY|TEACHER T IY CH ER|DOCTOR D AA K T ER|FARMER F AA R M ER|BROTHER B R AH DH ER
SISTER S IH S T ER|CHILD CH AY L D|SINGER S IH NG ER|DRIVER D R AY V ER|KING K IH NG|NEIGHBOR N EY B ER|DOG D AO G
HORSE HH AO R S|RABBIT R AE B IH T|CHICKEN CH IH K AX N|TIGER T AY G ER|BOX B AA K S|DOOR D AO R|WINDOW W IH N D OW
LAMP L AE M P|TABLE T EY B AX L|CHAIR CH EH R|BOTTLE B AA T AX L|LETTER L EH T ER|BASKET B AE S K IH T
BICYCLE B AY S IH K AX L|PICTURE P IH K CH ER|MIRROR M IH R ER|HAMMER HH AE M ER|CANDLE K AE N D AX L
TICKET T IH K IH T|GARDEN G AA R D AX N|KITCHEN K IH CH AX N|RIVER R IH V ER|MOUNTAIN M AW N T AX N|BRIDGE B R IH JH
STATION S T EY SH AX N|MARKET M AA R K IH T|FOREST F AO R IH S T|SCHOOL S K UW L|ISLAND AY L AX N D|FOUND F AW N D
CARRIED K EH R IY D|PAINTED P EY N T IH D|OPENED OW P AX N D|CLOSED K L OW Z D|BOUGHT B AO T|LOST L AO S T
FOLLOWED F AA L OW D|WATCHED W AA CH T|WASHED W AA SH T|MOVED M UW V D|DROPPED D R AA P T|BORROWED B AA R OW D
BROKE B R OW K|WANTED W AA N T IH D|TAKE T EY K|BRING B R IH NG|FIND F AY N D|PAINT P EY N T|OPEN OW P AX N
CLOSE K L OW Z|COUNT K AW N T|CARRY K EH R IY|PUSH P UH SH|FOLLOW F AA L OW|HIDE HH AY D|UNDER AH N D ER
BEHIND B IH HH AY N D|NEAR N IH R|BESIDE B IH S AY D|OVER OW V ER|FROM F R AH M|SLOWLY S L OW L IY
QUICKLY K W IH K L IY|ALWAYS AO L W EY Z|NEVER N EH V ER|ALMOST AO L M OW S T|TODAY T AX D EY
YESTERDAY Y EH S T ER D EY|AGAIN AX G EH N|ON AA N|MONDAY M AH N D EY|AT AE T|NOON N UW N|AFTER AE F T ER
LUNCH L AH N CH|BEFORE B IH F AO R|BREAKFAST B R EH K F AX S T|LAST L AE S T|NIGHT N AY T|TWO T UW|THREE TH R IY
FOUR F AO R|FIVE F AY V|SIX S IH K S|SEVEN S EH V AX N|EIGHT EY T|NINE N AY N|TEN T EH N|ELEVEN IH L EH V AX N
TWELVE T W EH L V|TWENTY T W EH N T IY|THIRTY TH ER T IY|FORTY F AO R T IY|LAMPS L AE M P S|CHAIRS CH EH R Z
BOTTLES B AA T AX L Z|LETTERS L EH T ER Z|CANDLES K AE N D AX L Z|TICKETS T IH K IH T S
"""
PRONUNCIATIONS = {said.split()[0]: said.split()[1:] for line in _SAID.strip().splitlines() for said in line.split("|")}


def speak(texts: list[str], voices: list[int], seed: int) -> list[np.ndarray]:
    """Each text as sound (samples,) int16 at 16 kHz, by a speaker of `voices`. The same seed gives the same sound.

    Raises ValueError for a word without a pronunciation.
    """
    rng = np.random.default_rng(seed)
    return [_said(text, voices[rng.integers(len(voices))], rng) for text in texts]


def _said(text: str, speaker: int, rng: np.random.Generator) -> np.ndarray:
    of_speaker = np.random.default_rng([speaker, 7])
    tract, pitch = of_speaker.uniform(0.85, 1.18), of_speaker.uniform(90, 230)  # both high or low at random
    slowness = of_speaker.uniform(0.8, 1.15) * rng.uniform(0.9, 1.1)
    pieces = [PAUSE]
    for word in text.split():
        if word not in PRONUNCIATIONS:
            raise ValueError(f"no pronunciation of {word!r}")
        pieces += [piece for phoneme in PRONUNCIATIONS[word] for piece in PHONEMES[phoneme]] + [PAUSE]
    counts = [max(round(piece.seconds * slowness * rng.uniform(0.85, 1.15) * SAMPLE_RATE / HOP), 1) for piece in pieces]
    tracks = np.array([[p.voice, p.noise, *p.formants, p.centre, p.width] for p in pieces]).repeat(counts, axis=0)
    tracks = np.stack([np.convolve(np.pad(track, 3, "edge"), np.full(7, 1 / 7), "valid") for track in tracks.T])
    melody = pitch * np.linspace(1.1, 0.85, tracks.shape[1]) * (1 + 0.03 * np.sin(np.arange(tracks.shape[1]) / 9))
    sound = _sounded(tracks, tract, melody, rng)
    return (sound / np.abs(sound).max() * 20000).astype(np.int16)


def _sounded(tracks: np.ndarray, tract: float, melody: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """tracks (7, frames): voice, noise, three formants, centre and width of the noise; melody (frames,) in Hz."""
    voice, noise, *formants, centre, width = (track[:, None] for track in tracks)
    frequencies = np.fft.rfftfreq(WINDOW, 1 / SAMPLE_RATE)
    resonances = np.ones((len(voice), len(frequencies)))
    for formant, bandwidth in zip(formants, (80, 110, 160), strict=True):
        at = formant * tract
        below = np.hypot(at**2 - frequencies**2, frequencies * bandwidth)  # of a resonance, 1 at frequency 0
        resonances *= at**2 / below
    tilt = 1 / (1 + (frequencies / 700) ** 1.5) + 0.02
    band = np.exp(-0.5 * ((frequencies - centre * tract) / (0.5 * width)) ** 2)
    samples = HOP * (len(voice) - 1) + WINDOW
    turns = np.cumsum(np.interp(np.arange(samples) / HOP, np.arange(len(melody)), melody) / SAMPLE_RATE)
    pulses = np.diff(np.floor(turns), prepend=0.0)  # one a turn
    pulses = pulses + 0.01 * rng.standard_normal(samples)  # breath
    shaped = voice * resonances * tilt * _spectra(pulses) + 0.1 * noise * band * _spectra(rng.standard_normal(samples))
    frames = np.fft.irfft(shaped, WINDOW) * np.hanning(WINDOW)
    sound = np.zeros(samples)
    for start, frame in enumerate(frames):
        sound[start * HOP : start * HOP + WINDOW] += frame
    return sound


def _spectra(source: np.ndarray) -> np.ndarray:
    """Spectra (frames, WINDOW // 2 + 1) of the windowed stretches of `source`, one every HOP samples."""
    return np.fft.rfft(np.lib.stride_tricks.sliding_window_view(source, WINDOW)[::HOP] * np.hanning(WINDOW))
