"""Pictures of voxel objects: orthographic projection, a z-buffer, light by the angle of the visible faces.

All views of many objects at once, in plain arrays: a picture costs a fraction of a millisecond. Voxels are drawn as
points, so that a face seen at a slant may have a pixel's hole here and there.
"""

from __future__ import annotations

import numpy as np

CHUNK = 64  # objects drawn at once; changes no result
ZOOM = 0.85  # pixels of a 32-pixel picture to a voxel
AZIMUTH, ELEVATION = (-50.0, 50.0), (15.0, 35.0)  # degrees that pictures are taken from
FAR = 4095  # steps of depth


def camera(azimuth: np.ndarray, elevation: np.ndarray) -> np.ndarray:
    """The picture's axes in the object's: right, up, and towards the camera, (..., 3, 3) float32. Angles in degrees.

    Azimuth 0 looks from the front (-y), 90 from the right (+x).
    """
    a, e = np.radians(azimuth), np.radians(elevation)
    zero = np.zeros_like(a)
    right = np.stack([np.cos(a), np.sin(a), zero], -1)
    towards = np.stack([np.sin(a) * np.cos(e), -np.cos(a) * np.cos(e), np.sin(e)], -1)
    up = np.stack([-np.sin(a) * np.sin(e), np.cos(a) * np.sin(e), np.cos(e)], -1)
    return np.stack([right, up, towards], -2).astype(np.float32)


def shades(voxels: np.ndarray, axes: np.ndarray, light: np.ndarray, size: int) -> np.ndarray:
    """How bright each pixel is: 1..255, or 0 where nothing is seen. (n, views, size, size) uint8.

    voxels  (n, s, s, s) bool, [x, y, z]
    axes    (n, views, 3, 3), from `camera`
    light   (n, views, 3), direction towards the light, length 1
    """
    out = np.empty((*axes.shape[:2], size, size), np.uint8)
    for start in range(0, len(voxels), CHUNK):
        part = slice(start, start + CHUNK)
        out[part] = _shades(voxels[part], axes[part], light[part], size)
    return out


def _shades(voxels: np.ndarray, axes: np.ndarray, light: np.ndarray, size: int) -> np.ndarray:
    count, side = len(voxels), voxels.shape[1]
    where, ahead, behind = surface(voxels)
    shape, centred = where[0], np.stack(where[1:], 1).astype(np.float32) - np.float32((side - 1) / 2)
    zoom = ZOOM * size / side
    pictures = np.zeros((axes.shape[1], count * size * size), np.int32)
    for view in range(axes.shape[1]):
        turn, lit = axes[:, view][shape], light[:, view][shape]
        towards = turn[:, 2]
        normal = np.where(towards > 0, ahead, -behind) * abs(towards)  # of the faces that are seen, by their area
        seen = normal.any(1)
        turn, lit, normal = turn[seen], lit[seen], normal[seen]
        placed = np.matmul(turn, centred[seen, :, None])[:, :, 0]
        column = np.floor(size / 2 + zoom * placed[:, 0]).astype(np.int64)
        row = np.floor(size / 2 - zoom * placed[:, 1]).astype(np.int64)
        slant = (normal * lit).sum(1) / np.sqrt((normal * normal).sum(1))
        bright = (90 + 160 * np.clip(slant, 0, 1)).astype(np.int32)
        near = np.clip((placed[:, 2] / (2 * side) + 0.5) * FAR, 0, FAR).astype(np.int32)
        inside = (column >= 0) & (column < size) & (row >= 0) & (row < size)
        pixel = (shape[seen] * size + row) * size + column
        np.maximum.at(pictures[view], pixel[inside], (near << 8 | bright)[inside])
    return (pictures & 255).astype(np.uint8).reshape(-1, count, size, size).swapaxes(0, 1)


def surface(voxels: np.ndarray) -> tuple[tuple[np.ndarray, ...], np.ndarray, np.ndarray]:
    """Voxels with a free face: their indices, and which faces are free to the higher and to the lower side, (k, 3)."""
    filled = np.pad(voxels, ((0, 0), (1, 1), (1, 1), (1, 1)))
    inner = slice(1, -1)
    free = []
    for side in (slice(2, None), slice(0, -2)):
        for axis in range(3):
            at = [slice(None), inner, inner, inner]
            at[1 + axis] = side
            free.append(~filled[tuple(at)])
    outer = voxels & np.logical_or.reduce(free)
    where = np.nonzero(outer)
    faces = np.stack([face[where] for face in free], 1).astype(np.float32)
    return where, faces[:, :3], faces[:, 3:]


def photos(voxels: np.ndarray, views: int, size: int, seed: int) -> np.ndarray:
    """Pictures (n, views, size, size, 3) uint8 from random angles, in a random colour and light, on pale ground.

    Object i's views are drawn from their own generator, `[seed, i]`.
    """
    draws = np.stack([np.random.default_rng([seed, index]).random((views, 10)) for index in range(len(voxels))])
    angles = (low + (high - low) * draws[..., number] for number, (low, high) in enumerate((AZIMUTH, ELEVATION)))
    axes = camera(*angles)
    # the light comes from the camera's side, up to 60 degrees off
    sideways, upwards = 2.4 * draws[..., 2] - 1.2, 1.5 * draws[..., 3]
    light = axes[..., 2, :] + sideways[..., None] * axes[..., 0, :] + upwards[..., None] * axes[..., 1, :]
    light = (light / np.linalg.norm(light, axis=-1, keepdims=True)).astype(np.float32)
    seen = shades(voxels, axes, light, size)
    colour = (0.1 + 0.75 * draws[..., 4:7]).astype(np.float32)
    ground = 255 * (0.88 + 0.12 * draws[..., 7:10]).astype(np.float32)  # nearly white
    front = seen[..., None] * colour[:, :, None, None]
    return np.where(seen[..., None] > 0, front, ground[:, :, None, None]).astype(np.uint8)
