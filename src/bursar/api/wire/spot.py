"""Wire types about interruptions and the progress of jobs."""

from __future__ import annotations

from typing import TypedDict


class NoticeView(TypedDict):
    """A provider's notice that a node will (``terminate``) or may (``rebalance``) be interrupted."""

    source: str
    kind: str
    at_ms: int
    ends_at_ms: int | None
    """Null if the source did not specify it: then 30 seconds are assumed."""


class ProgressView(TypedDict):
    """The last progress that a job reported, and its attempt.

    ``expected_end_ms`` extrapolates the pace of that attempt.
    """

    attempt: int
    step: int
    total: int | None
    permille: int | None
    at_ms: int
    expected_end_ms: int | None


class InterruptionView(TypedDict):
    """One interruption of a job. ``recovery_ms`` counts from the start of the next attempt."""

    at_ms: int
    attempt: int
    cause: str
    pool: str
    ran_ms: int
    lost_ms: int
    lost_micro_usd: int
    recovery_ms: int | None
    waited_ms: int | None


class InterruptionReportView(TypedDict):
    """A job's interruptions in numbers, what would help, and all of it in ``text``."""

    id: str
    interruptions: list[InterruptionView]
    mean_run_ms: int | None
    saves: int
    saves_every_ms: int | None
    save_ms: int | None
    advised_every_ms: int | None
    mean_recovery_ms: int | None
    waited_ms: int
    lost_ms: int
    lost_micro_usd: int
    spent_micro_usd: int
    advice: list[str]
    text: list[str]
