"""One record for each unfinished job, and compact columns for finished ones."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable

import numpy as np

from bursar.core.quota.charge import gpu_milli
from bursar.model.event import JobSubmitted
from bursar.model.fleet.fleet import Pool
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import GpuRequest, JobSpec, MigSlice, TaskGroup, WholeGpus
from bursar.model.units import MILLI, SECOND_MS
from bursar.simulate.metrics.quantiles import Numbers
from bursar.simulate.metrics.teams import TeamAccount

SHORTEST_RUN_MS = 10 * SECOND_MS
"""Bounded slowdown: a run shorter than this counts as this long."""

SIZES = ("no GPU", "part of a GPU", "1 GPU", "2-4 GPUs", "5-8 GPUs", "9-32 GPUs", "33+ GPUs")
_UP_TO_MILLI = (0, MILLI - 1, MILLI, 4 * MILLI, 8 * MILLI, 32 * MILLI)


def size_class(wanted_milli: int) -> int:
    """The index of a job's size in ``SIZES``."""
    return bisect_left(_UP_TO_MILLI, wanted_milli)


class LiveJob:
    """An unfinished job: how long it was queued, and what its attempt holds.

    ``since_ms`` is when it was queued, None while it runs or waits for other jobs. ``useful_from_ms`` is
    the time from which the work of the attempt counts as useful: its assignment, or, in a later attempt,
    the end of its restart. ``saved_ms`` is its last checkpoint.
    """

    __slots__ = (
        "assigned_ms",
        "attempt",
        "cancelled",
        "expired",
        "gpu_milli",
        "placement",
        "ready_ms",
        "saved_ms",
        "since_ms",
        "slo_met",
        "slo_remaining",
        "spec",
        "submitted_ms",
        "team",
        "useful_from_ms",
        "useful_ms",
        "waited_ms",
        "wanted_milli",
    )

    def __init__(self, event: JobSubmitted, team: TeamAccount, wanted_milli: int) -> None:
        self.spec: JobSpec = event.spec
        self.team = team
        self.wanted_milli = wanted_milli
        self.submitted_ms = self.ready_ms = event.at_ms
        self.since_ms: int | None = None
        self.waited_ms = 0
        self.useful_ms = 0
        self.placement: Placement | None = None
        self.attempt = 0
        self.gpu_milli = 0
        self.assigned_ms = 0
        self.useful_from_ms: int | None = None
        self.saved_ms: int | None = None
        self.cancelled = self.expired = False
        slo = event.spec.slo
        self.slo_remaining = 0 if slo is None else slo.gpu_ms * MILLI
        self.slo_met = False

    def assign(self, placement: Placement, attempt: int, gpu_milli: int, at_ms: int) -> None:
        """The job holds this placement from now on."""
        self.placement = placement
        self.attempt = attempt
        self.gpu_milli = gpu_milli
        self.assigned_ms = at_ms
        self.useful_from_ms = at_ms if attempt == 1 else None
        self.saved_ms = None
        if self.since_ms is not None:
            self.waited_ms += at_ms - self.since_ms
            self.since_ms = None

    def start(self, at_ms: int) -> None:
        if self.attempt > 1 and self.useful_from_ms is None:
            self.useful_from_ms = at_ms + self.spec.checkpoint.restart_ms

    def divide(self, end_ms: int, *, lost: bool) -> tuple[int, int]:
        """The restart time and the lost time of an attempt that ends now; the rest was useful."""
        useful_from_ms = self.useful_from_ms
        if useful_from_ms is None or useful_from_ms > end_ms:
            useful_from_ms = end_ms
        useful_until_ms = end_ms
        if lost:
            saved_ms = self.saved_ms
            useful_until_ms = useful_from_ms if saved_ms is None else max(useful_from_ms, saved_ms)
        if self.slo_remaining > 0:
            self._count_for_slo(useful_from_ms, useful_until_ms)
        self.useful_ms += useful_until_ms - useful_from_ms
        return useful_from_ms - self.assigned_ms, end_ms - useful_until_ms

    def _count_for_slo(self, begin_ms: int, end_ms: int) -> None:
        """Records whether the promised GPU time is reached in this interval, and in time."""
        slo = self.spec.slo
        if slo is None or not self.gpu_milli:
            return
        reached_ms = begin_ms - (-self.slo_remaining // self.gpu_milli)
        self.slo_remaining -= (end_ms - begin_ms) * self.gpu_milli
        if self.slo_remaining <= 0:
            self.slo_met = reached_ms <= self.submitted_ms + slo.within_ms


class GpuDemand:
    """How much GPU jobs request, in thousandths; slices by the first pool with that MIG profile."""

    def __init__(self, pools: Iterable[Pool]) -> None:
        self._pools = sorted(pools, key=lambda pool: pool.name)
        self._fractions: dict[GpuRequest, int] = {}

    def milli(self, spec: JobSpec) -> int:
        total = 0
        for group in spec.groups:
            gpu = group.gpu
            if type(gpu) is WholeGpus:
                total += gpu.count * group.count * MILLI
            elif gpu is not None:
                fraction = self._fractions.get(gpu)
                if fraction is None:
                    fraction = self._fractions[gpu] = self._fraction(group, gpu)
                total += fraction * group.count
        return total

    def _fraction(self, group: TaskGroup, request: GpuRequest) -> int:
        for pool in self._pools:
            if pool.gpu_model is None:
                continue
            if isinstance(request, MigSlice):
                mig = pool.gpu_model.mig
                if mig is None or mig.find(request.profile) is None:
                    continue
            return gpu_milli(group, pool)
        return 0


class FinishedJobTotals:
    """Four numbers for each succeeded job, 32 bytes together, in one flat array.

    Columns are views of that array: nothing can be added while a view exists.
    """

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers = array("q")

    def add(self, job: LiveJob, end_ms: int) -> None:
        """Adds the numbers of a job that has just ended."""
        run_ms = job.useful_ms
        if run_ms < SHORTEST_RUN_MS:
            run_ms = SHORTEST_RUN_MS
        slowdown = MILLI * (end_ms - job.ready_ms) // run_ms
        group = len(SIZES) * job.team.index + size_class(job.wanted_milli)
        numbers = (end_ms - job.submitted_ms, job.waited_ms, max(MILLI, slowdown), group)
        self._numbers.extend(numbers)

    def _column(self, index: int) -> Numbers:
        return np.frombuffer(self._numbers, dtype=np.int64)[index::4]

    @property
    def jct_ms(self) -> Numbers:
        return self._column(0)

    @property
    def wait_ms(self) -> Numbers:
        return self._column(1)

    @property
    def slowdown_milli(self) -> Numbers:
        return self._column(2)

    @property
    def team(self) -> Numbers:
        return self._column(3) // len(SIZES)

    @property
    def size(self) -> Numbers:
        return self._column(3) % len(SIZES)
