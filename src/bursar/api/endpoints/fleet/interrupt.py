"""Taking nodes away on purpose: the one way to know what becomes of a job when a provider does it."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from bursar.api import wire
from bursar.api.endpoints.visibility import find_job
from bursar.api.http.errors import HttpRefusal
from bursar.api.http.request import RequestContext, answer
from bursar.control.requests.interrupt_job import InterruptionRequest, InterruptJob
from bursar.model.units import SECOND_MS

NOTICE_SECONDS = 30
ABSENCE_SECONDS = 60
MOST_SECONDS = 24 * 3600


async def interrupt(call: RequestContext) -> Response:
    """Take the node of a running job away, with or without a notice."""
    terms = _terms(await call.json_body())
    row = await find_job(call)
    done = await call.desk.send(InterruptJob(caller=call.who, job_id=row.id, terms=terms))
    call.desk.forget_ground()
    told: wire.InterruptedView = {
        "job_id": done.job_id,
        "node": done.node,
        "lost_at_ms": done.lost_at_ms,
        "back_at_ms": done.back_at_ms,
    }
    return answer(told)


def _terms(plain: Any) -> InterruptionRequest:
    if not isinstance(plain, dict) or not set(plain) <= {"notice_seconds", "absence_seconds"}:
        raise HttpRefusal(
            "the body does not say how to interrupt.",
            fix='Send {"notice_seconds": 30, "absence_seconds": 60}; both may be left out.',
            code="wrong-value",
        )
    return InterruptionRequest(
        notice_ms=_seconds(plain, "notice_seconds", NOTICE_SECONDS) * SECOND_MS,
        absence_ms=_seconds(plain, "absence_seconds", ABSENCE_SECONDS) * SECOND_MS,
    )


def _seconds(plain: dict[str, Any], name: str, usual: int) -> int:
    value = plain.get(name, usual)
    if type(value) is not int or not 0 <= value <= MOST_SECONDS:
        raise HttpRefusal(
            f"{name} is {str(value)[:40]!r}, not a whole number of seconds from 0 to {MOST_SECONDS:,}.",
            fix=f"Send a number, or leave it out for {usual}.",
            code="wrong-value",
        )
    return value
