"""The summary of one run, from which JSON, tables and pages are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from bursar.model.units import HOUR_MS, MILLI
from bursar.simulate.metrics.cost import RunCost
from bursar.simulate.metrics.fairness import Fairness
from bursar.simulate.metrics.quantiles import Distribution

GPU_HOUR = MILLI * HOUR_MS
"""Thousandths of a GPU times milliseconds in a GPU-hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeSummary:
    """Jobs by outcome. Failed ones include those stopped at their time limit."""

    submitted: int = 0
    succeeded: int = 0
    failed: int = 0
    cancelled: int = 0
    unfinished: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Completion time, wait and slowdown of the succeeded jobs.

    ``jct_ms`` is from submission to the end. ``wait_ms`` is the queued time of all attempts, without
    the time that a job waited for other jobs. ``slowdown_milli`` is the time from being ready to the end
    over the time of useful work, which counts as at least 10 s; 1000 is a job that never waited.
    """

    jct_ms: Distribution = field(default_factory=Distribution)
    wait_ms: Distribution = field(default_factory=Distribution)
    slowdown_milli: Distribution = field(default_factory=Distribution)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTime:
    """Thousandths of a GPU times milliseconds. ``allocated + idle = capacity``, exactly.

    ``useful`` is ``allocated`` less ``lost`` (work not saved when an attempt was preempted, failed or
    lost its node) and less ``restart`` (later attempts, until they reach the earlier one's progress).
    """

    capacity: int = 0
    allocated: int = 0
    idle: int = 0
    lost: int = 0
    restart: int = 0
    useful: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """Ratios of GPU time, fragmentation and queue length.

    ``fragmentation`` is the fraction of the free GPU time that was on partly used nodes.
    ``unallocated_gpus_while_waiting`` is the number of GPUs, averaged over the whole run, that were free
    while a job was queued; ``waiting_jobs`` is the average queue length.
    """

    allocated: float = 0.0
    useful: float = 0.0
    fragmentation: float = 0.0
    unallocated_gpus_while_waiting: float = 0.0
    waiting_jobs: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """How often attempts were interrupted, and what that cost."""

    preemptions: int = 0
    attempts_lost_with_node: int = 0
    attempts_failed: int = 0
    lost_gpu_milli_ms: int = 0
    lost_micro_usd: int = 0
    restart_gpu_milli_ms: int = 0
    restart_micro_usd: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """Deadlines and SLOs that were met or missed; those still open at the end count as neither.

    An SLO is met when the job had its GPU time, or succeeded, within the promised time.
    """

    deadlines_kept: int = 0
    deadlines_missed: int = 0
    slos_kept: int = 0
    slos_missed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycles:
    """Number and duration of cycles in real time, which differs between machines."""

    count: int = 0
    p50_ns: int = 0
    p99_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamSummary:
    """One team. ``satisfied`` is GPU time held of that held or waited for."""

    team: str
    outcomes: OutcomeSummary
    times: Times
    gpu_milli_ms: int
    entitled_gpu_milli_ms: int
    satisfied: float
    cost_micro_usd: int
    preemptions: int
    lost_gpu_milli_ms: int
    lost_micro_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One run, measured from its first submission to the last event of a job."""

    name: str
    began_ms: int
    ended_ms: int
    makespan_ms: int
    outcomes: OutcomeSummary
    times: Times
    by_size: Mapping[str, Times]
    teams: tuple[TeamSummary, ...]
    gpu_time: GpuTime
    use: Use
    fairness: Fairness
    losses: Losses
    promises: Promises
    cost: RunCost
    cycles: Cycles

    def as_json(self) -> dict[str, Any]:
        return asdict(self)
