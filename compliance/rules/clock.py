"""C: the clock. Exactly one init interval, then exactly one run interval, closed with a status."""

from collections.abc import Iterator

from compliance.rule import Finding, rule
from compliance.run import CLOCK_KEYS, STATUSES, Run, exact_ms

SOURCE = "rules.md#the-clock"
INIT_LIMIT_MINUTES = {"closed": 30, "open": 240}
_INTERVALS = ("epoch", "block", "eval")


@rule("C001", source=SOURCE)
def clock_record_missing(run: Run) -> Iterator[Finding]:
    """A log has init_start, init_stop, run_start and run_stop.

    Without them there is no time to score. A missing run_stop means that the job was cut off; a run that ends in an
    orderly way, even by a signal, writes run_stop with status aborted.

    Fails::

        init_start
        init_stop
        run_start
        eval_accuracy 0.5 epoch_num=1

    Passes::

        init_start
        init_stop
        run_start
        run_stop status=success
    """
    if not run.events:
        return
    for key in CLOCK_KEYS:
        if run.first(key) is None:
            hint = "the job was cut off before it ended its log" if key == "run_stop" else ""
            yield Finding(f"no {key}", None, f"one {key}", "none", hint)


@rule("C002", source=SOURCE)
def clock_record_repeated(run: Run) -> Iterator[Finding]:
    """run_start and run_stop come once.

    A second run_start or run_stop makes the time of the run a matter of choice, whatever its value is. Official
    tools only warn, since the values are equal, and take whichever comes handy.

    Fails::

        run_start
        run_start
        run_stop status=success

    Passes::

        run_start
        run_stop status=success
    """
    yield from _repeated(run, "run_start", "run_stop")


@rule("C009", source=SOURCE, suite_only=True)
def init_record_repeated(run: Run) -> Iterator[Finding]:
    """init_start and init_stop come once.

    In logs of MLPerf rounds every process may write them; they do not touch the score.

    Fails::

        init_start
        init_start
        init_stop

    Passes::

        init_start
        init_stop
    """
    yield from _repeated(run, "init_start", "init_stop")


def _repeated(run: Run, *keys: str) -> Iterator[Finding]:
    for key in keys:
        count = run.count(key)
        if count > 1:
            events = [run.events[place] for place in run.places(key)[:4]]
            lines = [str(run.line(event)) for event in events]
            shown = ", ".join(lines[:-1]) + f" and {lines[-1]}" if count <= 4 else f"{', '.join(lines[:3])}, ..."
            hint = "only one process writes clock records"
            yield run.at(events[1], f"{key} comes {count} times (lines {shown})", "once", f"lines {shown}", hint)


@rule("C003", source=SOURCE)
def clock_out_of_order(run: Run) -> Iterator[Finding]:
    """init_start, init_stop, run_start and run_stop stand in this order.

    Fails::

        init_start
        run_start
        init_stop
        run_stop status=success

    Passes::

        init_start
        init_stop
        run_start
        run_stop status=success
    """
    present = [key for key in CLOCK_KEYS if run.count(key) == 1]
    for before, after in zip(present, present[1:], strict=False):
        a, b = run.first(before), run.first(after)
        if (run.index(before) or 0) > (run.index(after) or 0):
            yield run.at(b, f"{after} stands before {before}", f"{before} first", f"{before} at line {run.line(a)}")


@rule("C004", source=SOURCE)
def several_runs_in_one_file(run: Run) -> Iterator[Finding]:
    """One file holds one run.

    A crashed attempt and its repetition appended to one file give neither a time nor a seed that could be trusted.
    Each part is judged by itself besides, so that the other findings are about records that are there.

    Fails::

        init_start
        init_stop
        run_start
        run_stop status=aborted reason=killed
        init_start
        init_stop
        run_start
        run_stop status=success

    Passes::

        init_start
        init_stop
        run_start
        run_stop status=success
    """
    if len(run.parts) > 1 and run.events is run.parts[0]:
        spans = [f"{run.log.line(part[0])}-{run.log.line(part[-1])}" for part in run.parts]
        text = f"{len(run.parts)} runs in this file (lines {' and '.join(spans)})"
        line = run.log.line(run.parts[1][0])
        yield Finding(text, line, "one run a file", ", ".join(spans), "split the file, and never append to a log")


@rule("C005", source=SOURCE, suite_only=True)
def init_limit_exceeded(run: Run) -> Iterator[Finding]:
    """Initialization takes at most 30 minutes in the closed division, 240 in the open one.

    What happens before run_start is not timed, so it is limited: system and model set-up belong there, work on the
    data does not.

    Fails::

        submission_division closed
        init_start
        @1900000
        init_stop

    Passes::

        submission_division open
        init_start
        @1900000
        init_stop
    """
    start, stop = run.first("init_start"), run.first("init_stop")
    limit = INIT_LIMIT_MINUTES.get(run.division or "", INIT_LIMIT_MINUTES["closed"])
    if start is None or stop is None:
        return
    begin, end = exact_ms(start.time_ms), exact_ms(stop.time_ms)
    if begin is not None and end is not None and end - begin > limit * 60_000:
        text = "initialization took too long"
        yield run.at(stop, text, f"at most {limit} minutes", f"{(end - begin) / 60_000:.1f} minutes")


@rule("C006", source=SOURCE)
def status_unknown(run: Run) -> Iterator[Finding]:
    """run_stop says status success or status aborted.

    Any other word is refused: nobody could say whether such a run counts.

    Fails::

        run_start
        run_stop status=done

    Passes::

        run_start
        run_stop status=aborted reason=diverged
    """
    for event in run.of("run_stop"):
        status = event.metadata.get("status")
        if status not in STATUSES:
            found = status if "status" in event.metadata else "no status"
            yield run.at(event, "run_stop has no status that is known", " or ".join(STATUSES), found)


@rule("C007", source=SOURCE, severity="warning", suite_only=True)
def aborted_without_reason(run: Run) -> Iterator[Finding]:
    """An aborted run says why, in run_stop's metadata.

    Fails::

        run_start
        run_stop status=aborted

    Passes::

        run_start
        run_stop status=aborted reason=SIGTERM
    """
    if run.status == "aborted" and run.stop and not run.stop.metadata.get("reason"):
        yield run.at(run.stop, "the run was aborted without a reason", "reason in the metadata", "none")


@rule("C008", source=SOURCE, suite_only=True)
def interval_not_closed(run: Run) -> Iterator[Finding]:
    """Each epoch, block and evaluation that starts also stops, before the next of its kind starts.

    In an aborted run the last ones may be left open.

    Fails::

        run_start
        epoch_start epoch_num=1
        epoch_start epoch_num=2
        epoch_stop epoch_num=2
        run_stop status=success

    Passes::

        run_start
        epoch_start epoch_num=1
        epoch_stop epoch_num=1
        eval_start epoch_num=1
        eval_stop epoch_num=1
        run_stop status=success
    """
    for kind in _INTERVALS:
        open_event = None
        for event in run.of(f"{kind}_start", f"{kind}_stop"):
            if event.key == f"{kind}_start":
                if open_event is not None:
                    yield run.at(open_event, f"{kind}_start without {kind}_stop", f"{kind}_stop", "another start")
                open_event = event
            elif open_event is None:
                yield run.at(event, f"{kind}_stop without {kind}_start", f"{kind}_start before it", "none")
            else:
                open_event = None
        if open_event is not None and run.status == "success":
            yield run.at(open_event, f"{kind}_start without {kind}_stop", f"{kind}_stop", "none")
