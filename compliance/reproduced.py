"""What public logs say of published claims: ``python -m compliance.reproduced v0.5 --dawnbench dawnbench``.

Reads the result logs of MLPerf Training round 0.5 (and DAWNBench's entries) and sets what they show beside the claims
of the paper "Analysis of DAWNBench, a Time-to-Accuracy Machine Learning Performance Benchmark" (arXiv 1806.01427).
Every verdict follows from the numbers read; docs/reproduced.md is this command's output.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compliance import analysis, speedups
from compliance.analysis import Options, Result
from compliance.analyze import CallError, read
from compliance.benchmarks import FactsError
from compliance.console import say
from compliance.formats.tables import Column, Table, as_markdown, number
from compliance.spread import Spread

HOLDS, NOT, UNTESTABLE = "holds", "does not hold", "cannot be tested"
EXCLUDED = "ncf"  # the paper leaves it out: it trains for seconds, and many of its runs miss the target
_BEST = 5


@dataclass(frozen=True)
class Claim:
    """One claim of the paper, what the logs show, and the verdict that follows."""

    claim: str
    found: str
    verdict: str


def main(argv: list[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m compliance.reproduced", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("logs", metavar="LOGS", help="the folder with the result logs of MLPerf Training round 0.5")
    parser.add_argument("--dawnbench", metavar="PATH", help="the folder with DAWNBench's entries")
    options = parser.parse_args(argv)
    skipped: list[tuple[str, str]] = []
    asked = Options(all_runs=True)
    try:
        sets, _ = read([options.logs], skipped)
        found = analysis.results(sets, asked)
        entries = analysis.results(read([options.dawnbench], skipped)[0], Options()) if options.dawnbench else []
    except (CallError, FactsError, FileNotFoundError) as error:
        print(f"compliance.reproduced: {error}", file=sys.stderr)
        return 2
    folder = Path(options.logs).name
    return say(document(found, entries, asked, folder).rstrip("\n"))


def document(found: Sequence[Result], entries: Sequence[Result], asked: Options, folder: str) -> str:
    """The page: the table of the round, the claims beside it, and DAWNBench's fastest and cheapest entries."""
    table = analysis.time_table(found, asked)
    runs = sum(len(result.outcomes) for result in found)
    parts = [
        "# Reproduced from public logs",
        "Written by a command; change the command, not this page:",
        f"    python -m compliance.reproduced {folder}{' --dawnbench dawnbench' if entries else ''}",
        f"It read {runs} runs in {len(found)} entries of MLPerf Training round 0.5, from run_start to run_stop, every"
        " run of an entry, also those that missed the target (only NCF has such).",
        "## Time to accuracy and its run-to-run variation",
        "Each variation is standard deviation / mean: sample (n - 1) / population (n) deviation. Olympic: mean without"
        " the fastest and the slowest run. Epochs are the distinct numbers logged as train_epoch; a dash where a"
        " program did not log each epoch.",
        as_markdown(table),
        "## Claims of the DAWNBench analysis",
        f"NCF is left out, as in the paper; where it would change a verdict, that is said. {_PAPER}",
        _claims_table(claims(found, bool(entries))),
        "## Throughput against time to accuracy",
        "Pairs of one submitter's entries, the speed-up from the first to the second, where they differ most:",
        as_markdown(_speedups(found)),
    ]
    if entries:
        parts += ["## DAWNBench's entries, fastest and cheapest", *_entries(entries)]
    return "\n\n".join(parts) + "\n"


_PAPER = "Claims are known from summaries of the paper; its tables, entry by entry, were not at hand."


def claims(found: Sequence[Result], entries: bool) -> list[Claim]:
    """Every claim, judged by the results."""
    rest = [result for result in found if result.set.benchmark != EXCLUDED]
    one_run = "each public entry holds one run" if entries else "its entries were not given, and hold one run each"
    return [
        _below(found, rest, "time to accuracy", 0.14, "varies by less than 14 %", lambda r: r.time),
        _below(found, rest, "time per epoch", 0.03, "varies by less than 3 %", lambda r: r.time_per_progress),
        _most_ratio(rest),
        _speedup_claim(found),
        Claim(
            "Transformer: 10.9 times the throughput, 3.6 times faster to accuracy",
            "the logs of the large entry are not among these (files of 4 MiB and more are missing)",
            UNTESTABLE,
        ),
        Claim("DAWNBench entries vary by at most 12.2 %", one_run, UNTESTABLE),
        Claim("without novel statistical optimizations they vary by at most 4.5 %", one_run, UNTESTABLE),
        Claim(
            "communication takes 17.82 % to 77.46 % of the time, by the machines",
            "no log gives communication time",
            UNTESTABLE,
        ),
        Claim(
            "time per epoch is up to 38.9 % off linear scaling",
            "logs of this round do not say how many accelerators ran",
            UNTESTABLE,
        ),
        Claim("2 to 640 processors, speed-ups of 1.6 to 1,400", "the same", UNTESTABLE),
        Claim("FP32 reaches 7.6 of 15.7 TFLOPS; tensor cores are hardly used", "no log gives FLOPs", UNTESTABLE),
    ]


def _below(
    found: Sequence[Result],
    rest: Sequence[Result],
    what: str,
    limit: float,
    words: str,
    pick: Callable[[Result], Spread | None],
) -> Claim:
    """A claim that a variation stays below `limit`, under both deviations."""
    verdicts, texts = [], []
    for label in ("sample", "population"):
        values = [(value, r) for r in rest if (spread := pick(r)) and (value := getattr(spread, label)) is not None]
        over = sorted(((value, r) for value, r in values if value >= limit), key=lambda item: -item[0])
        verdicts.append(not over)
        worst = max(values, key=lambda item: item[0], default=None)
        if over:
            shown = ", ".join(f"{_short(r)} {value:.2%}" for value, r in over)
            texts.append(f"{label} deviation: {len(over)} of {len(values)} entries not ({shown})")
        elif worst:
            texts.append(
                f"{label} deviation: the largest of {len(values)} entries is {worst[0]:.2%} ({_short(worst[1])})"
            )
    left_out = [r for r in found if r not in rest and (s := pick(r)) and s.population >= limit]
    if left_out and all(verdicts):
        texts.append("with NCF it would not: " + ", ".join(f"{_short(r)} {_population(pick(r))}" for r in left_out))
    verdict = HOLDS if all(verdicts) else NOT
    return Claim(f"{what} {words}", "; ".join(texts) or "no entry gives it", verdict if texts else UNTESTABLE)


def _population(spread: Spread | None) -> str:
    return "" if spread is None else f"{spread.population:.2%}"


def _short(result: Result) -> str:
    """An entry's name: its system's folder and benchmark."""
    parts = result.name.split("/")
    place = parts.index("results") + 1 if "results" in parts[:-1] else -2
    named = parts[place] != "tpu" or place < 2  # some entries call their system only that, and name it above
    return f"{parts[place if named else place - 2]} {result.set.benchmark}"


def _most_ratio(rest: Sequence[Result]) -> Claim:
    ratios = [
        (r.progress.sample / r.time_per_progress.sample, r)
        for r in rest
        if r.progress and r.time_per_progress and r.progress.sample and r.time_per_progress.sample
    ]
    claim = "epochs vary up to 45 times as much as time per epoch"
    if not ratios:
        return Claim(claim, "no entry gives both", UNTESTABLE)
    ratios.sort(key=lambda item: -item[0])
    largest = ", ".join(f"{_short(r)} {ratio:.0f}" for ratio, r in ratios[:3])
    above = sum(ratio > 45 for ratio, _ in ratios)
    text = f"the largest of {len(ratios)} ratios (sample deviations) are {largest}; {above} are above 45"
    return Claim(claim, text, NOT if above else HOLDS)


def _pairs(found: Sequence[Result]) -> Table:
    """Speed-ups between every two entries of one submitter, slower one first, the largest ratio first."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    table = speedups.speedup_table([], [])
    for a, b in itertools.permutations(found, 2):
        if a.name.partition("/")[0] != b.name.partition("/")[0] or a.set.benchmark != b.set.benchmark:
            continue
        for row in speedups.speedup_table([b], [a]).rows:
            if row["time_to_accuracy_speedup"] >= 1 and "ratio" in row:
                rows[a.name, b.name] = {**row, "base": _short(a), "set": _short(b)}
    table.rows = sorted(rows.values(), key=lambda row: -_apart(row))
    return table


def _apart(row: dict[str, Any]) -> float:
    return max(float(row["ratio"]), 1 / float(row["ratio"]))


def _speedups(found: Sequence[Result]) -> Table:
    table = _pairs(found)
    table.rows = table.rows[: 2 * _BEST]
    return table


def _speedup_claim(found: Sequence[Result]) -> Claim:
    claim = "speed-ups of throughput and of time to accuracy differ by up to 3 times"
    rows = _pairs([result for result in found if result.set.benchmark != EXCLUDED]).rows
    if not rows:
        return Claim(claim, "no two entries can be compared", UNTESTABLE)
    first = rows[0]
    text = f"the largest of {len(rows)} pairs is {_apart(first):.2f} ({first['base']} to {first['set']})"
    return Claim(claim, text, HOLDS if _apart(first) <= 3 else NOT)


def _claims_table(found: Sequence[Claim]) -> str:
    columns = (Column("claim", "claim", left=True), Column("found", "found", left=True))
    table = Table("claims", "", (*columns, Column("verdict", "verdict", left=True)))
    table.rows = [vars(one) for one in found]
    return as_markdown(table)


def _entries(entries: Sequence[Result]) -> list[str]:
    columns = (
        Column("entry", "entry", left=True),
        Column("seconds", "seconds", number(1)),
        Column("epochs", "epochs", lambda v: f"{v:g}"),
        Column("dollars", "$", number(2)),
    )
    parts = []
    for benchmark in sorted({result.set.benchmark for result in entries}):
        rows: list[dict[str, Any]] = []
        for result in (r for r in entries if r.set.benchmark == benchmark and r.mean_ms is not None):
            epochs = result.progress.mean if result.progress else None
            row = {"entry": Path(result.set.path).name, "seconds": (result.mean_ms or 0) / 1000, "epochs": epochs}
            rows.append({**row, "dollars": analysis.dollars(result, Options())})
        target = next(o.run.target for r in entries if r.set.benchmark == benchmark for o in r.outcomes)
        fastest = sorted(rows, key=lambda row: row["seconds"])[:_BEST]
        priced = sorted((row for row in rows if row["dollars"] is not None), key=lambda row: row["dollars"])[:_BEST]
        parts.append(f"### {benchmark.partition('/')[2]}, to {target:g}")
        for label, chosen in (("Fastest", fastest), ("Cheapest", priced)):
            parts += [f"{label} of {len(rows)} entries that reach it:", as_markdown(Table(label, "", columns, chosen))]
    return parts


if __name__ == "__main__":
    raise SystemExit(main())
