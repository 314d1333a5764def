"""TFRecord files and the Example messages in them, read without TensorFlow.

A record is framed as: length (8 bytes, little endian), masked CRC-32C of these 8 bytes (4), the message, its masked
CRC-32C (4). The message is a protocol buffer: Example { Features features = 1 }, Features { map<string, Feature>
feature = 1 }, Feature { BytesList = 1 | FloatList = 2 | Int64List = 3 }, each a list in field 1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from reference.common.errors import SetupError

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, bits reversed
_MASK = 0xA282EAD8
Value = bytes | np.ndarray | list[bytes]


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def masked_crc(data: bytes) -> int:
    """CRC-32C as TFRecord files store it: turned right by 15 bits, a constant added. About 5 MB a second."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + _MASK) & 0xFFFFFFFF


def index(path: Path, check_first: bool = True) -> list[tuple[int, int]]:
    """Where each record's message lies: (offset, length). Raises SetupError for a file that is damaged or cut short.

    Every length is checked against its CRC; of the messages themselves only the first one of a file (Python is slow at
    it), unless `check_first` is False.
    """
    found: list[tuple[int, int]] = []
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            at = 0
            while at < size:
                head = file.read(12)
                if len(head) < 12 or masked_crc(head[:8]) != struct.unpack("<I", head[8:])[0]:
                    raise SetupError(f"{path}: no record begins at byte {at}: not a TFRecord file, or damaged")
                (length,) = struct.unpack("<Q", head[:8])
                if at + length + 16 > size:
                    raise SetupError(f"{path}: the record at byte {at} is cut short")
                if check_first and not found:
                    message = file.read(length)
                    if masked_crc(message) != struct.unpack("<I", file.read(4))[0]:
                        raise SetupError(f"{path}: the record at byte {at} is damaged: its checksum differs")
                found.append((at + 12, length))
                at += length + 16
                file.seek(at)
    except OSError as error:
        raise SetupError(f"{path}: cannot be read: {error.strerror}") from None
    return found


def example(path: Path, offset: int, length: int) -> dict[str, Value]:
    """The features of the Example message that lies there, by name. Raises SetupError when it isn't one."""
    with path.open("rb") as file:
        file.seek(offset)
        message = file.read(length)
    try:
        return parsed(message)
    except (ValueError, IndexError, struct.error) as error:
        raise SetupError(f"{path}: the record at byte {offset - 12} is not an Example: {error}") from None


def parsed(message: bytes) -> dict[str, Value]:
    """The features of an Example message. Floats and integers come as arrays, bytes alone or as a list.

    Raises ValueError, IndexError or struct.error for a message that isn't one.
    """
    features: dict[str, Value] = {}
    for number, part in _fields(message):
        if number != 1:
            continue
        for inner, entry in _fields(_bytes(part)):
            if inner != 1:
                continue
            name, value = "", b""
            for key, content in _fields(_bytes(entry)):
                if key == 1:
                    name = _bytes(content).decode()
                elif key == 2:
                    value = _bytes(content)
            features[name] = _feature(value)
    return features


def _feature(message: bytes) -> Value:
    for kind, content in _fields(message):
        items = [item for number, item in _fields(_bytes(content)) if number == 1]
        if kind == 1:
            texts = [_bytes(item) for item in items]
            return texts[0] if len(texts) == 1 else texts
        if kind == 2:  # packed, or each float a field of its own
            return np.frombuffer(b"".join(_bytes(item) for item in items), "<f4").astype(np.float32)
        if kind == 3:
            numbers: list[int] = []
            for item in items:
                numbers += [item] if isinstance(item, int) else list(_varints(item))
            signed = [number - (1 << 64) if number >> 63 else number for number in numbers]
            return np.array(signed, np.int64)
    return []


def _fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """(field number, content) of each field: an integer for varints, bytes for everything else."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = _varint(message, at)
            yield number, value
            continue
        if wire == 2:
            length, at = _varint(message, at)
        elif wire in (1, 5):
            length = 8 if wire == 1 else 4
        else:
            raise ValueError(f"wire type {wire}")
        if at + length > len(message):
            raise ValueError("a field is longer than its message")
        yield number, message[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")


def _varints(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _bytes(content: bytes | int) -> bytes:
    if isinstance(content, int):
        raise ValueError("a number where a message is due")
    return content
