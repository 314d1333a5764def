"""Q: the quality target. It is reached inside the clock, and then the run stops."""

from collections.abc import Iterator

from compliance.rule import Finding, rule
from compliance.run import Run

SOURCE = "rules.md#quality-target"


@rule("Q001", source=SOURCE)
def target_not_reached(run: Run) -> Iterator[Finding]:
    """A successful run has reached its quality target inside the clock.

    A run that spent its budget without reaching the target ends with status aborted: that is an honest run which did
    not converge. Claiming success is not. Official tools count any evaluation anywhere in the file.

    Fails::

        run_start
        eval_accuracy 0.70 epoch_num=4
        run_stop status=success

    Fails::

        run_start
        eval_accuracy 0.70 epoch_num=1
        run_stop status=success
        eval_accuracy 0.80 epoch_num=2

    Passes::

        run_start
        eval_accuracy 0.70 epoch_num=1
        eval_accuracy 0.75 epoch_num=2
        run_stop status=success

    Passes::

        run_start
        eval_accuracy 0.70 epoch_num=1
        run_stop status=aborted reason=budget
    """
    facts = run.facts
    if run.status != "success" or facts.quality_target is None or run.reached is not None:
        return
    word = "at least" if facts.better == "higher" else "at most"
    best = run.best
    text = f"{facts.quality_metric} never reached {facts.quality_target:g} inside the clock"
    if best is None:
        found = "no evaluation inside the clock"
    else:
        found = f"{best.value:g} at best (line {run.line(best.event)})"
    hint = "a run that did not converge ends with status aborted"
    yield run.at(run.stop, text, f"{word} {facts.quality_target:g}", found, hint)


@rule("Q002", source=SOURCE, severity="warning")
def aborted_though_reached(run: Run) -> Iterator[Finding]:
    """A run that reached its target ends with status success.

    An aborted run has an infinite time to train, whatever it reached.

    Fails::

        run_start
        eval_accuracy 0.75 epoch_num=2
        run_stop status=aborted reason=SIGTERM

    Passes::

        run_start
        eval_accuracy 0.75 epoch_num=2
        run_stop status=success
    """
    if run.status == "aborted" and run.reached is not None:
        line = run.line(run.reached.event)
        text = f"aborted although the target was reached (line {line}); the run counts as not converged"
        yield run.at(run.stop, text, "status success", "status aborted")


@rule("Q003", source=SOURCE, suite_only=True)
def training_on_after_target(run: Run) -> Iterator[Finding]:
    """A run stops at the first evaluation that reaches the target.

    Fails::

        run_start
        eval_accuracy 0.75 epoch_num=1
        epoch_start epoch_num=2
        eval_accuracy 0.76 epoch_num=2
        run_stop status=success

    Passes::

        run_start
        eval_accuracy 0.70 epoch_num=1
        epoch_start epoch_num=2
        eval_accuracy 0.76 epoch_num=2
        run_stop status=success
    """
    if run.reached is None:
        return
    later = False
    for event in run.of("eval_accuracy", "epoch_start", "block_start", "eval_start", "run_stop"):
        if event.key == "run_stop":
            return
        if later:
            text = f"the run went on after it reached the target (line {run.line(run.reached.event)})"
            yield run.at(event, text, "run_stop", event.key)
            return
        later = event is run.reached.event


@rule("Q004", source=SOURCE, suite_only=True)
def target_not_the_declared_one(run: Run) -> Iterator[Finding]:
    """The quality metric, its direction and its target in the log are the benchmark's.

    Fails::

        quality_target 0.70

    Passes::

        quality_metric top1_accuracy
        quality_better higher
        quality_target 0.749
    """
    facts = run.facts
    declared = {
        "quality_metric": facts.quality_metric,
        "quality_better": facts.better,
        "quality_target": facts.quality_target,
    }
    if not run.known:
        return
    for key, value in declared.items():
        for event in run.of(key):
            if event.value != value or isinstance(event.value, bool):
                yield run.at(event, f"{key} is not the benchmark's", str(value), event.value)
