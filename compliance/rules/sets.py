"""S: result sets. All runs of one benchmark, their number, and what they have in common."""

from collections.abc import Iterator
from pathlib import PurePath

from compliance.result_set import ResultSet
from compliance.rule import Finding, rule
from compliance.run import Run

SOURCE = "rules.md#result-sets"


def _names(runs: list[Run]) -> str:
    names = [PurePath(run.path).name for run in runs]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


@rule("S001", source=SOURCE)
def wrong_number_of_runs(results: ResultSet) -> Iterator[Finding]:
    """A result set has exactly as many runs as the benchmark asks for.

    Fewer make the score a matter of luck; more make it a matter of choice. With --partial the number is not asked
    for, and the score is labelled unofficial.

    Fails::

        --- result_0.txt
        seed 1
        --- result_1.txt
        seed 2

    Passes::

        --- result_0.txt
        seed 1
        --- result_1.txt
        seed 2
        --- result_2.txt
        seed 3
        --- result_3.txt
        seed 4
        --- result_4.txt
        seed 5
    """
    required = results.facts.runs
    enough = results.weak and required is not None and len(results.files) > required
    if required is not None and not results.partial and not enough and len(results.files) != required:
        hint = "a set that is not complete yet can be looked at with --partial"
        yield Finding("wrong number of runs", None, f"{required} result logs", str(len(results.files)), hint)


@rule("S002", source=SOURCE)
def too_many_runs_missed_the_target(results: ResultSet) -> Iterator[Finding]:
    """At most one run of a set does not converge.

    It counts as the slowest and is dropped. A second one makes the benchmark result infinite.

    Fails::

        --- result_0.txt
        run_start
        run_stop status=aborted reason=budget
        --- result_1.txt
        run_start
        run_stop status=aborted reason=budget

    Passes::

        --- result_0.txt
        run_start
        run_stop status=aborted reason=budget
        --- result_1.txt
        run_start
        eval_accuracy 0.8 epoch_num=1
        run_stop status=success
    """
    missed = [run for run in results.runs if run.converged is False]
    if len(missed) > results.may_miss:
        text = f"{len(missed)} of {len(results.runs)} runs did not converge"
        yield Finding(text, None, f"at most {results.may_miss}", _names(missed))


@rule("S003", source="rules.md#seeds")
def seed_used_twice(results: ResultSet) -> Iterator[Finding]:
    """Each run of a set has a seed of its own, by value.

    Fails::

        --- result_0.txt
        seed 1
        --- result_1.txt
        seed 1

    Passes::

        --- result_0.txt
        seed 1
        seed 1
        --- result_1.txt
        seed 2
    """
    users: dict[int, list[Run]] = {}
    for run in results.runs:
        for value in run.seeds:
            if isinstance(value, int):
                users.setdefault(value, []).append(run)
    for seed, runs in users.items():
        if len(runs) > 1:
            event = next(e for e in runs[1].of("seed") if e.value == seed)
            text = f"seed {seed} is used by {len(runs)} runs"
            line = runs[1].line(event)
            yield Finding(text, line, "a seed of its own for each run", _names(runs), path=runs[1].path)


@rule("S004", source=SOURCE)
def batch_sizes_differ(results: ResultSet) -> Iterator[Finding]:
    """All runs of a set have the same global_batch_size.

    Fails::

        --- result_0.txt
        global_batch_size 32
        --- result_1.txt
        global_batch_size 64

    Passes::

        --- result_0.txt
        global_batch_size 32
        --- result_1.txt
        global_batch_size 32
    """
    yield from _one_value(results, "global_batch_size")


@rule("S005", source=SOURCE, suite_only=True)
def profiles_differ(results: ResultSet) -> Iterator[Finding]:
    """All runs of a set are of one benchmark, profile, division, organization, platform and status.

    Fails::

        --- result_0.txt
        benchmark_profile full
        --- result_1.txt
        benchmark_profile embedded

    Passes::

        --- result_0.txt
        benchmark_profile full
        --- result_1.txt
        benchmark_profile full
    """
    for key in ("benchmark_profile", "submission_division", "submission_org", "submission_platform"):
        yield from _one_value(results, key)
    yield from _one_value(results, "submission_status")


@rule("S006", source=SOURCE)
def benchmarks_differ(results: ResultSet) -> Iterator[Finding]:
    """A folder holds the runs of one benchmark.

    Fails::

        --- result_0.txt
        submission_benchmark example
        --- result_1.txt
        submission_benchmark example_samples

    Passes::

        --- result_0.txt
        submission_benchmark example
        --- result_1.txt
        submission_benchmark example
    """
    yield from _one_value(results, "submission_benchmark")


@rule("S007", source=SOURCE)
def same_log_twice(results: ResultSet) -> Iterator[Finding]:
    """No two logs of a set tell of the same run.

    Two logs are of the same run if they have the same evaluations, and the times of these and of the clock are the same
    but for one constant shift: no two trainings take the same milliseconds from evaluation to evaluation. In logs
    without evaluations the times of all records that rules ask for are compared.

    Fails::

        --- result_0.txt
        seed 1
        run_start
        eval_accuracy 0.512 epoch_num=1
        run_stop status=success
        --- result_1.txt
        seed 2
        run_start
        eval_accuracy 0.512 epoch_num=1
        run_stop status=success

    Passes::

        --- result_0.txt
        seed 1
        run_start
        eval_accuracy 0.512 epoch_num=1
        run_stop status=success
        --- result_1.txt
        seed 2
        run_start
        @2345
        eval_accuracy 0.513 epoch_num=1
        run_stop status=success
    """
    first: dict[str, Run] = {}
    for run in results.runs:
        if not run.fingerprint:
            continue
        twin = first.setdefault(run.fingerprint, run)
        if twin is not run:
            text = f"the same run as {PurePath(twin.path).name}, but for seed and time of day"
            yield Finding(text, run.line(run.start), "runs of their own", _names([twin, run]), path=run.path)


@rule("S008", source=SOURCE, severity="warning", suite_only=True)
def settings_differ(results: ResultSet) -> Iterator[Finding]:
    """All runs of a set use the same hyperparameters.

    Fails::

        --- result_0.txt
        opt_base_learning_rate 0.1
        --- result_1.txt
        opt_base_learning_rate 0.2

    Passes::

        --- result_0.txt
        opt_base_learning_rate 0.1
        --- result_1.txt
        opt_base_learning_rate 0.1
    """
    for key in results.facts.hyperparameters:
        if key != "global_batch_size":
            yield from _one_value(results, key)


def _one_value(results: ResultSet, key: str) -> Iterator[Finding]:
    groups = list(results.differing(key))
    if groups:
        found = "; ".join(f"{value} in {_names(runs)}" for value, runs in groups)
        run = groups[1][1][0]
        line = run.line(run.first(key))
        yield Finding(f"{key} differs between the runs of the set", line, "one value", found, path=run.path)
