"""Video prediction: TFRecord files and BAIR's layout, written here byte by byte with made-up clips."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import numpy as np
import pytest

from reference.common.errors import SetupError

from . import robot, tfrecords

# ---- a writer of its own ---------------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def feature(value: object) -> bytes:
    if isinstance(value, bytes):
        return field(1, field(1, value))
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        return field(2, field(1, value.tobytes()))
    return field(3, field(1, b"".join(varint(number % (1 << 64)) for number in value)))


def example(features: dict[str, object]) -> bytes:
    entries = (field(1, field(1, name.encode()) + field(2, feature(value))) for name, value in features.items())
    return field(1, b"".join(entries))


def record(message: bytes) -> bytes:
    head = struct.pack("<Q", len(message))
    crcs = (struct.pack("<I", tfrecords.masked_crc(part)) for part in (head, message))
    return head + next(crcs) + message + next(crcs)


def clip(frames: np.ndarray, actions: np.ndarray, states: np.ndarray) -> bytes:
    features: dict[str, object] = {}
    for step, frame in enumerate(frames):
        features[f"{step}/image_aux1/encoded"] = frame.tobytes()
        features[f"{step}/action"], features[f"{step}/endeffector_pos"] = actions[step], states[step]
    return example(features)


def made_up_robot(folder: Path, monkeypatch: pytest.MonkeyPatch, frames: int = 5) -> np.ndarray:
    """Three training clips in two files and one to judge, in BAIR's layout. Returns the training frames."""
    monkeypatch.setattr(robot, "COUNTS", {"train": 3, "test": 1})
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (4, frames, 64, 64, 3), np.uint8)
    actions = rng.normal(size=(4, frames, 4)).astype(np.float32)
    states = rng.normal(size=(4, frames, 3)).astype(np.float32)
    records = [record(clip(*parts)) for parts in zip(pictures, actions, states, strict=True)]
    for name, part, rows in (("a", "train", (0, 1)), ("b", "train", (2,)), ("a", "test", (3,))):
        (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / part / f"traj_{name}.tfrecords").write_bytes(b"".join(records[row] for row in rows))
    return pictures[:3]


# ---- framing and messages --------------------------------------------------------------------------------------------


def test_crc_of_the_published_check_value() -> None:
    """CRC-32C of "123456789" is e3069283 in every catalogue of CRCs; the mask is undone here."""
    unmasked = tfrecords.masked_crc(b"123456789") - 0xA282EAD8 & 0xFFFFFFFF
    assert (unmasked << 15 | unmasked >> 17) & 0xFFFFFFFF == 0xE3069283


def test_features_of_all_kinds() -> None:
    floats, numbers = np.array([0.5, -2.0], np.float32), [1, 300, -1, 2**62]
    message = example({"a": b"\x00\xff", "b": floats, "c": numbers, "long": b"x" * 300})
    found = tfrecords.parsed(message)
    assert found["a"] == b"\x00\xff"
    assert found["b"].tolist() == [0.5, -2.0]
    assert found["c"].tolist() == numbers
    assert found["long"] == b"x" * 300
    unpacked = field(2, varint(1 << 3 | 5) + struct.pack("<f", 0.25) + varint(1 << 3 | 5) + struct.pack("<f", 4))
    two = field(1, field(1, b"one") + field(1, b"two"))
    message = field(1, field(1, field(1, b"f") + field(2, unpacked)) + field(1, field(1, b"t") + field(2, two)))
    found = tfrecords.parsed(message)
    assert found["f"].tolist() == [0.25, 4.0]
    assert found["t"] == [b"one", b"two"]


def test_records_are_found_and_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecords"
    first, second = record(b"hello"), record(b"")
    path.write_bytes(first + second)
    assert tfrecords.index(path) == [(12, 5), (len(first) + 12, 0)]
    for content, message in (
        (first + second[:-1], f"the record at byte {len(first)} is cut short"),
        (first + b"\x01" + second[1:], f"no record begins at byte {len(first)}"),
        (first[:14] + b"L" + first[15:], "its checksum differs"),
        (b"PK\x03\x04", "not a TFRecord file"),
    ):
        path.write_bytes(content)
        with pytest.raises(SetupError, match=message):
            tfrecords.index(path)
    path.write_bytes(record(b"\x0a\x05abc"))
    with pytest.raises(SetupError, match="is not an Example: a field is longer"):
        tfrecords.example(path, 12, 5)


# ---- BAIR's layout ---------------------------------------------------------------------------------------------------


def test_clips_in_the_real_layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = made_up_robot(tmp_path, monkeypatch)
    records, source = robot.part(tmp_path, "train", 64, 4)
    frames, actions, states = records.read(np.array([0, 2]), None)
    assert np.array_equal(frames, pictures[[0, 2], :4])
    assert (actions.shape, states.shape) == ((2, 4, 4), (2, 4, 3))
    later, _, _ = records.read(np.array([1, 1]), np.array([0.0, 0.99]))
    assert np.array_equal(later[0], pictures[1, :4])
    assert np.array_equal(later[1], pictures[1, 1:])
    assert source.file == "train"
    with pytest.raises(SetupError, match="expected at least 6 frames, found 5"):
        robot.part(tmp_path, "test", 64, 6)[0].read(np.array([0]), None)
    with pytest.raises(SetupError, match="expected 32x32 pixels, found 64x64"):
        robot.part(tmp_path, "test", 32, 4)[0].read(np.array([0]), None)
    (tmp_path / "train" / "traj_b.tfrecords").unlink()
    with pytest.raises(SetupError, match=r"expected 3 clips in \*.tfrecords, found 2 in 1 files"):
        robot.part(tmp_path, "train", 64, 4)


def test_jpeg_frames_under_googles_names(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="needs pillow")
    wide = np.zeros((64, 80, 3), np.uint8)
    wide[:, 40:] = 200
    file = io.BytesIO()
    image.fromarray(wide).save(file, "JPEG", quality=95)
    pose, features = np.arange(5, dtype=np.float32), {}
    for step in range(2):
        features[f"move/{step}/image/encoded"] = file.getvalue()
        features[f"move/{step}/commanded_pose/vec_pitch_yaw"] = pose
        features[f"move/{step}/endeffector/vec_pitch_yaw"] = pose + step
    path = tmp_path / "a.tfrecords"
    path.write_bytes(record(example(features)))
    (place,) = tfrecords.index(path)
    frames, actions, states = robot.clip(path, *place, 32, 2, 0.0)
    assert frames.shape == (2, 32, 32, 3)
    assert frames[0, :, :14].max() < 30 < 170 < frames[0, :, 18:].min()
    assert actions[1].tolist() == pose.tolist()
    assert states[1, 0] == 1


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ({"0/image_main/encoded": b"x"}, "no feature 0/image_aux1/encoded"),
        ({"0/image_aux1/encoded": b"x"}, "not a readable picture of 1 bytes"),
        ({"0/image_aux1/encoded": bytes(32 * 32 * 3)}, "no feature 0/action"),
        ({"0/image_aux1/encoded": bytes(32 * 32 * 3), "0/action": [1]}, "0/action holds no floats"),
    ],
)
def test_what_a_clip_lacks_is_named(tmp_path: Path, features: dict[str, object], message: str) -> None:
    pytest.importorskip("PIL.Image", reason="needs pillow")
    path = tmp_path / "a.tfrecords"
    path.write_bytes(record(example(features)))
    (place,) = tfrecords.index(path)
    with pytest.raises(SetupError, match=message):
        robot.clip(path, *place, 32, 1, 0.0)
