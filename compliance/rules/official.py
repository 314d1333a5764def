"""M: the rules of an official MLPerf round, for logs that are judged by one."""

from collections.abc import Iterator

from compliance.rule import Finding, rule
from compliance.run import CLOCK_KEYS, Run

SOURCE = "rules.md#verdicts"


@rule("M001", source=SOURCE)
def official_rule_broken(run: Run) -> Iterator[Finding]:
    """A log of an MLPerf round abides by the rules of the round's sheets.

    The finding shows the sheet's own test. Two things are left to other rules: the clock records, and a run that did
    not converge, which breaks no rule as long as it does not claim success.

    Fails::

        ruleset mlperf-hpc-3.0
        submission_benchmark cosmoflow
        submission_division Closed

    Passes::

        seed 1
    """
    for message in run.official_messages:
        if message.kind == "atleast_one_check" and run.status != "success":
            continue
        if message.kind == "atleast_one_check" and run.facts.quality_target is not None:
            continue  # Q001 reports it, with the target
        if message.kind == "req" and message.key in CLOCK_KEYS:
            continue
        yield Finding(f"a rule of the round is broken: {message.text}", message.line)


@rule("M002", source=SOURCE)
def official_verdict_impossible(run: Run) -> Iterator[Finding]:
    """MLPerf's own checker can judge a log of its round.

    It ends in a traceback on this log: a submission with it cannot be checked. The rest of the log is judged here
    nonetheless.

    Fails::

        ruleset mlperf-hpc-3.0
        text: <seed 1> ## "time_ms": [0-9]+, ->

    Passes::

        seed 1
    """
    if run.official_crash is not None:
        reason, line = run.official_crash
        yield Finding(f"the official checker cannot judge this log: {reason}", line, "a verdict", "a traceback")
