"""Error codes of the API, and errors as ``application/problem+json``.

Every exception becomes one of these. Internals (tracebacks, paths, class names) are never sent.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.responses import Response

from bursar.api.wire.jobs import PROBLEM
from bursar.model.errors import EngineFault, UserError


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemCode:
    """The HTTP status and the title of an error code."""

    status: int
    title: str


CODES: Mapping[str, ProblemCode] = {
    "not-json": ProblemCode(status=400, title="The body is not JSON"),
    "not-utf8": ProblemCode(status=400, title="The body is not UTF-8"),
    "too-deep": ProblemCode(status=400, title="The body is nested too deeply"),
    "bad-request": ProblemCode(status=400, title="The request cannot be read"),
    "no-token": ProblemCode(status=401, title="A token is needed"),
    "bad-token": ProblemCode(status=401, title="The token is not valid"),
    "forbidden": ProblemCode(status=403, title="Not allowed"),
    "cross-site": ProblemCode(status=403, title="The request comes from another site"),
    "no-such-route": ProblemCode(status=404, title="There is no such route"),
    "bundle-not-found": ProblemCode(status=404, title="Your tenant has not uploaded it"),
    "no-such-job": ProblemCode(status=404, title="There is no such job"),
    "no-such-attempt": ProblemCode(status=404, title="There is no such attempt"),
    "no-such-log": ProblemCode(status=404, title="There is no such output"),
    "no-such-token": ProblemCode(status=404, title="There is no such token"),
    "no-such-node": ProblemCode(status=404, title="There is no such node"),
    "no-such-tenant": ProblemCode(status=404, title="There is no such tenant"),
    "wrong-method": ProblemCode(status=405, title="This route does not take that method"),
    "too-slow": ProblemCode(status=408, title="The body did not arrive in time"),
    "idempotency-key-reused": ProblemCode(status=409, title="The key was used for another request"),
    "fleet-changed": ProblemCode(status=409, title="The fleet has changed since it was planned"),
    "job-not-over": ProblemCode(status=409, title="The job is not over"),
    "body-too-large": ProblemCode(status=413, title="The body is too large"),
    "wrong-media-type": ProblemCode(status=415, title="The media type is not accepted"),
    "wrong-host": ProblemCode(status=421, title="The server does not accept that host"),
    "is-an-array": ProblemCode(status=422, title="The id is that of an array, not of one job"),
    "wrong-value": ProblemCode(status=422, title="A value is wrong"),
    "unknown-parameter": ProblemCode(status=422, title="There is no such parameter"),
    "bad-cursor": ProblemCode(status=422, title="The cursor is not valid"),
    "bad-bundle": ProblemCode(status=422, title="The archive is refused"),
    "no-such-bundle": ProblemCode(status=422, title="An archive was not uploaded"),
    "scope-beyond-role": ProblemCode(status=422, title="The role does not allow that scope"),
    "too-many-bad-tokens": ProblemCode(status=429, title="Too many bad tokens"),
    "too-many-followers": ProblemCode(status=429, title="Too many streams are open"),
    "internal-error": ProblemCode(status=500, title="Internal error"),
    "no-fleet": ProblemCode(status=503, title="No fleet is declared yet"),
    "not-leader": ProblemCode(status=503, title="Another process is the leader"),
    "engine-fault": ProblemCode(status=503, title="A system that Bursar depends on failed"),
    "too-busy": ProblemCode(status=503, title="No response in time"),
}
"""Codes with a status of their own. A ``UserError`` with any other code is a 422: see docs/api.md."""

REFUSED = ProblemCode(status=422, title="The request cannot be carried out")


class HttpRefusal(UserError):
    """A refused request, with the headers and fields of its response."""

    def __init__(
        self,
        problem: str,
        *,
        fix: str,
        code: str,
        headers: Mapping[str, str] | None = None,
        leader: str | None = None,
    ) -> None:
        super().__init__(problem, fix=fix, code=code)
        self.headers = dict(headers or {})
        self.leader = leader


def not_leader(leader: str | None) -> HttpRefusal:
    """A process that is not the leader received a write."""
    fix = f"Send it to the leader at {leader}." if leader else "Try again in 1 s."
    return HttpRefusal(
        "this process is read-only: another one is the leader.",
        fix=fix,
        code="not-leader",
        headers={"Retry-After": "1"},
        leader=leader,
    )


def no_fleet() -> HttpRefusal:
    return HttpRefusal(
        "no fleet is declared yet.",
        fix="An admin declares one with 'bursar fleet apply', or POST /v1/fleet:apply.",
        code="no-fleet",
        headers={"Retry-After": "5"},
    )


def engine_fault(error: EngineFault) -> HttpRefusal:
    """An external system failed: the same request may work later."""
    seconds = max(1, math.ceil(error.retry_after_seconds))
    return HttpRefusal(
        str(error),
        fix=f"Try again in {seconds} s.",
        code="engine-fault",
        headers={"Retry-After": str(seconds)},
    )


def internal_error(request_id: str) -> HttpRefusal:
    """A bug of ours. The details are in the log, under the request's id."""
    return HttpRefusal(
        "the server failed; no part of the request was stored half done.",
        fix=f"Report it with the request id {request_id}; the server's log has the rest.",
        code="internal-error",
    )


def problem_response(error: UserError, request_id: str) -> Response:
    """The response to a refused request."""
    kind = CODES.get(error.code, REFUSED)
    body: dict[str, object] = {
        "type": f"urn:bursar:problem:{error.code}",
        "title": kind.title,
        "status": kind.status,
        "detail": error.problem,
        "code": error.code,
        "fix": error.fix,
        "request_id": request_id,
    }
    headers = error.headers if isinstance(error, HttpRefusal) else {}
    if isinstance(error, HttpRefusal) and error.code == "not-leader":
        body["leader"] = error.leader
    text = json.dumps(body, ensure_ascii=True)
    return Response(text, status_code=kind.status, media_type=PROBLEM, headers=headers)
