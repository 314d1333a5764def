"""The report as JSON: schema 1, a contract to which members are only ever added (see rules.md)."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec

from compliance import __version__
from compliance.formats.context import Context
from compliance.score import Score, exact
from compliance.verdict import LogVerdict, Report, SetVerdict

SCHEMA = 1


def write(report: Report, context: Context) -> str:
    """The report as one JSON object, with exact times: integers, or decimals as they were written."""
    table = {
        "schema": SCHEMA,
        "tool": {"name": "timetoaccuracy", "version": __version__},
        "ruleset": {"name": context.name, "reason": context.reason, "sha256": context.sha256},
        "valid": report.valid,
        "partial": report.partial,
        "rules_left_out": report.left_out,
        "logs": [_log(log) for log in report.logs],
        "result_sets": [_set(one) for one in report.sets],
        "submissions": [
            {
                "path": one.path,
                "name": one.name,
                "valid": one.valid,
                "systems": sorted(one.systems),
                "overrides": [{"flag": flag, "path": path, "line": line} for flag, path, line in one.overrides],
                "findings": [{**finding.as_dict(), "path": finding.path} for finding in one.findings],
            }
            for one in report.submissions
        ],
        "skipped": [{"path": path, "reason": reason} for path, reason in report.skipped],
    }
    return msgspec.json.format(msgspec.json.encode(plain(table)), indent=1).decode()


def _log(log: LogVerdict) -> dict[str, Any]:
    official = None
    if log.official is not None:
        official = {"valid": log.official.valid, "failing_keys": log.official.failing_keys}
    return {
        "path": log.path,
        "ruleset": log.ruleset.name if log.ruleset else None,
        "benchmark": log.benchmark,
        "division": log.division,
        "profile": log.profile,
        **({"official": official} if official else {}),
        "valid": log.valid,
        "converged": log.converged,
        "time_ms": log.time_ms,
        "progress": {"unit": log.progress_unit, "at_target": log.at_target},
        "findings": [finding.as_dict() for finding in log.findings],
    }


def _set(one: SetVerdict) -> dict[str, Any]:
    score: Score = one.score
    return {
        "path": one.path,
        "benchmark": one.benchmark,
        "runs": len(one.files),
        "required_runs": one.facts.runs,
        "converged": one.converged,
        "valid": one.valid,
        "score_ms": None if score.value_ms is None else exact(score.value_ms),
        "score_note": score.reason,
        "official_score": score.value_ms is not None and score.official,
        "kept": [part.path for part in score.parts if part.kept],
        "dropped": [part.path for part in score.parts if not part.kept],
        "working": [
            {
                "run": part.path,
                "time_ms": part.time_ms,
                "run_start_line": part.start_line,
                "run_stop_line": part.stop_line,
                "kept": part.kept,
                "reason": part.reason,
            }
            for part in score.parts
        ],
        "convergent_rate": score.convergence.as_dict() if score.convergence else None,
        "time_to_train": score.time.as_dict() if score.time else None,
        "findings": [{**finding.as_dict(), "path": finding.path} for finding in one.findings],
    }


def plain(value: Any) -> Any:
    """`value` with decimals as JSON numbers, and without anything that UTF-8 or JSON cannot hold."""
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, str):
        return value.encode("utf-8", errors="replace").decode()
    if isinstance(value, Decimal):
        return msgspec.Raw(format(value, "f").encode())
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        return msgspec.Raw(str(value).encode())
    return value
