"""Pictures of one or two coloured shapes, and five captions of each: what is where, told in different words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NAME, VERSION = "shape_scenes", "1"
SIDE = 32  # pixels
COLOURS = {
    "red": (205, 45, 45),
    "green": (45, 165, 60),
    "blue": (50, 75, 205),
    "yellow": (225, 205, 50),
    "purple": (140, 55, 165),
    "white": (235, 235, 235),
}
COLOUR_NAMES = tuple(COLOURS)
SHAPES = ("circle", "square", "triangle", "cross")
RELATIONS = ("left of", "above", "right of", "below")  # each and its opposite are two apart
QUADRANTS = (("top left", "top right"), ("bottom left", "bottom right"))
ONE = (
    "a {a} at the {where}",
    "there is a {a} at the {where}",
    "one shape : a {a}",
    "the {a} is at the {where}",
    "a single {a} near the {where} corner",
)
TWO = (
    "a {a} {relation} a {b}",
    "there is a {b} {opposite} a {a}",
    "two shapes : a {a} and a {b}",
    "the {b} is {opposite} the {a}",
    "a picture of a {a} {relation} a {b}",
)
RGB = tuple(COLOURS.values())
ROWS, COLUMNS = (np.mgrid[:SIDE, :SIDE] + 0.5).astype(np.float32)  # of a pixel's middle
ONE_SHARE = 0.25  # of the scenes hold one shape only


@dataclass(frozen=True)
class Thing:
    """A shape: indices into COLOURS and SHAPES, centre and radius in pixels."""

    colour: int
    shape: int
    row: float
    column: float
    radius: float

    @property
    def name(self) -> str:
        return f"{COLOUR_NAMES[self.colour]} {SHAPES[self.shape]}"


def scenes(count: int, seed: int) -> tuple[np.ndarray, list[list[str]]]:
    """Pictures (count, 32, 32, 3) uint8, and five captions of each, lower-case words with a space between."""
    rng = np.random.default_rng(seed)
    pictures, captions = np.empty((count, SIDE, SIDE, 3), np.uint8), []
    for number in range(count):
        things = arranged(rng)
        pictures[number] = drawn(things, rng)
        captions.append(told(things))
    return pictures, captions


def arranged(rng: np.random.Generator) -> list[Thing]:
    """One or two things of different names that don't touch, the first one further left or further up."""
    while True:
        wanted = 1 if rng.random() < ONE_SHARE else 2
        things = []
        for _ in range(wanted):
            radius = rng.uniform(4.5, 6.5)
            row, column = rng.uniform(radius + 0.5, SIDE - radius - 0.5, 2)
            if wanted == 1 and min(abs(row - SIDE / 2), abs(column - SIDE / 2)) < 2:
                break  # in no quadrant
            things.append(Thing(int(rng.integers(len(COLOURS))), int(rng.integers(len(SHAPES))), row, column, radius))
        if len(things) == wanted and (wanted == 1 or _apart(*things)):
            return sorted(things, key=lambda thing: _along(things, thing))


def relation(first: Thing, second: Thing) -> str:
    """Where the first lies, seen from the second: along the axis on which they are further apart."""
    down, right = first.row - second.row, first.column - second.column
    if abs(right) > abs(down):
        return RELATIONS[0 if right < 0 else 2]
    return RELATIONS[1 if down < 0 else 3]


def told(things: list[Thing]) -> list[str]:
    """The five captions of a scene."""
    if len(things) == 1:
        (thing,) = things
        where = QUADRANTS[int(thing.row > SIDE / 2)][int(thing.column > SIDE / 2)]
        return [form.format(a=thing.name, where=where) for form in ONE]
    first, second = things
    words = {"a": first.name, "b": second.name, "relation": relation(first, second)}
    words["opposite"] = relation(second, first)
    return [form.format(**words) for form in TWO]


def drawn(things: list[Thing], rng: np.random.Generator) -> np.ndarray:
    """The picture (32, 32, 3) uint8: a dim uneven background, colours and light that vary, noise."""
    down, right = rng.uniform(-50, 50, 2)
    slope = (ROWS / SIDE - 0.5) * down + (COLUMNS / SIDE - 0.5) * right
    picture = rng.uniform(60, 130, 3).astype(np.float32) + slope[:, :, None]
    for thing in things:
        colour = np.array(RGB[thing.colour]) * rng.uniform(0.8, 1.1) + rng.normal(0, 10, 3)
        picture[covered(thing)] = colour
    picture += 6 * rng.standard_normal(picture.shape, dtype=np.float32) + 0.5
    return picture.clip(0, 255).astype(np.uint8)


def covered(thing: Thing) -> np.ndarray:
    """The pixels of a thing, (32, 32) bool."""
    down, right = (ROWS - thing.row) / thing.radius, (COLUMNS - thing.column) / thing.radius
    shape = SHAPES[thing.shape]
    if shape == "circle":
        return down**2 + right**2 < 1
    if shape == "triangle":
        return (down < 0.8) & (abs(right) < 0.55 * (down + 1))
    far = np.maximum(abs(down), abs(right))
    return far < 0.85 if shape == "square" else (far < 1) & (np.minimum(abs(down), abs(right)) < 0.33)


def _apart(first: Thing, second: Thing) -> bool:
    """Whether there is room between two things, they have different names, and how they lie is clear."""
    down, right = abs(first.row - second.row), abs(first.column - second.column)
    room = max(down, right) > first.radius + second.radius + 1
    return room and abs(down - right) > 2 and first.name != second.name


def _along(things: list[Thing], thing: Thing) -> float:
    if len(things) == 1:
        return 0.0
    across = relation(*things) in ("left of", "right of")
    return thing.column if across else thing.row
