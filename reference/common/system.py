"""The description of this system, in the fields that MLPerf's tools want. What cannot be read stays empty."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import re
from pathlib import Path
from typing import Any

from reference.common import machine

STATUS = {
    "onprem": "Available on-premise",
    "cloud": "Available cloud",
    "research": "Research, Development, or Internal (RDI)",
}

FIELDS = (
    *("submitter", "division", "status", "system_name", "number_of_nodes", "host_processors_per_node"),
    *("host_processor_model_name", "host_processor_core_count", "host_processor_vcpu_count"),
    *("host_processor_frequency", "host_processor_caches", "host_processor_interconnect", "host_memory_capacity"),
    *("host_storage_type", "host_storage_capacity", "host_networking", "host_networking_topology"),
    *("host_memory_configuration", "accelerators_per_node", "accelerator_model_name"),
    *("accelerator_host_interconnect", "accelerator_frequency", "accelerator_on-chip_memories"),
    *("accelerator_memory_configuration", "accelerator_memory_capacity", "accelerator_interconnect"),
    *("accelerator_interconnect_topology", "cooling", "hw_notes", "framework", "other_software_stack"),
    *("operating_system", "sw_notes"),
)
NOTES = ("hw_notes", "sw_notes")  # may stay empty
NOT_THERE = "N/A"  # what a system without accelerators says about them


def describe(org: str, system: str, division: str, status: str) -> dict[str, str]:
    """All fields, each a text (MLPerf's tools fail on numbers); "" where this machine doesn't tell."""
    said = dict.fromkeys(FIELDS, "")
    said |= {"submitter": org, "division": division, "status": STATUS[status], "system_name": system}
    said |= {"number_of_nodes": "1", "operating_system": _operating_system(), **_software()}
    said |= {**_processor(), **_memory(), **_accelerators()}
    return said


def write(path: Path, said: dict[str, str]) -> list[str]:
    """Write `said` to `path`; values that the user has filled in there stay. Returns the fields that are still empty.

    Raises OSError, and ValueError for a file that isn't a JSON object.
    """
    if path.exists():
        kept: Any = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(kept, dict):
            raise ValueError(f"{path} is not a JSON object")
        said = {**kept, **{field: value for field, value in said.items() if value or field not in kept}}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(said, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return [field for field in FIELDS if not said[field] and field not in NOTES]


def has_gpu() -> bool:
    """Whether NVIDIA's driver reports a GPU, asked without loading torch."""
    return _accelerators().get("accelerators_per_node", "0") not in ("", "0")


def _processor() -> dict[str, str]:
    import psutil

    said = {"host_processor_model_name": machine.processor()}
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    sockets = len(set(re.findall(r"^physical id\s*:\s*(\d+)", text, re.M)))
    cores, threads = psutil.cpu_count(logical=False), psutil.cpu_count()
    if sockets:
        said["host_processors_per_node"] = str(sockets)
        said["host_processor_core_count"] = str(cores // sockets) if cores else ""
        said["host_processor_vcpu_count"] = str(threads // sockets) if threads else ""
    frequency = psutil.cpu_freq()
    if frequency and frequency.max:
        said["host_processor_frequency"] = f"{frequency.max:.0f} MHz"
    said["host_processor_caches"] = _caches()
    return said


def _caches() -> str:
    """The caches that the first core uses, as Linux lists them: "L1d 32K, L1i 32K, L2 1024K, L3 32768K"."""
    said = []
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind, size = ((index / name).read_text().strip() for name in ("level", "type", "size"))
        except OSError:
            continue
        letter = {"Data": "d", "Instruction": "i"}.get(kind, "")
        said.append(f"L{level}{letter} {size}")
    return ", ".join(said)


def _memory() -> dict[str, str]:
    import psutil

    return {"host_memory_capacity": f"{psutil.virtual_memory().total / 2**30:.0f} GiB"}


def _accelerators() -> dict[str, str]:
    """What NVIDIA's driver tells. No driver means none; a driver's library without its Python package tells nothing."""
    try:
        import pynvml
    except ImportError:
        return {}
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        none = [field for field in FIELDS if field.startswith("accelerator_")]
        return {"accelerators_per_node": "0", **dict.fromkeys(none, NOT_THERE)}
    try:
        count = pynvml.nvmlDeviceGetCount()
        said = {"accelerators_per_node": str(count)}
        if count:
            first = pynvml.nvmlDeviceGetHandleByIndex(0)
            said["accelerator_model_name"] = str(pynvml.nvmlDeviceGetName(first))
            said["accelerator_memory_capacity"] = f"{pynvml.nvmlDeviceGetMemoryInfo(first).total / 2**30:.0f} GiB"
            clock = pynvml.nvmlDeviceGetMaxClockInfo(first, pynvml.NVML_CLOCK_SM)
            said["accelerator_frequency"] = f"{clock} MHz"
        return said
    except pynvml.NVMLError:
        return {}
    finally:
        pynvml.nvmlShutdown()


def _software() -> dict[str, str]:
    names = ("numpy", "mlperf-logging")
    stack = [f"Python {platform.python_version()}", *(f"{name} {_version(name)}" for name in names)]
    return {"framework": f"PyTorch {_version('torch')}", "other_software_stack": ", ".join(stack)}


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


def _operating_system() -> str:
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        name = ""
    kernel = f"{platform.system()} {platform.release()}"
    return f"{name}, {kernel}" if name else kernel
