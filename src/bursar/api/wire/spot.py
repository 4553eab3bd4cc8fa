"""What goes over the wire about interruptions and what jobs say of their progress. See ``wire.py``."""

from __future__ import annotations

from typing import TypedDict


class NoticeView(TypedDict):
    """Who said that a node will be taken away (``terminate``) or may be (``rebalance``), and when."""

    source: str
    kind: str
    at_ms: int
    ends_at_ms: int | None
    """None when the source did not say: then half a minute is reckoned with."""


class ProgressView(TypedDict):
    """How far a job said last that it has come, and in which attempt.

    ``expected_end_ms`` is when it is done if it goes on at the pace of that attempt.
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
