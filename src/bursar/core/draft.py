"""The draft of a cycle: its decisions so far, applied to the live state until undone."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from bursar.core.journal import Journal
from bursar.core.placement.pool_fit import Counts, PoolFit
from bursar.core.placement.search import NOTHING_RESERVED, Allocation, Search
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import Backlog, JobRecord
from bursar.model.decision import Decision, Hold, Order, StartJob
from bursar.model.jobs.attempt import Placement, Task
from bursar.model.jobs.job import MigSlice
from bursar.model.reason import NoCapacity, Reason
from bursar.model.tenants.tenant import FlavorResource


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """The planned start of a blocked job, its reserved nodes and the quota slack it leaves."""

    job_id: str
    queue: str
    pool: str
    at_ms: int
    nodes: tuple[str, ...]
    slack: Mapping[FlavorResource, int]
    anchor_nodes: tuple[str, tuple[str, ...]] = ("", ())
    """The pool and the nodes of the anchors of a mixed gang."""

    def uses_pool_of(self, fit: PoolFit) -> bool:
        """Whether it reserves nodes in a pool of a fit."""
        pools = {part.pool.spec.name for part, _ in fit.parts(fit.plan.counts)}
        return self.pool in pools or self.anchor_nodes[0] in pools


def victim_credits(
    request: Mapping[FlavorResource, int], victims: Iterable[JobRecord]
) -> list[tuple[JobRecord, dict[FlavorResource, int]]]:
    """The quota each victim returns in advance to a claimant: in sum at most the request."""
    missing = dict(request)
    credits: list[tuple[JobRecord, dict[FlavorResource, int]]] = []
    for victim in victims:
        credit = {fr: min(missing[fr], n) for fr, n in victim.request.items() if missing.get(fr)}
        for fr, amount in credit.items():
            missing[fr] -= amount
        credits.append((victim, credit))
    return credits


def request_in_flavor(
    request: Mapping[FlavorResource, int], flavor: str
) -> Mapping[FlavorResource, int]:
    """What one part of a mixed gang requests; the two parts have different flavors."""
    return {fr: amount for fr, amount in request.items() if fr[0] == flavor}


class EvictableJobs(Protocol):
    """The preemptible jobs of one flavor; implemented in ``preemption/``."""

    def legal(
        self, record: JobRecord, request: Mapping[FlavorResource, int]
    ) -> dict[str, list[JobRecord]]:
        """The jobs that a job may displace, by queue."""


class Draft:
    """The state with this cycle's decisions applied; rolling back its journal reverts them.

    ``stopped`` are the jobs ordered to stop because they are cancelled or at a limit; ``victims`` are those
    stopped for another job, a notice, a budget or a move. ``answered`` counts, by backlog, the jobs with a
    decision.

    Caches of one cycle; they never change a decision:

    - ``no_capacity``: searches that failed. Capacity only shrinks in a cycle, so they fail again for every
      queue and run time.
    - ``is_last``: the job being scheduled is the only one without a decision, so its start is ordered but
      not applied to the state.
    - ``demand``: waiting requests by MIG profile.
    - ``evictable``: by flavor, the running jobs that may be stopped.

    Decision 0001 lists the caches that outlive a cycle.
    """

    def __init__(self, state: FleetState, now_ms: int) -> None:
        self.state = state
        self.now_ms = now_ms
        self.journal = Journal()
        self.orders: list[Order] = []
        self.holds: list[Hold] = []
        self.reserved: dict[str, dict[str, int]] = {}
        self.planned: list[Reservation] = []
        self.slack: list[dict[FlavorResource, int]] = []
        self.no_capacity: dict[tuple[Hashable, str, Counts], NoCapacity] = {}
        self.is_last = False
        self.victim_searches = 0
        self.started_ends: dict[
            str, list[tuple[int, str, tuple[Task, ...], Mapping[FlavorResource, int]]]
        ] = {}
        self.answered: dict[int, int] = {}
        self.added_weight: dict[str, int] = {}
        self.victims: set[str] = set()
        self.stopped: set[str] = set()
        self._demand: dict[str, int] | None = None
        self.evictable: dict[str, EvictableJobs] = {}

    def decisions(self) -> tuple[Decision, ...]:
        """Orders in the order they were made, then holds by queue, priority and head."""
        if not self.holds:
            return tuple(self.orders)
        holds = sorted(self.holds, key=lambda h: (h.kind.queue, -h.kind.priority, h.head))
        return (*self.orders, *holds)

    # -- searching for capacity ------------------------------------------------------------------

    def search(self, record: JobRecord, *fits: PoolFit) -> Search:
        """A search for a job's placement that respects the reservations made so far."""
        state, end_ms = self.state, self.now_ms + record.run_ms
        search = Search(self.journal, state.mix, state.policies, holder=record.id, end_ms=end_ms)
        search.is_last = self.is_last
        if self.reserved:
            search.reserved = self._reserved_in(fits)
        if record.backlog.plan.has_slices:
            search.demand = self._demand_of(record)
        return search

    def _reserved_in(self, fits: tuple[PoolFit, ...]) -> Mapping[str, int]:
        """The reserved nodes of some pools, with the start of each reservation."""
        first = fits[0]
        if len(fits) == 1 and first.anchors is None:
            return self.reserved.get(first.pool.spec.name, NOTHING_RESERVED)
        reserved: dict[str, int] = {}
        for fit in fits:
            reserved |= self.reserved.get(fit.pool.spec.name, NOTHING_RESERVED)
            if fit.anchors is not None:
                reserved |= self.reserved.get(fit.anchors.name, NOTHING_RESERVED)
        return reserved

    def known_no_capacity(self, fit: PoolFit, counts: Counts) -> NoCapacity | None:
        """Why a search of a pool failed earlier in this cycle."""
        return self.no_capacity.get((fit.plan.capacity_key, fit.name, counts))

    def remember_no_capacity(self, fit: PoolFit, counts: Counts, reason: Reason) -> None:
        """Cache why a search failed, unless a reservation blocked it: a shorter job may still fit."""
        if isinstance(reason, NoCapacity):
            self.no_capacity[fit.plan.capacity_key, fit.name, counts] = reason

    def _demand_of(self, record: JobRecord) -> Mapping[str, int]:
        """The demand a GPU is partitioned for: a gang's own, or for a single slice that of all waiting jobs.

        A gang that fits must not stop fitting because other jobs started or stopped waiting: its reserved
        placement would be lost.
        """
        own: dict[str, int] = {}
        for group in record.backlog.plan.groups:
            if isinstance(group.gpu, MigSlice):
                own[group.gpu.profile] = own.get(group.gpu.profile, 0) + group.count
        return own if sum(own.values()) > 1 else self.demand

    @property
    def demand(self) -> Mapping[str, int]:
        """Waiting requests by MIG profile."""
        if self._demand is None:
            self._demand = {}
            for backlog in self.state.active.values():
                for group in backlog.plan.groups:
                    if isinstance(group.gpu, MigSlice):
                        profile = group.gpu.profile
                        wanted = self._demand.get(profile, 0)
                        self._demand[profile] = wanted + group.count * backlog.count
        return self._demand

    # -- decisions -------------------------------------------------------------------------------

    def order_start(self, record: JobRecord, fit: PoolFit, allocation: Allocation) -> Placement:
        """Order the start and the GPU partitions it needs; nothing is charged."""
        self.orders += allocation.partitions
        placement = fit.placement_for(allocation)
        self.orders.append(
            StartJob(job_id=record.id, attempt=record.attempt + 1, placement=placement)
        )
        return placement

    def start(self, record: JobRecord, fit: PoolFit, allocation: Allocation) -> None:
        """Order a job to start in its occupied allocation, and charge it."""
        charge = self.state.charges.of(self.order_start(record, fit, allocation))
        request = charge.request
        if request:
            self.journal.charge(self.state.quota, record.spec.queue, request)
        if fit.plan.similar_by_pool is not None:
            self._count_similar(fit.plan.similar_by_pool, fit.pool.spec.name)
        end_ms = self.now_ms + record.run_ms
        if fit.anchors is not None:
            ends = self.started_ends.setdefault(fit.anchors.name, [])
            anchor_request = request_in_flavor(request, fit.anchors.flavor)
            ends.append((end_ms, record.spec.queue, allocation.anchors, anchor_request))
            request = request_in_flavor(request, fit.flavor)
        ends = self.started_ends.setdefault(fit.pool.spec.name, [])
        ends.append((end_ms, record.spec.queue, allocation.tasks, request))
        self.add_weight(record.spec.queue, charge.weight)

    def _count_similar(self, similar_by_pool: dict[str, int], pool: str) -> None:
        """Count a started job, so that the next similar one may prefer another pool."""
        similar_by_pool[pool] = similar_by_pool.get(pool, 0) + 1
        self.journal.on_undo(similar_by_pool.__setitem__, pool, similar_by_pool[pool] - 1)

    def add_weight(self, queue: str, weight: int) -> None:
        """Add a fair-share weight to a queue and its ancestors."""
        added, parents = self.added_weight, self.state.parents
        tenant: str | None = queue
        while tenant is not None:
            added[tenant] = added.get(tenant, 0) + weight
            tenant = parents[tenant]

    def charge_claim(
        self,
        record: JobRecord,
        request: Mapping[FlavorResource, int],
        victims: Iterable[JobRecord],
    ) -> None:
        """Charge a claimant now, and credit its victims with at most that.

        The victims still hold their capacity. What they hold beyond the claim stays charged to them until
        they stop; otherwise quota would be exceeded meanwhile.
        """
        for victim, credit in victim_credits(request, victims):
            self.journal.credit(self.state.quota, victim.spec.queue, credit)
        self.journal.charge(self.state.quota, record.spec.queue, request)

    def take(self, backlog: Backlog, record: JobRecord) -> None:
        """Remove the head of a backlog: it has its decision."""
        backlog.take()
        self.journal.on_undo(backlog.give_back, record)
        self.answered[id(backlog)] = self.answered.get(id(backlog), 0) + 1

    def waiting(self, backlog: Backlog) -> int:
        """The number of jobs of a backlog without a decision."""
        return backlog.count - self.answered.get(id(backlog), 0)

    def hold(self, backlog: Backlog, head: JobRecord, reasons: tuple[Reason, ...]) -> None:
        """Hold all jobs of a backlog that have no decision yet."""
        self.holds.append(
            Hold(kind=backlog.kind, head=head.id, waiting=self.waiting(backlog), reasons=reasons)
        )

    def hold_jobs(self, records: list[JobRecord], reasons: tuple[Reason, ...]) -> None:
        """Hold particular jobs of one kind."""
        self.holds.append(hold_for(records, reasons))


def hold_for(records: list[JobRecord], reasons: tuple[Reason, ...]) -> Hold:
    """A hold of particular jobs of one kind."""
    jobs = tuple(sorted(record.id for record in records))
    return Hold(
        kind=records[0].backlog.kind,
        head=jobs[0],
        waiting=len(jobs),
        reasons=reasons,
        jobs=jobs,
    )
