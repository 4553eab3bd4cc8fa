"""Exit codes of the commands; docs/cli.md lists them for users."""

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

BY_ERROR_CLASS: Final = {
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


USAGE_ERRORS: Final = frozenset({"no-job-given", "two-jobs-given", "no-such-variable"})
"""Error codes of wrong arguments that are detected before the server is called."""


def exit_code_of(error: UserError) -> int:
    """The exit code of an error. Client errors exist only if the client was imported."""
    if error.code in USAGE_ERRORS:
        return WRONG_USAGE
    if sys.modules.get("bursar.client.errors") is None:
        return FAILED
    from bursar.client import errors

    for name, code in BY_ERROR_CLASS.items():
        if isinstance(error, getattr(errors, name)):
            return code
    return FAILED
