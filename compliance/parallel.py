"""Independent pieces of work done on several processors, with the results in the order of the pieces.

On Linux the calling process forks the others and works beside them: each draws the next piece as soon as it is done
with one, and sends its results, many at once. Nothing is imported or started anew, which is what a second processor
would mostly be busy with in work that takes less than a second. Elsewhere, and where threads run that a fork
would cut off, a pool of the standard library does it.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import IO, Any, TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")

MOST_TICKETS = 1024
"""Tickets are all written to a pipe before any is read: four bytes each, a page, which the smallest pipe holds."""
RESULTS_AT_ONCE = 64
"""So many results are sent together: what they have in common is sent once."""
_TICKET_BYTES = 4


def spread(
    work: Callable[[Piece], Result],
    pieces: Sequence[Piece],
    weights: Sequence[int],
    jobs: int,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Result]:
    """The result of `work` on each of `pieces`, in `jobs` processes; where they are forked, the calling one among them.

    weights: how much work each piece is, in any unit; large pieces are begun first. progress: called now and then with
    the number of pieces done. What `work` raises is raised here. Pieces whose process was ended from outside are done
    again by the calling one.
    """
    jobs = min(jobs, len(pieces))
    if jobs < 2:
        return _finished([], work, pieces, progress)
    if sys.platform != "linux" or threading.active_count() > 1:
        return _pooled(work, pieces, jobs, progress)
    return _forked(work, pieces, sorted(range(len(pieces)), key=lambda n: -weights[n]), jobs, progress)


def _forked(
    work: Callable[[Piece], Result],
    pieces: Sequence[Piece],
    order: list[int],
    jobs: int,
    progress: Callable[[int], None],
) -> list[Result]:
    found: dict[int, Result] = {}
    workers: dict[IO[bytes], int] = {}  # what a process sends: its process id
    tickets = _tickets(len(pieces))
    try:
        for _ in range(jobs - 1):
            readable, writable = os.pipe()
            process = os.fork()
            if process == 0:
                _serve(work, pieces, order, tickets, writable)
            os.close(writable)
            workers[os.fdopen(readable, "rb")] = process
        for begin, end in _drawn(tickets, len(pieces)):
            found.update((number, work(pieces[number])) for number in order[begin:end])
            for pipe in select.select(workers, [], [], 0)[0]:
                _receive(pipe, found)
            progress(len(found))
        for pipe in workers:
            while _receive(pipe, found):
                progress(len(found))
    finally:
        os.close(tickets)
        for pipe, process in workers.items():
            pipe.close()
            os.kill(process, signal.SIGKILL)  # a handler of the calling program would run in it, too
            os.waitpid(process, 0)
    for number in order:
        if number not in found:
            found[number] = work(pieces[number])
            progress(len(found))
    return [found[number] for number in range(len(pieces))]


def _tickets(pieces: int) -> int:
    """A pipe from which each process reads what to begin next: so many tickets, for so many pieces each."""
    readable, writable = os.pipe()
    each = _each(pieces)
    os.write(writable, b"".join(n.to_bytes(_TICKET_BYTES, "little") for n in range(0, pieces, each)))
    os.close(writable)
    return readable


def _each(pieces: int) -> int:
    return -(-pieces // MOST_TICKETS)


def _drawn(tickets: int, pieces: int) -> Iterator[tuple[int, int]]:
    """The pieces to do, by their places in the order, until no ticket is left."""
    while ticket := os.read(tickets, _TICKET_BYTES):
        begin = int.from_bytes(ticket, "little")
        yield begin, min(begin + _each(pieces), pieces)


def _serve(
    work: Callable[[Piece], Result], pieces: Sequence[Piece], order: list[int], tickets: int, writable: int
) -> None:
    """What a forked process does, and then ends without touching anything else that it has from the calling one."""
    found: dict[int, Result] = {}
    try:
        with os.fdopen(writable, "wb") as pipe:
            for begin, end in _drawn(tickets, len(pieces)):
                for number in order[begin:end]:
                    try:
                        found[number] = work(pieces[number])
                    except Exception as error:  # raised again in the calling process
                        pickle.dump(error, pipe)
                        return
                if len(found) >= RESULTS_AT_ONCE:
                    pickle.dump(found, pipe, pickle.HIGHEST_PROTOCOL)
                    pipe.flush()
                    found = {}
            pickle.dump(found, pipe, pickle.HIGHEST_PROTOCOL)
    finally:
        os._exit(0)


def _receive(pipe: IO[bytes], found: dict[int, Any]) -> bool:
    """Add the results that a process sends next to those found; False: it ended. Raises what its work raised."""
    try:
        answer: dict[int, Any] | Exception = pickle.load(pipe)
    except (EOFError, pickle.UnpicklingError):  # nothing more, or cut off as the process was ended from outside
        return False
    if isinstance(answer, Exception):
        raise answer
    found.update(answer)
    return True


def _pooled(
    work: Callable[[Piece], Result], pieces: Sequence[Piece], jobs: int, progress: Callable[[int], None]
) -> list[Result]:
    from concurrent.futures import ProcessPoolExecutor
    from concurrent.futures.process import BrokenProcessPool

    results: list[Result] = []
    with suppress(BrokenProcessPool), ProcessPoolExecutor(jobs, initializer=_employ, initargs=(work,)) as pool:
        for result in pool.map(_work, pieces, chunksize=max(1, len(pieces) // (32 * jobs))):
            results.append(result)
            progress(len(results))
    return _finished(results, work, pieces, progress)


def _finished(
    results: list[Result], work: Callable[[Piece], Result], pieces: Sequence[Piece], progress: Callable[[int], None]
) -> list[Result]:
    """`results`, and after them those of the pieces that they lack."""
    for piece in pieces[len(results) :]:
        results.append(work(piece))
        progress(len(results))
    return results


_employed: list[Callable[[Any], Any]] = []
"""In a process of a pool, the work that it does: sent once, not with each piece."""


def _employ(work: Callable[[Any], Any]) -> None:
    _employed[:] = [work]


def _work(piece: Any) -> Any:
    return _employed[0](piece)
