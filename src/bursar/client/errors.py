"""Errors of the client: one class for each kind, with its own exit code on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bursar.model.errors import UserError


class Refused(UserError):
    """The server refused a request. ``request_id`` identifies it in the server's log.

    ``leader`` is the address of the leader, if another process is the leader and it is known.
    """

    def __init__(
        self, problem: str, *, fix: str, code: str, status: int = 0, request_id: str = ""
    ) -> None:
        super().__init__(problem, fix=fix, code=code)
        self.status = status
        self.request_id = request_id
        self.leader = ""


class Invalid(Refused):
    """The request is not valid; the message says where."""


class NotFound(Refused):
    """The object does not exist, or belongs to another tenant."""


class Denied(Refused):
    """No token, an invalid one, or one without the permission."""


class QuotaError(Refused):
    """A quota or a budget forbids it permanently."""


class Infeasible(Refused):
    """No node of the fleet could ever run the job."""


class Conflict(Refused):
    """The state has changed meanwhile, or a key was used for another request."""


class ServerFailed(Refused):
    """The server failed; a retry may help."""


class Unreachable(Refused):
    """No server is reachable at the address."""


class TimedOut(Refused):
    """The timeout has passed."""


class JobFailed(Refused):
    """The job has ended and did not succeed."""


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
    """The error for a problem document."""
    code = str(problem.get("code") or f"http-{status}")
    status_text = f"the server responded with status {status}."
    detail = str(problem.get("detail") or problem.get("title") or status_text)
    fix = str(problem.get("fix") or _default_fix(status))
    request_id = str(problem.get("request_id") or request_id)
    kind = _kind(status, code)
    if kind is ServerFailed and request_id:
        detail = f"{detail.rstrip()} (request {request_id})"
    refused = kind(detail, fix=fix, code=code, status=status, request_id=request_id)
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


def _default_fix(status: int) -> str:
    if status in (401, 403):
        return "'bursar whoami' shows your permissions; ask a lead for a token with more."
    if status >= 500:
        return "Try again; 'bursar doctor' checks the server."
    return "'bursar --help' lists the commands."
