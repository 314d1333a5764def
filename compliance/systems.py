"""System descriptions: the JSON files in a submission's systems/ folder, with all their faults at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

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
"""The fields that MLPerf asks for."""

COUNTS = {"number_of_nodes": 1, "host_processors_per_node": 1, "accelerators_per_node": 0}
"""Fields that hold a whole number, with the least one."""

FREE = ("other_software_stack",)
"""Fields that may hold a text, a list or an object."""

STATUSES = ("Available on-premise", "Available cloud", "Research, Development, or Internal (RDI)", "Preview")
"""The status vocabulary of MLPerf Training from round 4.0 on, and of the suite."""

OLD_STATUSES = ("available", "onprem", "cloud", "preview", "research", "rdi")
"""What earlier rounds were submitted with, in any case."""

DIVISIONS = ("closed", "open")


@dataclass(frozen=True)
class System:
    """One description. `fields` is empty, and `fault` says why, where the file is missing or no JSON object."""

    name: str
    path: Path
    fields: dict[str, Any] = field(default_factory=dict)
    fault: str = ""
    missing: bool = False
    repeated: tuple[str, ...] = ()

    def text(self, name: str) -> str:
        """A field as text, "" where it is missing."""
        value = self.fields.get(name)
        return "" if value is None else value if isinstance(value, str) else json.dumps(value)

    def count(self, name: str) -> int | None:
        """A field that holds a whole number, as a number or in a text."""
        value = self.fields.get(name)
        if isinstance(value, str) and re.fullmatch(r"\s*\d{1,18}\s*", value):
            return int(value)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None

    def total(self, name: str) -> int | None:
        """A count per node times the number of nodes."""
        nodes, each = self.count("number_of_nodes"), self.count(name)
        return None if nodes is None or each is None else nodes * each

    @property
    def absent(self) -> list[str]:
        """The fields that are asked for and not there."""
        return [] if self.fault else [name for name in FIELDS if name not in self.fields]

    @property
    def misfits(self) -> Iterator[tuple[str, str, Any]]:
        """Each field of the wrong type or out of range: its name, what is expected, what is there."""
        for name in FIELDS:
            if name not in self.fields:
                continue
            value = self.fields[name]
            if name in COUNTS:
                number = self.count(name)
                if number is None or number < COUNTS[name]:
                    yield name, f"a whole number, at least {COUNTS[name]}", value
                elif not isinstance(value, str):
                    continue  # a number without quotes says the same
            elif name in FREE:
                if not isinstance(value, str | list | dict):
                    yield name, "a text, a list or an object", value
            elif not isinstance(value, str):
                yield name, "a text", value


def read(path: Path) -> System:
    """The description at `path`; what is wrong with the file as a whole is its `fault`."""
    name = path.name.removesuffix(".json")
    repeated: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [key for key, _ in items]
        repeated.extend(sorted({key for key in names if names.count(key) > 1}) if len(set(names)) < len(names) else [])
        return dict(items)

    if not path.is_file():
        return System(name, path, fault="there is no such file", missing=True)
    try:
        fields = json.loads(path.read_bytes().decode("utf-8-sig"), object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        return System(name, path, fault=f"it is no JSON: {error.msg} in line {error.lineno}, column {error.colno}")
    except UnicodeDecodeError:
        return System(name, path, fault="it is not UTF-8 text")
    except (OSError, RecursionError, ValueError) as error:
        return System(name, path, fault=f"it cannot be read: {error}")
    if not isinstance(fields, dict):
        return System(name, path, fault=f"it holds no JSON object but a {type(fields).__name__}")
    return System(name, path, fields, repeated=tuple(repeated))


def plain(text: str) -> str:
    """A name without case, spaces and punctuation, to compare names that people write in many ways."""
    return re.sub(r"[^0-9a-z]", "", text.lower())
