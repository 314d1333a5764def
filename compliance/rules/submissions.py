"""U: submissions. What lies in the folders: sets of runs, copies, names and sizes, convergence."""

import math
from collections.abc import Iterator
from pathlib import PurePath

from compliance.careful import short
from compliance.rule import Finding, rule
from compliance.submission import FLAGS, MOST_BYTES, Submission

SOURCE = "rules.md#submissions"
CONVERGENCE = "rules.md#reference-convergence-points"


@rule("U011", source=SOURCE)
def same_log_in_two_sets(submission: Submission) -> Iterator[Finding]:
    """No log is submitted for two systems or benchmarks.

    Two logs tell of the same run if their evaluations are the same, and the times of these and of the clock, too, but
    for one constant shift.

    Fails::

        --- Somebody/results/a_system/example/result_0.txt
        submission_benchmark example
        run_start
        --- Somebody/results/b_system/example/result_0.txt
        submission_benchmark example
        run_start

    Passes::

        --- Somebody/results/a_system/example/result_0.txt
        submission_benchmark example
        run_start
        --- Somebody/results/b_system/example/result_0.txt
        submission_benchmark example
        @5000
        run_start
    """
    first: dict[str, tuple[str, str]] = {}
    for folder in submission.folders:
        for log in folder.logs:
            if not log.fingerprint:
                continue
            path, home = first.setdefault(log.fingerprint, (log.path, folder.path))
            if home != folder.path:
                text = f"the same run as {path}, but for seed and time of day"
                yield Finding(text, None, "runs of their own", "a copy", path=log.path)


@rule("U012", source=SOURCE)
def log_misnamed(submission: Submission) -> Iterator[Finding]:
    """Logs in a submission's results are called result_*.txt.

    MLPerf's tools look at no other file, and say nothing about it.

    Fails::

        --- Somebody/results/a_system/example/result_0.log
        submission_benchmark example

    Passes::

        --- Somebody/results/a_system/example/result_0.txt
        submission_benchmark example
    """
    for folder in submission.folders:
        for log in folder.misnamed:
            yield Finding(
                "a log that MLPerf's tools do not see", None, "result_*.txt", PurePath(log.path).name, path=log.path
            )


@rule("U013", source=SOURCE)
def result_without_records(submission: Submission) -> Iterator[Finding]:
    """Every result file holds a log.

    Fails::

        --- Somebody/results/a_system/example/result_1.txt
        text: nothing here

    Passes::

        --- Somebody/results/a_system/example/result_1.txt
        submission_benchmark example
    """
    for folder in submission.folders:
        for path in folder.empty:
            yield Finding("a result file without any log record", None, "a log", "none", path=path)


@rule("U014", source=SOURCE)
def set_misplaced(submission: Submission) -> Iterator[Finding]:
    """Sets of runs are in results/<system>/<benchmark>; of MLPerf HPC in results/<system>/strong (or weak)/<benchmark>.

    Fails::

        --- Somebody/results/a_system/example/again/result_0.txt
        submission_benchmark example

    Passes::

        --- Somebody/results/a_system/example/result_0.txt
        submission_benchmark example
    """
    for path in submission.misplaced:
        yield Finding("logs where no tool looks for them", None, "results/<system>/<benchmark>", path=path)


@rule("U015", source=SOURCE)
def file_too_large(submission: Submission) -> Iterator[Finding]:
    """No file is larger than 50 MiB: it could not be published.

    Fails::

        --- Somebody/results/a_system/example/checkpoint.bin 51 MiB

    Passes::

        --- Somebody/results/a_system/example/checkpoint.bin 50 MiB
    """
    for path, size in submission.large:
        limit = f"at most {MOST_BYTES >> 20} MiB"
        yield Finding("a file that is too large", None, limit, f"{size / (1 << 20):.1f} MiB", path=path)


@rule("U016", source=SOURCE)
def link_broken(submission: Submission) -> Iterator[Finding]:
    """Links lead somewhere, seen from the folder they are in.

    Fails::

        --- Somebody/systems/b_system.json -> nowhere.json

    Passes::

        --- Somebody/systems/b_system.json -> a_system.json
    """
    for path in submission.broken_links:
        yield Finding("a link that leads nowhere", path=path)


@rule("U017", source=SOURCE)
def name_odd(submission: Submission) -> Iterator[Finding]:
    """Names of files and folders have no space in them and do not begin with a dot.

    Fails::

        --- Somebody/systems/b system.json
        system_name "B System"

    Passes::

        --- Somebody/systems/b_system.json
        system_name "B System"
    """
    for path in submission.odd_names:
        yield Finding("a name that a round does not publish", None, "no space, no dot at its beginning", path=path)


@rule("U018", source=SOURCE)
def flag_unknown(submission: Submission) -> Iterator[Finding]:
    """A package_checker_params file holds flags that there are, one a line.

    Fails::

        --- Somebody/results/a_system/package_checker_params
        text: rcp-bypas

    Passes::

        --- Somebody/results/a_system/package_checker_params
        text: rcp-bypass
    """
    seen = set()
    for folder in submission.folders:
        for flag, path, line in folder.params.unknown:
            if (path, line) not in seen:
                seen.add((path, line))
                yield Finding("no such flag", line or None, " or ".join(FLAGS), short(flag), path=str(path))


@rule("U019", source=CONVERGENCE)
def faster_than_the_reference(submission: Submission) -> Iterator[Finding]:
    """In the closed division no set reaches its target in far fewer epochs than the reference.

    See `python -m compliance.rcp check`, which shows the numbers. The flag rcp-bypass, in a package_checker_params file
    of the system or the benchmark, makes a failed test pass; the verdict then says so. With `--partial`, a set of too
    few runs to drop the fastest and the slowest is not tested.

    Fails::

        ruleset mlperf-1.0
        --- Somebody/results/a_system/ssd/result_0.txt
        submission_benchmark ssd
        global_batch_size 2048
        eval_accuracy 0.23 epoch_num=1
        run_stop status=success
        --- Somebody/results/a_system/ssd/result_1.txt
        submission_benchmark ssd
        global_batch_size 2048
        eval_accuracy 0.23 epoch_num=1
        run_stop status=success
        --- Somebody/results/a_system/ssd/result_2.txt
        submission_benchmark ssd
        global_batch_size 2048
        eval_accuracy 0.23 epoch_num=1
        run_stop status=success

    Passes::

        ruleset mlperf-1.0
        --- Somebody/results/a_system/ssd/result_0.txt
        submission_benchmark ssd
        global_batch_size 2048
        eval_accuracy 0.23 epoch_num=99
        run_stop status=success
        --- Somebody/results/a_system/ssd/result_1.txt
        submission_benchmark ssd
        global_batch_size 2048
        eval_accuracy 0.23 epoch_num=99
        run_stop status=success
        --- Somebody/results/a_system/ssd/result_2.txt
        submission_benchmark ssd
        global_batch_size 2048
        eval_accuracy 0.23 epoch_num=99
        run_stop status=success
    """
    for folder in submission.folders:
        facts = folder.verdict.observed
        test = facts.convergence if facts is not None else None
        if (
            test is None
            or test.passed is not False
            or submission.system(folder.place.system).text("division") == "open"
        ):
            continue
        outcome = test.official or test.corrected
        if submission.partial and len(folder.logs) <= 2 * folder.verdict.facts.dropped:
            continue  # too few runs to test, which the caller knows
        needed = found = ""
        if outcome.point is not None and outcome.mean is not None and math.isfinite(outcome.mean):
            needed = f"a mean {test.unit} of at least {outcome.point.least:.10g}"
            found = f"{outcome.mean:.10g}"
        hint = "with the true lower hull of the points it would pass" if test.corrected.passed else ""
        yield Finding(f"the convergence test fails: {outcome.message}", None, needed, found, hint, path=folder.path)


@rule("U020", source=CONVERGENCE, severity="warning")
def factor_disagrees(submission: Submission) -> Iterator[Finding]:
    """A factor in scaling.json is the one that the convergence test gives.

    Fails::

        ruleset mlperf-1.0
        --- Somebody/results/a_system/ssd/result_0.txt
        submission_benchmark ssd
        global_batch_size 2048
        --- Somebody/results/a_system/ssd/scaling.json
        text: {"scaling_factor": 1.5}

    Passes::

        ruleset mlperf-1.0
        --- Somebody/results/a_system/ssd/result_0.txt
        submission_benchmark ssd
        global_batch_size 2048
    """
    for folder in submission.folders:
        facts = folder.verdict.observed
        if facts is None:
            continue
        path = str(PurePath(folder.path, "scaling.json"))
        if facts.factor_fault:
            yield Finding(f"scaling.json cannot be used: {facts.factor_fault}", None, "a number", path=path)
        elif facts.factor is not None and facts.convergence is not None:
            outcome = facts.convergence.official or facts.convergence.corrected
            computed = outcome.factor if outcome.passed else 1.0
            if computed != facts.factor:
                text = "the factor is not that of the convergence test"
                yield Finding(text, None, repr(computed), repr(facts.factor), path=path)


@rule("U021", source=SOURCE)
def power_logs_incomplete(submission: Submission) -> Iterator[Finding]:
    """Where power was measured, every run has its meter logs: power/<run>/node_<n>.txt, equally many for all runs.

    Fails::

        --- Somebody/results/a_system/example/power/result_9/node_0.txt
        power_measurement_start

    Passes::

        --- Somebody/results/a_system/example/power/result_0/node_0.txt
        power_measurement_start
    """
    for folder in submission.folders:
        facts = folder.verdict.observed
        for path, message in facts.power_faults if facts is not None else ():
            yield Finding(message, None, "node_0.txt, node_1.txt and so on for every run", path=path)
