"""The report as text: one line a finding, one line a file, the working of each score, one final verdict."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from compliance.formats.context import Context
from compliance.rule import Finding
from compliance.score import Score, Variation, exact
from compliance.submission import FLAGS, Submission
from compliance.verdict import LogVerdict, Report, SetVerdict

SHOWN_SKIPPED = 20
UNITS = {"epoch_num": "epochs", "samples_count": "samples"}
_COLORS = {"error": "31", "warning": "33", "valid": "32", "INVALID": "31", "bold": "1"}


def write(report: Report, context: Context) -> str:
    """The whole report."""
    digest = f", sha256 {context.sha256[:12]}" if context.sha256 else ""
    lines = [f"ruleset {context.name} ({clean(context.reason)}){digest}", *_skipped(report, context)]
    for log in report.logs:
        lines += [_finding(finding, context) for finding in log.findings]
        lines.append(_log(log, context))
    for one in report.sets:
        lines += ["", *_set(one, context)]
    for submission in report.submissions:
        lines += ["", *_submission(submission, context)]
    lines += ["", _verdict(report, context)]
    return "\n".join(lines) + "\n"


def clean(text: object) -> str:
    """Text from a log or a path without what would move a terminal's cursor or what its encoding cannot hold."""
    encodable = str(text).encode("utf-8", errors="replace").decode()
    return "".join(c if c.isprintable() else "?" for c in encodable)


def duration(value: Any) -> str:
    """Exact milliseconds as seconds with three decimals, halves rounded up."""
    seconds = (Decimal(str(exact(value))) / 1000).quantize(Decimal("0.001"), rounding="ROUND_HALF_UP")
    return f"{seconds} s"


def _paint(text: str, kind: str, context: Context) -> str:
    return f"\x1b[{_COLORS[kind]}m{text}\x1b[0m" if context.color else text


def _skipped(report: Report, context: Context) -> Iterator[str]:
    shown = report.skipped if context.verbose else report.skipped[:SHOWN_SKIPPED]
    for path, reason in shown:
        yield f"left out: {clean(path)} ({clean(reason)})"
    if len(shown) < len(report.skipped):
        yield f"left out: {len(report.skipped) - len(shown)} more (all with --verbose or --format json)"


def _finding(finding: Finding, context: Context) -> str:
    place = f"{finding.path}:{finding.line}" if finding.line else finding.path
    pair = [f"expected {finding.expected}"] if finding.expected else []
    pair += [f"found {finding.found}"] if finding.found else []
    text = finding.message + (": " + ", ".join(pair) if pair else "") + (f" ({finding.hint})" if finding.hint else "")
    return f"{clean(place)}: {_paint(finding.rule, finding.severity, context)} {finding.severity}: {clean(text)}"


def _log(log: LogVerdict, context: Context) -> str:
    errors = sum(finding.severity == "error" for finding in log.findings)
    state = _state(log.valid, context)
    if log.official is not None:
        official = {True: "valid", False: "invalid", None: "cannot be evaluated"}[log.official.valid]
        keys = f" ({', '.join(map(str, log.official.failing_keys))})" if log.official.failing_keys else ""
        state = f"official: {official}{clean(keys)}, strict: {state}" + (f" ({errors} errors)" if errors else "")
    name = f"{log.benchmark or 'unknown benchmark'}{f'/{log.profile}' if log.profile else ''}"
    word = {True: "converged", False: "did not converge", None: "no target"}[log.converged]
    parts = [state, clean(name), word]
    if log.time_ms is not None:
        parts.append(duration(log.time_ms))
    if log.at_target is not None:
        parts.append(f"{log.at_target} {UNITS.get(log.progress_unit or '', '')}")
    return f"{clean(log.path)}: {', '.join(parts)}"


def _state(valid: bool, context: Context) -> str:
    return _paint("valid", "valid", context) if valid else _paint("INVALID", "INVALID", context)


def _set(one: SetVerdict, context: Context) -> Iterator[str]:
    for finding in one.findings:
        yield _finding(finding, context)
    score: Score = one.score
    state = _state(one.valid, context)
    runs = f"{one.converged} of {one.judged} runs converged"
    if one.facts.quality_target is None and one.facts.profile is not None:
        runs = f"{one.judged} runs"
    title = clean(one.benchmark or "unknown benchmark")
    if score.value_ms is None:
        result = score.reason
    else:
        result = _paint(f"score {duration(score.value_ms)}", "bold", context)
        result += f" ({score.reason})" if score.reason else ""
    yield f"{clean(one.path)}: set of {title}: {state}, {runs}, {result}"
    for part in score.parts:
        time = "infinite" if part.time_ms is None else duration(part.time_ms)
        lines = f"lines {part.start_line or '?'} to {part.stop_line or '?'}"
        yield f"    {clean(part.path)}  {time:>14}  {lines}  {part.reason}"
    kept = sum(part.kept for part in score.parts)
    if score.value_ms is not None:
        yield f"    score = mean of the {kept} kept = {exact(score.value_ms)} ms"
    for label, variation in (("to target", score.convergence), ("time to train", score.time)):
        if variation is not None:
            yield f"    {label}: {_variation(variation)}"


def _variation(variation: Variation) -> str:
    if variation.unit == "ms":
        values = f"{duration(variation.least)} to {duration(variation.most)}, mean {duration(variation.mean)}"
    else:
        unit = UNITS.get(variation.unit, variation.unit)
        values = f"{float(variation.least):g} to {float(variation.most):g} {unit}, mean {float(variation.mean):g}"
    sample = "" if variation.sample is None else f", {variation.sample:.2%} (sample)"
    return f"{values}; run-to-run variation {variation.population:.2%} (population deviation){sample}"


def _submission(one: Submission, context: Context) -> Iterator[str]:
    for finding in one.findings:
        yield _finding(finding, context)
    for flag, path, line in one.overrides:
        yield f"{clean(path)}:{line}: override {flag}: {', '.join(FLAGS[flag])} only warn here"
    counts = f"{_many(len(one.folders), 'set')} of {_many(len(one.systems), 'system')}"
    yield f"{clean(one.path)}: submission of {clean(one.name)}: {_state(one.valid, context)}, {counts}"


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _verdict(report: Report, context: Context) -> str:
    state = _state(report.valid, context)
    counts = f"{len(report.logs)} logs, {len(report.sets)} result sets"
    notes = []
    if report.partial:
        notes.append("partial: run counts were not asked for")
    if report.left_out:
        notes.append(f"rules left out: {', '.join(report.left_out)}; this is no full verdict")
    flags = sorted({flag for one in report.submissions for flag, _, _ in one.overrides})
    if flags:
        notes.append(f"overrides by package_checker_params: {', '.join(flags)}")
    official = [log.official.valid for log in report.logs if log.official is not None]
    if official:
        notes.append(f"official: {official.count(True)} of {len(official)} logs valid")
    return f"verdict: {state} ({counts}" + "".join(f"; {note}" for note in notes) + ")"
