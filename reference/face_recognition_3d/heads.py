"""Heads made by code and seen by a camera of colour and depth. Nobody's data.

A head is a height field: an ellipsoid with bumps for brow, eye sockets, nose, cheeks, lips, chin and jaw, 49 numbers
that are an identity's shape, and marks of colour (brows, lips, hair). A picture turns it, lets it open its mouth or
smile, lights it from somewhere, and splats its points into a z-buffer. The sensor's depth is noisy, comes in steps,
drops pixels, and starts at an unknown distance; something hides a part of some pictures. Skins are of four tones
that many share, and the light has a colour, so that colour alone does not tell who it is.
"""

from __future__ import annotations

import numpy as np

NAME, VERSION = "rgbd_heads", "1"
GRID = 46  # points of the height field along each side
CHUNK = 32  # pictures rendered at once: as many as fit the processor's cache
TURN = np.array([25, 14, 8], np.float32) * (np.pi / 180)  # the largest yaw, pitch and roll
SCALE, SHIFT, DISTANCE = 0.06, 0.06, 0.08  # the largest changes of size, place and distance
DEPTH_NOISE = 0.01  # of the depth's range
DROPPED = -1.645  # depth pixels whose fifth noise is below are lost: 5 %
HIDDEN = 0.15  # share of the pictures with something before the head
BUMPS = (
    # name, x, y, width, height, size; each varies by the half range behind it; y is down; |x| > 0 is mirrored
    ("brow", 0.0, -0.24, 0.34, 0.07, 0.06, (0.0, 0.05, 0.10, 0.02, 0.06)),
    ("socket", 0.24, -0.12, 0.13, 0.09, -0.11, (0.05, 0.05, 0.04, 0.03, 0.06)),
    ("bridge", 0.0, -0.02, 0.06, 0.16, 0.13, (0.0, 0.04, 0.025, 0.05, 0.09)),
    ("tip", 0.0, 0.15, 0.075, 0.07, 0.20, (0.0, 0.06, 0.03, 0.025, 0.10)),
    ("wing", 0.11, 0.17, 0.05, 0.05, 0.07, (0.035, 0.04, 0.015, 0.015, 0.05)),
    ("cheek", 0.42, 0.08, 0.15, 0.15, 0.07, (0.07, 0.09, 0.04, 0.05, 0.09)),
    ("lips", 0.0, 0.42, 0.17, 0.06, 0.06, (0.0, 0.05, 0.06, 0.02, 0.04)),
    ("chin", 0.0, 0.72, 0.17, 0.10, 0.08, (0.0, 0.07, 0.06, 0.03, 0.10)),
    ("jaw", 0.48, 0.50, 0.14, 0.16, 0.02, (0.06, 0.08, 0.03, 0.04, 0.08)),
)
HEAD = ((0.64, 0.09), (0.88, 0.08), (0.62, 0.12), (0.25, 0.20))  # width, height, depth, narrowing of the jaw
TONES = np.array([[0.86, 0.68, 0.58], [0.72, 0.54, 0.44], [0.56, 0.40, 0.31], [0.40, 0.28, 0.22]], np.float32)
SHAPE_NUMBERS = len(HEAD) + 5 * len(BUMPS)
MARKS = 5  # numbers of an identity's colours: brow thickness and darkness, lip redness, lip width, hairline


class _Points:
    """The height field's points inside the head's outline, as numbers of the grid and places (m,), -1..1."""

    def __init__(self) -> None:
        ticks = (np.arange(GRID, dtype=np.float32) + 0.5) * 2 / GRID - 1
        inside = ticks[None, :] ** 2 + ticks[:, None] ** 2 < 0.985
        self.y, self.x = (ticks[part] for part in np.nonzero(inside))
        number = np.full((GRID + 2, GRID + 2), -1, np.int64)
        number[1:-1, 1:-1][inside] = np.arange(len(self.x))
        rows, columns = (part + 1 for part in np.nonzero(inside))
        own = number[rows, columns]

        def neighbour(down: int, across: int) -> np.ndarray:
            there = number[rows + down, columns + across]
            return np.where(there < 0, own, there)

        self.left, self.right = neighbour(0, -1), neighbour(0, 1)
        self.above, self.below = neighbour(-1, 0), neighbour(1, 0)


POINTS = _Points()


def heads(identities: int, pictures: int, size: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pictures (n, size, size, 4) uint8: red, green, blue, depth; people's numbers (n,) int64; who they are.

    n is identities * pictures, in order; the third array holds each identity's numbers, float32. Depth is 255 for near,
    1 for far, 0 where there is none. Identity i and its pictures are drawn from their own generator, `[seed, i]`: more
    identities only add some.
    """
    who = np.empty((identities, SHAPE_NUMBERS + MARKS + 1), np.float32)
    drawn = np.empty((identities, pictures, 24), np.float32)
    grain = np.empty((identities, pictures, size, size, 5), np.float32)
    for number in range(identities):
        rng = np.random.default_rng([seed, number])
        who[number, :-1] = rng.uniform(-1, 1, who.shape[1] - 1)
        who[number, -1] = rng.integers(len(TONES))
        drawn[number] = rng.uniform(-1, 1, drawn.shape[1:])
        rng.standard_normal(dtype=np.float32, out=grain[number])
    shapes, colours = surfaces(who), albedo(who)
    drawn, grain = drawn.reshape(-1, drawn.shape[-1]), grain.reshape(-1, size, size, 5)
    people = np.repeat(np.arange(identities), pictures)
    out = np.empty((len(people), size, size, 4), np.uint8)
    for start in range(0, len(people), CHUNK):
        part = slice(start, start + CHUNK)
        out[part] = render(shapes[people[part]], colours[people[part]], drawn[part], grain[part])
    return out, people, who


def surfaces(who: np.ndarray) -> np.ndarray:
    """The places (n, 3, m) of the height field's points of identities' numbers `who`: x, y (down), z (towards you)."""
    x, y = POINTS.x, POINTS.y
    width, height, depth, jaw = ((mean + half * who[:, i])[:, None] for i, (mean, half) in enumerate(HEAD))
    z = depth * np.sqrt(np.clip(1 - x * x - y * y, 0, 1))
    for number, (_, *means, halves) in enumerate(BUMPS):
        at = len(HEAD) + 5 * number
        across, down, wide, high, much = (
            (mean + half * who[:, at + i])[:, None] for i, (mean, half) in enumerate(zip(means, halves, strict=True))
        )
        away = np.abs(x) - across if means[0] else x
        z += much * np.exp(-0.5 * ((away / wide) ** 2 + ((y - down) / high) ** 2))
    return np.stack([width * x * (1 - jaw * np.clip(y, 0, 1) ** 2), height * y + 0 * width, z], axis=1)


def albedo(who: np.ndarray) -> np.ndarray:
    """The colours (n, 3, m) of the points: skin with brows, eyes, lips and hair."""
    x, y = np.abs(POINTS.x), POINTS.y
    thick, dark, red, wide, line = (who[:, SHAPE_NUMBERS + i, None] for i in range(MARKS))
    socket = len(HEAD) + 5  # brows, eyes and lips lie where the shape has them
    eye_x, eye_y = 0.24 + 0.05 * who[:, socket, None], -0.12 + 0.05 * who[:, socket + 1, None]
    mouth = 0.42 + 0.05 * who[:, len(HEAD) + 5 * 6 + 1, None]
    tone = TONES[who[:, -1].astype(np.int64)][:, :, None]
    colours = np.repeat(tone, len(x), axis=2)
    lips = ((x / (0.19 + 0.04 * wide)) ** 2 + ((y - mouth) / 0.06) ** 2 < 1)[:, None]
    colours = np.where(lips, tone * np.stack([0.95 + 0 * red, 0.62 - 0.12 * red, 0.64 - 0.1 * red], axis=1), colours)
    eyes = (((x - eye_x) / 0.09) ** 2 + ((y - eye_y) / 0.045) ** 2 < 1)[:, None]
    colours = np.where(eyes, np.float32(0.85), colours)
    iris = ((x - eye_x) ** 2 + (y - eye_y) ** 2 < 0.04**2)[:, None]
    colours = np.where(iris, np.float32(0.12), colours)
    brows = ((np.abs(y - eye_y + 0.14) < 0.03 + 0.015 * thick) & (np.abs(x - eye_x) < 0.14))[:, None]
    colours = np.where(brows, tone * (0.40 + 0.15 * dark)[:, None], colours)
    hair = (y < -0.62 + 0.1 * line + 0.25 * x * x)[:, None]
    return np.where(hair, tone * (0.35 + 0.15 * dark)[:, None], colours).astype(np.float32)


def render(shape: np.ndarray, colours: np.ndarray, drawn: np.ndarray, grain: np.ndarray) -> np.ndarray:
    """Pictures (n, size, size, 4) uint8 of surfaces (n, 3, m) and colours (n, 3, m).

    drawn (n, 24): a picture's own numbers, -1..1; grain (n, size, size, 5): noise of deviation 1.
    """
    count, size = len(shape), grain.shape[1]
    x, y, z = _expressed(shape, drawn[:, :3])
    turn = _rotation(drawn[:, 3:6] * TURN)
    light = _light(drawn[:, 6:9], turn)
    shade = _shading(x, y, z, light, drawn[:, 9:11])

    zoom = (1 + SCALE * drawn[:, 11])[:, None] * np.float32(0.47 * size)
    seen = [turn[:, i, 0, None] * x + turn[:, i, 1, None] * y + turn[:, i, 2, None] * z for i in range(3)]
    columns = (seen[0] * zoom + (size / 2) * (1 + SHIFT * drawn[:, 12, None])).astype(np.int64)
    rows = (seen[1] * zoom + (size / 2) * (1 + SHIFT * drawn[:, 13, None])).astype(np.int64)
    points = _nearest_points(rows, columns, seen[2], size)

    there = points >= 0
    taken = (np.arange(count)[:, None], np.where(there, points, 0))
    tint = 1 + 0.2 * drawn[:, 14:17]
    lit = shade[taken]
    picture = np.empty((count, size * size, 4), np.float32)
    for channel in range(3):
        skin = colours[:, channel][taken] * lit * tint[:, channel, None]
        picture[..., channel] = np.where(there, skin, 0.5 + 0.4 * drawn[:, 17 + channel, None])
    near = 0.15 + 0.8 * seen[2][taken] + DISTANCE * drawn[:, 20, None]
    picture[..., 3] = np.where(there, near, -1)
    picture = picture.reshape(count, size, size, 4)
    _hide(picture, drawn[:, 17:24])
    return _sensed(picture, grain)


def _expressed(shape: np.ndarray, drawn: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The surface with an open mouth, a smile and raised brows."""
    x, y = POINTS.x, POINTS.y
    opened, smile, brows = (drawn[:, i, None] for i in range(3))
    below = np.clip((y - 0.40) / 0.25, 0, 1)
    cheek = np.exp(-0.5 * (((np.abs(x) - 0.38) / 0.15) ** 2 + ((y - 0.25) / 0.15) ** 2))
    brow = np.exp(-0.5 * ((y + 0.26) / 0.08) ** 2)
    corner = np.exp(-0.5 * (((np.abs(x) - 0.20) / 0.10) ** 2 + ((y - 0.42) / 0.08) ** 2))
    down = shape[:, 1] + np.clip(opened, 0, 1) * 0.09 * below - smile * 0.04 * corner
    return shape[:, 0], down, shape[:, 2] + 0.05 * smile * cheek + 0.03 * brows * brow


def _rotation(angles: np.ndarray) -> np.ndarray:
    """Matrices (n, 3, 3) of yaw, pitch and roll (n, 3): roll after pitch after yaw."""
    (cy, cp, cr), (sy, sp, sr) = np.cos(angles).T, np.sin(angles).T
    one, zero = np.ones_like(cy), np.zeros_like(cy)
    yaw = np.array([[cy, zero, sy], [zero, one, zero], [-sy, zero, cy]])
    pitch = np.array([[one, zero, zero], [zero, cp, -sp], [zero, sp, cp]])
    roll = np.array([[cr, -sr, zero], [sr, cr, zero], [zero, zero, one]])
    return np.einsum("ijn,jkn,kln->nil", roll, pitch, yaw).astype(np.float32)


def _light(drawn: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """The direction (n, 3) of the light as the turned head sees it, of length 1."""
    direction = np.stack([0.9 * drawn[:, 0], 0.6 * drawn[:, 1] - 0.2, 0.8 + 0.2 * drawn[:, 2]], axis=1)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.einsum("nij,ni->nj", turn, direction)


def _shading(x: np.ndarray, y: np.ndarray, z: np.ndarray, light: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """How bright each point is, (n, m): some light from everywhere, the rest by the cosine to the light (Lambert)."""
    slope = (z[:, POINTS.right] - z[:, POINTS.left]) / (x[:, POINTS.right] - x[:, POINTS.left] + 1e-6)
    fall = (z[:, POINTS.below] - z[:, POINTS.above]) / (y[:, POINTS.below] - y[:, POINTS.above] + 1e-6)
    facing = light[:, 2, None] - slope * light[:, 0, None] - fall * light[:, 1, None]
    facing /= np.sqrt(1 + slope * slope + fall * fall)
    around = 0.40 + 0.10 * drawn[:, 0, None]
    return (around + (1 - around) * np.clip(facing, 0, 1)) * (1 + 0.2 * drawn[:, 1, None])


def _nearest_points(rows: np.ndarray, columns: np.ndarray, near: np.ndarray, size: int) -> np.ndarray:
    """The z-buffer: the number of the nearest point on each pixel, -1 where there is none: (n, size * size).

    An empty pixel with points on three or four sides takes the nearest of those.
    """
    count, m = near.shape
    inside = (rows >= 0) & (rows < size) & (columns >= 0) & (columns < size)
    place = rows * size + columns + (np.arange(count) * size * size)[:, None]
    key = ((near + 4) * 4096).astype(np.int64) * m + np.arange(m)  # the nearest has the largest
    buffer = np.full(count * size * size, -1, np.int64)
    np.maximum.at(buffer, place[inside], key[inside])
    buffer = buffer.reshape(count, size, size)
    sides = np.stack([buffer[:, 1:-1, :-2], buffer[:, 1:-1, 2:], buffer[:, :-2, 1:-1], buffer[:, 2:, 1:-1]])
    hole = (buffer[:, 1:-1, 1:-1] < 0) & ((sides >= 0).sum(axis=0) >= 3)
    buffer[:, 1:-1, 1:-1][hole] = sides.max(axis=0)[hole]
    return np.where(buffer < 0, -1, buffer % m).reshape(count, -1)


def _hide(picture: np.ndarray, drawn: np.ndarray) -> None:
    """A rectangle of one colour before a part of some pictures, nearer than the head."""
    size = picture.shape[1]
    for number in np.flatnonzero(drawn[:, 6] < 2 * HIDDEN - 1):
        top, left = ((0.5 + 0.45 * drawn[number, 4:6]) * size * 0.8).astype(np.int64)
        high, wide = ((0.25 + 0.10 * drawn[number, 1:3]) * size).astype(np.int64)
        picture[number, top : top + high, left : left + wide] = (*(0.5 - 0.4 * drawn[number, :3]), 0.97)


def _sensed(picture: np.ndarray, grain: np.ndarray) -> np.ndarray:
    colour = picture[..., :3] + 0.02 * grain[..., :3]
    depth = picture[..., 3] + DEPTH_NOISE * grain[..., 3]
    known = (picture[..., 3] >= 0) & (grain[..., 4] >= DROPPED)
    out = np.empty(picture.shape, np.uint8)
    out[..., :3] = np.clip(colour, 0, 1) * 255 + 0.5
    out[..., 3] = np.where(known, np.clip(depth, 0, 1) * 254 + 1, 0)
    return out
