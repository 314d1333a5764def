"""Short logs with pieces of text put in at random places, and the records that they are made of."""

import json


def record(key="seed", value=1, time_ms=1_700_000_000_000, **more):
    body = {"namespace": "", "time_ms": time_ms, "event_type": "POINT_IN_TIME", "key": key, "value": value}
    return b":::MLLOG " + json.dumps({**body, "metadata": {"file": "a.py", "lineno": 1}, **more}).encode()


def plain(events):
    return [(e.time_ms, e.key, e.value, e.metadata, e.event_type) for e in events]


PIECES = [
    b":::MLLOG ",
    b":::mllog ",
    b'"key": "x"',
    b'"metadata": {',
    b'"metadata": null',
    b'"value": 1, ',
    b'"event_type": "A", ',
]
PIECES += [
    b'"time_ms": 5, ',
    b'"metadata": {"metadata": {}}, ',
    b"NaN",
    b"1e999",
    b"\\u0041",
    b"\xc3\xa9",
    b"\xff",
    b"\0",
    b"\r",
    b"\n",
    b"null",
]
PIECES += [bytes([c]) for c in b'{}[],:"\\ -0'] + [b"9" * 30, b""]
VALUES = [1, 0.5, "s", None, {"metadata": {}}, [1, {"key": 2}], "see :::MLLOG {"]
METADATA = [{}, {"a": 1}, {"metadata": {"x": 1}}, {"key": "k"}]


def mutated(rng):
    """A short log with one to three pieces of text put in somewhere, over some of what was there."""
    lines = [b"junk :: line"]
    for number in range(rng.randint(1, 4)):
        metadata = rng.choice(METADATA)
        lines.append(record(rng.choice("abc"), rng.choice(VALUES), 1_700_000_000_000 + number, metadata=metadata))
    text = b"\n".join(lines)
    for _ in range(rng.randint(1, 3)):
        start = rng.randrange(len(text))
        text = text[:start] + rng.choice(PIECES) + text[min(len(text), start + rng.choice([0, 0, 1, 2, 8])) :]
    return text
