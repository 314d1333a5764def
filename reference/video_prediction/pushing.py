"""Clips of a robot that pushes objects, made by code: nobody's data.

Seen from above: a white gripper moves by commanded steps and pushes coloured discs and squares, which push one another
and stop at the walls. Nothing slides on by itself. All clips of a set are moved at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NAME, VERSION = "robot_pushing", "1"
OBJECTS = 2
GRIPPER = 0.09  # its radius; the picture's side is 1
RADIUS = (0.13, 0.18)  # of a disc; of a square: half its side
STEP = (0.05, 0.08)  # length of a commanded step
UNIT = 2 * STEP[1]  # of the states' -1..1: the longest step is an action of length 1
TURN = 0.5  # radians: how far the next step's direction may turn
SUBSTEPS = 4  # a step is made in this many parts, so that nothing jumps over anything
CHUNK = 100  # clips painted at once; changes no result


@dataclass(frozen=True)
class Clips:
    """frames (n, t, size, size, 3) uint8, actions and states (n, t, 2) float32.

    A state is where the gripper is, x and y, -1..1; an action the step that is commanded between a frame and the
    next: 1 is UNIT of a state. The walls may cut a step short. `touched` (n,): whether any object moved.
    """

    frames: np.ndarray
    actions: np.ndarray
    states: np.ndarray
    touched: np.ndarray


def clips(count: int, length: int, size: int, seed: int) -> Clips:
    """Clips drawn from `[seed, i]` each: a larger count only adds clips."""
    draws = np.stack([np.random.default_rng([seed, index]).random(12 + 8 * OBJECTS + length) for index in range(count)])
    at = np.empty((count, 1 + OBJECTS, 2))  # centres; the gripper first
    radius = np.concatenate([np.full((count, 1), GRIPPER), _between(draws[:, :OBJECTS], *RADIUS)], 1)
    # objects around the middle, each in a sector of its own; the gripper outside, turned to one of them
    turn = 2 * np.pi * (draws[:, 3:4] + (np.arange(OBJECTS) + 0.6 * draws[:, 4 : 4 + OBJECTS]) / OBJECTS)
    away = _between(draws[:, 7 : 7 + OBJECTS], 0.17, 0.27)
    at[:, 1:] = 0.5 + away[..., None] * np.stack([np.cos(turn), np.sin(turn)], 2)
    side = 2 * np.pi * draws[:, 10]
    outwards = np.stack([np.cos(side), np.sin(side)], 1)
    at[:, 0] = 0.5 + (0.5 - GRIPPER) * outwards / abs(outwards).max(1, keepdims=True)
    for _ in range(4):  # until nothing overlaps
        at = moved(at, radius, np.zeros((count, 2)))
    rest = draws[:, 11 + OBJECTS * 5 :]
    goal = at[np.arange(count), 1 + (draws[:, 11] * OBJECTS).astype(int)]
    ahead = np.arctan2(*(goal - at[:, 0]).T[::-1])
    pace = _between(rest[:, 0], *STEP)

    states, actions, places = [], [], []
    for step in range(length):
        ahead = ahead + TURN * (2 * rest[:, 1 + step] - 1)
        move = pace[:, None] * np.stack([np.cos(ahead), np.sin(ahead)], 1)
        # a step that would leave the picture is turned round
        beyond = ((at[:, 0] + move < GRIPPER) | (at[:, 0] + move > 1 - GRIPPER)).any(1)
        back = np.arctan2(*(0.5 - at[:, 0]).T[::-1])
        ahead = np.where(beyond, back, ahead)
        move = pace[:, None] * np.stack([np.cos(ahead), np.sin(ahead)], 1)
        states.append(2 * at[:, 0] - 1)
        actions.append(2 * move / UNIT)
        places.append(at.copy())
        at = moved(at, radius, move)
    places = np.stack(places, 1)
    colours, squares = _looks(draws[:, 12 : 12 + 4 * OBJECTS])
    frames = paint(places, radius, colours, squares, draws[:, 9:10], size)
    touched = (places[:, 0, 1:] != places[:, -1, 1:]).any((1, 2))
    return Clips(frames, *(np.stack(part, 1).astype(np.float32) for part in (actions, states)), touched)


def _between(draws: np.ndarray, low: float, high: float) -> np.ndarray:
    return low + (high - low) * draws


def _looks(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Colours (n, objects, 3), 0..1, one channel full and one empty, and which objects are squares (n, objects)."""
    draws = draws.reshape(len(draws), OBJECTS, 4)
    shift = (draws[..., 0] * 3).astype(int)
    channels = np.stack([np.ones_like(shift, float), np.zeros_like(shift, float), 0.75 * draws[..., 1]], 2)
    order = (np.arange(3) + shift[..., None]) % 3
    return np.take_along_axis(channels, order, 2), draws[..., 2] < 0.5


def moved(at: np.ndarray, radius: np.ndarray, move: np.ndarray) -> np.ndarray:
    """Where everything is after the gripper's step `move` (n, 2): what it meets is pushed along the line of centres."""
    at = at.copy()
    bodies = at.shape[1]
    for _ in range(SUBSTEPS):
        at[:, 0] = np.clip(at[:, 0] + move / SUBSTEPS, GRIPPER, 1 - GRIPPER)
        for _ in range(2):  # a push may push further
            for first in range(bodies):
                for second in range(max(first, 0) + 1, bodies):
                    gap = at[:, second] - at[:, first]
                    distance = np.sqrt((gap * gap).sum(1)) + 1e-9
                    overlap = np.maximum(radius[:, first] + radius[:, second] - distance, 0)
                    push = gap / distance[:, None] * overlap[:, None]
                    if first == 0:  # the gripper does not give way
                        at[:, second] += push
                    else:
                        at[:, first] -= push / 2
                        at[:, second] += push / 2
            at[:, 1:] = np.clip(at[:, 1:], radius[:, 1:, None], 1 - radius[:, 1:, None])
    return at


def paint(
    places: np.ndarray, radius: np.ndarray, colours: np.ndarray, squares: np.ndarray, ground: np.ndarray, size: int
) -> np.ndarray:
    """Frames (n, t, size, size, 3) uint8: objects on a dark ground, the gripper on top, edges one pixel soft."""
    out = np.empty((*places.shape[:2], size, size, 3), np.uint8)
    for start in range(0, len(places), CHUNK):
        part = slice(start, start + CHUNK)
        out[part] = _paint(places[part], radius[part], colours[part], squares[part], ground[part], size)
    return out


def _paint(
    places: np.ndarray, radius: np.ndarray, colours: np.ndarray, squares: np.ndarray, ground: np.ndarray, size: int
) -> np.ndarray:
    count, length, bodies, _ = places.shape
    at = ((np.arange(size) + 0.5) / size).astype(np.float32)
    frames = np.empty((count, length, size, size, 3), np.float32)
    frames[:] = (0.1 + 0.2 * ground[:, :, None, None, None]).astype(np.float32)
    for body in (*range(1, bodies), 0):
        x, y = (abs(at - places[:, :, body, axis, None].astype(np.float32)) for axis in range(2))
        across, down = x[:, :, None, :], y[:, :, :, None]
        reach = radius[:, body].astype(np.float32)[:, None, None, None]
        distance = np.sqrt(across * across + down * down)
        if body:
            square = np.maximum(across, down)
            distance = np.where(squares[:, body - 1, None, None, None], square * 1.12, distance)
        cover = np.clip((reach - distance) * size + 0.5, 0, 1)[..., None]
        colour = colours[:, body - 1] if body else np.ones((count, 3))
        frames += cover * (colour.astype(np.float32)[:, None, None, None] - frames)
    return (255 * frames + 0.5).astype(np.uint8)
