"""Signals that end a process, turned into an exception, so that an open log can be closed before the process goes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NAMES = ("SIGTERM", "SIGINT", "SIGHUP")  # SIGHUP: the terminal went away; absent on Windows


class Stopped(BaseException):
    """A signal asked this process to end. `number` is the signal's; not an Exception, so that no loop swallows it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


@contextmanager
def stopping() -> Iterator[None]:
    """Inside, SIGTERM, SIGINT and SIGHUP raise `Stopped` (once; repeats are ignored until the block has ended).

    Signals that the process ignores stay ignored (nohup, background jobs). Outside the main thread, and nested, this
    does nothing: Python delivers signals to the main thread only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in _NAMES if hasattr(signal, name)]
    previous = {number: signal.getsignal(number) for number in numbers}
    taken = [n for n, handler in previous.items() if handler is not signal.SIG_IGN and handler is not _raise_once]

    try:
        for number in taken:
            signal.signal(number, _raise_once)
        yield
    finally:
        for number in taken:
            signal.signal(number, previous[number])


def _raise_once(number: int, frame: FrameType | None) -> None:
    for name in _NAMES:
        if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) is _raise_once:
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    raise Stopped(number)


def end_by(stopped: Stopped) -> None:
    """End this process by the signal that `stopped` holds: its parent sees what happened (143 or 130 in a shell)."""
    signal.signal(stopped.number, signal.SIG_DFL)
    os.kill(os.getpid(), stopped.number)
