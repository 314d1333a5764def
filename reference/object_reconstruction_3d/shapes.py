"""Voxel objects made by code: six classes of furniture and vehicles, 32^3. Nobody's data.

A shape is a table of continuous sizes and a few discrete variants (kind of legs, arms, engines ...), drawn with boxes
and discs. Axes: x to the right, y to the back, z upwards; every object looks to the front, -y, and stands at z = 2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

NAME, VERSION = "voxel_objects", "1"
SIDE = 32
CLASSES = ("table", "chair", "lamp", "plane", "car", "sofa")
FLOOR = 2  # the lowest layer that an object fills
MIDDLE = SIDE / 2
_AT = np.arange(SIDE) + 0.5  # centres of the voxels


def objects(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Voxels (count, 32, 32, 32) bool, [x, y, z], and class numbers (count,) int64, each class in turn.

    Object i is drawn from its own generator, `[seed, i]`: a larger count only adds objects.
    """
    voxels = np.zeros((count, SIDE, SIDE, SIDE), bool)
    classes = np.arange(count) % len(CLASSES)
    for index in range(count):
        _DRAW[classes[index]](np.random.default_rng([seed, index]), voxels[index])
    return voxels, classes


def box(grid: np.ndarray, x: tuple[float, float], y: tuple[float, float], z: tuple[float, float]) -> None:
    """Fill a box between two coordinates an axis; at least one voxel thick."""
    grid[_span(*x), _span(*y), _span(*z)] = True


def _span(low: float, high: float) -> slice:
    first = min(max(round(low), 0), SIDE - 1)
    return slice(first, min(max(round(high), first + 1), SIDE))


def disc(x: float, y: float, radius_x: float, radius_y: float) -> np.ndarray:
    """An ellipse in a plane, (32, 32) bool."""
    return ((_AT[:, None] - x) / radius_x) ** 2 + ((_AT - y) / radius_y) ** 2 <= 1


def legs(grid: np.ndarray, half_x: float, half_y: float, thick: float, top: float, y: float = MIDDLE) -> None:
    """Four legs from the floor to `top` at the corners of a rectangle around (MIDDLE, y)."""
    for left in (MIDDLE - half_x, MIDDLE + half_x - thick):
        for front in (y - half_y, y + half_y - thick):
            box(grid, (left, left + thick), (front, front + thick), (FLOOR, top))


def table(rng: np.random.Generator, grid: np.ndarray) -> None:
    half_x, half_y, top = rng.uniform(8, 15), rng.uniform(6, 12), rng.uniform(10, 26)
    thick, leg, inset = rng.uniform(1, 3), rng.uniform(1, 3), rng.uniform(0, 3)
    kind, is_round = rng.integers(3), rng.random() < 0.35
    layers = _span(top, top + thick)
    if is_round:
        grid[:, :, layers] |= disc(MIDDLE, MIDDLE, half_x, half_y)[:, :, None]
        inset += 0.3 * min(half_x, half_y)
    else:
        box(grid, (MIDDLE - half_x, MIDDLE + half_x), (MIDDLE - half_y, MIDDLE + half_y), (top, top + thick))
    inner_x, inner_y = half_x - inset, half_y - inset
    if kind == 0:
        legs(grid, inner_x, inner_y, leg, top)
        if rng.random() < 0.4:  # a shelf
            low = FLOOR + rng.uniform(0.2, 0.5) * (top - FLOOR)
            box(grid, (MIDDLE - inner_x, MIDDLE + inner_x), (MIDDLE - inner_y, MIDDLE + inner_y), (low, low + 1))
    elif kind == 1:  # one column on a foot
        grid[:, :, _span(FLOOR, top)] |= disc(MIDDLE, MIDDLE, 0.7 + leg, 0.7 + leg)[:, :, None]
        foot = rng.uniform(0.3, 0.7)
        grid[:, :, _span(FLOOR, FLOOR + 1)] |= disc(MIDDLE, MIDDLE, foot * half_x, foot * half_y)[:, :, None]
    else:  # two side walls
        for left in (MIDDLE - inner_x, MIDDLE + inner_x - leg):
            box(grid, (left, left + leg), (MIDDLE - inner_y, MIDDLE + inner_y), (FLOOR, top))


def chair(rng: np.random.Generator, grid: np.ndarray) -> None:
    half_x, half_y, seat = rng.uniform(6, 10), rng.uniform(6, 10), rng.uniform(8, 14)
    thick, leg, height = rng.uniform(1, 3), rng.uniform(1, 2.6), rng.uniform(8, 16)
    lean, back = rng.uniform(0, 4), rng.uniform(1, 2.6)
    box(grid, (MIDDLE - half_x, MIDDLE + half_x), (MIDDLE - half_y, MIDDLE + half_y), (seat, seat + thick))
    if rng.random() < 0.7:
        legs(grid, half_x, half_y, leg, seat)
    else:  # a column on a cross
        grid[:, :, _span(FLOOR, seat)] |= disc(MIDDLE, MIDDLE, leg, leg)[:, :, None]
        box(grid, (MIDDLE - half_x, MIDDLE + half_x), (MIDDLE - 1, MIDDLE + 1), (FLOOR, FLOOR + 1))
        box(grid, (MIDDLE - 1, MIDDLE + 1), (MIDDLE - half_y, MIDDLE + half_y), (FLOOR, FLOOR + 1))
    slats = rng.random() < 0.4
    for layer in range(round(seat + thick), min(round(seat + thick + height), SIDE)):
        behind = MIDDLE + half_y - back + lean * (layer - seat) / height
        rows = _span(behind, behind + back)
        grid[_span(MIDDLE - half_x, MIDDLE + half_x), rows, layer] = True
        if slats and layer < seat + thick + height - 2:
            grid[_span(MIDDLE - half_x + 2, MIDDLE + half_x - 2), rows, layer] = False
            grid[_span(MIDDLE - 1, MIDDLE + 1), rows, layer] = True
    if rng.random() < 0.5:  # arms
        high = seat + thick + rng.uniform(0.3, 0.6) * height
        for left in (MIDDLE - half_x, MIDDLE + half_x - leg):
            box(grid, (left, left + leg), (MIDDLE - half_y, MIDDLE + half_y), (high, high + 1.5))
            box(grid, (left, left + leg), (MIDDLE - half_y, MIDDLE - half_y + leg), (seat, high))


def lamp(rng: np.random.Generator, grid: np.ndarray) -> None:
    base, thick, pole = rng.uniform(4, 9), rng.uniform(1, 3), rng.uniform(0.8, 2)
    low, shade = rng.uniform(12, 19), rng.uniform(6, 11)
    wide, narrow = rng.uniform(5, 12), rng.uniform(2, 7)
    if rng.random() < 0.6:
        grid[:, :, _span(FLOOR, FLOOR + thick)] |= disc(MIDDLE, MIDDLE, base, base)[:, :, None]
    else:
        box(grid, (MIDDLE - base, MIDDLE + base), (MIDDLE - base, MIDDLE + base), (FLOOR, FLOOR + thick))
    centre = MIDDLE
    grid[:, :, _span(FLOOR, low + 2)] |= disc(MIDDLE, MIDDLE, pole, pole)[:, :, None]
    if rng.random() < 0.4:  # an arm to one side
        centre = MIDDLE + rng.uniform(-7, 7)
        left, right = sorted((MIDDLE, centre))
        box(grid, (left - pole, right + pole), (MIDDLE - pole, MIDDLE + pole), (low - 1, low + 1))
        wide, narrow = 0.7 * wide, 0.7 * narrow
    for layer in range(round(low), min(round(low + shade), SIDE)):
        radius = wide + (narrow - wide) * (layer - low) / shade
        grid[:, :, layer] |= disc(centre, MIDDLE, radius, radius)


def plane(rng: np.random.Generator, grid: np.ndarray) -> None:
    length, radius, height = rng.uniform(22, 31), rng.uniform(1.6, 3.4), rng.uniform(8, 14)
    nose = MIDDLE - length / 2
    span, chord, sweep = rng.uniform(9, 15.5), rng.uniform(3, 8), rng.uniform(-1, 9)
    wing, level = nose + rng.uniform(0.25, 0.45) * length, height + rng.uniform(-0.8, 0.8) * radius
    for row in range(round(nose), min(round(nose + length), SIDE)):
        along = (row + 0.5 - nose) / length
        here = radius * min(1.0, 0.35 + 4 * along, 0.35 + 2.2 * (1 - along))
        grid[:, row, :] |= disc(MIDDLE, height, here, here)
    tail, tail_span, fin = nose + length - rng.uniform(3, 5), rng.uniform(4, 8), rng.uniform(4, 9)
    lifted = height + (fin if rng.random() < 0.3 else 0.5)  # a T-tail
    for side in range(1, 16):
        out = side / span
        for x in (MIDDLE - side - 0.5, MIDDLE + side - 0.5):
            if side <= span:
                front = wing + sweep * out
                box(grid, (x, x + 1), (front, front + chord * (1 - 0.5 * out)), (level, level + 1))
            if side <= tail_span:
                front = tail + 0.3 * sweep * side / tail_span
                box(grid, (x, x + 1), (front, front + 2.5), (lifted, lifted + 1))
    for layer in range(round(fin)):
        front = tail + 0.4 * layer
        box(grid, (MIDDLE - 0.5, MIDDLE + 0.5), (front, front + 3), (height + layer, height + layer + 1))
    for pair in range(rng.integers(3)):  # engines under the wings
        side = span * (0.3 + 0.3 * pair)
        front = wing + sweep * side / span - 1.5
        for x in (MIDDLE - side, MIDDLE + side):
            box(grid, (x - 1, x + 1), (front, front + 4), (level - 2, level))


def car(rng: np.random.Generator, grid: np.ndarray) -> None:
    half_y, half_x, body = rng.uniform(11.5, 15.5), rng.uniform(5, 8), rng.uniform(4, 8)
    wheel, cabin = rng.uniform(1.8, 3.6), rng.uniform(3, 7)
    bottom = FLOOR + 0.8 * wheel
    front, back = rng.uniform(0.1, 0.45), rng.uniform(0.55, 1.0)  # of the cabin, in lengths from the nose
    slope = rng.uniform(0, 4)
    box(grid, (MIDDLE - half_x, MIDDLE + half_x), (MIDDLE - half_y, MIDDLE + half_y), (bottom, bottom + body))
    for layer in range(round(cabin)):
        shift = slope * layer / cabin
        start, end = (MIDDLE - half_y + 2 * half_y * part for part in (front, back))
        inside = 0.5 + 0.25 * shift
        span_x = (MIDDLE - half_x + inside, MIDDLE + half_x - inside)
        top = bottom + body + layer
        box(grid, span_x, (start + shift, max(end - 0.5 * shift, start + shift + 2)), (top, top + 1))
    apart = rng.uniform(0.5, 0.75) * half_y
    for y in (MIDDLE - apart, MIDDLE + apart):
        tyre = disc(y, FLOOR + wheel, wheel, wheel)
        for left in (MIDDLE - half_x - 0.6, MIDDLE + half_x - 1.4):
            grid[_span(left, left + 2)] |= tyre
    if rng.random() < 0.25:  # a pickup's open bed
        inner = (MIDDLE - half_x + 1, MIDDLE + half_x - 1)
        bed = slice(round(MIDDLE - half_y + 2 * half_y * back), round(MIDDLE + half_y - 1))
        grid[_span(*inner), bed, _span(bottom + 0.5 * body, SIDE)] = False


def sofa(rng: np.random.Generator, grid: np.ndarray) -> None:
    half_x, half_y, seat = rng.uniform(10, 15.5), rng.uniform(5, 8.5), rng.uniform(4, 9)
    back, deep = rng.uniform(5, 11), rng.uniform(2, 5)
    arm, high = rng.uniform(1.5, 4.5), rng.uniform(2, 7)
    lift = rng.uniform(0, 2.5) * (rng.random() < 0.6)
    front, rear = MIDDLE - half_y, MIDDLE + half_y
    left, right = MIDDLE - half_x, MIDDLE + half_x
    if lift > 0.5:
        legs(grid, half_x, half_y, 1.5, FLOOR + lift)
    bottom = FLOOR + lift
    box(grid, (left, right), (front, rear), (bottom, bottom + seat))
    box(grid, (left, right), (rear - deep, rear), (bottom, bottom + seat + back))
    sides = rng.integers(4)  # both arms twice as often as one
    if sides != 1:
        box(grid, (left, left + arm), (front, rear), (bottom, bottom + seat + high))
    if sides != 2:
        box(grid, (right - arm, right), (front, rear), (bottom, bottom + seat + high))
    if rng.random() < 0.3:  # a corner sofa
        long = rng.uniform(4, 8)
        width = rng.uniform(0.25, 0.45) * 2 * half_x
        start = left if rng.random() < 0.5 else right - width
        box(grid, (start, start + width), (front - long, front), (bottom, bottom + seat))


_DRAW: tuple[Callable[[np.random.Generator, np.ndarray], None], ...] = (table, chair, lamp, plane, car, sofa)
