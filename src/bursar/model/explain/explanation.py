"""One job's answer to "why does it not run, when will it, and what can I do?", in values.

``core/explain/`` finds the numbers; the sentences are written here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bursar.model.event import SpotNotice
from bursar.model.explain.job_history import PastEvent, history_line
from bursar.model.explain.spot_view import SpotView
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import JobSpec, JobState
from bursar.model.reason import Reason, write_amount
from bursar.model.units import write_duration, write_gpus, write_usd


class Basis(StrEnum):
    """What a forecast rests on."""

    NOT_WAITING = "not-waiting"
    STARTS_NOW = "starts-now"
    VICTIMS_LEAVE = "victims-leave"
    REPLAY = "replay"
    """The cycle was played forward over expected ends; jobs that are not submitted yet do not exist."""
    WORK_AHEAD = "work-ahead"
    """Too much stands before it to be played through: work ahead over capacity."""
    WAITS_FOR_SPOT = "waits-for-spot"
    """It could start and waits for cheaper capacity: its start is the latest that its deadline allows."""
    NEXT_PERIOD = "next-period"
    """A budget is spent: nothing starts before it begins anew."""
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """When a job should start: even odds by ``p50_start_ms``, nine in ten by ``p90_start_ms``.

    ``ahead_jobs`` and ``ahead_gpu_ms`` count what stands before it and wants the same flavors. Without
    a start, ``note`` says why there is none; with one, what was left out of the count.
    """

    p50_start_ms: int | None
    p90_start_ms: int | None
    basis: Basis
    ahead_jobs: int = 0
    ahead_gpu_ms: int = 0
    note: str = ""

    def line(self, now_ms: int) -> str:
        """The forecast as a sentence."""
        if self.p50_start_ms is None or self.p90_start_ms is None:
            return f"no start can be foreseen: {self.note}"
        if self.basis is Basis.STARTS_NOW:
            return "starts in the next cycle"
        if self.basis is Basis.WAITS_FOR_SPOT:
            latest = write_duration(self.p90_start_ms - now_ms)
            return f"starts when spot has room, in {latest} at the latest"
        early = write_duration(self.p50_start_ms - now_ms)
        late = write_duration(self.p90_start_ms - now_ms)
        told = f"expected to start in {early}, with 9 in 10 odds within {late}"
        if self.ahead_jobs:
            wants = "1 job before it wants" if self.ahead_jobs == 1 else ""
            wants = wants or f"{self.ahead_jobs:,} jobs before it want"
            told += f"; {wants} the same GPUs"
        return f"{told} ({self.note})" if self.note else told


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where a job stands by the order in which jobs get their turn; the first is number 1."""

    in_queue: int
    queue_length: int
    overall: int
    waiting: int
    is_exact: bool = True

    def __str__(self) -> str:
        about = "" if self.is_exact else "about "
        return (
            f"position {self.in_queue:,} of {self.queue_length:,} in its queue, "
            f"{about}{self.overall:,} of {self.waiting:,} overall"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FairShareRank:
    """A tenant among its siblings: what it has used of what they all used, against its weight."""

    tenant: str
    used_permille: int
    promised_permille: int
    rank: int
    siblings: int

    def __str__(self) -> str:
        return (
            f"{self.tenant} has had {self.used_permille / 10:g} % of its level's usage and is promised "
            f"{self.promised_permille / 10:g} %: number {self.rank} of {self.siblings} to be served"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaHolder:
    """A queue that holds some of a contested quota."""

    queue: str
    amount: int
    borrowed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaHolding:
    """Who holds the quota of a flavor below the tenant that limits it: the largest holders."""

    flavor: str
    resource: str
    limited_by: str
    holders: tuple[QuotaHolder, ...]
    others: int = 0

    def __str__(self) -> str:
        told = [
            f"{one.queue} {write_amount(self.resource, one.amount)}"
            + (f" ({write_amount(self.resource, one.borrowed)} borrowed)" if one.borrowed else "")
            for one in self.holders
        ]
        return f"{self.flavor} under {self.limited_by} is held by {_list(told, self.others)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityHolder:
    """A running job, the GPUs it has, and when it should be done."""

    job_id: str
    queue: str
    gpu_milli: int
    expected_end_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityHolding:
    """Who occupies a pool: the jobs with the most GPUs."""

    pool: str
    at_ms: int
    holders: tuple[CapacityHolder, ...]
    others: int = 0

    def __str__(self) -> str:
        told = [
            f"{one.job_id} of {one.queue} ({write_gpus(one.gpu_milli)}, done in "
            f"{write_duration(max(0, one.expected_end_ms - self.at_ms))})"
            for one in self.holders
        ]
        return f"{self.pool} is occupied by {_list(told, self.others)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A change that starts the job now, what it runs on then, and what that costs.

    ``weight`` orders alternatives, the smallest change first. ``expected_micro_usd`` assumes that
    the job takes as long as it was said to take.
    """

    change: str
    spec: JobSpec
    pool: str
    weight: int
    micro_usd_per_hour: int
    expected_micro_usd: int

    def __str__(self) -> str:
        return (
            f"{self.change} (runs on {self.pool} for {write_usd(self.micro_usd_per_hour)} an hour, "
            f"about {write_usd(self.expected_micro_usd)} in all)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Everything there is to say about one job now."""

    job_id: str
    state: JobState
    now_ms: int
    queue: str = ""
    request: str = ""
    starts_on: Placement | None = None
    runs_on: Placement | None = None
    expected_end_ms: int | None = None
    victims_stopping: tuple[str, ...] = ()
    reasons: tuple[Reason, ...] = ()
    holdings: tuple[QuotaHolding | CapacityHolding, ...] = ()
    position: Position | None = None
    fair_shares: tuple[FairShareRank, ...] = ()
    forecast: Forecast | None = None
    alternatives: tuple[Alternative, ...] = ()
    changes_considered: int = 0
    cheapest_micro_usd_per_hour: int | None = None
    """For a waiting job: what an hour costs in the cheapest pool that could run it."""
    history: tuple[PastEvent, ...] = ()
    spot: SpotView | None = None
    notice: SpotNotice | None = None
    """For a running job: that the first of its nodes will be taken away."""

    def lines(self) -> tuple[str, ...]:
        """What, why, when, for how much, what to do, and what happened before, as sentences."""
        return (
            *self._what(),
            *self._why(),
            *self._when(),
            *self._price(),
            *(() if self.spot is None else self.spot.lines()),
            *self._what_to_do(),
            *(f"Before: {history_line(event, self.now_ms)}." for event in self.history),
        )

    def _what(self) -> list[str]:
        if not self.queue:
            return [f"{self.job_id} is over: {self.state}."]
        if self.runs_on is not None:
            return [self._running(self.runs_on), *self._taken_away()]
        asked = f"{self.job_id} ({self.request})"
        if self.starts_on is not None:
            price = write_usd(self.starts_on.all_micro_usd_per_hour)
            return [f"{asked} starts now on {_pools(self.starts_on)} for {price} an hour."]
        if self.victims_stopping:
            return [
                f"{asked} has its place in {self.queue}; it is being cleared for it: "
                f"{_list(list(self.victims_stopping[:3]), len(self.victims_stopping[3:]))} must stop first."
            ]
        where = f" at {self.position}" if self.position is not None else ""
        return [f"{asked} waits in {self.queue}{where}."]

    def _taken_away(self) -> list[str]:
        if self.notice is None:
            return []
        left_ms = max(0, (self.notice.ends_at_ms or self.now_ms) - self.now_ms)
        return [
            f"{self.notice.node} is taken away in {write_duration(left_ms)} (spot notice from "
            f"{self.notice.source}): the job was told to save its work and leave, and waits again then."
        ]

    def _running(self, placement: Placement) -> str:
        nodes = [name for part in placement.parts for name in sorted({t.node for t in part.tasks})]
        price = write_usd(placement.all_micro_usd_per_hour)
        told = (
            f"{self.job_id} ({self.request}) of {self.queue} is {self.state} on {_pools(placement)}: "
            f"{_list(nodes[:3], len(nodes[3:]))}, {price} an hour"
        )
        if self.expected_end_ms is not None:
            left = write_duration(max(0, self.expected_end_ms - self.now_ms))
            told += f", expected to be done in {left}"
        return f"{told}."

    def _why(self) -> list[str]:
        return [
            *(f"Why: {reason}." for reason in self.reasons),
            *(f"Who: {holding}." for holding in self.holdings),
            *(f"Share: {standing}." for standing in self.fair_shares),
        ]

    def _when(self) -> list[str]:
        if self.forecast is None or self.starts_on is not None:
            return []
        return [f"When: {self.forecast.line(self.now_ms)}."]

    def _price(self) -> list[str]:
        if self.cheapest_micro_usd_per_hour is None or self.starts_on is not None:
            return []
        return [f"Price: from {write_usd(self.cheapest_micro_usd_per_hour)} an hour once it runs."]

    def _what_to_do(self) -> list[str]:
        found = [f"To start now: {alternative}." for alternative in self.alternatives]
        if found or not self.changes_considered:
            return found
        return [f"No small change would start it now ({self.changes_considered} were considered)."]


def _pools(placement: Placement) -> str:
    anchors = placement.anchors
    return (
        placement.pool if anchors is None else f"{placement.pool} and, as anchors, {anchors.pool}"
    )


def _list(told: list[str], others: int) -> str:
    more = [f"{others:,} more"] if others else []
    return ", ".join([*told, *more]) or "nobody"
