"""The generated parts of rules.md: ``python -m compliance.docs rules.md`` writes them, ``--check`` only compares.

A generated part stands between ``<!-- generated: name -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from compliance.benchmarks import TARGET_SOURCES, Facts, benchmarks
from compliance.check import CHECKER_RULES
from compliance.rule import Rule, all_rules

_PART = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def benchmark_tables() -> str:
    """The tables of benchmarks: what each is, and one table a profile."""
    every = benchmarks()
    lines = [
        "| benchmark | task | model | quality metric | better | progress | subsets |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, profiles in every.items():
        facts = next(iter(profiles.values()))
        subsets = ", ".join(facts.subsets)
        cells = (f"[{name}](reference/{name}/README.md)", facts.title, facts.model, facts.quality_metric, facts.better)
        lines.append(f"| {' | '.join(cells)} | {facts.progress} | {subsets} |")
    for profile in dict.fromkeys(profile for profiles in every.values() for profile in profiles):
        lines += ["", f"Profile `{profile}`:", ""]
        lines += ["| benchmark | data | train / eval samples | target | target's source | eval every | runs |"]
        lines += ["|---|---|---|---|---|---|---|"]
        lines += [_row(name, profiles[profile]) for name, profiles in every.items() if profile in profiles]
    return "\n".join(lines) + "\n"


def _row(name: str, facts: Facts) -> str:
    sign = "≥" if facts.better == "higher" else "≤"
    target = "none" if facts.quality_target is None else f"{facts.quality_metric} {sign} {facts.quality_target:g}"
    source = TARGET_SOURCES.get(facts.target_source, "")
    unit = {"epoch_num": "epochs", "samples_count": "samples"}[str(facts.progress)]
    samples = f"{facts.train_samples:,} / {facts.eval_samples:,}"
    return (
        f"| {name} | {facts.dataset} | {samples} | {target} | {source} | {facts.eval_every:,} {unit} | {facts.runs} |"
    )


def rule_pages() -> str:
    """One entry a rule."""
    rules = all_rules()
    lines = ["| id | rule | severity | judges | for |", "|---|---|---|---|---|"]
    for rule in rules:
        scope = "a log" if rule.scope == "run" else "a result set"
        cells = (f"[{rule.id}](#{_anchor(rule)})", rule.title, rule.severity, scope, _for(rule))
        lines.append(f"| {' | '.join(cells)} |")
    lines += [f"| {id} | {text} | error | the checker | all |" for id, text in CHECKER_RULES.items()]
    for rule in rules:
        lines += ["", f"### {rule.id} {rule.name}", "", rule.text, ""]
        lines += [f"Severity {rule.severity}; {_for(rule)}; section [{rule.source.partition('#')[2]}]({_link(rule)})."]
        for heading in ("Fails", "Passes"):
            for text in rule.examples("Fails" if heading == "Fails" else "Passes"):
                lines += ["", f"{heading}:", "", "```", text, "```"]
    return "\n".join(lines) + "\n"


def _for(rule: Rule) -> str:
    return "suite" if rule.suite_only else "all"


def _link(rule: Rule) -> str:
    return "#" + rule.source.partition("#")[2]


def _anchor(rule: Rule) -> str:
    return f"{rule.id} {rule.name}".lower().replace(" ", "-")


PARTS = {"benchmarks": benchmark_tables, "rules": rule_pages}


def refresh(text: str) -> str:
    """`text` with its generated parts made anew. Raises KeyError for a part that nothing generates."""
    return _PART.sub(lambda match: match[1] + PARTS[match[2]]() + match[3], text)


def main(argv: list[str] | None = None) -> int:
    """Run the command; exit status 1 if --check finds a stale file."""
    parser = argparse.ArgumentParser(
        prog="python -m compliance.docs", description="Refresh generated parts of documents."
    )
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if a file is stale")
    options = parser.parse_args(argv)
    stale = False
    for path in options.files:
        old = path.read_text(encoding="utf-8")
        new = refresh(old)
        if old != new:
            stale = True
            print(f"{path}: {'stale' if options.check else 'refreshed'}", file=sys.stderr)
            if not options.check:
                path.write_text(new, encoding="utf-8")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    raise SystemExit(main())
