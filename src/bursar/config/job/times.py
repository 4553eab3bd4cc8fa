"""Deadlines, grace periods and signals of a job file."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from bursar.config.yaml.value_readers import (
    InvalidValue,
    duration_ms,
    parse_duration,
    shown,
    whole,
)
from bursar.core.admission.problem import suggest
from bursar.model.units import DAY_MS, SECOND_MS

MOST_GRACE_SECONDS = 3_600
MOST_WITHIN_MS = 36_525 * DAY_MS

_SIGNALS = frozenset(
    {"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCONT", "SIGALRM"}
)


def deadline(value: Any) -> Callable[[int], int]:
    """``2026-12-24T18:00:00Z`` or ``6 h``, as a function of the time of submission."""
    fix = "Write a date and time with its zone, 2026-12-24T18:00:00Z, or a time from now, 6 h."
    if not isinstance(value, str) or len(value) > 64:
        raise InvalidValue(f"is {shown(value)}, not a deadline", fix, "wrong-type")
    within = parse_duration(value)
    if within is not None and within > MOST_WITHIN_MS:
        raise InvalidValue(
            f"is {shown(value)}", "Write a time of at most 100 years.", "out-of-range"
        )
    if within is not None:
        return lambda now_ms: now_ms + within
    try:
        written = datetime.fromisoformat(value.strip())
    except ValueError:
        raise InvalidValue(f"is {shown(value)}, not a deadline", fix, "wrong-type") from None
    if not re.search(r"\d\d:?\d\d", value[10:]) or written.tzinfo is None:
        clock = written.replace(tzinfo=UTC).isoformat().replace("+00:00", "Z")
        fix = f"Add the zone: {clock} for UTC, or an offset such as +02:00."
        raise InvalidValue(f"is {shown(value)}, which has no time zone", fix, "wrong-type")
    if written.year < 1971:
        raise InvalidValue(f"is {shown(value)}, before 1971", fix, "out-of-range")
    at_ms = round(written.timestamp() * SECOND_MS)
    return lambda _now_ms: at_ms


def grace_seconds(value: Any) -> int:
    """Seconds, or a time with its unit; rounded up to seconds."""
    if not isinstance(value, str):
        seconds: int = whole(0, MOST_GRACE_SECONDS)(value)
        return seconds
    rounded_up = -(-duration_ms(value) // SECOND_MS)
    if rounded_up > MOST_GRACE_SECONDS:
        fix = f"Write at most {MOST_GRACE_SECONDS} s."
        raise InvalidValue(f"is {shown(value)}", fix, "out-of-range")
    return rounded_up


def stop_signal(value: Any) -> str:
    """A signal that a program can catch, by name."""
    written = value.upper() if isinstance(value, str) else str(value)[:20]
    name = written if written.startswith("SIG") else f"SIG{written}"
    if name in _SIGNALS and hasattr(signal, name):
        return name
    raise InvalidValue(f"is {shown(value)}", suggest(name, _SIGNALS, "signal"), "unknown-choice")
