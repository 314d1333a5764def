"""H: hyperparameters and data sizes. All are logged before the clock starts, and fit the benchmark."""

from collections.abc import Iterator

from compliance.rule import Finding, rule
from compliance.run import Run, finite

SOURCE = "rules.md#divisions"
_SIZES = ("train_samples", "eval_samples")


@rule("H001", source=SOURCE, suite_only=True)
def hyperparameter_missing(run: Run) -> Iterator[Finding]:
    """Every hyperparameter that the benchmark names is logged.

    Fails::

        opt_name sgd
        global_batch_size 32

    Passes::

        opt_name sgd
        global_batch_size 32
        opt_base_learning_rate 0.1
    """
    for key in run.facts.hyperparameters:
        if run.events and run.first(key) is None:
            yield Finding(
                f"hyperparameter {key} is not logged", None, run.facts.hyperparameters[key].describe(), "none"
            )


@rule("H002", source=SOURCE, suite_only=True)
def hyperparameter_not_allowed(run: Run) -> Iterator[Finding]:
    """In the closed division each hyperparameter has a value that the benchmark allows.

    Fails::

        submission_division closed
        opt_name adam

    Fails::

        submission_division closed
        global_batch_size 32.5

    Passes::

        submission_division closed
        opt_name lars

    Passes::

        submission_division open
        opt_name adam
    """
    if run.division == "open":
        return
    for key, constraint in run.facts.hyperparameters.items():
        for event in run.of(key):
            if not constraint.allows(event.value):
                text = f"{key} has a value that the closed division does not allow"
                yield run.at(event, text, constraint.describe(), event.value)


@rule("H003", source=SOURCE, suite_only=True)
def setting_logged_late(run: Run) -> Iterator[Finding]:
    """Hyperparameters, seed and sample counts are logged before run_start.

    Fails::

        run_start
        opt_name sgd

    Passes::

        opt_name sgd
        run_start
    """
    start = run.index("run_start")
    for key in (*run.facts.hyperparameters, "seed", *_SIZES):
        place = run.index(key)
        if start is not None and place is not None and place > start:
            yield run.at(run.first(key), f"{key} is logged after run_start", "before run_start", "after it")


@rule("H004", source=SOURCE, suite_only=True)
def setting_changes(run: Run) -> Iterator[Finding]:
    """A hyperparameter or sample count has one value in a run.

    Fails::

        global_batch_size 32
        global_batch_size 64

    Passes::

        global_batch_size 32
        global_batch_size 32
    """
    for key in (*run.facts.hyperparameters, *_SIZES):
        events = run.of(key)
        for event in events[1:]:
            if type(event.value) is not type(events[0].value) or event.value != events[0].value:
                text = f"{key} is logged again with another value"
                yield run.at(event, text, f"{events[0].value} as in line {run.line(events[0])}", event.value)


@rule("H005", source=SOURCE)
def batch_size_impossible(run: Run) -> Iterator[Finding]:
    """global_batch_size is a whole number of samples, at least 1.

    Fails::

        global_batch_size -64

    Fails::

        global_batch_size '"64"'

    Passes::

        global_batch_size 64
    """
    for event in run.of("global_batch_size"):
        value = event.value
        if not finite(value) or value < 1 or value != int(value):
            yield run.at(event, "global_batch_size is no number of samples", "an integer, at least 1", value)


@rule("H006", source="rules.md#data", suite_only=True)
def sample_count_wrong(run: Run) -> Iterator[Finding]:
    """train_samples and eval_samples are logged and are those of the benchmark's profile.

    A smaller data set makes a task easier, and the target holds only for the data it was measured on.

    Fails::

        train_samples 500
        eval_samples 100

    Fails::

        train_samples 1000

    Passes::

        train_samples 1000
        eval_samples 100
    """
    for key, expected in (("train_samples", run.facts.train_samples), ("eval_samples", run.facts.eval_samples)):
        if expected is None or not run.events:
            continue
        events = run.of(key)
        if not events:
            yield Finding(f"{key} is not logged", None, str(expected), "none")
        for event in events[:1]:
            if event.value != expected or isinstance(event.value, bool):
                yield run.at(event, f"{key} is not that of the benchmark's data", str(expected), event.value)


@rule("H007", source="rules.md#data", suite_only=True)
def data_source_missing(run: Run) -> Iterator[Finding]:
    """A log says what data the run used: data_source with a name and a SHA-256.

    Fails::

        seed 1

    Fails::

        data_source mnist

    Passes::

        data_source {"name":"mnist","sha256":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}
    """
    events = run.of("data_source")
    if run.events and not events:
        yield Finding("data_source is not logged", None, "a name and a SHA-256 of each file or generator", "none")
    for event in events:
        value = event.value
        sha256 = value.get("sha256") if isinstance(value, dict) else None
        if not isinstance(value, dict) or not value.get("name") or not isinstance(sha256, str) or len(sha256) != 64:
            expected = 'an object with "name" and a "sha256" of 64 hexadecimal digits'
            yield run.at(event, "data_source does not identify the data", expected, value)
