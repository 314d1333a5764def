"""Street scenes made by code: a photo and its label map, 7 classes. Nobody's data.

A scene is a sky, a row of houses, trees, a road with two pavements towards a vanishing point, cars and poles. The photo
paints the same layout with colours drawn for that photo, light, windows, lane marks, shadows and noise. Colours of
different classes overlap from photo to photo, so that a colour alone does not tell the class.
"""

from __future__ import annotations

import numpy as np

NAME, VERSION = "street_scenes", "1"
CLASSES = ("sky", "building", "vegetation", "road", "sidewalk", "car", "pole")
SKY, BUILDING, VEGETATION, ROAD, SIDEWALK, CAR, POLE = range(len(CLASSES))
# Label colours, 0..255: corners of the colour cube, each near what the class looks like in the photos. The task depends
# on them: the identity loss takes them as a weak hint which class is which.
PALETTE = ((0, 255, 255), (255, 0, 0), (0, 255, 0), (0, 0, 0), (255, 255, 255), (255, 0, 255), (0, 0, 255))
# Mean colours of the classes in the photos, 0..1; a car has a colour of its own.
MEANS = ((0.56, 0.74, 0.86), (0.62, 0.40, 0.36), (0.34, 0.50, 0.27), (0.34, 0.34, 0.36), (0.62, 0.61, 0.59))
MEANS += ((0.0, 0.0, 0.0), (0.33, 0.34, 0.47))
# Standard deviations of the colours: of a class from photo to photo, of a house and of a tree in it.
COLOUR, HOUSE, TREE = 0.12, 0.12, 0.08


def scenes(count: int, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Photos (count, size, size, 3) and label maps (count, size, size), both uint8.

    Scene i is drawn from its own generator, `[seed, i]`: a larger count only adds scenes.
    """
    photos = np.empty((count, size, size, 3), np.uint8)
    labels = np.empty((count, size, size), np.uint8)
    for index in range(count):
        rng = np.random.default_rng([seed, index])
        labels[index], tint, marks, cars = layout(rng, size)
        photos[index] = paint(rng, labels[index], tint, marks, cars)
    return photos, labels


def layout(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[tuple[int, ...]]]:
    """Where things are: label map (size, size) uint8, tint (size, size, 3), lane marks (size, size) bool, and cars.

    The tint is what single houses, trees and clouds add to the colour of their class. A car is (top, bottom, left,
    right) in pixels.
    """
    horizon, vanishing, half_width = rng.uniform(0.30, 0.62), rng.uniform(0.25, 0.75), rng.uniform(0.25, 0.50)
    pavement = rng.uniform(0.25, 0.45)  # its width, in half widths of the road
    centres = (np.arange(size) + 0.5) / size
    x, y = np.meshgrid(centres, centres)
    depth = np.clip((y - horizon) / (1 - horizon), 0, 1)
    label = np.where(y < horizon, SKY, VEGETATION).astype(np.uint8)
    tint = np.zeros((size, size, 3))
    _clouds(rng, tint, x, y)
    _houses(rng, label, tint, horizon)
    _trees(rng, label, tint, x, y, horizon)

    middle = vanishing + (0.5 - vanishing) * depth
    across = np.abs(x - middle) / (half_width * depth + 1e-9)
    ground = y >= horizon
    label[ground & (across < 1 + pavement)] = SIDEWALK
    label[ground & (across < 1)] = ROAD
    marks = ground & (np.abs(x - middle) < 0.035 * depth + 0.004) & (np.sin(12 / (depth + 0.15)) > 0)
    _poles(rng, label, horizon)
    cars = _cars(rng, label, horizon, vanishing, half_width)
    tint[(label != SKY) & (label != BUILDING) & (label != VEGETATION)] = 0
    return label, tint, marks, cars


def _clouds(rng: np.random.Generator, tint: np.ndarray, x: np.ndarray, y: np.ndarray) -> None:
    for _ in range(rng.integers(0, 4)):
        across, down, width, height = rng.uniform((0, 0, 0.1, 0.04), (1, 0.4, 0.35, 0.12))
        tint[((x - across) / width) ** 2 + ((y - down) / height) ** 2 < 1] = rng.uniform(-0.2, 0.2)


def _houses(rng: np.random.Generator, label: np.ndarray, tint: np.ndarray, horizon: float) -> None:
    size = len(label)
    left = 0
    while left < size:
        width = int(rng.integers(size // 8, size // 3 + 1))
        height = rng.uniform(0.08, 0.5)
        if rng.random() < 0.68:
            top = max(int((horizon - height) * size), 0)
            rows, columns = slice(top, int(np.ceil(horizon * size))), slice(left, left + width)
            label[rows, columns] = BUILDING
            tint[rows, columns] = rng.normal(0, HOUSE, 3) + rng.normal(0, HOUSE)
        left += width


def _trees(
    rng: np.random.Generator, label: np.ndarray, tint: np.ndarray, x: np.ndarray, y: np.ndarray, horizon: float
) -> None:
    for _ in range(rng.integers(1, 5)):
        across, radius, height = rng.uniform(0, 1), rng.uniform(0.06, 0.15), rng.uniform(0.02, 0.14)
        crown = ((x - across) / radius) ** 2 + ((y - horizon + height) / (1.2 * radius)) ** 2 < 1
        trunk = (np.abs(x - across) < 0.02) & (y > horizon - height) & (y < horizon + 0.03)
        label[crown | trunk] = VEGETATION
        tint[crown | trunk] = rng.normal(0, TREE, 3) + rng.normal(0, TREE)


def _poles(rng: np.random.Generator, label: np.ndarray, horizon: float) -> None:
    size = len(label)
    for _ in range(rng.integers(1, 4)):
        near = rng.uniform(0.1, 0.8)  # 0 at the horizon, 1 at the lower edge
        foot = horizon + (1 - horizon) * near * 0.6
        top = foot - rng.uniform(0.35, 0.75) * (0.55 + 0.45 * near)
        column, width = int(rng.integers(0, size)), max(round(size / 32 * (1 + 0.5 * near)), 1)
        label[max(int(top * size), 0) : int(foot * size), column : column + width] = POLE


def _cars(
    rng: np.random.Generator, label: np.ndarray, horizon: float, vanishing: float, half_width: float
) -> list[tuple[int, ...]]:
    size, cars = len(label), []
    for near in sorted(rng.uniform(0.2, 0.8, size=rng.integers(0, 4))):  # the nearer ones hide the others
        lane = rng.uniform(-0.75, 0.75)
        centre = vanishing + (0.5 - vanishing) * near + lane * half_width * near
        width, height = 0.12 + 0.2 * near, 0.08 + 0.12 * near
        bottom = horizon + (1 - horizon) * near
        edges = (bottom - height, bottom, centre - width / 2, centre + width / 2)
        top, low, left, right = (int(np.clip(round(edge * size), 0, size)) for edge in edges)
        label[top:low, left:right] = CAR
        cars.append((top, low, left, right))
    return cars


def paint(
    rng: np.random.Generator, label: np.ndarray, tint: np.ndarray, marks: np.ndarray, cars: list[tuple[int, ...]]
) -> np.ndarray:
    """The photo of a layout, (size, size, 3) uint8."""
    size = len(label)
    colours = np.array(MEANS) + rng.normal(0, COLOUR, (len(MEANS), 3)) + rng.normal(0, COLOUR, (len(MEANS), 1))
    photo = colours[label] + tint
    rows, columns = np.mgrid[:size, :size]

    pitch, offset = int(rng.integers(3, 5)), int(rng.integers(0, 3))
    windows = ((rows + offset) % pitch == 0) & ((columns + offset) % pitch != 0)
    photo[(label == BUILDING) & windows] *= rng.uniform(0.5, 0.75)
    photo[(label == ROAD) & marks] = rng.uniform(0.7, 0.9)
    for top, low, left, right in cars:
        colour = rng.uniform(0.05, 0.95, 3)
        body = label[top:low, left:right] == CAR
        photo[top:low, left:right][body] = colour
        glass = slice(top + (low - top) // 5, top + (low - top) // 2)
        photo[glass, left + 1 : right - 1][label[glass, left + 1 : right - 1] == CAR] *= 0.5
        shadow = label[low : low + 1, left:right] == ROAD
        photo[low : low + 1, left:right][shadow] *= 0.5
    photo[label == SKY] += (0.12 * (rows / size))[label == SKY][:, None]
    photo[label == VEGETATION] += rng.normal(0, 0.03, (int((label == VEGETATION).sum()), 1))

    slope = rng.uniform(-0.15, 0.15)
    light = rng.uniform(0.75, 1.15) * (1 + slope * (2 * columns / (size - 1) - 1))
    photo = photo * light[:, :, None] + rng.normal(0, 0.015, photo.shape)
    return (np.clip(photo, 0, 1) * 255 + 0.5).astype(np.uint8)
