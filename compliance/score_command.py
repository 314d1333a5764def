"""The scores of a set, a system, a submission or a round: ``python -m compliance.score PATH…``.

One table a division: a row for each system, a column for each benchmark. A score is the mean of the times to train
without the fastest and the slowest, times the factor of normalization if there is one; there is none where a rule is
broken or runs are missing. Nothing is written into what is scored, and the same input gives the same output.

Exit status 0: every set has a score; 1: at least one has none; 2: wrong call, or no logs found.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from compliance import score_formats
from compliance.benchmarks import FactsError
from compliance.console import progress_bar, say
from compliance.official_score import observe
from compliance.rule import all_rules
from compliance.rulesets import AUTO, Ruleset, RulesetError, resolve
from compliance.submission import Place, ResultFolder, Submission, misplaced, place_of
from compliance.table import NORMALIZATIONS, Table, add_urls, build, column_of, round_benchmarks
from compliance.verdict import Checker, Report

EPILOG = "Times are exact milliseconds inside; text shows three decimals, halves rounded up; CSV and JSON all digits."


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = _parser()
    options = parser.parse_args(argv)
    if options.table != "scores" and options.format != "csv":
        parser.error("--table is for --format csv; text and json show all tables")
    paths = [Path(path) for path in options.paths]
    try:
        given = None if options.ruleset == AUTO else resolve(options.ruleset)
        with progress_bar(options.format == "text") as progress:
            report = judge(paths, given, options.partial, options.jobs, progress)
        if not report.sets:
            return _nothing(options, report)
        table, ruleset = make_table(report, options.normalize, options.official)
    except (FactsError, RulesetError, FileNotFoundError) as error:
        print(f"compliance.score: {error}", file=sys.stderr)
        return 2
    say(score_formats.write(table, ruleset, options).rstrip("\n"))
    scored = [cell.minutes is not None for row in table.rows for cell in row.cells.values()]
    scored += [bool(cell.weak and cell.weak.minutes) for row in table.rows for cell in row.weak.values()]
    return 0 if scored and all(scored) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m compliance.score", description=__doc__.split("\n", 1)[0], epilog=EPILOG
    )
    parser.add_argument("paths", nargs="+", metavar="PATH", help="folders; each that holds logs is a set of runs")
    parser.add_argument("--ruleset", default=AUTO, help="auto (default), suite, or an MLPerf round such as mlperf-5.1")
    parser.add_argument("--format", choices=("text", "csv", "json"), default="text")
    parser.add_argument(
        "--table", choices=("scores", "detailed", "weak"), default="scores", help="which of MLPerf's tables (csv)"
    )
    parser.add_argument("--explain-score", action="store_true", help="how each score came about (text)")
    parser.add_argument("--partial", action="store_true", help="score sets with too few runs; labelled unofficial")
    parser.add_argument(
        "--normalize",
        choices=NORMALIZATIONS,
        default="published",
        help="the factor: of scaling.json (default), of the convergence test, or none",
    )
    parser.add_argument("--official", action="store_true", help="what MLPerf's summarizer prints, defects included")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes to use (default: all cores)")
    return parser


def judge(
    paths: list[Path],
    ruleset: Ruleset | None,
    partial: bool = False,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Judge everything below `paths`, and observe what scores are made of."""
    return Checker(all_rules(), ruleset, partial, observe=observe).check(paths, jobs, progress)


def make_table(report: Report, normalize: str, official: bool = False) -> tuple[Table, Ruleset]:
    """The table of a report by `judge`; `official` as in `build`.

    Raises RulesetError where the logs are of several rulesets, or of none.
    """
    ruleset = _the_ruleset(report)
    out_of_place: list[tuple[str, str]] = []
    submissions = _submissions(report, out_of_place)
    usage = "suite" if ruleset.suite else ruleset.official.usage
    table = build(
        submissions,
        _benchmarks(ruleset),
        usage=usage,
        partial=report.partial,
        normalize=normalize,
        official=official,
    )
    table.left_out += out_of_place
    table.skipped = table.left_out + report.skipped
    add_urls(table, ruleset)
    return table, ruleset


def _nothing(options: argparse.Namespace, report: Report) -> int:
    if report.logs:
        print("compliance.score: a log alone is no set; give the folder it is in", file=sys.stderr)
        return 2
    for path, reason in report.skipped:
        print(f"left out: {path} ({reason})", file=sys.stderr)
    print("compliance.score: no logs found in " + ", ".join(options.paths), file=sys.stderr)
    return 2


def _the_ruleset(report: Report) -> Ruleset:
    """The one ruleset of all logs. Raises RulesetError where there are several or none."""
    found = {log.ruleset.name: log.ruleset for log in report.logs if log.ruleset is not None}
    if len(found) > 1:
        raise RulesetError(f"the logs are of several rulesets ({', '.join(sorted(found))}): score them apart")
    if not found:
        message = next((finding.message for log in report.logs for finding in log.findings), "no ruleset")
        raise RulesetError(message)
    return next(iter(found.values()))


def _benchmarks(ruleset: Ruleset) -> list[str]:
    if ruleset.suite:
        return []
    official = ruleset.official
    return round_benchmarks(official.folder.parent.parent, official.usage, official.version)


def _submissions(report: Report, out_of_place: list[tuple[str, str]]) -> list[Submission]:
    """The submissions; sets that are in none are put by the organization and platform that their logs name.

    Sets in a submission's results where no tool looks are added to `out_of_place`.
    """
    found = list(report.submissions)
    loose: dict[tuple[str, ...], Submission] = {}
    taken: Counter[tuple[str, ...]] = Counter()
    for one in report.sets:
        if place_of(Path(one.path)) is not None:
            continue
        if misplaced(Path(one.path)):
            out_of_place.append((one.path, "a set is expected in results/<system>/<benchmark>"))
            continue
        files = set(one.files)
        members = [log for log in report.logs if log.path in files]
        said = members[0].identity
        org, system, division = (str(said.get(f"submission_{name}") or "") for name in ("org", "platform", "division"))
        twin = (org, system, division, column_of(one))
        key = (org, system, division, str(taken[twin]))  # a second set of one benchmark gets a row of its own
        taken[twin] += 1
        submission = loose.setdefault(key, Submission(str(Path(one.path).parent), org, loose=True))
        place = Place(Path(submission.path), system or "not said", "", one.benchmark or "unknown")
        submission.folders.append(ResultFolder(place, one.path, one, members))
    return found + list(loose.values())
