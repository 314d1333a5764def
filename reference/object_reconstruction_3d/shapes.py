"""Voxel objects made by code: six classes of furniture and vehicles, 32^3. Nobody's data.

A shape is a table of continuous sizes, each drawn on its own, and a few discrete variants (kind of legs, arms, engines
...), drawn with boxes and discs. Axes: x to the right, y to the back, z upwards; every object looks to the front, -y,
and stands at z = 2, but for planes, which hover.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

NAME, VERSION = "voxel_objects", "2"
SIDE = 32
CLASSES = ("table", "chair", "lamp", "plane", "car", "sofa")
FLOOR = 2  # the lowest layer that an object fills
MIDDLE = SIDE / 2
_AT = np.arange(SIDE) + 0.5  # centres of the voxels

Range = tuple[float, float]


def objects(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Voxels (count, 32, 32, 32) bool, [x, y, z], and class numbers (count,) int64, each class in turn.

    Object i is drawn from its own generator, `[seed, i]`: a larger count only adds objects.
    """
    voxels = np.zeros((count, SIDE, SIDE, SIDE), bool)
    classes = np.arange(count) % len(CLASSES)
    for index in range(count):
        _DRAW[classes[index]](np.random.default_rng([seed, index]), voxels[index])
    return voxels, classes


# ---- parts -----------------------------------------------------------------------------------------------------------


def box(grid: np.ndarray, x: Range, y: Range, z: Range) -> None:
    """Fill a box between two coordinates an axis; at least one voxel thick."""
    grid[_span(*x), _span(*y), _span(*z)] = True


def _span(low: float, high: float) -> slice:
    first = min(max(round(low), 0), SIDE - 1)
    return slice(first, min(max(round(high), first + 1), SIDE))


def disc(x: float, y: float, radius_x: float, radius_y: float) -> np.ndarray:
    """An ellipse in a plane, (32, 32) bool."""
    return ((_AT[:, None] - x) / radius_x) ** 2 + ((_AT - y) / radius_y) ** 2 <= 1


def tube(grid: np.ndarray, x: float, y: float, radius_x: float, radius_y: float, z: Range) -> None:
    """Fill an upright column with an ellipse for its base."""
    grid[:, :, _span(*z)] |= disc(x, y, radius_x, radius_y)[:, :, None]


def around(half: float) -> Range:
    return MIDDLE - half, MIDDLE + half


def legs(grid: np.ndarray, half_x: float, half_y: float, wide: float, deep: float, top: float) -> None:
    """Four legs from the floor to `top` at the corners of a rectangle around the middle."""
    for left in (MIDDLE - half_x, MIDDLE + half_x - wide):
        for front in (MIDDLE - half_y, MIDDLE + half_y - deep):
            box(grid, (left, left + wide), (front, front + deep), (FLOOR, top))


def pedestal(rng: np.random.Generator, grid: np.ndarray, half_x: float, half_y: float, top: float) -> None:
    """One column up to `top`, on a round or square foot of some share of the rectangle."""
    radius_x, radius_y, thick = rng.uniform(1.5, 3.5), rng.uniform(1.5, 3.5), rng.uniform(1.5, 4)
    tube(grid, MIDDLE, MIDDLE, radius_x, radius_y, (FLOOR, top))
    foot_x, foot_y = rng.uniform(0.4, 0.95) * half_x, rng.uniform(0.4, 0.95) * half_y
    if rng.random() < 0.5:
        tube(grid, MIDDLE, MIDDLE, foot_x, foot_y, (FLOOR, FLOOR + thick))
    else:
        box(grid, around(foot_x), around(foot_y), (FLOOR, FLOOR + thick))


# ---- classes ---------------------------------------------------------------------------------------------------------


def table(rng: np.random.Generator, grid: np.ndarray) -> None:
    half_x, half_y, top = rng.uniform(8, 15), rng.uniform(6, 13), rng.uniform(12, 26)
    thick, leg_x, leg_y = rng.uniform(2, 5), rng.uniform(2, 5), rng.uniform(2, 5)
    inner_x, inner_y = half_x - rng.uniform(0, 3), half_y - rng.uniform(0, 3)
    if rng.random() < 0.3:  # round
        tube(grid, MIDDLE, MIDDLE, half_x, half_y, (top, top + thick))
        inner_x, inner_y = 0.72 * inner_x, 0.72 * inner_y
    else:
        box(grid, around(half_x), around(half_y), (top, top + thick))
    kind = rng.integers(4)
    if kind == 0:
        legs(grid, inner_x, inner_y, leg_x, leg_y, top)
    elif kind == 1:
        pedestal(rng, grid, half_x, half_y, top)
    elif kind == 2:  # two side walls
        box(grid, (MIDDLE - inner_x, MIDDLE - inner_x + leg_x), around(inner_y), (FLOOR, top))
        box(grid, (MIDDLE + inner_x - leg_y, MIDDLE + inner_x), around(inner_y), (FLOOR, top))
    else:  # drawers on one side
        legs(grid, inner_x, inner_y, leg_x, leg_y, top)
        wide, low = rng.uniform(0.3, 0.9) * inner_x, rng.uniform(FLOOR, 0.6 * top)
        left = MIDDLE - inner_x if rng.random() < 0.5 else MIDDLE + inner_x - wide
        box(grid, (left, left + wide), around(inner_y), (low, top))
    if kind in (0, 2) and rng.random() < 0.5:  # a shelf
        low, shelf = FLOOR + rng.uniform(0.15, 0.6) * (top - FLOOR), rng.uniform(1.5, 3)
        box(grid, around(inner_x), around(inner_y), (low, low + shelf))


def chair(rng: np.random.Generator, grid: np.ndarray) -> None:
    half_x, half_y, seat = rng.uniform(6, 11), rng.uniform(6, 10), rng.uniform(8, 15)
    thick, leg_x, leg_y = rng.uniform(2, 4.5), rng.uniform(2, 4), rng.uniform(2, 4)
    height, lean, deep = rng.uniform(7, 16), rng.uniform(0, 4), rng.uniform(2, 5)
    box(grid, around(half_x), around(half_y), (seat, seat + thick))
    if rng.random() < 0.65:
        legs(grid, half_x, half_y, leg_x, leg_y, seat)
    else:
        pedestal(rng, grid, half_x, half_y, seat)
    back = half_x * rng.uniform(0.6, 1)
    gap = rng.uniform(0.3, 0.6) * height if rng.random() < 0.35 else 0  # under the back, between two posts
    for layer in range(round(seat + thick), round(min(seat + thick + height, SIDE))):
        behind = MIDDLE + half_y - deep + lean * (layer - seat) / height
        rows = _span(behind, behind + deep)
        if layer - seat - thick >= gap:
            grid[_span(*around(back)), rows, layer] = True
        else:
            for left in (MIDDLE - back, MIDDLE + back - leg_x):
                grid[_span(left, left + leg_x), rows, layer] = True
    if rng.random() < 0.5:  # arms
        high, arm = seat + thick + rng.uniform(0.25, 0.7) * height, rng.uniform(1.5, 3.5)
        front = MIDDLE + half_y - 2 * half_y * rng.uniform(0.5, 1)
        low = seat if rng.random() < 0.4 else high - arm
        for left in (MIDDLE - half_x, MIDDLE + half_x - leg_x):
            box(grid, (left, left + leg_x), (front, MIDDLE + half_y), (low, high))
            box(grid, (left, left + leg_x), (front, front + leg_y), (seat, high))


def lamp(rng: np.random.Generator, grid: np.ndarray) -> None:
    base_x, base_y, thick = rng.uniform(4, 10), rng.uniform(4, 10), rng.uniform(2, 6)
    pole_x, pole_y = rng.uniform(1.2, 3), rng.uniform(1.2, 3)
    low, shade = rng.uniform(11, 20), rng.uniform(6, 12)
    wide, narrow, flat = rng.uniform(5, 11), rng.uniform(2.5, 10), rng.uniform(0.55, 1)
    x = y = MIDDLE
    if rng.random() < 0.6:  # an arm to one side
        x, y = MIDDLE + rng.uniform(-6, 6), MIDDLE + rng.uniform(-6, 6)
    if rng.random() < 0.5:
        tube(grid, MIDDLE, MIDDLE, base_x, base_y, (FLOOR, FLOOR + thick))
    else:
        box(grid, around(base_x), around(base_y), (FLOOR, FLOOR + thick))
    tube(grid, MIDDLE, MIDDLE, pole_x, pole_y, (FLOOR, low + 1))
    box(grid, (min(MIDDLE, x) - pole_x, max(MIDDLE, x) + pole_x), around(pole_y), (low - 1, low + 2))
    box(grid, (x - pole_x, x + pole_x), (min(MIDDLE, y) - pole_y, max(MIDDLE, y) + pole_y), (low - 1, low + 2))
    square = rng.random() < 0.35
    for layer in range(round(low), min(round(low + shade), SIDE)):
        radius = wide + (narrow - wide) * (layer - low) / shade
        if square:
            box(grid, (x - radius, x + radius), (y - flat * radius, y + flat * radius), (layer, layer + 1))
        else:
            grid[:, :, layer] |= disc(x, y, radius, flat * radius)


def plane(rng: np.random.Generator, grid: np.ndarray) -> None:
    length, radius_x, radius_z = rng.uniform(22, 31), rng.uniform(1.8, 4), rng.uniform(1.8, 4)
    height, nose = rng.uniform(9, 16), MIDDLE - length / 2
    for row in range(round(nose), min(round(nose + length), SIDE)):
        along = (row + 0.5 - nose) / length
        share = min(1.0, 0.35 + 4 * along, 0.35 + 2.2 * (1 - along))
        grid[:, row, :] |= disc(MIDDLE, height, radius_x * share, radius_z * share)
    span, chord, sweep, taper = rng.uniform(8, 15.5), rng.uniform(4, 10), rng.uniform(-3, 9), rng.uniform(0.3, 1)
    wing, level = nose + rng.uniform(0.15, 0.5) * length, height + rng.uniform(-0.9, 0.9) * radius_z
    thick, rise = rng.uniform(1.5, 3), rng.uniform(-0.1, 0.35)  # of the wings; upwards towards their ends
    tail, tail_span, tail_chord = nose + length - rng.uniform(4, 6.5), rng.uniform(3, 10), rng.uniform(2.5, 6)
    fin, fin_thick, fin_chord = rng.uniform(3, 10), rng.uniform(1.5, 2.6), rng.uniform(3, 6)
    lifted = height + rng.choice([0.5, 0.5 * fin, fin])  # a T-tail or half of one
    for side in range(1, 16):
        for x in (MIDDLE - side - 0.5, MIDDLE + side - 0.5):
            if side <= span:
                front, end = wing + sweep * side / span, chord * (1 - (1 - taper) * side / span)
                box(grid, (x, x + 1), (front, front + end), (level + rise * side, level + rise * side + thick))
            if side <= tail_span:
                front = tail + 0.3 * sweep * side / tail_span
                box(grid, (x, x + 1), (front, front + tail_chord), (lifted, lifted + 1.6))
    for layer in range(round(fin)):
        front = tail + 0.4 * layer
        box(grid, around(fin_thick / 2), (front, front + fin_chord), (height + layer, height + layer + 1))
    engine, long = rng.uniform(1, 2.2), rng.uniform(3, 8)
    for pair in range(rng.integers(3)):  # engines under the wings
        side = span * (rng.uniform(0.25, 0.4) + 0.35 * pair)
        front, high = wing + sweep * side / span - rng.uniform(0, 3), level + rise * side + 0.5
        for x in (MIDDLE - side, MIDDLE + side):
            box(grid, (x - engine, x + engine), (front, front + long), (high - 2 * engine, high))


def car(rng: np.random.Generator, grid: np.ndarray) -> None:
    half_y, half_x, body = rng.uniform(11, 15.5), rng.uniform(5, 9), rng.uniform(4, 9)
    wheels, tyre = rng.uniform(2, 4.2, size=2), rng.uniform(1.5, 3.5)  # radii in front and behind; width
    bottom, front = FLOOR + rng.uniform(0.6, 1.2) * wheels.min(), MIDDLE - half_y
    start, end = front + 2 * half_y * rng.uniform(0, 0.45), front + 2 * half_y * rng.uniform(0.65, 1)
    hood, boot = rng.uniform(0.35, 1, size=2)  # heights of the body before and behind its middle
    for y, share in (((front, start), hood), ((start, end), 1.0), ((end, MIDDLE + half_y), boot)):
        box(grid, around(half_x), y, (bottom, bottom + share * body))
    cabin, front_slope, rear_slope = rng.uniform(2, 9), rng.uniform(0, 6), rng.uniform(0, 4)
    inwards, rear = rng.uniform(0, 2), start + (end - start) * rng.uniform(0.45, 1)
    for layer in range(round(cabin)):
        share, z = layer / cabin, bottom + body + layer
        first = start + front_slope * share
        last = max(rear - rear_slope * share, first + 2)
        box(grid, around(half_x - 0.4 - inwards * share), (first, last), (z, z + 1))
    if rng.random() < 0.3:  # a load behind
        low, high = bottom + 0.5 * body, rng.uniform(2, 12)
        box(grid, around(half_x), (min(rear, MIDDLE + half_y - 4), MIDDLE + half_y), (low, min(low + high, SIDE - 1)))
    for radius, way in zip(wheels, (-1, 1), strict=True):
        wheel = disc(MIDDLE + way * rng.uniform(0.45, 0.8) * half_y, FLOOR + radius, radius, radius)
        for left in (MIDDLE - half_x - 0.6, MIDDLE + half_x - tyre + 0.6):
            grid[_span(left, left + tyre)] |= wheel


def sofa(rng: np.random.Generator, grid: np.ndarray) -> None:
    half_x, half_y, seat = rng.uniform(9, 15.5), rng.uniform(5, 9), rng.uniform(4, 9)
    back, deep = rng.uniform(4, 13), rng.uniform(2, 6)
    front, rear, left, right = MIDDLE - half_y, MIDDLE + half_y, MIDDLE - half_x, MIDDLE + half_x
    bottom = float(FLOOR)
    if rng.random() < 0.5:
        bottom, thick = FLOOR + rng.uniform(1, 4), rng.uniform(1.6, 4)
        legs(grid, half_x, half_y, thick, thick, bottom)
    box(grid, (left, right), (front, rear), (bottom, bottom + seat))
    wide = 2 * half_x * (rng.uniform(0.5, 1) if rng.random() < 0.4 else 1)  # a back for a part of it: a divan
    start = left if rng.random() < 0.5 else right - wide
    box(grid, (start, start + wide), (rear - deep, rear), (bottom, bottom + seat + back))
    for side in range(2):
        if rng.random() < 0.75:  # an arm
            arm, high, long = rng.uniform(2, 5.5), rng.uniform(2, 9), rng.uniform(0.5, 1) * 2 * half_y
            x = (left, left + arm) if side == 0 else (right - arm, right)
            box(grid, x, (rear - long, rear), (bottom, bottom + seat + high))
    if rng.random() < 0.35:  # a corner sofa
        long, wide = rng.uniform(3, 9), rng.uniform(0.25, 0.5) * 2 * half_x
        start = left if rng.random() < 0.5 else right - wide
        box(grid, (start, start + wide), (front - long, front), (bottom, bottom + seat * rng.uniform(0.6, 1)))


_DRAW: tuple[Callable[[np.random.Generator, np.ndarray], None], ...] = (table, chair, lamp, plane, car, sofa)
