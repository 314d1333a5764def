"""I: whose run of what this is. The submission keys, the profile, and the seed."""

import difflib
import os.path
from collections.abc import Iterator

from compliance.rule import Finding, rule
from compliance.run import IDENTITY_KEYS, Run

SOURCE = "rules.md#submission-keys"
_ALLOWED = {"submission_division": ("closed", "open"), "submission_status": ("onprem", "cloud", "research")}
_ONCE = (*IDENTITY_KEYS, "benchmark_profile")


@rule("I001", source=SOURCE, suite_only=True)
def submission_key_missing(run: Run) -> Iterator[Finding]:
    """A log says whose it is: submission_benchmark, _division, _org, _platform and _status.

    Fails::

        submission_benchmark example

    Passes::

        submission_benchmark example
        submission_division closed
        submission_org somebody
        submission_platform a_system
        submission_status onprem
    """
    for key in IDENTITY_KEYS:
        if not run.events:
            return
        event = run.first(key)
        if event is None:
            yield Finding(f"{key} is not logged", None, "a name", "none")
        elif not isinstance(event.value, str) or not event.value.strip():
            yield run.at(event, f"{key} is no name", "a name", event.value)


@rule("I002", source=SOURCE, suite_only=True)
def benchmark_unknown(run: Run) -> Iterator[Finding]:
    """The benchmark and its profile are of this suite.

    Fails::

        submission_benchmark exampel
        benchmark_profile embedded

    Passes::

        submission_benchmark example
        benchmark_profile embedded
    """
    if run.benchmark is None or run.profile_names is None:
        return
    names = list(run.profile_names)
    if run.benchmark not in names:
        near = difflib.get_close_matches(run.benchmark, names, n=1)
        hint = f"did you mean {near[0]}?" if near else ""
        event = run.first("submission_benchmark")
        yield run.at(event, "unknown benchmark", ", ".join(names) or "a benchmark of the suite", run.benchmark, hint)


@rule("I003", source=SOURCE, suite_only=True)
def profile_unknown(run: Run) -> Iterator[Finding]:
    """A log names the benchmark's profile that ran: full, embedded or smoke.

    Targets, sample counts and the number of runs belong to a profile; runs of different profiles never mix.

    Fails::

        submission_benchmark example
        benchmark_profile tiny

    Passes::

        submission_benchmark example
        benchmark_profile embedded
    """
    if run.benchmark is None or run.profile_names is None or run.benchmark not in run.profile_names:
        return
    profiles = run.profile_names[run.benchmark]
    event = run.first("benchmark_profile")
    if event is None:
        yield Finding("benchmark_profile is not logged", None, " or ".join(profiles), "none")
    elif event.value not in profiles:
        yield run.at(event, "the benchmark has no such profile", " or ".join(profiles), event.value)


@rule("I004", source=SOURCE, suite_only=True)
def word_not_in_list(run: Run) -> Iterator[Finding]:
    """The division is closed or open; the status is onprem, cloud or research.

    Fails::

        submission_division Closed

    Passes::

        submission_division closed
        submission_status onprem
    """
    for key, allowed in _ALLOWED.items():
        for event in run.of(key):
            if event.value not in allowed:
                yield run.at(event, f"{key} is not a word of its list", " or ".join(allowed), event.value)


@rule("I005", source=SOURCE)
def identity_changes(run: Run) -> Iterator[Finding]:
    """Benchmark, division, organization, platform, status and profile have one value in a log.

    Fails::

        submission_benchmark example
        submission_benchmark other

    Passes::

        submission_benchmark example
        submission_benchmark example
    """
    for key in _ONCE:
        events = run.of(key)
        for event in events[1:]:
            if event.value != events[0].value:
                text = f"{key} is logged again with another value"
                yield run.at(event, text, f"{events[0].value} as in line {run.line(events[0])}", event.value)
                break


@rule("I006", source=SOURCE)
def folder_names_another_benchmark(run: Run) -> Iterator[Finding]:
    """In a submission's folders, <org>/results/<system>/<benchmark>/, the last is the benchmark of the log.

    The benchmark is read from the log. Where the folder says otherwise, one of the two is wrong.

    Fails::

        --- somebody/results/a_system/other/result_0.txt
        submission_benchmark example

    Passes::

        --- somebody/results/a_system/example/result_0.txt
        submission_benchmark example
    """
    above = os.path.dirname(run.path)
    folder = os.path.basename(above)
    if run.benchmark is None or not folder:
        return
    of_submission = os.path.basename(os.path.dirname(os.path.dirname(above))) == "results"
    of_suite = run.profile_names is not None and folder in run.profile_names
    if (of_submission or of_suite) and folder.lower() != run.benchmark.lower():
        event = run.first("submission_benchmark")
        yield run.at(event, f"the folder is called {folder}, the log's benchmark is another", folder, run.benchmark)


@rule("I007", source="rules.md#seeds")
def seed_unusable(run: Run) -> Iterator[Finding]:
    """A seed is a whole number.

    Fails::

        seed '"7"'

    Passes::

        seed 7
        seed 7
    """
    for event in run.of("seed"):
        value = event.value
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            yield run.at(event, "the seed is no whole number", "a whole number", value)
            return


@rule("I009", source="rules.md#seeds", suite_only=True)
def seed_missing(run: Run) -> Iterator[Finding]:
    """A run logs its seed.

    In MLPerf's rounds some benchmarks log none.

    Fails::

        opt_name sgd

    Fails::

        seed null

    Passes::

        seed 7
    """
    if run.events and all(event.value is None for event in run.of("seed")):
        yield run.at(run.first("seed"), "seed is not logged", "a whole number", "none")


@rule("I008", source="rules.md#seeds", suite_only=True)
def several_seeds(run: Run) -> Iterator[Finding]:
    """A run has one seed; all its processes may log the same.

    Fails::

        seed 1
        seed 2

    Passes::

        seed 1
        seed 1
    """
    seeds = run.seeds
    if len(seeds) > 1:
        event = next(e for e in run.of("seed") if e.value == seeds[1])
        yield run.at(event, f"{len(seeds)} different seeds in one run", f"{seeds[0]} alone", seeds[1])
