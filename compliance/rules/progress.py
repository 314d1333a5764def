"""P: progress. Epoch-based tasks count epochs from 1, iteration-based tasks count samples."""

from collections.abc import Iterator
from typing import Any, TypeGuard

from compliance.rule import Finding, rule
from compliance.run import Run

SOURCE = "rules.md#epochs-and-samples"


def _integer(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


@rule("P001", source=SOURCE, suite_only=True)
def wrong_unit_of_progress(run: Run) -> Iterator[Finding]:
    """Evaluations give their progress in the benchmark's unit, as an integer.

    A task without epochs (BERT, DLRM) is evaluated, stopped, compared and scored in samples.

    Fails::

        run_start
        eval_accuracy 0.5 samples_count=1000

    Fails::

        submission_benchmark example_samples
        run_start
        eval_accuracy 0.5 epoch_num=1

    Fails::

        run_start
        eval_accuracy 0.5 epoch_num=0.5

    Passes::

        run_start
        eval_accuracy 0.5 epoch_num=1

    Passes::

        submission_benchmark example_samples
        run_start
        eval_accuracy 0.5 samples_count=1000
    """
    unit = run.facts.progress
    for evaluation in run.evaluations:
        metadata = evaluation.event.metadata
        if unit is None or _integer(metadata.get(unit)):
            continue
        found = (
            str(metadata[unit]) if unit in metadata else ", ".join(k for k in metadata if k not in ("file", "lineno"))
        )
        yield run.at(evaluation.event, "the evaluation has no usable progress", f"an integer {unit}", found or "none")


@rule("P002", source=SOURCE, suite_only=True)
def epochs_in_iteration_based_task(run: Run) -> Iterator[Finding]:
    """An iteration-based task counts no epochs.

    Fails::

        submission_benchmark example_samples
        run_start
        epoch_start epoch_num=1
        epoch_stop epoch_num=1

    Passes::

        submission_benchmark example_samples
        run_start
        block_start samples_count=0
        block_stop samples_count=1000
    """
    if run.facts.progress != "samples_count":
        return
    keys = ("epoch_start", "epoch_stop", "block_start", "block_stop", "eval_start", "eval_accuracy", "run_stop")
    for event in run.of(*keys):
        if event.key.startswith("epoch") or "epoch_num" in event.metadata:
            text = "this benchmark is iteration-based and has no epochs"
            yield run.at(event, text, "samples_count", "epoch_num" if "epoch_num" in event.metadata else event.key)
            return


@rule("P003", source=SOURCE, suite_only=True)
def epochs_not_contiguous(run: Run) -> Iterator[Finding]:
    """Epochs are numbered 1, 2, 3 and so on, each started once, and an evaluation follows the epoch it names.

    Fails::

        run_start
        epoch_start epoch_num=0
        epoch_stop epoch_num=0

    Fails::

        run_start
        epoch_start epoch_num=1
        epoch_stop epoch_num=1
        eval_accuracy 0.8 epoch_num=99

    Passes::

        run_start
        epoch_start epoch_num=1
        epoch_stop epoch_num=1
        eval_accuracy 0.7 epoch_num=1
        epoch_start epoch_num=2
        epoch_stop epoch_num=2
        eval_accuracy 0.8 epoch_num=2
    """
    if run.facts.progress != "epoch_num":
        return
    started = 0
    for event in run.of("epoch_start", "epoch_stop", "eval_accuracy"):
        number = event.metadata.get("epoch_num")
        expected = started + 1 if event.key == "epoch_start" else started
        if event.key == "epoch_start":
            started += 1
        elif started == 0:
            continue
        if event.key == "eval_accuracy" and not _integer(number):
            continue  # P001 reports it
        if number != expected:
            found = f"epoch_num {number}" if "epoch_num" in event.metadata else "no epoch_num"
            yield run.at(event, f"{event.key} is out of sequence", f"epoch_num {expected}", found)
            return


@rule("P004", source=SOURCE, suite_only=True)
def samples_not_cumulative(run: Run) -> Iterator[Finding]:
    """samples_count is the total of samples trained on so far: it grows from block to block, without gaps.

    Fails::

        submission_benchmark example_samples
        run_start
        block_start samples_count=0
        block_stop samples_count=1000
        block_start samples_count=0
        block_stop samples_count=1000

    Passes::

        submission_benchmark example_samples
        run_start
        block_start samples_count=0
        block_stop samples_count=1000
        eval_accuracy 0.7 samples_count=1000
        block_start samples_count=1000
        block_stop samples_count=2000
    """
    if run.facts.progress != "samples_count":
        return
    count = 0
    for event in run.of("block_start", "block_stop", "eval_accuracy"):
        number = event.metadata.get("samples_count")
        if event.key == "eval_accuracy" and not _integer(number):
            continue  # P001 reports it
        grows = event.key == "block_stop"
        if not _integer(number) or not (number > count if grows else number == count or not run.of("block_start")):
            found = f"samples_count {number}" if "samples_count" in event.metadata else "no samples_count"
            yield run.at(event, f"{event.key} does not fit", f"samples_count {'above ' if grows else ''}{count}", found)
            return
        count = number


@rule("P005", source=SOURCE, suite_only=True)
def more_evaluations_than_progress(run: Run) -> Iterator[Finding]:
    """Progress grows from one evaluation to the next.

    Fails::

        run_start
        eval_accuracy 0.6 epoch_num=1
        eval_accuracy 0.8 epoch_num=1

    Passes::

        run_start
        eval_accuracy 0.6 epoch_num=1
        eval_accuracy 0.8 epoch_num=2
    """
    last: int | float | None = None
    for evaluation in run.evaluations:
        at = evaluation.progress(run.facts.progress)
        if last is not None and at is not None and at <= last:
            unit = run.facts.progress or "progress"
            yield run.at(evaluation.event, "two evaluations at the same progress", f"{unit} above {last:g}", f"{at:g}")
        last = at if at is not None else last
