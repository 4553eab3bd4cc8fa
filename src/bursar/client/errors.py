"""What a server's refusal is to the one who asked. Each kind has its own class, so that a program can
tell them apart and the command line can give each its own exit code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bursar.model.errors import UserError


class Refused(UserError):
    """The server said no. ``status`` is HTTP's, ``request_id`` finds it in the server's log.

    ``leader`` is set when another process leads and the server knows where it answers.
    """

    def __init__(
        self, problem: str, *, fix: str, code: str, status: int = 0, request_id: str = ""
    ) -> None:
        super().__init__(problem, fix=fix, code=code)
        self.status = status
        self.request_id = request_id
        self.leader = ""


class Invalid(Refused):
    """What was sent is not right; the message says where."""


class NotFound(Refused):
    """There is no such thing, or it is another tenant's."""


class Denied(Refused):
    """No token, one that is over, or one without the right."""


class QuotaError(Refused):
    """A quota or a budget forbids it for ever, not only now."""


class Infeasible(Refused):
    """No node of the fleet could ever run it."""


class Conflict(Refused):
    """Something changed meanwhile, or a key was used for something else."""


class ServerFailed(Refused):
    """The server is wrong or cannot go on; asking again may help."""


class Unreachable(Refused):
    """Nobody answers at the address."""


class TimedOut(Refused):
    """It took longer than the caller wants to wait."""


class JobFailed(Refused):
    """The job is over and did not succeed."""


class BadBundle(UserError):
    """Files that cannot be packed."""


INFEASIBLE_CODES: Final = frozenset(
    {"gang-too-large", "infeasible", "no-mig", "no-pool-fits", "objective-out-of-reach"}
)
QUOTA_CODES: Final = frozenset({"over-potential-quota"})
QUOTA_WORDS: Final = ("quota", "budget", "cost")
BY_STATUS: Final[Mapping[int, type[Refused]]] = {
    401: Denied,
    402: QuotaError,
    403: Denied,
    404: NotFound,
    408: TimedOut,
    409: Conflict,
    412: Conflict,
    429: ServerFailed,
    504: TimedOut,
}


def refusal(status: int, problem: Mapping[str, object], request_id: str = "") -> Refused:
    """The error that a problem document stands for."""
    code = str(problem.get("code") or f"http-{status}")
    told = str(problem.get("detail") or problem.get("title") or f"the server answered {status}.")
    fix = str(problem.get("fix") or _fix_of(status))
    found = str(problem.get("request_id") or request_id)
    kind = _kind(status, code)
    if kind is ServerFailed and found:
        told = f"{told.rstrip()} (request {found})"
    refused = kind(told, fix=fix, code=code, status=status, request_id=found)
    refused.leader = str(problem.get("leader") or "")
    return refused


def _kind(status: int, code: str) -> type[Refused]:
    if code in INFEASIBLE_CODES:
        return Infeasible
    if code in QUOTA_CODES or any(word in code.split("-") for word in QUOTA_WORDS):
        return QuotaError
    known = BY_STATUS.get(status)
    if known is not None:
        return known
    return Invalid if 400 <= status < 500 else ServerFailed


def _fix_of(status: int) -> str:
    if status in (401, 403):
        return "'bursar whoami' says who you are; ask a lead for a token with more rights."
    if status >= 500:
        return "Try again; 'bursar doctor' looks at the server."
    return "'bursar --help' lists the commands."
