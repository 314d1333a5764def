"""Speaks a list of sentences with eSpeak NG, in a process of its own. Started by espeak.py, with the standard library.

    python espeak_process.py LIBRARY FOLDER SEED < requests > sound

LIBRARY is the shared library, FOLDER holds `espeak-ng-data`. A request is one line of JSON: [voice, words a minute,
pitch 0..99, text]. Out comes, for each, the number of samples (4 bytes) and the samples (int16), little-endian.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys

RETRIEVAL, DONT_EXIT = 1, 0x8000  # espeak_Initialize: hand the sound over; an error is no reason to exit
RATE, PITCH = 1, 3  # espeak_SetParameter
UTF8 = 1  # espeak_Synth
SAMPLE_RATE = 22050


def main(library: str, folder: str, seed: int) -> int:
    speech = ctypes.CDLL(library)
    rate = speech.espeak_Initialize(RETRIEVAL, 0, folder.encode(), DONT_EXIT)
    if rate != SAMPLE_RATE:
        return _fail(f"espeak_Initialize returned {rate}, not the sample rate {SAMPLE_RATE}, for the folder {folder}")
    pieces: list[bytes] = []
    callback_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)

    def keep(samples: ctypes._Pointer[ctypes.c_short], count: int, _events: int) -> int:
        if samples and count > 0:
            pieces.append(ctypes.string_at(samples, 2 * count))
        return 0

    callback = callback_type(keep)  # kept in a name: the library holds no reference
    speech.espeak_SetSynthCallback(callback)
    whole, pointer = ctypes.c_uint, ctypes.c_void_p
    speech.espeak_Synth.argtypes = [
        ctypes.c_char_p,
        ctypes.c_size_t,
        whole,
        ctypes.c_int,
        whole,
        whole,
        pointer,
        pointer,
    ]
    speech.espeak_ng_SetRandSeed.argtypes = [ctypes.c_long]
    speech.espeak_ng_SetRandSeed(seed)  # of the noise in breath; it isn't drawn anew for each sentence

    for line in sys.stdin:
        voice, words_a_minute, pitch, text = json.loads(line)
        if speech.espeak_SetVoiceByName(voice.encode()) != 0:
            return _fail(f"no voice {voice}")
        speech.espeak_SetParameter(RATE, words_a_minute, 0)
        speech.espeak_SetParameter(PITCH, pitch, 0)
        pieces.clear()
        spoken = text.encode()
        if speech.espeak_Synth(spoken, len(spoken) + 1, 0, 1, 0, UTF8, None, None) != 0:
            return _fail(f"could not speak {text!r} as {voice}")
        speech.espeak_Synchronize()
        sound = b"".join(pieces)
        sys.stdout.buffer.write(struct.pack("<i", len(sound) // 2) + sound)
    sys.stdout.buffer.flush()
    return 0


def _fail(message: str) -> int:
    print(message, file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
