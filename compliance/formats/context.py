"""What a report needs to know of the call it answers."""

from __future__ import annotations

from dataclasses import dataclass

from compliance.rulesets import Ruleset


@dataclass(frozen=True)
class Context:
    """The ruleset that judged, and how text is to look. `color`: the text goes to a terminal."""

    name: str
    reason: str
    sha256: str
    color: bool = False
    official: bool = False
    verbose: bool = False


def of_rulesets(rulesets: list[Ruleset | None], **more: bool) -> Context:
    """The context of logs judged by `rulesets`, which an automatic choice may have made different."""
    distinct = {ruleset.name: ruleset for ruleset in rulesets if ruleset is not None}
    if not distinct:
        return Context("none", "no ruleset could be chosen", "", **more)
    if len(distinct) == 1:
        (one,) = distinct.values()
        return Context(one.name, one.reason, one.sha256, **more)
    return Context("several", "chosen for each log: " + ", ".join(sorted(distinct)), "", **more)
