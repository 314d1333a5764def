"""The command line of a train.py: the shared flags, and one flag for each field of its Settings."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import re
import types
import typing
from pathlib import Path
from typing import Any

from reference.common import seeds


def parser(description: str, settings: type, profiles: list[str]) -> argparse.ArgumentParser:
    """An argument parser; the fields of `settings` (a dataclass) have their comment as help and None as default."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = "embedded" if "embedded" in profiles else profiles[0]
    made.add_argument(
        "--profile", choices=profiles, default=default, help="scale, data and target (default: %(default)s)"
    )
    made.add_argument("--seed", type=_seed, default=1, help="one integer for everything random (default: 1)")
    made.add_argument("--data-dir", type=Path, help="folder of the real data set, in its owners' layout")
    # torchrun takes a plain --log for a beginning of its own --log-dir: the longer name is for it
    log_help = "the log file (default: a new one in runs/<task>/); after torchrun write --log-file"
    made.add_argument("--log", "--log-file", dest="log", metavar="FILE", type=Path, help=log_help)
    made.add_argument("--overwrite", action="store_true", help="replace an existing log file")
    made.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="auto: cuda where there is one")
    made.add_argument("--deterministic", action="store_true", help="refuse operations without a deterministic form")
    made.add_argument("--samples", type=Path, metavar="DIR", help="write sample outputs there, where the task has any")
    made.add_argument("--org", default="timetoaccuracy", help="submission_org")
    made.add_argument(
        "--platform", default="", help="submission_platform: the system's name (default: from the processor)"
    )
    made.add_argument("--division", choices=["closed", "open"], default="closed", help="submission_division")
    made.add_argument("--status", choices=["onprem", "cloud", "research"], default="onprem", help="submission_status")
    group = made.add_argument_group("settings, each overrides the profile's value")
    comments, hints = _comments(settings), typing.get_type_hints(settings)
    for field in dataclasses.fields(settings):
        flag = "--" + field.name.replace("_", "-")
        group.add_argument(
            flag,
            dest="set_" + field.name,
            default=None,
            help=comments.get(field.name),
            **_kind(hints[field.name], field.name),
        )
    return made


def chosen(profile_settings: Any, arguments: argparse.Namespace) -> Any:
    """`profile_settings` (a dataclass instance) with the values that were given as flags."""
    given = {}
    for field in dataclasses.fields(profile_settings):
        value = getattr(arguments, "set_" + field.name)
        if value is not None:
            given[field.name] = tuple(value) if isinstance(value, list) else value
    return dataclasses.replace(profile_settings, **given)


def _seed(text: str) -> int:
    seed = int(text)
    if not 0 <= seed <= seeds.MAX_SEED:
        raise argparse.ArgumentTypeError(f"must be 0..{seeds.MAX_SEED}, not {seed}")
    return seed


def _kind(hint: Any, name: str) -> dict[str, Any]:
    """argparse's words for a field's type: bool, int, float, str, tuple[X, ...], or one of these or None."""
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        hint = next(part for part in typing.get_args(hint) if part is not type(None))
    if hint is bool:
        return {"action": argparse.BooleanOptionalAction}
    if typing.get_origin(hint) is tuple:
        return {"type": typing.get_args(hint)[0], "nargs": "+", "metavar": "X"}
    if hint in (int, float, str):
        return {"type": hint, "metavar": "X"}
    raise TypeError(f"Settings.{name}: no flag can be made for the type {hint}")


def _comments(settings: type) -> dict[str, str]:
    """The comment behind each field in the source of the dataclass."""
    try:
        source = inspect.getsource(settings)
    except (OSError, TypeError):  # no source at hand: the flags go without help
        return {}
    return {name: text.replace("%", "%%") for name, text in re.findall(r"^\s+(\w+)\s*:.*?#\s*(.+?)\s*$", source, re.M)}
