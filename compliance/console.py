"""What the commands share at the terminal."""

from __future__ import annotations

import contextlib
import os
import sys


def say(text: str) -> int:
    """Print, and take a closed pipe for what it is. Returns 0."""
    with contextlib.suppress(BrokenPipeError):
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")
        print(text, flush=True)
        return 0
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
