"""Energy of a run, from the meter logs in ``power/<run>/``, as MLPerf's tools compute it.

Each node has a log of power readings in watts, which are added over time between the start and the stop of the
measurement; what was measured over that time is scaled to the run's own time. A switch has one estimate. Results are
joules.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from compliance import loglines


class NoEnergy(ValueError):
    """There is no energy of a run; MLPerf's summarizer ends in a traceback here."""


def joules(folder: Path, run_ms: float) -> float:
    """Energy of the run whose meter logs are in `folder` and that took `run_ms` milliseconds. Raises NoEnergy."""
    nodes = sorted(folder.glob("node_*.txt"))
    if not nodes:
        raise NoEnergy(f"no node_*.txt in {folder}")
    total = 0.0
    for path in nodes:
        total += _node(path, run_ms)
    for path in sorted(folder.glob("sw_*.txt")):
        total += _switch(path, run_ms)
    if not math.isfinite(total):
        raise NoEnergy(f"the readings in {folder} give no finite energy")
    return total


def faults(folder: Path, names: list[str]) -> list[tuple[str, str]]:
    """What is wrong with the meter logs in a ``power`` folder of the runs called `names`: (path, message)."""
    found: list[tuple[str, str]] = []
    counts: dict[str, tuple[int, int]] = {}
    for name in names:
        home = folder / name
        if not home.is_dir():
            found.append((str(home), "the run has no meter logs"))
            continue
        kinds = []
        for kind in ("node", "sw"):
            files = sorted(path.stem for path in home.glob(f"{kind}_*.txt"))
            if files != sorted(f"{kind}_{number}" for number in range(len(files))):
                found.append((str(home), f"the {kind} logs are not numbered from 0: {', '.join(files)}"))
            kinds.append(len(files))
        counts[name] = (kinds[0], kinds[1])
        if not kinds[0]:
            found.append((str(home), "the run has no node_*.txt"))
    common = max(counts.values(), key=list(counts.values()).count, default=None)
    for name, each in counts.items():
        if each != common and common is not None:
            found.append(
                (str(folder / name), f"{each[0]} nodes and {each[1]} switches, others {common[0]} and {common[1]}")
            )
    return found


def _events(path: Path) -> list[Any]:
    try:
        return [event for event in loglines.read(path).events if event.time_ms is not None]
    except OSError as error:
        raise NoEnergy(f"{path}: {error.strerror or error}") from None


def _ms(event: Any) -> float:
    try:
        return float(event.time_ms)
    except OverflowError:
        raise NoEnergy("a time that is no number of milliseconds") from None


def _node(path: Path, run_ms: float) -> float:
    start = stop = previous = last = None
    watt_ms, efficiency = 0.0, 1.0
    for event in sorted(_events(path), key=_ms):
        time = _ms(event)
        if event.key == "power_measurement_start":
            start = previous = time
        elif event.key == "power_reading" and start is not None and stop is None:
            watt_ms += _number(event, path) * (time - (previous or 0.0))
            previous = last = time
        elif event.key == "power_measurement_stop":
            stop = time
        elif event.key == "conversion_eff":
            efficiency = _number(event, path)
    if start is None:
        raise NoEnergy(f"no power_measurement_start in {path}")
    stop = stop if stop is not None else last if last is not None else start
    if stop == start:
        raise NoEnergy(f"the measurement in {path} takes no time")
    return efficiency * watt_ms * run_ms / (stop - start) / 1000


def _switch(path: Path, run_ms: float) -> float:
    watts, efficiency = 0.0, 1.0
    for event in _events(path):
        if event.key == "conversion_eff":
            efficiency = _number(event, path)
        elif event.key == "interconnect_power_est":
            watts = _number(event, path)
            break
    return efficiency * watts * run_ms / 1000


def _number(event: Any, path: Path) -> float:
    if isinstance(event.value, bool) or not isinstance(event.value, int | float):
        raise NoEnergy(f"{path}: {event.key} is no number")
    try:
        return float(event.value)
    except OverflowError:
        raise NoEnergy(f"{path}: {event.key} is out of all range") from None
