"""Taking nodes away on purpose: the one way to know what becomes of a job when a provider does it."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from bursar.api import wire_fleet
from bursar.api.call import Call, answer
from bursar.api.endpoints.found import find_job
from bursar.api.problems import Refused
from bursar.control.interruption import Interruption
from bursar.model.units import SECOND_MS

NOTICE_SECONDS = 30
ABSENCE_SECONDS = 60
MOST_SECONDS = 24 * 3600


async def interrupt(call: Call) -> Response:
    """Take the node of a running job away, with or without a notice."""
    terms = _terms(await call.json_body())
    row = await find_job(call)
    done = await call.desk.wait(call.desk.plane.interrupt(call.who, row.id, terms))
    call.desk.forget_ground()
    told: wire_fleet.Interrupted = {
        "job_id": done.job_id,
        "node": done.node,
        "lost_at_ms": done.lost_at_ms,
        "back_at_ms": done.back_at_ms,
    }
    return answer(told)


def _terms(plain: Any) -> Interruption:
    if not isinstance(plain, dict) or not set(plain) <= {"notice_seconds", "absence_seconds"}:
        raise Refused(
            "the body does not say how to interrupt.",
            fix='Send {"notice_seconds": 30, "absence_seconds": 60}; both may be left out.',
            code="wrong-value",
        )
    return Interruption(
        notice_ms=_seconds(plain, "notice_seconds", NOTICE_SECONDS) * SECOND_MS,
        absence_ms=_seconds(plain, "absence_seconds", ABSENCE_SECONDS) * SECOND_MS,
    )


def _seconds(plain: dict[str, Any], name: str, usual: int) -> int:
    value = plain.get(name, usual)
    if type(value) is not int or not 0 <= value <= MOST_SECONDS:
        raise Refused(
            f"{name} is {str(value)[:40]!r}, not a whole number of seconds from 0 to {MOST_SECONDS:,}.",
            fix=f"Send a number, or leave it out for {usual}.",
            code="wrong-value",
        )
    return value
