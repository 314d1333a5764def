"""What the commands share at the terminal."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

WORTH_A_BAR = 50  # logs


def say(text: str) -> int:
    """Print, and take a closed pipe for what it is. Returns 0."""
    with contextlib.suppress(BrokenPipeError):
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")
        print(text, flush=True)
        return 0
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


@contextlib.contextmanager
def progress_bar(wanted: bool = True) -> Iterator[Callable[[int, int], None] | None]:
    """A function to call with the number of logs done and of all; it draws a bar on a terminal.

    None where nobody looks, or if not `wanted`. The bar appears only for work that is worth one.
    """
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    bar: list[Any] = []

    def show(done: int, total: int) -> None:
        if total < WORTH_A_BAR:
            return
        if not bar:
            from rich.console import Console
            from rich.progress import Progress

            progress = Progress(console=Console(stderr=True), transient=True)
            bar.extend([progress, progress.add_task("checking", total=total)])
            progress.start()
        bar[0].update(bar[1], completed=done)

    try:
        yield show
    finally:
        if bar:
            bar[0].stop()
