"""U: submissions. The system descriptions, and what logs and descriptions say of one another."""

from collections.abc import Iterator
from typing import Any

from compliance.careful import short
from compliance.rule import Finding, rule
from compliance.submission import Submission
from compliance.systems import DIVISIONS, OLD_STATUSES, STATUSES, System, plain

SOURCE = "rules.md#submissions"
NEW_STATUSES_SINCE = (4, 0)


def _described(submission: Submission) -> Iterator[System]:
    """The descriptions that can be read."""
    for system in submission.systems.values():
        if not system.fault:
            yield system


@rule("U001", source=SOURCE)
def description_missing(submission: Submission) -> Iterator[Finding]:
    """Every system with results is described in systems/<system>.json.

    Fails::

        --- Somebody/systems/a_system.json remove

    Passes::

        --- Somebody/systems/a_system.json
        system_name "A System"
    """
    for name in sorted({folder.place.system for folder in submission.folders}):
        system = submission.system(name)
        if system.missing:
            yield Finding(f"the system {name} is not described", None, str(system.path), "no such file")


@rule("U002", source=SOURCE)
def description_unreadable(submission: Submission) -> Iterator[Finding]:
    """A system description is one JSON object, each field once.

    Fails::

        --- Somebody/systems/a_system.json
        text: {"submitter": "Some

    Fails::

        --- Somebody/systems/a_system.json
        text: {"submitter": "Somebody", "submitter": "Other"}

    Passes::

        --- Somebody/systems/a_system.json
        submitter Somebody
    """
    for system in submission.systems.values():
        if system.fault and not system.missing:
            yield Finding(f"no system description: {system.fault}", None, "one JSON object", path=str(system.path))
        for name in system.repeated:
            yield Finding(f"{name} is there more than once", None, "each field once", path=str(system.path))


@rule("U003", source=SOURCE)
def description_incomplete(submission: Submission) -> Iterator[Finding]:
    """A system description has every field that MLPerf asks for.

    Fails::

        --- Somebody/systems/a_system.json
        cooling remove

    Passes::

        --- Somebody/systems/a_system.json
        cooling N/A
    """
    for system in _described(submission):
        if system.absent:
            count = f"{len(system.absent)} field" + ("s" if len(system.absent) > 1 else "")
            found = "missing: " + ", ".join(system.absent)
            yield Finding(f"the description lacks {count}", None, "all fields", found, path=str(system.path))


@rule("U004", source=SOURCE)
def description_field_misfits(submission: Submission) -> Iterator[Finding]:
    """Fields of a system description are texts; counts are whole numbers, also in a text.

    Fails::

        --- Somebody/systems/a_system.json
        number_of_nodes two

    Fails::

        --- Somebody/systems/a_system.json
        framework 1.5

    Passes::

        --- Somebody/systems/a_system.json
        number_of_nodes 2
    """
    for system in _described(submission):
        for name, expected, found in system.misfits:
            yield Finding(f"{name} does not fit", None, expected, short(found), path=str(system.path))


@rule("U005", source=SOURCE)
def status_not_in_vocabulary(submission: Submission) -> Iterator[Finding]:
    """The status of a system is a word of the round's list. From round 4.0 on it is spelled out.

    Fails::

        --- Somebody/systems/a_system.json
        status onprem

    Passes::

        --- Somebody/systems/a_system.json
        status "Available on-premise"
    """
    old = submission.official and submission.version < NEW_STATUSES_SINCE
    for system in _described(submission):
        status = system.fields.get("status")
        if not isinstance(status, str) or status in STATUSES or (old and status.lower() in OLD_STATUSES):
            continue
        words = STATUSES + OLD_STATUSES if old else STATUSES
        yield Finding(
            "status is not a word of the list", None, " or ".join(words), short(status), path=str(system.path)
        )


@rule("U006", source=SOURCE)
def division_unknown(submission: Submission) -> Iterator[Finding]:
    """The division of a system is "closed" or "open".

    MLPerf's tools test a closed division only under this very word: with another spelling seeds and convergence go
    untested.

    Fails::

        --- Somebody/systems/a_system.json
        division close

    Passes::

        --- Somebody/systems/a_system.json
        division closed
    """
    for system in _described(submission):
        division = system.fields.get("division")
        if isinstance(division, str) and division not in DIVISIONS:
            yield Finding("no such division", None, " or ".join(DIVISIONS), short(division), path=str(system.path))


@rule("U007", source=SOURCE, severity="warning")
def submitter_is_another(submission: Submission) -> Iterator[Finding]:
    """The submitter in a description is the organization whose folder it is in.

    Fails::

        --- Somebody/systems/a_system.json
        submitter Other

    Passes::

        --- Somebody/systems/a_system.json
        submitter SomeBody
    """
    for system in _described(submission):
        submitter = system.fields.get("submitter")
        if isinstance(submitter, str) and plain(submitter) != plain(submission.name):
            yield Finding(
                "the submitter is not the folder's name", None, submission.name, submitter, path=str(system.path)
            )


@rule("U008", source=SOURCE)
def division_contradicted(submission: Submission) -> Iterator[Finding]:
    """Logs and system description name one division.

    Fails::

        --- Somebody/systems/a_system.json
        division open

    Passes::

        --- Somebody/systems/a_system.json
        division closed
    """
    for folder, system, log in _first_logs(submission):
        said = log.identity.get("submission_division")
        division = system.fields.get("division")
        if said in DIVISIONS and division in DIVISIONS and said != division:
            text = f"the logs of {folder} and the description of {system.name} name different divisions"
            yield Finding(text, None, f"{division} as in {system.path}", said, path=log.path)


@rule("U009", source=SOURCE, severity="warning")
def names_contradicted(submission: Submission) -> Iterator[Finding]:
    """Logs name the organization and the platform of the system description; case and punctuation do not count.

    Results made with another vendor's scripts often keep that vendor's name, or a placeholder.

    Fails::

        --- Somebody/results/a_system/example/result_0.txt
        submission_benchmark example
        submission_org SUBMISSION_ORG_PLACEHOLDER

    Passes::

        --- Somebody/results/a_system/example/result_0.txt
        submission_benchmark example
        submission_org somebody
        submission_platform 1xA-System
    """
    for folder, system, log in _first_logs(submission):
        for key, name, others in (
            ("submission_org", "submitter", (submission.name,)),
            ("submission_platform", "system_name", (system.name,)),
        ):
            said = log.identity.get(key)
            described = system.text(name)
            if not isinstance(said, str) or not described:
                continue
            if not any(plain(one) and plain(one) in plain(said) for one in (described, *others)):
                hint = "a placeholder was left in" if "PLACEHOLDER" in said else ""
                text = f"{key} in the logs of {folder} is not the {name} of the description"
                yield Finding(text, None, described, said, hint, path=log.path)


@rule("U010", source=SOURCE)
def counts_contradicted(submission: Submission) -> Iterator[Finding]:
    """Where logs tell numbers of nodes and accelerators, they are not more than the system has.

    Fails::

        --- Somebody/results/a_system/example/result_0.txt
        submission_benchmark example
        number_of_nodes 4

    Passes::

        --- Somebody/results/a_system/example/result_0.txt
        submission_benchmark example
        number_of_nodes 2
        accelerators_per_node 8
    """
    for folder, system, log in _first_logs(submission):
        for key in ("number_of_nodes", "accelerators_per_node"):
            said, described = log.identity.get(key), system.count(key)
            if isinstance(said, bool) or not isinstance(said, int) or described is None or said <= described:
                continue
            text = f"the logs of {folder} tell of more than the system has: {key}"
            yield Finding(text, None, f"at most {described} as in {system.path}", str(said), path=log.path)


def _first_logs(submission: Submission) -> Iterator[tuple[str, System, Any]]:
    """Of each set the folder, the description and one log that names its benchmark."""
    for folder in submission.folders:
        system = submission.system(folder.place.system)
        log = next((log for log in folder.logs if log.benchmark), None)
        if log is not None and not system.fault and not system.missing:
            yield f"{folder.place.system}/{folder.place.folder}", system, log
