"""L: the lines of a log and the shape of its records."""

from collections.abc import Iterator

from compliance.careful import Fault
from compliance.rule import Finding, rule
from compliance.run import Run

SOURCE = "rules.md#log-lines"
MOST_ALIKE = 3


def _faults(run: Run, kind: str, hint: str = "") -> Iterator[Finding]:
    """A finding for each fault of a kind; those that say the same more than a few times are one, with their number."""
    if not run.log.faults:
        return
    same: dict[str, list[Fault]] = {}
    for fault in run.log.faults:
        if fault.kind == kind:
            same.setdefault(fault.message, []).append(fault)
    left_out = run.log.faults.counts[kind] - sum(map(len, same.values()))
    for faults in same.values():
        if left_out or len(faults) > MOST_ALIKE:
            more = f" (and in {len(faults) - 1} more records, the last in line {faults[-1].line})"
            if left_out:
                more = f" (and {run.log.faults.counts[kind] - 1} more records are damaged in this or a like way)"
            yield _finding(faults[0], hint, more)
            if left_out:
                return
        else:
            yield from (_finding(fault, hint) for fault in faults)


def _finding(fault: Fault, hint: str, more: str = "") -> Finding:
    return Finding(fault.message + more, fault.line, fault.expected, fault.found, hint)


@rule("L001", source=SOURCE)
def damaged_record(run: Run) -> Iterator[Finding]:
    """Each record is one complete JSON object on one line.

    A record that was cut off or mixed with other output cannot be read, and what it said is lost: the run cannot be
    judged without it. Usual causes are a job killed in the middle of a write, several processes that write to one
    file, and an editor or a mail program that broke the line.

    Fails::

        run_start
        text: <eval_accuracy 0.7 epoch_num=1> ## , "value": 0.7.* ->

    Passes::

        run_start
        eval_accuracy 0.7 epoch_num=1
        text: other programs may print what they like between the records
    """
    yield from _faults(run, "json", "write each record with one write, and let one process write the file")


@rule("L002", source=SOURCE)
def misshapen_record(run: Run) -> Iterator[Finding]:
    """Each record has time_ms (a number), key (a string), value, and metadata (an object).

    A record without its time, key or value says nothing that can be judged. Official tools end in a traceback on
    most of these.

    Fails::

        text: <seed 1> ## "time_ms": [0-9]+, ->

    Passes::

        seed 1
    """
    yield from _faults(run, "shape", "log through runlog or mlperf_logging.mllog, which write every member")


@rule("L003", source=SOURCE)
def repeated_member(run: Run) -> Iterator[Finding]:
    """No member of a record, or of an object inside it, comes twice.

    JSON readers differ in which of two equal members they believe, so that two tools can see two different values.

    Fails::

        text: <seed 1> ## "value": 1 -> "value": 1, "value": 2

    Fails::

        run_start
        text: <eval_accuracy 0.7 epoch_num=1> ## "epoch_num": 1 -> "epoch_num": 2, "epoch_num": 1

    Passes::

        seed 1
    """
    yield from _faults(run, "duplicate")


@rule("L004", source=SOURCE)
def number_not_finite(run: Run) -> Iterator[Finding]:
    """Every number in a record is finite.

    NaN and infinity are no JSON. A quality of NaN compares false with every target, and an infinite time makes any
    score: neither can be judged.

    Fails::

        text: <eval_accuracy 0.5 epoch_num=1> ## 0.5 -> NaN

    Passes::

        eval_accuracy 0.5 epoch_num=1
    """
    yield from _faults(run, "not_finite", "stop the run at the first NaN, and log a diverged run as aborted")


@rule("L005", source=SOURCE, severity="warning")
def glued_records(run: Run) -> Iterator[Finding]:
    """Each record has a line of its own.

    All records of the line are read here, but official tools read only the last and lose the others without a word.

    Fails::

        text: <seed 1><opt_name sgd>

    Passes::

        seed 1
        opt_name sgd
    """
    yield from _faults(run, "glued")


@rule("L006", source=SOURCE, severity="warning")
def text_after_record(run: Run) -> Iterator[Finding]:
    """Nothing follows a record on its line.

    The record is read here; official tools call the whole line an error.

    Fails::

        text: <seed 1> loss 3.2

    Passes::

        text: [rank 0] <seed 1>
    """
    yield from _faults(run, "text_after")


@rule("L007", source=SOURCE)
def look_alike_token(run: Run) -> Iterator[Finding]:
    """Records begin with the exact token, and one space after it.

    A line that begins with `:::MLLog` or has a tab after the token is no record to any MLPerf tool: what it says
    would be lost. It is read here, so that the other findings are not about records that are in fact there.

    Fails::

        text: <seed 1> ## MLLOG -> MLLog

    Passes::

        seed 1
        text: see the chapter on :::MLLog lines
    """
    yield from _faults(run, "look_alike")


@rule("L008", source=SOURCE, severity="warning")
def bytes_not_utf8(run: Run) -> Iterator[Finding]:
    """The text of a record is UTF-8.

    The record is read as Latin-1 instead; names in it may come out garbled.

    Fails::

        text: <submission_org sgd> ## sgd -> %ff

    Passes::

        submission_org "Universität"
    """
    yield from _faults(run, "encoding")


@rule("L009", source=SOURCE)
def file_unreadable(run: Run) -> Iterator[Finding]:
    """A log is UTF-8 text, plain or in a whole gzip file.

    Official tools find no records at all in UTF-16 text; a compressed file that ends early has lost its end.

    Fails::

        text: <seed 1> ## ^ -> UTF-16

    Passes::

        seed 1
    """
    yield from _faults(run, "utf16", "save the log as UTF-8")
    yield from _faults(run, "compression")


@rule("L010", source=SOURCE)
def no_records(run: Run) -> Iterator[Finding]:
    """A log holds records.

    Fails::

        text: Epoch 1: loss 3.2

    Passes::

        seed 1
    """
    if not run.events and not run.log.faults:
        expected = 'lines with ":::MLLOG " and a JSON object'
        yield Finding("no MLPerf log record in this file", None, expected, f"{run.log.size} bytes of other text")


@rule("L011", source=SOURCE, severity="warning")
def event_type_does_not_fit(run: Run) -> Iterator[Finding]:
    """An interval's records are of type INTERVAL_START and INTERVAL_END, and every record has a type.

    Fails::

        text: <run_start> ## INTERVAL_START -> POINT_IN_TIME

    Passes::

        run_start
        run_stop status=success
    """
    yield from _faults(run, "event_type")
    for key, event_type in (("run_start", "INTERVAL_START"), ("run_stop", "INTERVAL_END")):
        for event in run.of(key):
            if event.event_type is not None and event.event_type != event_type:
                yield run.at(event, f"{key} has the wrong event_type", event_type, event.event_type)
