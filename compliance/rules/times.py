"""T: the times of records."""

from collections.abc import Iterator, Sequence

from compliance.loglines import BackSteps
from compliance.rule import Finding, rule
from compliance.run import CLOCK_KEYS, SKEW_MS, Run

SOURCE = "rules.md#times"
EARLIEST_MS = 1_388_534_400_000  # 2014-01-01, before any MLPerf round
LATEST_MS = 4_102_444_800_000  # 2100-01-01
_UNITS = (("seconds", 1e3), ("microseconds", 1e-3), ("nanoseconds", 1e-6))


@rule("T001", source=SOURCE)
def clock_time_implausible(run: Run) -> Iterator[Finding]:
    """The times of the clock and of evaluations are milliseconds since 1970, of this century.

    A time in seconds, microseconds or counted from the start of a program makes a run thousands of times too short
    or too long.

    Fails::

        @-1699999000000
        run_start

    Passes::

        run_start
    """
    yield from _implausible(run, run.places(*CLOCK_KEYS, run.facts.quality_key))


@rule("T006", source=SOURCE, suite_only=True)
def time_implausible(run: Run) -> Iterator[Finding]:
    """The times of all records are milliseconds since 1970, of this century.

    Fails::

        @-1700000000000
        seed 1

    Passes::

        seed 1
    """
    clock = (*CLOCK_KEYS, run.facts.quality_key)
    yield from _implausible(run, run.places(*(key for key in run.keys if key not in clock)))


def _implausible(run: Run, places: Sequence[int]) -> Iterator[Finding]:
    earliest, latest = run.time_range
    if earliest is None or latest is None or EARLIEST_MS <= earliest <= latest < LATEST_MS:
        return
    wrong = [event for place in places if not _plausible((event := run.events[place]).time_ms)]
    if wrong:
        value = wrong[0].time_ms or 0
        unit = next((u for u, factor in _UNITS if EARLIEST_MS <= value * factor < LATEST_MS), None)
        hint = f"these look like {unit}" if unit else ""
        more = f" (the first of {len(wrong)} records)" if len(wrong) > 1 else ""
        text = f"time_ms of {wrong[0].key} is no plausible time{more}"
        yield run.at(wrong[0], text, "milliseconds since 1970", str(value), hint)


def _plausible(time: int | float | None) -> bool:
    return time is None or EARLIEST_MS <= time < LATEST_MS


@rule("T002", source=SOURCE, severity="warning")
def time_runs_backwards(run: Run) -> Iterator[Finding]:
    """No record is earlier than the record before it.

    A few milliseconds come from processes that write to one file, and do no harm. More means that records were
    written late, or that a clock was set in the middle of the run.

    Fails::

        @5000
        run_start
        @4990
        seed 1

    Passes::

        run_start
        seed 1
    """
    steps = run.back_steps
    if steps:
        if isinstance(steps, BackSteps) and steps.worst is not None:
            worst, total = steps.worst, steps.total
        else:
            worst, total = max(steps, key=lambda step: step.size_ms), len(steps)
        times = "once" if total == 1 else f"{total} times"
        text = f"time runs backwards {times}, at most by {worst.size_ms} ms"
        yield Finding(text, run.log.line_at(worst.place), f"at least {worst.before_ms}", str(worst.time_ms))


@rule("T003", source=SOURCE, suite_only=True)
def time_jumps_backwards(run: Run) -> Iterator[Finding]:
    """Time never jumps back by more than a second.

    Fails::

        @50000
        run_start
        @10000
        eval_accuracy 0.8 epoch_num=1

    Passes::

        @50000
        run_start
        @49900
        eval_accuracy 0.8 epoch_num=1
    """
    for step in run.back_steps:
        if step.size_ms > SKEW_MS:
            size = f"{step.size_ms / 1000:.3f} s"
            line = run.log.line_at(step.place)
            yield Finding(f"time jumps back by {size}", line, f"at least {step.before_ms}", str(step.time_ms))
            return


@rule("T004", source=SOURCE)
def run_takes_no_time(run: Run) -> Iterator[Finding]:
    """run_stop is later than run_start.

    Official tools accept a run that ends before it begins, and give it a negative score.

    Fails::

        @60000
        run_start
        @1000
        run_stop status=success

    Passes::

        run_start
        run_stop status=success
    """
    start, stop = run.start, run.stop
    if start is None or stop is None or start.time_ms is None or stop.time_ms is None:
        return
    if stop.time_ms <= start.time_ms:
        found = f"{stop.time_ms - start.time_ms:g} ms after it"
        yield run.at(stop, "run_stop is not later than run_start", f"later than {start.time_ms}", found)


@rule("T005", source=SOURCE, severity="warning")
def init_takes_negative_time(run: Run) -> Iterator[Finding]:
    """init_start, init_stop and run_start follow one another in time too.

    Fails::

        @60000
        init_start
        @1000
        init_stop

    Passes::

        init_start
        init_stop
        run_start
    """
    events = [event for key in ("init_start", "init_stop", "run_start") if (event := run.first(key))]
    for before, after in zip(events, events[1:], strict=False):
        if before.time_ms is None or after.time_ms is None:
            continue
        if before.time_ms - after.time_ms > (0 if before.key == "init_start" else SKEW_MS):
            text = f"{after.key} is earlier than {before.key}"
            yield run.at(after, text, f"at least {before.time_ms}", str(after.time_ms))
