"""Simulates scheduling cycles over expected ends until a job starts.

It uses the cycle's own rules for turns, quota, placement, preemption and reservations, writes to a draft
and undoes it at the end. It ignores future submissions, usage that grows while jobs run, preempted jobs
that queue again and, on a large fleet, jobs behind the target. Those may only start where they delay no
reservation, but the target need not have one.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

from bursar.core.cycle import schedule_head
from bursar.core.draft import Draft, request_in_flavor, victim_credits
from bursar.core.explain.queue_position import JobsAhead
from bursar.core.nodes.pool import PoolState
from bursar.core.ordering.turn import Turns
from bursar.core.ordering.urgency import levels_of
from bursar.core.placement.find_placement import find_placement
from bursar.core.preemption.claims import remaining_victims, serve_claims
from bursar.core.reservation.expected_ends import (
    STOP_MS,
    EndOdds,
    expected_end_ms,
    remaining_run_ms,
)
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import Backlog, JobRecord
from bursar.model.decision import ClaimPlacement, StartJob
from bursar.model.jobs.attempt import Placement
from bursar.model.reason import Reason, WaitsForJobs
from bursar.model.tenants.tenant import FlavorResource

SMALL_FLEET_JOBS = 256
"""Up to this many running and waiting jobs, all are simulated; above, only those ahead."""

MOST_STARTS = 1_000
MOST_ANSWERS = 4_000
"""Limits of one lookahead; beyond them the forecast is an estimate."""


class LookaheadTooLong(Exception):
    """The lookahead reached its limit before the job started."""


@dataclass(frozen=True, slots=True)
class _Run:
    """A job running in the simulation."""

    record: JobRecord
    placement: Placement
    planned_end_ms: int
    was_running: bool


class Lookahead:
    """One simulated future of the fleet."""

    def __init__(self, state: FleetState, target: JobRecord, odds: EndOdds, now_ms: int) -> None:
        self.state = state
        self.target = target
        self.odds = odds
        self.draft = Draft(state, now_ms)
        self._runs: dict[str, _Run] = {}
        self._due: list[tuple[int, str]] = []
        self._clearing: dict[str, tuple[JobRecord, Placement, Sequence[str]]] = {}
        self._still_charged: dict[str, dict[FlavorResource, int]] = {}
        self._orders_seen = 0
        self._starts = self._answers = self._ended = 0

    def start_ms(self, ahead: JobsAhead, ready_ms: int) -> int | None:
        """When the target starts; None if no expected end frees enough capacity.

        Before ``ready_ms`` it is not scheduled. It is known not to start now: if the simulation, which
        sees less than a real cycle, starts it at once, the next expected end is returned.
        """
        pools = _pools_of(self.state, ahead)
        running = sum(len(pool.ends) for pool in pools)
        waiting = sum(backlog.count for backlog in self.state.backlogs.by_key.values())
        self.small = running + waiting <= SMALL_FLEET_JOBS
        self.levels = list(levels_of(self.draft)) if self.small else ahead.levels
        self.reservations = ReplayedReservations(self.draft, replan=self.small)
        backlogs = sum(len(level) for level in self.levels)
        self._steps_of = max(4, MOST_ANSWERS // (8 * max(1, backlogs)))
        try:
            self._collect_running(pools if not self.small else list(self.state.pools.values()))
            return self._run_until_start(ready_ms)
        finally:
            self.draft.journal.roll_back()

    def _collect_running(self, pools: list[PoolState]) -> None:
        now_ms = self.draft.now_ms
        for pool in pools:
            for planned_ms, job_id in pool.ends:
                record = self.state.jobs[job_id]
                assert record.placement is not None
                if job_id in self._runs:
                    continue
                self._runs[job_id] = _Run(record, record.placement, planned_ms, True)
                self._due.append((expected_end_ms(record, self.odds, now_ms), job_id))
        heapq.heapify(self._due)
        serve_claims(self.draft)
        self._apply_orders()
        for job_id, record in sorted(self.state.claims.items()):
            if job_id not in self._runs and record.claim is not None:
                left = remaining_victims(self.state, record.claim)
                self._record_claim(record, record.claim.placement, left)

    def _run_until_start(self, ready_ms: int) -> int | None:
        now_ms = self.draft.now_ms
        if ready_ms > now_ms:
            heapq.heappush(self._due, (ready_ms, ""))
        next_ms = self._due[0][0] if self._due else now_ms
        while True:
            started_ms = self._run_cycle(ready_ms)
            if started_ms is not None:
                return started_ms if started_ms > now_ms else next_ms
            if not self._due:
                return None
            self._advance()

    def _advance(self) -> None:
        """Advances to the next expected end, or over several after a long wait."""
        batch = 1 + self._ended // self._steps_of
        while self._due and (batch > 0 or self._due[0][0] == self.draft.now_ms):
            at_ms, job_id = heapq.heappop(self._due)
            self.draft.now_ms = max(self.draft.now_ms, at_ms)
            batch -= 1
            self._ended += 1
            if job_id in self._clearing:
                self._start_claimant(job_id)
            else:
                self._end_job(job_id)

    # -- one cycle -------------------------------------------------------------------------------

    def _run_cycle(self, ready_ms: int) -> int | None:
        """Starts what a cycle would start now; returns the target's start if it is among them."""
        self.reservations.lift()
        is_ready = self.draft.now_ms >= ready_ms
        levels = (
            [backlog for backlog in level if backlog.head() is not None] for level in self.levels
        )
        turns = Turns(self.draft, levels, {}, last=None if self.small else self.target.backlog)
        for backlog, head in turns:
            if head is self.target and not is_ready:
                turns.hold((WaitsForJobs(jobs=tuple(sorted(head.unmet))),))
                continue
            reasons = self._schedule(backlog, head)
            if reasons:
                turns.hold(reasons)
            elif head is self.target:
                return self._start_time_ms(head)
            else:
                turns.start()
        return None

    def _schedule(self, backlog: Backlog, head: JobRecord) -> tuple[Reason, ...]:
        self._answers += 1
        if self._answers > MOST_ANSWERS or self._starts > MOST_STARTS:
            raise LookaheadTooLong
        reasons = schedule_head(self.draft, backlog, head)
        self.reservations.answered(head, started=not reasons)
        if not reasons:
            self._starts += 1
            self._apply_orders()
        return reasons

    def _start_time_ms(self, head: JobRecord) -> int:
        waits_for_victims = head.id in self._clearing
        return self.draft.now_ms + (STOP_MS[self.odds] if waits_for_victims else 0)

    # -- effects of orders -----------------------------------------------------------------------

    def _apply_orders(self) -> None:
        """Applies the orders written since the last call."""
        orders = self.draft.orders
        for order in orders[self._orders_seen :]:
            if isinstance(order, StartJob):
                self._record_start(self.state.jobs[order.job_id], order.placement)
            elif isinstance(order, ClaimPlacement):
                self._record_claim(self.state.jobs[order.job_id], order.placement, order.victims)
        self._orders_seen = len(orders)

    def _record_start(self, record: JobRecord, placement: Placement) -> None:
        now_ms = self.draft.now_ms
        self._runs[record.id] = _Run(record, placement, now_ms + record.run_ms, False)
        end_ms = now_ms + remaining_run_ms(record, self.odds)
        heapq.heappush(self._due, (end_ms, record.id))

    def _record_claim(
        self, record: JobRecord, placement: Placement, victims: Sequence[str]
    ) -> None:
        """Reserves a placement until its victims have stopped.

        The draft has charged the claimant and credited the victims with as much of that as they hold;
        the rest of their quota is credited when they stop.
        """
        self._clearing[record.id] = (record, placement, victims)
        heapq.heappush(self._due, (self.draft.now_ms + STOP_MS[self.odds], record.id))
        leaving = [self.state.jobs[victim] for victim in victims]
        for victim, credit in victim_credits(self.state.charges.of(placement).request, leaving):
            charged = {fr: n - credit.get(fr, 0) for fr, n in victim.request.items()}
            self._still_charged[victim.id] = charged

    def _start_claimant(self, job_id: str) -> None:
        """Starts the claimant after its victims have stopped; its quota is already charged."""
        record, placement, victims = self._clearing.pop(job_id)
        for victim in victims:
            self._end_job(victim)
        for node_id in sorted({task.node for task in placement.all_tasks}):
            pool = self.state.pool_of_node.get(node_id)
            if pool is not None and pool.by_id[node_id].closed_for == job_id:
                self.draft.journal.reopen(pool, pool.by_id[node_id])
                self.draft.no_capacity.clear()
        fit = next((fit for fit in record.backlog.plan.fits if fit.is_at(placement)), None)
        if fit is not None:
            allocation = find_placement(fit, fit.min_counts, self.draft.search(record, fit))
            if allocation is not None:
                placement = fit.placement_for(allocation)
                end_ms = self.draft.now_ms + record.run_ms
                for part in placement.parts:
                    request = request_in_flavor(
                        self.state.charges.of(placement).request, part.flavor
                    )
                    end = (end_ms, record.spec.queue, part.tasks, request)
                    self.draft.started_ends.setdefault(part.pool, []).append(end)
                self._record_start(record, placement)

    def _end_job(self, job_id: str) -> None:
        """Ends a job and frees its nodes, its quota and its weight."""
        run = self._runs.pop(job_id, None)
        if run is None:
            return
        draft, record, placement = self.draft, run.record, run.placement
        for part in placement.parts:
            self._free_nodes(run, part)
        charged = self._still_charged.pop(job_id, None)
        request = self.state.charges.of(placement).request if charged is None else charged
        draft.journal.credit(self.state.quota, record.spec.queue, request)
        if run.was_running:
            draft.victims.add(job_id)
        draft.add_weight(record.spec.queue, -self.state.charges.of(placement).weight)

    def _free_nodes(self, run: _Run, part: Placement) -> None:
        """Frees the nodes of one part of a placement and removes its expected end."""
        draft, record, pool = self.draft, run.record, self.state.pools[part.pool]
        for task in part.tasks:
            if task.node in pool.by_id:
                draft.journal.vacate(pool, task, record.id)
                draft.no_capacity.clear()
        self._untag(run, part, pool)
        if run.was_running:
            entry = (run.planned_end_ms, record.id)
            del pool.ends[bisect_left(pool.ends, entry)]
            draft.journal.on_undo(insort, pool.ends, entry)
        else:
            ends = draft.started_ends.get(pool.spec.name, [])
            theirs = (run.planned_end_ms, record.spec.queue, part.tasks)
            ends[:] = [one for one in ends if one[:3] != theirs]

    def _untag(self, run: _Run, part: Placement, pool: PoolState) -> None:
        apart = run.record.spec.constraints.apart
        if apart is None:
            return
        nodes = [task.node for task in part.tasks if task.node in pool.by_id]
        for node_id in nodes if run.was_running else sorted(set(nodes)):
            self.draft.journal.tag(pool.by_id[node_id], apart, -1)


class ReplayedReservations:
    """Reservations in a lookahead: replanned each cycle, or retained.

    A real cycle plans new reservations each time. Over thousands of ends that would cost more than the
    rest, so on a large fleet a reservation is retained until its owner starts or its time has come.
    """

    def __init__(self, draft: Draft, *, replan: bool) -> None:
        self._draft = draft
        self._replan = replan
        self._reserved: dict[str, dict[str, int]] = {}
        self._unanswered: set[str] = set()

    def lift(self) -> None:
        """Lifts reservations at the start of a cycle, so that they do not block their owners.

        Retained plans stay listed, so that no new ones are made, but have no effect until their owners
        have been scheduled.
        """
        draft = self._draft
        if self._replan:
            draft.victim_searches = 0
        self._reserved = draft.reserved or self._reserved
        draft.reserved = {}
        if self._replan or any(one.at_ms <= draft.now_ms for one in draft.planned):
            self._forget()
        self._unanswered = {one.job_id for one in draft.planned}
        draft.slack = [{} for _ in draft.planned]

    def answered(self, head: JobRecord, *, started: bool) -> None:
        """Restores reservations after their owners have been scheduled."""
        if head.id not in self._unanswered:
            return
        self._unanswered.discard(head.id)
        if started:
            self._forget()
        elif not self._unanswered:
            self._draft.reserved = self._reserved
            self._draft.slack = [dict(one.slack) for one in self._draft.planned]

    def _forget(self) -> None:
        self._draft.planned, self._draft.slack = [], []
        self._reserved, self._unanswered = {}, set()


def _pools_of(state: FleetState, ahead: JobsAhead) -> list[PoolState]:
    """Every pool of a flavor that the job or its competitors could use."""
    flavors = {
        fit.flavor for level in ahead.levels for backlog in level for fit in backlog.plan.fits
    }
    return [pool for pool in state.pools.values() if pool.spec.flavor in flavors]
