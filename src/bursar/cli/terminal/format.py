"""Times and money in tables: money has its currency, times their zone."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from bursar.model.units import HOUR_MS, SECOND_MS, write_duration, write_usd

TONES: Final = {
    "running": "green",
    "starting": "green",
    "queued": "yellow",
    "blocked": "yellow",
    "stopping": "magenta",
    "cancelling": "magenta",
    "expiring": "magenta",
    "failed": "red",
    "cancelled": "dim",
}


def now_ms() -> int:
    """The current time in milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def timestamp(at_ms: int | None) -> str:
    """A date and time in the local zone."""
    if at_ms is None:
        return "-"
    local = datetime.fromtimestamp(at_ms / SECOND_MS, tz=UTC).astimezone()
    return local.strftime("%Y-%m-%d %H:%M:%S %Z")


def duration(length_ms: int | None) -> str:
    """A duration; below a minute in whole seconds."""
    if length_ms is None:
        return "-"
    whole_ms = max(0, length_ms) // SECOND_MS * SECOND_MS
    return write_duration(whole_ms)


def since(at_ms: int | None) -> str:
    """The time since then, without "ago"."""
    return "-" if at_ms is None else duration(now_ms() - at_ms)


def until(at_ms: int | None) -> str:
    """The time until then: ``in 5 min``."""
    if at_ms is None:
        return "-"
    remaining_ms = at_ms - now_ms()
    return "now" if remaining_ms < SECOND_MS else f"in {duration(remaining_ms)}"


def run_time(job: Mapping[str, Any]) -> str:
    """How long a job runs or ran."""
    if job["started_at_ms"] is None:
        return "-"
    return duration((job["ended_at_ms"] or now_ms()) - job["started_at_ms"])


def per_hour(micro_usd: int | None) -> str:
    return "-" if micro_usd is None else f"{write_usd(micro_usd)}/h"


def at_most(micro_usd_per_hour: int, max_micro_usd: int) -> str:
    """``$12.40/h x <= 6 h = <= $74.40``: price, longest run and largest cost."""
    if not micro_usd_per_hour:
        return f"{write_usd(0)}/h"
    length = write_duration(max_micro_usd * HOUR_MS // micro_usd_per_hour // SECOND_MS * SECOND_MS)
    return f"{write_usd(micro_usd_per_hour)}/h x <= {length} = <= {write_usd(max_micro_usd)}"


def tone_of_state(row: Mapping[str, Any]) -> str:
    return TONES.get(str(row["state"]), "")


def exit_text(job: Mapping[str, Any]) -> str:
    """``code:signal`` as Slurm writes it, with the detail if there is one."""
    if job["ended_at_ms"] is None:
        return "-"
    code, signal = job["exit_code"], job["exit_signal"]
    text = f"{code or 0}:{signal or 0}" if code is not None or signal is not None else "-"
    return f"{text} {job['exit_detail']}".strip()
