"""Play the cycle forward over expected ends until a job's turn comes and it fits.

The same rules decide as in a cycle: its order, quota, placement, preemption and reservations, written
into a draft and taken back at the end. What is left out: jobs not submitted yet, usage that grows while
jobs run, victims that wait again and, in a large world, jobs that stand behind the target. They may
only start where they delay nobody who has a reservation, but the target need not have one.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

from bursar.core.ahead import Ahead
from bursar.core.claims import serve_claims
from bursar.core.cycle import answer
from bursar.core.draft import Draft, credits_of, of_flavor
from bursar.core.expected_ends import LEAVES_MS, Odds, expected_end_ms, remaining_run_ms
from bursar.core.kept import KeptReservations
from bursar.core.levels import levels_of, order_for
from bursar.core.line import JobRecord, KindLine
from bursar.core.placement import find_room
from bursar.core.pool import PoolState
from bursar.core.state import FleetState
from bursar.model.attempt import Placement
from bursar.model.decision import ClaimRoom, StartJob
from bursar.model.lifecycle import LIVE
from bursar.model.tenant import FlavorResource, Queueing

SMALL_WORLD = 256
"""Up to so many running and waiting jobs everything is played; above, what stands before the job."""

MOST_STARTS = 1_000
MOST_ANSWERS = 4_000
"""What a replay may cost; who needs more is served by an estimate."""


class TooLong(Exception):
    """The replay has cost what it may and the job has not started."""


@dataclass(frozen=True, slots=True)
class _Stay:
    """One job in one place, until it ends."""

    record: JobRecord
    placement: Placement
    planned_end_ms: int
    was_running: bool


class Replay:
    """One future of the fleet, as it unfolds from now."""

    def __init__(self, state: FleetState, target: JobRecord, odds: Odds, now_ms: int) -> None:
        self.state = state
        self.target = target
        self.odds = odds
        self.draft = Draft(state, now_ms)
        self._stays: dict[str, _Stay] = {}
        self._due: list[tuple[int, str]] = []
        self._clearing: dict[str, tuple[JobRecord, Placement, Sequence[str]]] = {}
        self._still_charged: dict[str, dict[FlavorResource, int]] = {}
        self._orders_seen = 0
        self._starts = self._answers = self._ended = 0

    def start_ms(self, ahead: Ahead, ready_ms: int) -> int | None:
        """When the target starts; None when nothing that is expected to end makes room for it.

        Until it is ready it has no turn. It is known not to start now: should the replay, which looks
        at less than the cycle, disagree, the next moment at which anything changes is meant.
        """
        pools = _pools_of(self.state, ahead)
        running = sum(len(pool.ends) for pool in pools)
        waiting = sum(line.count for line in self.state.lines.values())
        self.small = running + waiting <= SMALL_WORLD
        self.levels = list(levels_of(self.draft)) if self.small else ahead.levels
        self.kept = KeptReservations(self.draft, replan=self.small)
        lines = sum(len(level) for level in self.levels)
        self._steps_of = max(4, MOST_ANSWERS // (8 * max(1, lines)))
        try:
            self._gather(pools if not self.small else list(self.state.pools.values()))
            return self._play(ready_ms)
        finally:
            self.draft.undo()

    def _gather(self, pools: list[PoolState]) -> None:
        now_ms = self.draft.now_ms
        for pool in pools:
            for planned_ms, job_id in pool.ends:
                record = self.state.jobs[job_id]
                assert record.placement is not None
                if job_id in self._stays:
                    continue
                self._stays[job_id] = _Stay(record, record.placement, planned_ms, True)
                self._due.append((expected_end_ms(record, self.odds, now_ms), job_id))
        heapq.heapify(self._due)
        serve_claims(self.draft)
        self._follow_orders()
        for job_id, record in sorted(self.state.claims.items()):
            if job_id not in self._stays and record.claim is not None:
                there = [v for v, n in sorted(record.claim.attempts.items()) if self._lives(v, n)]
                self._clear(record, record.claim.placement, there)

    def _lives(self, job_id: str, attempt: int) -> bool:
        record = self.state.jobs.get(job_id)
        return record is not None and record.state in LIVE and record.attempt == attempt

    def _play(self, ready_ms: int) -> int | None:
        now_ms = self.draft.now_ms
        if ready_ms > now_ms:
            heapq.heappush(self._due, (ready_ms, ""))
        next_ms = self._due[0][0] if self._due else now_ms
        while True:
            started_ms = self._turns(ready_ms)
            if started_ms is not None:
                return started_ms if started_ms > now_ms else next_ms
            if not self._due:
                return None
            self._let_time_pass()

    def _let_time_pass(self) -> None:
        """To the next expected end, or over several where a step would be lost in the wait so far."""
        batch = 1 + self._ended // self._steps_of
        while self._due and (batch > 0 or self._due[0][0] == self.draft.now_ms):
            at_ms, job_id = heapq.heappop(self._due)
            self.draft.now_ms = max(self.draft.now_ms, at_ms)
            batch -= 1
            self._ended += 1
            if job_id in self._clearing:
                self._cleared(job_id)
            else:
                self._end(job_id)

    # -- whose turn it is ------------------------------------------------------------------------

    def _turns(self, ready_ms: int) -> int | None:
        """What a cycle would start now, up to the target; the moment, when that starts."""
        self.kept.lift()
        blocked_queues: set[str] = set()
        is_ready = self.draft.now_ms >= ready_ms
        for level in self.levels:
            lines = [line for line in level if line.head() is not None]
            order = order_for(self.draft, lines)
            while (line := order.next()) is not None:
                head = line.head()
                assert head is not None
                waits = head is self.target and not is_ready
                if not waits and line.kind.queue not in blocked_queues and self._start(line, head):
                    if head is self.target:
                        return self._moment(head)
                    order.started()
                    continue
                if self.state.tenants[line.kind.queue].queueing is Queueing.STRICT:
                    blocked_queues.add(line.kind.queue)
                order.drop()
                if line is self.target.line and not self.small:
                    return None
        return None

    def _start(self, line: KindLine, head: JobRecord) -> bool:
        self._answers += 1
        if self._answers > MOST_ANSWERS or self._starts > MOST_STARTS:
            raise TooLong
        started = not answer(self.draft, line, head)
        self.kept.answered(head, started=started)
        if started:
            self._starts += 1
            self.draft.take(line, head)
            self._follow_orders()
        return started

    def _moment(self, head: JobRecord) -> int:
        waits_for_victims = head.id in self._clearing
        return self.draft.now_ms + (LEAVES_MS[self.odds] if waits_for_victims else 0)

    # -- what comes of it ------------------------------------------------------------------------

    def _follow_orders(self) -> None:
        """Turn the orders written since the last look into what they lead to."""
        orders = self.draft.orders
        for order in orders[self._orders_seen :]:
            if isinstance(order, StartJob):
                self._settle(self.state.jobs[order.job_id], order.placement)
            elif isinstance(order, ClaimRoom):
                self._clear(self.state.jobs[order.job_id], order.placement, order.victims)
        self._orders_seen = len(orders)

    def _settle(self, record: JobRecord, placement: Placement) -> None:
        now_ms = self.draft.now_ms
        self._stays[record.id] = _Stay(record, placement, now_ms + record.run_ms, False)
        end_ms = now_ms + remaining_run_ms(record, self.odds)
        heapq.heappush(self._due, (end_ms, record.id))

    def _clear(self, record: JobRecord, placement: Placement, victims: Sequence[str]) -> None:
        """A place is kept until its victims have left.

        The draft has charged the claimant and credited the victims with as much of it as they hold;
        what they hold beyond that comes back when they leave.
        """
        self._clearing[record.id] = (record, placement, victims)
        heapq.heappush(self._due, (self.draft.now_ms + LEAVES_MS[self.odds], record.id))
        leaving = [self.state.jobs[victim] for victim in victims]
        for victim, credit in credits_of(self.state.request_of(placement), leaving):
            charged = {fr: n - credit.get(fr, 0) for fr, n in victim.request.items()}
            self._still_charged[victim.id] = charged

    def _cleared(self, job_id: str) -> None:
        """The victims have left: the claimant moves in, and its quota is charged already."""
        record, placement, victims = self._clearing.pop(job_id)
        for victim in victims:
            self._end(victim)
        for node_id in sorted({task.node for task in placement.all_tasks}):
            pool = self.state.pool_of_node.get(node_id)
            if pool is not None and pool.by_id[node_id].closed_for == job_id:
                self.draft.journal.reopen(pool, pool.by_id[node_id])
                self.draft.no_room.clear()
        fit = next((fit for fit in record.line.plan.fits if fit.is_at(placement)), None)
        if fit is not None:
            room = find_room(fit, fit.min_counts, self.draft.search(record, fit))
            if room is not None:
                placement = fit.placement_in(room)
                end_ms = self.draft.now_ms + record.run_ms
                for part in placement.parts:
                    request = of_flavor(self.state.request_of(placement), part.flavor)
                    end = (end_ms, record.spec.queue, part.tasks, request)
                    self.draft.started_ends.setdefault(part.pool, []).append(end)
                self._settle(record, placement)

    def _end(self, job_id: str) -> None:
        """A job is gone: its room, its quota and its weight are free."""
        stay = self._stays.pop(job_id, None)
        if stay is None:
            return
        draft, record, placement = self.draft, stay.record, stay.placement
        for part in placement.parts:
            self._leave(stay, part)
        charged = self._still_charged.pop(job_id, None)
        request = self.state.request_of(placement) if charged is None else charged
        draft.journal.credit(self.state.quota, record.spec.queue, request)
        if stay.was_running:
            draft.victims.add(job_id)
        self._lighten(record.spec.queue, placement)

    def _leave(self, stay: _Stay, part: Placement) -> None:
        """The room of one part of a placement is free, and its end is no longer to come."""
        draft, record, pool = self.draft, stay.record, self.state.pools[part.pool]
        for task in part.tasks:
            if task.node in pool.by_id:
                draft.journal.vacate(pool, task, record.id)
                draft.no_room.clear()
        self._untag(stay, part, pool)
        if stay.was_running:
            entry = (stay.planned_end_ms, record.id)
            del pool.ends[bisect_left(pool.ends, entry)]
            draft.journal.remember(insort, pool.ends, entry)
        else:
            ends = draft.started_ends.get(pool.spec.name, [])
            theirs = (stay.planned_end_ms, record.spec.queue, part.tasks)
            ends[:] = [one for one in ends if one[:3] != theirs]

    def _untag(self, stay: _Stay, part: Placement, pool: PoolState) -> None:
        apart = stay.record.spec.constraints.apart
        if apart is None:
            return
        nodes = [task.node for task in part.tasks if task.node in pool.by_id]
        for node_id in nodes if stay.was_running else sorted(set(nodes)):
            self.draft.journal.tag(pool.by_id[node_id], apart, -1)

    def _lighten(self, queue: str, placement: Placement) -> None:
        weight = self.state.charge_of(placement).weight
        tenant: str | None = queue
        while tenant is not None:
            self.draft.added_weight[tenant] = self.draft.added_weight.get(tenant, 0) - weight
            tenant = self.state.parents[tenant]


def _pools_of(state: FleetState, ahead: Ahead) -> list[PoolState]:
    """Every pool of a flavor that the job or its rivals could run on."""
    flavors = {fit.flavor for level in ahead.levels for line in level for fit in line.plan.fits}
    return [pool for pool in state.pools.values() if pool.spec.flavor in flavors]
