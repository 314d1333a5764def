"""M: the rules of an official MLPerf round, for logs that are judged by one."""

from collections.abc import Iterator

from compliance.rule import Finding, rule
from compliance.run import CLOCK_KEYS, Run

SOURCE = "rules.md#verdicts"
READABLE = {"glued", "text_after", "encoding", "event_type"}
"""Kinds of faults that lose nothing here, and are warnings; the others are errors of their own."""


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
    for message in run.official_messages if run.events else ():
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


@rule("M003", source=SOURCE)
def official_checker_refuses(run: Run) -> Iterator[Finding]:
    """MLPerf's own checker reads every record of a log of its round.

    All records could be read here, and they are fine; but the official checker loses or refuses some of them because
    of how they stand in their lines.

    Fails::

        ruleset mlperf-3.1
        submission_benchmark ssd
        submission_division closed
        submission_org somebody
        submission_platform a_system
        submission_status onprem
        cache_clear true
        init_start
        text: <global_batch_size 32><gradient_accumulation_steps 1>
        opt_name adam
        opt_base_learning_rate 0.0001
        opt_weight_decay 0.0
        opt_learning_rate_warmup_epochs 1
        opt_learning_rate_warmup_factor 0.001
        train_samples 117266
        eval_samples 5000
        init_stop
        run_start
        epoch_start epoch_num=1
        eval_start epoch_num=1
        eval_accuracy 0.345 epoch_num=1
        block_stop first_epoch_num=1
        run_stop status=success

    Passes::

        ruleset mlperf-3.1
        submission_benchmark ssd
        submission_division closed
        submission_org somebody
        submission_platform a_system
        submission_status onprem
        cache_clear true
        init_start
        global_batch_size 32
        gradient_accumulation_steps 1
        opt_name adam
        opt_base_learning_rate 0.0001
        opt_weight_decay 0.0
        opt_learning_rate_warmup_epochs 1
        opt_learning_rate_warmup_factor 0.001
        train_samples 117266
        eval_samples 5000
        init_stop
        run_start
        epoch_start epoch_num=1
        eval_start epoch_num=1
        eval_accuracy 0.345 epoch_num=1
        block_stop first_epoch_num=1
        run_stop status=success
    """
    if run.official_refusal is not None and set(run.log.faults.counts) <= READABLE:
        text = "the official checker refuses this log, because of lines that it cannot read as they stand"
        yield Finding(f"{text}: {run.official_refusal}", None, "one record a line, and nothing after it", "see above")


@rule("M004", source=SOURCE, severity="warning")
def official_warning(run: Run) -> Iterator[Finding]:
    """A key that a round wants exactly once comes once.

    The round's sheets accept a key that comes again with the same value, and warn.

    Fails::

        ruleset mlperf-hpc-3.0
        submission_org somebody
        submission_org somebody

    Passes::

        ruleset mlperf-hpc-3.0
        submission_org somebody
    """
    for message in run.official_warnings if run.events else ():
        if message.key not in CLOCK_KEYS:
            yield Finding(f"the round's checker warns: {message.text}", message.line)
