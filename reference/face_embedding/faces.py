"""Faces made by code, several pictures of each identity. Nobody's data.

An identity is 22 proportions of head, hair, eyes, brows, nose and mouth, and one of four hair tones. A picture of it
draws everything else anew: pose, expression, light and its colour, background, hat, glasses, scarf, blur, noise. Skin
and hair tones lie close together and the light moves them further than they lie apart, so that colours don't tell who
it is; positions of pixels don't either, since the head turns, moves and grows.
"""

from __future__ import annotations

import numpy as np

NAME, VERSION = "drawn_faces", "1"
CHUNK = 64  # pictures painted at once: as many as fit the processor's cache

# What an identity is: middle and half range of each proportion, in half picture widths; tones 0..1.
IDENTITY = {
    "face_width": (0.6, 0.1),
    "face_height": (0.8, 0.09),
    "jaw": (0.34, 0.26),
    "ear": (0.13, 0.07),
    "hair_volume": (0.11, 0.09),
    "hair_length": (0.2, 0.6),
    "hairline": (-0.5, 0.14),
    "parting": (0.0, 0.4),
    "eye_distance": (0.25, 0.075),
    "eye_height": (-0.1, 0.1),
    "eye_size": (0.12, 0.042),
    "eye_aspect": (0.58, 0.26),
    "eye_tilt": (0.0, 0.45),
    "brow_gap": (0.19, 0.07),
    "brow_length": (0.16, 0.07),
    "brow_thickness": (0.045, 0.03),
    "brow_tilt": (0.0, 0.45),
    "nose_length": (0.34, 0.12),
    "nose_width": (0.105, 0.055),
    "mouth_height": (0.46, 0.09),
    "mouth_width": (0.24, 0.1),
    "lips": (0.068, 0.042),
}
# What a picture draws anew, each a number of -1..1.
PICTURE = (
    *("roll", "size", "across", "down", "yaw", "pitch", "smile", "open", "raise", "blink", "gaze"),
    *("light_x", "light_y", "gain", "warm", "green", "skin", "hair", "background", "slope", "wear", "glasses", "scarf"),
    *("wear_tone", "blur", "noise", "stripes", "contrast"),
)
ROLL, SIZE, SHIFT, YAW, PITCH = 0.23, 0.11, 0.13, 0.30, 0.16  # the largest of each
HAIR_TONES = np.array([[0.10, 0.08, 0.07], [0.22, 0.15, 0.10], [0.36, 0.25, 0.15], [0.52, 0.42, 0.27]], np.float32)
SKIN = np.array([0.78, 0.60, 0.50], np.float32)


def faces(identities: int, pictures: int, size: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pictures (n, size, size, 3) uint8, their identities' numbers (n,) int64, in order, and who the identities are.

    n is identities * pictures; the third array holds each identity's numbers, (identities, 23) float32. Identity i and
    its pictures are drawn from their own generator, `[seed, i]`: more identities only add some.
    """
    proportions = np.empty((identities, len(IDENTITY)), np.float32)
    tones = np.empty(identities, np.int64)
    drawn = np.empty((identities, pictures, len(PICTURE)), np.float32)
    grain = np.empty((identities, pictures, size, size, 3), np.float32)
    for number in range(identities):
        rng = np.random.default_rng([seed, number])
        proportions[number] = rng.uniform(-1, 1, len(IDENTITY))
        tones[number] = rng.integers(len(HAIR_TONES))
        drawn[number] = rng.uniform(-1, 1, (pictures, len(PICTURE)))
        rng.standard_normal(dtype=np.float32, out=grain[number])
    middle, half = np.array(list(IDENTITY.values()), np.float32).T
    of = np.repeat(middle + half * proportions, pictures, axis=0)
    tone = np.repeat(HAIR_TONES[tones], pictures, axis=0)
    drawn, grain = drawn.reshape(-1, len(PICTURE)), grain.reshape(-1, size, size, 3)
    out = np.empty((len(of), size, size, 3), np.uint8)
    for start in range(0, len(of), CHUNK):
        part = slice(start, start + CHUNK)
        out[part] = paint(of[part], drawn[part], tone[part], grain[part])
    return out, np.repeat(np.arange(identities), pictures), np.column_stack([proportions, tones]).astype(np.float32)


def paint(of: np.ndarray, drawn: np.ndarray, tone: np.ndarray, grain: np.ndarray) -> np.ndarray:
    """Pictures (n, size, size, 3) uint8 of identities' proportions `of` (n, 22) and the pictures' `drawn` (n, 28).

    tone: hair colours (n, 3); grain: noise (n, size, size, 3) of standard deviation 1.
    """
    face = {name: of[:, i, None, None] for i, name in enumerate(IDENTITY)}
    now = {name: drawn[:, i, None, None] for i, name in enumerate(PICTURE)}
    size = grain.shape[1]
    edge = np.float32(2.4 / size)
    centres = ((np.arange(size, dtype=np.float32) + 0.5) * 2 / size - 1)[None]
    x, y = centres[:, None, :] - SHIFT * now["across"], centres[:, :, None] - SHIFT * now["down"]
    angle, scale = ROLL * now["roll"], 1 / (1.02 + SIZE * now["size"])
    u = (np.cos(angle) * x + np.sin(angle) * y) * scale
    v = (np.cos(angle) * y - np.sin(angle) * x) * scale

    canvas = _background(now, centres)
    skin = SKIN * (1 + 0.14 * drawn[:, PICTURE.index("skin"), None])
    hair = tone * (1 + 0.35 * drawn[:, PICTURE.index("hair"), None])
    outline = _head(canvas, face, u, v, edge, skin, hair)
    # where a point of the turned head's front is seen: the middle moves, the sides hardly do
    front = np.clip(1 - (u * u + v * v), 0, 1)
    a, b = u + YAW * 0.34 * now["yaw"] * front, v + PITCH * 0.30 * now["pitch"] * front
    _eyes(canvas, face, now, a, b, edge, hair)
    _nose_and_mouth(canvas, face, now, a, b, edge, skin)
    _hair(canvas, face, a, b, outline, edge, hair)
    _worn(canvas, face, now, (a, b, u, v), edge)
    return _lit(canvas, now, (u, v), grain)


def _inside(distance: np.ndarray, edge: np.ndarray | float) -> np.ndarray:
    """How much of a pixel lies inside, 0..1, for its distance from the outline (negative inside)."""
    return np.clip(0.5 - distance / edge, 0, 1)


def _cover(canvas: np.ndarray, where: np.ndarray, colour: np.ndarray) -> None:
    """Paint colour (n, 3) over canvas (3, n, size, size): all of it where `where` (n, size, size) is 1."""
    for channel in range(3):
        canvas[channel] += where * (colour[:, channel, None, None] - canvas[channel])


def _grey(value: np.ndarray) -> np.ndarray:
    """The colours (n, 3) of grey values (n, 1, 1)."""
    return np.repeat(value[:, :, 0], 3, axis=1)


def _background(now: dict[str, np.ndarray], centres: np.ndarray) -> np.ndarray:
    base = 0.5 + 0.35 * now["background"]
    slope = 0.25 * now["slope"] * (centres[:, None, :] + now["wear_tone"] * centres[:, :, None])
    along = np.cos(3 * now["stripes"]) * centres[:, None, :] + np.sin(3 * now["stripes"]) * centres[:, :, None]
    stripes = 0.25 * now["contrast"] * np.sin((8 + 5 * now["pitch"]) * along + 3 * now["down"])
    colours = (base * (1 + 0.5 * now[name]) for name in ("gaze", "slope", "noise"))
    return np.stack([colour + slope + stripes for colour in colours])


def _head(
    canvas: np.ndarray,
    face: dict[str, np.ndarray],
    u: np.ndarray,
    v: np.ndarray,
    edge: np.float32,
    skin: np.ndarray,
    hair: np.ndarray,
) -> np.ndarray:
    """Hair behind, neck, ears and face; returns the distance from the face's outline."""
    below = np.clip(v, 0, 1)
    width = face["face_width"] * (1 - face["jaw"] * below * below)
    radius = np.sqrt((u / width) ** 2 + (v / face["face_height"]) ** 2)
    outline = (radius - 1) * face["face_width"]
    behind = np.maximum(outline - face["hair_volume"], v - face["hair_length"])
    _cover(canvas, _inside(behind, edge), hair)
    neck = np.maximum(np.abs(u) - 0.62 * face["face_width"], 0.4 - v)
    _cover(canvas, _inside(neck, edge), skin * 0.82)
    ears = np.sqrt((np.abs(u) - face["face_width"]) ** 2 + (0.5 * (v - 0.04)) ** 2) - 0.6 * face["ear"]
    _cover(canvas, _inside(ears, edge), skin * 0.9)
    _cover(canvas, _inside(outline, edge), skin)
    return outline


def _eyes(
    canvas: np.ndarray,
    face: dict[str, np.ndarray],
    now: dict[str, np.ndarray],
    a: np.ndarray,
    b: np.ndarray,
    edge: np.float32,
    hair: np.ndarray,
) -> None:
    side = np.where(a < 0, np.float32(-1), np.float32(1))
    across, down = a * side - face["eye_distance"], b - face["eye_height"]
    height = face["eye_size"] * face["eye_aspect"] * (1 - 0.45 * np.clip(now["blink"], 0, 1))
    tilted = down + face["eye_tilt"] * across
    eye = (np.sqrt((across / face["eye_size"]) ** 2 + (tilted / height) ** 2) - 1) * height
    white = _inside(eye, edge)
    _cover(canvas, white, _grey(0.90 + 0 * now["gaze"]))
    iris = np.sqrt((across - 0.04 * now["gaze"] * side) ** 2 + down * down) - 0.055
    _cover(canvas, white * _inside(iris, edge), _grey(0.16 + 0 * now["gaze"]))
    above = down + face["brow_gap"] + 0.025 * now["raise"] + face["brow_tilt"] * across
    brow = np.maximum(np.abs(above) - face["brow_thickness"], np.abs(across) - face["brow_length"])
    _cover(canvas, 0.85 * _inside(brow, edge), hair * 0.8)


def _nose_and_mouth(
    canvas: np.ndarray,
    face: dict[str, np.ndarray],
    now: dict[str, np.ndarray],
    a: np.ndarray,
    b: np.ndarray,
    edge: np.float32,
    skin: np.ndarray,
) -> None:
    tip = face["eye_height"] + face["nose_length"]
    bridge = np.maximum(np.abs(a + 0.02) - 0.030, np.abs(b - tip + 0.15) - 0.14)
    _cover(canvas, 0.35 * _inside(bridge, edge), skin * 0.6)
    nostrils = np.sqrt((np.abs(a) - face["nose_width"]) ** 2 + (1.4 * (b - tip)) ** 2) - 0.035
    _cover(canvas, 0.8 * _inside(nostrils, edge), skin * 0.45)
    down = b - face["mouth_height"] + (0.7 * now["smile"]) * a * a
    gap = 0.05 * np.clip(now["open"], 0, 1)
    height = face["lips"] + gap
    lips = (np.sqrt((a / face["mouth_width"]) ** 2 + (down / height) ** 2) - 1) * height
    _cover(canvas, _inside(lips, edge), skin * np.array([0.80, 0.52, 0.55], np.float32))
    mouth = np.maximum(np.abs(down) - 0.012 - gap, np.abs(a) - 0.85 * face["mouth_width"])
    _cover(canvas, _inside(mouth, edge), skin * 0.25)


def _hair(
    canvas: np.ndarray,
    face: dict[str, np.ndarray],
    a: np.ndarray,
    b: np.ndarray,
    outline: np.ndarray,
    edge: np.float32,
    hair: np.ndarray,
) -> None:
    fringe = np.maximum(b - face["hairline"] - face["parting"] * a, outline - 0.5 * face["hair_volume"])
    _cover(canvas, _inside(fringe, edge), hair)


def _worn(
    canvas: np.ndarray,
    face: dict[str, np.ndarray],
    now: dict[str, np.ndarray],
    where: tuple[np.ndarray, ...],
    edge: np.float32,
) -> None:
    """A hat in an eighth of the pictures, glasses in a fifth, a scarf in a seventh; each of any grey tone."""
    a, b, u, v = where
    hat = (now["wear"] > 0.75) * _inside(np.maximum(b + 0.46, np.abs(u) - 0.80), edge)
    _cover(canvas, hat, _grey(0.5 + 0.45 * now["wear_tone"]))
    ring = np.sqrt((np.abs(a) - face["eye_distance"]) ** 2 + (b - face["eye_height"]) ** 2) - 0.17
    rim = np.minimum(np.abs(ring), np.maximum(np.abs(b - face["eye_height"]), np.abs(a) - 0.1)) - 0.018
    _cover(canvas, (now["glasses"] > 0.6) * _inside(rim, edge), _grey(0.3 + 0.2 * now["slope"]))
    scarf = (now["scarf"] > 0.7) * _inside(0.66 - v, edge)
    _cover(canvas, scarf, _grey(0.5 - 0.45 * now["wear_tone"]))


def _lit(
    canvas: np.ndarray, now: dict[str, np.ndarray], where: tuple[np.ndarray, np.ndarray], grain: np.ndarray
) -> np.ndarray:
    """Light from a side and of a colour, a lens that blurs half of the pictures, noise; 8 bits."""
    u, v = where
    light = (0.88 + 0.22 * now["gain"]) * (1 + 0.38 * (now["light_x"] * u + now["light_y"] * v))
    tint = (1 + 0.22 * now["warm"], 1 + 0.10 * now["green"], 1 - 0.22 * now["warm"])
    for channel in range(3):
        canvas[channel] *= light * tint[channel]
    blurred = (np.roll(canvas, 1, 2) + np.roll(canvas, -1, 2) + np.roll(canvas, 1, 3) + np.roll(canvas, -1, 3)) / 4
    canvas += 0.35 * np.clip(now["blur"], 0, 1) * (blurred - canvas)
    out = canvas.transpose(1, 2, 3, 0) + (0.025 + 0.01 * now["noise"][..., None]) * grain
    return (np.clip(out, 0, 1) * 255 + 0.5).astype(np.uint8)
