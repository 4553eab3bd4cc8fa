"""Why a job does not run, when it should start, and what would start it now.

``core/explain/`` computes the numbers; the texts are written here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from bursar.model.event import SpotNotice
from bursar.model.explain.job_history import PastEvent, history_line
from bursar.model.explain.spot_view import SpotView
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import JobSpec, JobState
from bursar.model.reason import Reason, write_amount
from bursar.model.units import counted, write_duration, write_gpus, write_usd


class Basis(StrEnum):
    """How a forecast was computed."""

    STARTS_NOW = "starts-now"
    VICTIMS_LEAVE = "victims-leave"
    REPLAY = "replay"
    """Scheduling cycles were simulated over expected ends, without future submissions."""
    WORK_AHEAD = "work-ahead"
    """Too many jobs are ahead to simulate: the work ahead is divided by the capacity."""
    WAITS_FOR_SPOT = "waits-for-spot"
    """It waits for cheaper capacity by choice; the start is the latest that its deadline allows."""
    NEXT_PERIOD = "next-period"
    """A budget is spent: no job starts before its next period."""
    NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """When a job should start: median and 90th percentile.

    ``ahead_jobs`` and ``ahead_gpu_ms`` count the jobs ahead of it that compete for the same flavors.
    ``note`` gives the reason when there is no start, else what the estimate rests on.
    """

    p50_start_ms: int | None
    p90_start_ms: int | None
    basis: Basis
    ahead_jobs: int = 0
    ahead_gpu_ms: int = 0
    note: str = ""

    def line(self, now_ms: int) -> str:
        """The forecast as text."""
        if self.p50_start_ms is None or self.p90_start_ms is None:
            return f"no start is expected: {self.note}"
        if self.basis is Basis.STARTS_NOW:
            return "starts in the next cycle"
        if self.basis is Basis.WAITS_FOR_SPOT:
            latest = write_duration(self.p90_start_ms - now_ms)
            return f"starts when spot capacity is free, in {latest} at the latest"
        early = write_duration(self.p50_start_ms - now_ms)
        late = write_duration(self.p90_start_ms - now_ms)
        text = f"expected to start in {early} (90 % likely within {late})"
        if self.ahead_jobs:
            verb = "competes" if self.ahead_jobs == 1 else "compete"
            text += f"; {counted(self.ahead_jobs, 'job')} ahead of it {verb} for the same GPUs"
        return f"{text} ({self.note})" if self.note else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A job's position in scheduling order, in its queue and overall; the first is number 1."""

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
    """A tenant's rank among its siblings: its share of their usage against its weight."""

    tenant: str
    used_permille: int
    promised_permille: int
    rank: int
    siblings: int

    def __str__(self) -> str:
        return (
            f"{self.tenant} has used {self.used_permille / 10:g} % of its level's total, its fair share is "
            f"{self.promised_permille / 10:g} %: rank {self.rank} of {self.siblings}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaHolder:
    """A queue that holds some of a contested quota."""

    queue: str
    amount: int
    borrowed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaHolding:
    """The queues that hold most of a flavor's quota below the tenant that limits it."""

    flavor: str
    resource: str
    limited_by: str
    holders: tuple[QuotaHolder, ...]
    others: int = 0

    def __str__(self) -> str:
        holders = [
            f"{one.queue} {write_amount(self.resource, one.amount)}"
            + (f" ({write_amount(self.resource, one.borrowed)} borrowed)" if one.borrowed else "")
            for one in self.holders
        ]
        return f"{self.flavor} quota of {self.limited_by} is held by {_list(holders, self.others)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityHolder:
    """A running job, the GPUs it holds, and its expected end."""

    job_id: str
    queue: str
    gpu_milli: int
    expected_end_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityHolding:
    """The jobs that hold the most GPUs of a pool."""

    pool: str
    at_ms: int
    holders: tuple[CapacityHolder, ...]
    others: int = 0

    def __str__(self) -> str:
        holders = [
            f"{one.job_id} of {one.queue} ({write_gpus(one.gpu_milli)}, ends in "
            f"{write_duration(max(0, one.expected_end_ms - self.at_ms))})"
            for one in self.holders
        ]
        return f"{self.pool} is held by {_list(holders, self.others)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A change to the spec that would start the job now, and its cost.

    ``weight`` orders alternatives, the smallest change first. ``expected_micro_usd`` assumes the
    expected run time of the spec.
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
            f"about {write_usd(self.expected_micro_usd)} in total)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The full explanation of one job at one time."""

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
    """For a waiting job: the hourly price of the cheapest pool that could run it."""
    history: tuple[PastEvent, ...] = ()
    spot: SpotView | None = None
    notice: SpotNotice | None = None
    """For a running job: the first termination notice of one of its nodes."""

    def lines(self) -> tuple[str, ...]:
        """The explanation as text: state, reasons, start, price, spot, alternatives, history."""
        return tuple(self._lines())

    def _lines(self) -> Iterator[str]:
        yield from self._state_lines()
        yield from (f"Why: {reason}." for reason in self.reasons)
        yield from (f"Held: {holding}." for holding in self.holdings)
        yield from (f"Share: {share}." for share in self.fair_shares)
        if self.starts_on is None:
            if self.forecast is not None:
                yield f"When: {self.forecast.line(self.now_ms)}."
            if self.cheapest_micro_usd_per_hour is not None:
                price = write_usd(self.cheapest_micro_usd_per_hour)
                yield f"Price: from {price} an hour once it runs."
        if self.spot is not None:
            yield from self.spot.lines()
        yield from (f"To start now: {alternative}." for alternative in self.alternatives)
        if self.changes_considered and not self.alternatives:
            yield f"No small change would start it now ({self.changes_considered} considered)."
        yield from (f"History: {history_line(event, self.now_ms)}." for event in self.history)

    def _state_lines(self) -> Iterator[str]:
        job, notice = f"{self.job_id} ({self.request})", self.notice
        if not self.queue:
            yield f"{self.job_id} has ended: {self.state}."
        elif self.runs_on is not None:
            yield self._running_line(self.runs_on)
            if notice is not None:
                left_ms = max(0, (notice.ends_at_ms or self.now_ms) - self.now_ms)
                yield (
                    f"{notice.node} will be terminated in {write_duration(left_ms)} (spot notice "
                    f"from {notice.source}): the job was asked to save its work and stop; it is then "
                    "queued again."
                )
        elif self.starts_on is not None:
            price = write_usd(self.starts_on.all_micro_usd_per_hour)
            yield f"{job} starts now on {_pools(self.starts_on)} for {price} an hour."
        elif victims := self.victims_stopping:
            yield (
                f"{job} in {self.queue} has nodes reserved and starts when these jobs have stopped: "
                f"{_list(list(victims[:3]), len(victims[3:]))}."
            )
        else:
            position = f" at {self.position}" if self.position is not None else ""
            yield f"{job} waits in {self.queue}{position}."

    def _running_line(self, placement: Placement) -> str:
        nodes = [name for part in placement.parts for name in sorted({t.node for t in part.tasks})]
        price = write_usd(placement.all_micro_usd_per_hour)
        text = (
            f"{self.job_id} ({self.request}) of {self.queue} is {self.state} on {_pools(placement)}: "
            f"{_list(nodes[:3], len(nodes[3:]))}, {price} an hour"
        )
        if self.expected_end_ms is not None:
            left = write_duration(max(0, self.expected_end_ms - self.now_ms))
            text += f", expected to end in {left}"
        return f"{text}."


def _pools(placement: Placement) -> str:
    anchors = placement.anchors
    return (
        placement.pool if anchors is None else f"{placement.pool} and, as anchors, {anchors.pool}"
    )


def _list(names: list[str], others: int) -> str:
    more = [f"{others:,} more"] if others else []
    return ", ".join([*names, *more]) or "no job"
