"""The one error that a user, not the code, has to mend."""

from __future__ import annotations


class SetupError(Exception):
    """Something outside the code is missing or wrong: data, a package, a flag, a file.

    Shown as one message without a traceback, exit status 2. Say what was expected, what was found and what to do.
    """
