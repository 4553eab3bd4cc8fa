"""How a command says to a shell what became of it. docs/cli.md lists them for people."""

from __future__ import annotations

import sys
from typing import Final

from bursar.model.errors import UserError

OK: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2
NOT_FOUND: Final = 3
DENIED: Final = 4
OVER_QUOTA: Final = 5
INFEASIBLE: Final = 6
UNREACHABLE: Final = 7
TIMED_OUT: Final = 8
JOB_FAILED: Final = 100
JOB_NOT_FINISHED: Final = 101
JOB_NOT_FOUND: Final = 102
JOB_CANCELLED: Final = 103
INTERRUPTED: Final = 130

BY_KIND: Final = {
    "Invalid": WRONG_USAGE,
    "BadBundle": WRONG_USAGE,
    "NotFound": NOT_FOUND,
    "Denied": DENIED,
    "QuotaError": OVER_QUOTA,
    "Infeasible": INFEASIBLE,
    "Unreachable": UNREACHABLE,
    "TimedOut": TIMED_OUT,
    "JobFailed": JOB_FAILED,
}


WRONG_WORDS: Final = frozenset({"no-job-given", "two-jobs-given", "no-such-variable"})
"""Codes of what is wrong in the words typed, found here before a server is asked."""


def exit_code_of(error: UserError) -> int:
    """What an error is to a shell. The client's kinds count only where the client was in use."""
    if error.code in WRONG_WORDS:
        return WRONG_USAGE
    if sys.modules.get("bursar.client.errors") is None:
        return FAILED
    from bursar.client import errors

    for name, code in BY_KIND.items():
        if isinstance(error, getattr(errors, name)):
            return code
    return FAILED
