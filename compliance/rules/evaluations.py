"""E: evaluations, their values, their schedule, and how much they evaluated."""

import re
from collections.abc import Iterator
from typing import Any

from compliance.rule import Finding, rule
from compliance.run import Run

SOURCE = "rules.md#evaluations"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@rule("E001", source=SOURCE)
def quality_not_a_number(run: Run) -> Iterator[Finding]:
    """The value of eval_accuracy is a number.

    A quoted number, null or true is not: official tools end in a traceback on them. A benchmark of an MLPerf round
    that is judged by two metrics (Mask R-CNN) may log an object or a list of numbers, and round 0.6 wrote numbers in
    quotes.

    Fails::

        run_start
        eval_accuracy '"0.75"' epoch_num=1

    Passes::

        run_start
        eval_accuracy 0.75 epoch_num=1
    """
    for evaluation in run.evaluations:
        if evaluation.value is not None:
            continue
        value = evaluation.event.value
        if not (_number(value) if run.suite else _numbers(value, run.facts.numbers_as_text)):
            hint = "write it without quotation marks" if isinstance(value, str) else ""
            text = f"the value of {evaluation.event.key} is not a number"
            yield run.at(evaluation.event, text, "a number", value, hint)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _numbers(value: Any, as_text: bool) -> bool:
    """Whether `value` is a number, or a list or object of numbers as rounds with two metrics log them."""
    if isinstance(value, list | dict):
        items = list(value.values()) if isinstance(value, dict) else value
        return bool(items) and all(_numbers(item, as_text) for item in items)
    return _number(value) or (as_text and isinstance(value, str) and _NUMBER.fullmatch(value) is not None)


@rule("E002", source=SOURCE, suite_only=True)
def quality_out_of_range(run: Run) -> Iterator[Finding]:
    """The value of eval_accuracy lies in the range of its quality metric.

    The usual cause is a percentage where a fraction is due.

    Fails::

        run_start
        eval_accuracy 74.9 epoch_num=1

    Passes::

        run_start
        eval_accuracy 0.749 epoch_num=1
    """
    bounds = run.facts.quality_range
    for evaluation in run.evaluations:
        value = evaluation.value
        if bounds is None or value is None or bounds[0] <= value <= bounds[1]:
            continue
        hint = "a percentage?" if bounds == (0.0, 1.0) and 1 < value <= 100 else ""
        text = f"{run.facts.quality_metric} is out of its range"
        yield run.at(evaluation.event, text, f"{bounds[0]:g} to {bounds[1]:g}", evaluation.event.value, hint)


@rule("E003", source=SOURCE, severity="warning")
def evaluation_outside_clock(run: Run) -> Iterator[Finding]:
    """Evaluations happen inside the clock.

    One before run_start or after run_stop does not count. Official tools count it.

    Fails::

        run_start
        eval_accuracy 0.5 epoch_num=1
        run_stop status=aborted reason=budget
        eval_accuracy 0.8 epoch_num=2

    Passes::

        run_start
        eval_accuracy 0.8 epoch_num=1
        run_stop status=success
    """
    if run.first("run_start") is None:
        return
    for evaluation in run.evaluations:
        if not evaluation.inside:
            text = "this evaluation is outside the clock and does not count"
            yield run.at(evaluation.event, text, "between run_start and run_stop", "outside")


@rule("E004", source=SOURCE, suite_only=True)
def evaluation_off_schedule(run: Run) -> Iterator[Finding]:
    """Evaluations come where the benchmark schedules them: every eval_every epochs or samples, none left out.

    An iteration-based task evaluates after the first step that completes another eval_every samples, so an evaluation
    may be late by less than one batch.

    Fails::

        run_start
        eval_accuracy 0.5 epoch_num=1
        eval_accuracy 0.8 epoch_num=3
        run_stop status=success

    Fails::

        submission_benchmark example_samples
        global_batch_size 64
        run_start
        eval_accuracy 0.5 samples_count=1024
        eval_accuracy 0.8 samples_count=2500
        run_stop status=success

    Passes::

        run_start
        eval_accuracy 0.5 epoch_num=1
        eval_accuracy 0.8 epoch_num=2
        run_stop status=success

    Passes::

        submission_benchmark example_samples
        global_batch_size 64
        run_start
        eval_accuracy 0.5 samples_count=1024
        eval_accuracy 0.8 samples_count=2048
        run_stop status=success
    """
    facts = run.facts
    if facts.eval_every is None or facts.progress is None:
        return
    batch = run.batch_size
    slack = 0
    if facts.progress == "samples_count":
        slack = batch - 1 if isinstance(batch, int) and batch > 0 else int(facts.eval_every) - 1
    due = facts.eval_every
    for evaluation in run.evaluations:
        at = evaluation.progress(facts.progress)
        if at is None or not evaluation.inside:
            continue
        if not due <= at <= due + slack:
            expected = f"{facts.progress} {due:g}" + (f" to {due + slack:g}" if slack else "")
            text = f"evaluations are due every {facts.eval_every:g} ({facts.progress})"
            yield run.at(evaluation.event, text, expected, f"{facts.progress} {at:g}")
            return
        due += facts.eval_every


@rule("E005", source=SOURCE, suite_only=True)
def evaluated_samples_wrong(run: Run) -> Iterator[Finding]:
    """Each evaluation says how many samples it evaluated, and that is the whole evaluation set.

    A last batch that was dropped, or an evaluation of nothing at all, is seen nowhere else.

    Fails::

        run_start
        eval_accuracy 0.8 epoch_num=1 evaluated_samples=96

    Passes::

        run_start
        eval_accuracy 0.8 epoch_num=1 evaluated_samples=100
    """
    expected = run.facts.eval_samples
    for evaluation in run.evaluations:
        count = evaluation.event.metadata.get("evaluated_samples")
        if expected is not None and evaluation.inside and (count != expected or isinstance(count, bool)):
            text = "the evaluation does not cover the evaluation set"
            found = "no evaluated_samples" if count is None else count
            yield run.at(evaluation.event, text, f"evaluated_samples {expected}", found)


@rule("E006", source=SOURCE, suite_only=True)
def evaluation_unannounced(run: Run) -> Iterator[Finding]:
    """Each eval_accuracy stands between eval_start and eval_stop.

    Fails::

        run_start
        eval_accuracy 0.8 epoch_num=1

    Passes::

        run_start
        eval_start epoch_num=1
        eval_accuracy 0.8 epoch_num=1
        eval_stop epoch_num=1
    """
    evaluating = False
    for event in run.of("eval_start", "eval_stop", "eval_accuracy"):
        if event.key == "eval_accuracy" and not evaluating:
            yield run.at(
                event, "eval_accuracy outside an evaluation", "eval_start before it, eval_stop after it", "none"
            )
        elif event.key != "eval_accuracy":
            evaluating = event.key == "eval_start"
