"""What a run shows: a progress bar on a terminal, plain lines elsewhere, and a small file that the runner reads."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

T = TypeVar("T")

PROGRESS_FILE = "TIMETOACCURACY_PROGRESS"  # environment variable: where to write how far the run is
_INTERVAL = 0.25  # seconds between two updates


class Display:
    """Writes to stdout. `quiet` (other ranks, rehearsals) shows nothing."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self._console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
        self._bars: Progress | None = None
        file = os.environ.get(PROGRESS_FILE)
        self._file = Path(file) if file and not quiet else None

    def line(self, text: str) -> None:
        """One line of text, whole also beside a bar."""
        if not self.quiet:
            self._console.print(text, markup=False)
            self._console.file.flush()

    def bar(
        self, items: Iterable[T], label: str, total: int | None, count: Callable[[], int] | None = None
    ) -> Iterator[T]:
        """Yield `items`, showing how many of `total` went by (its length where None and known). Bars may nest.

        count: what to show as done instead of the number of items, in the unit of `total`.
        """
        if total is None and hasattr(items, "__len__"):
            total = len(items)  # type: ignore[arg-type]
        progress = self._open_bars()
        task = progress.add_task(label, total=total)
        shown = 0.0
        try:
            for done, item in enumerate(items):
                now = time.monotonic()
                if now - shown >= _INTERVAL:
                    shown, amount = now, done if count is None else count()
                    progress.update(task, completed=amount)
                    self._tell(label, amount, total)
                yield item
        finally:
            progress.remove_task(task)
            if not progress.tasks:
                progress.stop()

    def _open_bars(self) -> Progress:
        """The one live area of the terminal that all bars share, started with the first of them."""
        if self._bars is None or not self._bars.tasks:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            hidden = self.quiet or not self._console.is_terminal
            self._bars = Progress(*columns, console=self._console, transient=True, disable=hidden)
            self._bars.start()
        return self._bars

    def _tell(self, label: str, done: int, total: int | None) -> None:
        if self._file is None:
            return
        part = self._file.with_suffix(".part")
        try:
            part.write_text(json.dumps({"label": label, "done": done, "total": total}))
            part.replace(self._file)  # whole or not at all
        except OSError:
            self._file = None  # only a display: a run never fails for it
