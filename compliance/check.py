"""Judge training logs: ``python -m compliance.check logs/``.

Files and folders; folders are searched for logs by content, and each folder that holds logs is a result set. Exit
status 0: no finding at error level; 1: at least one; 2: wrong call, or no logs found. With --official it follows the
official verdict of an MLPerf round instead.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compliance import __version__
from compliance.benchmarks import FactsError
from compliance.console import progress_bar, say
from compliance.rule import Rule, all_rules
from compliance.rulesets import AUTO, RulesetError, resolve
from compliance.verdict import Checker, Report, observe_submission

MOST_LEFT_OUT = 20
"""So many of the files that are no logs are named where there is no log at all."""

CHECKER_RULES = {
    "X001": "No rule crashes. A rule that does is a defect of the checker, and the verdict is not to be trusted.",
    "X002": "The ruleset of a log can be told. Where several rounds know its benchmark, --ruleset has to say which.",
}


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        rules = all_rules()
        if options.list_rules:
            return say(_list(rules))
        if options.explain:
            return _explain(options.explain, rules)
        if not options.paths:
            parser.error("no path given")
        chosen, left_out = _choose(rules, options.select, options.ignore)
        ruleset = None if options.ruleset == AUTO else resolve(options.ruleset)
        checker = Checker(chosen, ruleset, options.partial, observe=observe_submission)
        with _frozen(), progress_bar(options.format == "text") as progress:
            report = checker.check([Path(path) for path in options.paths], options.jobs, progress)
    except (FactsError, RulesetError, FileNotFoundError, _CallError) as error:
        print(f"compliance.check: {error}", file=sys.stderr)
        return 2
    if not report.logs:
        shown = len(report.skipped) if options.verbose else MOST_LEFT_OUT
        for path, reason in report.skipped[:shown]:
            print(f"left out: {path} ({reason})", file=sys.stderr)
        if report.skipped[shown:]:
            print(f"left out: {len(report.skipped) - shown} more (--verbose names them)", file=sys.stderr)
        print("compliance.check: no logs found in " + ", ".join(options.paths), file=sys.stderr)
        return 2
    report.left_out = left_out
    return _report(report, options)


class _CallError(ValueError):
    pass


@contextmanager
def _frozen() -> Iterator[None]:
    """What is loaded by now stays meanwhile: the garbage collector need not look at it again and again."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _report(report: Report, options: argparse.Namespace) -> int:
    from compliance.formats import context as contexts

    color = options.format == "text" and sys.stdout.isatty() and "NO_COLOR" not in os.environ
    context = contexts.of_rulesets(
        [log.ruleset for log in report.logs], color=color, official=options.official, verbose=options.verbose
    )
    if options.format == "json":
        from compliance.formats import as_json as writer
    else:
        from compliance.formats import as_text as writer  # type: ignore[no-redef]
    say(writer.write(report, context).rstrip("\n"))
    if options.official:
        official = [log.official for log in report.logs]
        if any(one is None for one in official):
            print("compliance.check: --official needs an MLPerf round as ruleset", file=sys.stderr)
            return 2
        return 0 if all(one.valid for one in official) else 1
    return 0 if report.valid else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m compliance.check", description=__doc__.split("\n", 1)[0])
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a log, or a folder that is searched for logs")
    parser.add_argument(
        "--ruleset", default=AUTO, help="auto (default), suite, or an MLPerf round such as mlperf-5.1, mlperf-hpc-3.0"
    )
    parser.add_argument("--format", choices=("text", "json"), default="text")
    parser.add_argument("--partial", action="store_true", help="do not ask for the full number of runs; unofficial")
    parser.add_argument("--official", action="store_true", help="exit by the official verdict of an MLPerf round")
    parser.add_argument("--select", metavar="IDS", help="only these rules: ids or their beginnings, with commas")
    parser.add_argument("--ignore", metavar="IDS", help="not these rules; the verdict says so")
    parser.add_argument("--list-rules", action="store_true", help="every rule with its severity")
    parser.add_argument("--explain", metavar="ID", help="one rule: why, how to mend it, examples")
    parser.add_argument("--jobs", type=_jobs, default=os.cpu_count() or 1, help="processes to use (default: all cores)")
    parser.add_argument("--verbose", action="store_true", help="name every file that was left out")
    parser.add_argument("--version", action="version", version=f"timetoaccuracy {__version__}")
    return parser


def _jobs(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of processes, at least 1, found {text!r}")
    return int(text)


def _choose(rules: list[Rule], select: str | None, ignore: str | None) -> tuple[list[Rule], list[str]]:
    """The rules to run, and the ids of those left out. Raises _CallError for an id that fits no rule."""

    def prefixes(text: str | None) -> tuple[str, ...]:
        parts = tuple(part.strip().upper() for part in (text or "").split(",") if part.strip())
        for part in parts:
            if not any(rule.id.startswith(part) for rule in rules):
                raise _CallError(f"{part}: no such rule (see --list-rules)")
        return parts

    wanted, unwanted = prefixes(select), prefixes(ignore)
    chosen = [
        rule for rule in rules if (not wanted or rule.id.startswith(wanted)) and not rule.id.startswith(unwanted or "-")
    ]
    return chosen, [rule.id for rule in rules if rule not in chosen]


def _list(rules: list[Rule]) -> str:
    lines = [f"{rule.id}  {rule.severity:7}  {rule.scope:10}  {rule.name:32}  {rule.title}" for rule in rules]
    return "\n".join(lines + [f"{id}  error    {'-':10}  {'':32}  {text}" for id, text in CHECKER_RULES.items()])


def _explain(id: str, rules: list[Rule]) -> int:
    if id.upper() in CHECKER_RULES:
        return say(f"{id.upper()}\n\n{CHECKER_RULES[id.upper()]}")
    for rule in rules:
        if rule.id == id.upper():
            where = "the suite's own logs" if rule.suite_only else "every log"
            return say(f"{rule.id} {rule.name} ({rule.severity}; {where}; {rule.source})\n\n{rule.doc}")
    raise _CallError(f"{id}: no such rule (see --list-rules)")


if __name__ == "__main__":
    raise SystemExit(main())
