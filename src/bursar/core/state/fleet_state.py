"""The current state of the fleet, updated by each event.

Applying an event costs what it changes; nothing is rebuilt. Decisions are made in ``core/cycle.py``.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable

from bursar.core.nodes.node import FOREIGN, NodeState, foreign_task
from bursar.core.nodes.pool import PoolState
from bursar.core.nodes.workload_mix import WorkloadMix, empty_node
from bursar.core.quota.budget_rules import BudgetRules, quota_tree
from bursar.core.quota.charge import ChargeCache
from bursar.core.state.attempt_ends import count_preemption, note_step
from bursar.core.state.attempt_limits import charged_micro_usd, limit_at_ms, reprice
from bursar.core.state.backlogs import Backlogs
from bursar.core.state.finished_jobs import FinishedJobs
from bursar.core.state.job_record import (
    JobRecord,
    attained_gpu_ms,
    rank_of,
    remaining_ms,
    work_ms,
)
from bursar.core.state.notices import apply_notice
from bursar.core.state.spot_history import SpotPoolHistories
from bursar.core.state.tenant_usage import TenantUsage
from bursar.model import event as ev
from bursar.model.decision import Hold, StopReason
from bursar.model.errors import BrokenInvariant
from bursar.model.event import AttemptFailed, AttemptPreempted, NodeLost
from bursar.model.fleet.fleet import Cluster, Fleet, Node
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import OVER, JobState
from bursar.model.lifecycle import NEXT, fence, next_state
from bursar.model.state_snapshot import Claim
from bursar.model.tenants.policy import LEARNING_PLACEMENTS, Policies
from bursar.model.tenants.tenant import Tenant


class FleetState:
    """Everything that ``decide`` reads."""

    def __init__(self, fleet: Fleet, tenants: Iterable[Tenant], policies: Policies) -> None:
        self.policies = policies
        self.clusters: dict[str, Cluster] = {c.name: c for c in fleet.clusters}
        self.tenants: dict[str, Tenant] = {t.name: t for t in tenants}
        self.pools: dict[str, PoolState] = {
            spec.name: PoolState(spec, self.clusters[spec.cluster].topology_levels)
            for spec in sorted(fleet.pools, key=lambda p: p.name)
        }
        self.pool_of_node: dict[str, PoolState] = {}
        self.jobs: dict[str, JobRecord] = {}
        self.dependents: dict[str, set[str]] = {}
        self.finished = FinishedJobs(self.dependents)
        self.backlogs = Backlogs(self.pools, fleet, policies)
        self.active = self.backlogs.active
        self.blocked: dict[str, JobRecord] = {}
        self.dependent_holds: tuple[Hold, ...] | None = ()
        self.claims: dict[str, JobRecord] = {}
        self.running_in: dict[str, dict[str, JobRecord]] = {}
        self.running_priorities: dict[str, dict[int, int]] = {}
        self.limits: list[tuple[int, str]] = []
        self.to_stop: dict[str, JobRecord] = {}
        self.notices: dict[str, ev.SpotNotice] = {}
        self.spot = SpotPoolHistories(self.pools, policies.spot.half_life_ms)
        self.budgets = BudgetRules(self.tenants, self._renew_quota)
        self.appliers: dict[type, Callable[..., None]] = self._appliers_by_type()
        self.parents: dict[str, str | None] = {t.name: t.parent for t in self.tenants.values()}
        self.preemption_policies = {t.name: t.preemption for t in self.tenants.values()}
        self.usage = TenantUsage(self.parents, policies.order.half_life_ms)
        pools = self.pools.values()
        self.mix = WorkloadMix(lambda: [(empty_node(one.spec), len(one.nodes)) for one in pools])
        self._learns_mix = policies.placement in LEARNING_PLACEMENTS
        self.charges = ChargeCache(lambda name: self.pools[name].spec, policies.order.usage_unit)
        self._place_nodes(fleet.nodes)
        self._build_quota()

    # -- building --------------------------------------------------------------------------------

    def _place_nodes(self, nodes: Iterable[Node]) -> None:
        members: dict[str, list[NodeState]] = {name: [] for name in self.pools}
        for node in nodes:
            pool = self.pools[node.pool]
            members[node.pool].append(NodeState(node, pool.spec))
            self.pool_of_node[node.id] = pool
        for name, states in members.items():
            self.pools[name].set_nodes(states)

    def _build_quota(self) -> None:
        """Build the quota tree of the current tenants, without usage."""
        tenants = self.tenants.values()
        self.limited = frozenset(fr for t in tenants for fr in t.quotas)
        self.quota = quota_tree(tenants, self.budgets.no_borrowing, self.limited)
        self.charges.limit(self.limited)
        self.backlogs.match_plans(self.limited)

    def _appliers_by_type(self) -> dict[type, Callable[..., None]]:
        """The method that applies each event type; a type missing here cannot be applied."""
        return {
            ev.JobSubmitted: self.submitted,
            ev.JobCancelled: self.cancelled,
            ev.AttemptAssigned: self.assigned,
            ev.AttemptStarted: self.started,
            ev.CheckpointSaved: self.saved,
            ev.AttemptResumed: self.resumed,
            ev.AttemptStopping: self.stop_requested,
            ev.AttemptExpired: self.stop_requested,
            ev.AttemptPreempted: self.ended,
            ev.AttemptSucceeded: self.ended,
            ev.AttemptFailed: self.ended,
            ev.PlacementClaimed: self.placement_claimed,
            ev.ClaimReleased: self.claim_released,
            ev.GpuPartitioned: self.partitioned,
            ev.NodeAdded: self.node_added,
            ev.NodeDrained: self.node_drained,
            ev.NodeRestored: self.node_restored,
            ev.NodeLost: self.node_lost,
            ev.SpotNotice: self.noticed,
            ev.ForeignUsageSeen: self.foreign_usage_seen,
            ev.TenantChanged: self.tenant_changed,
            ev.PriceChanged: self.price_changed,
            ev.BudgetLevelChanged: self.budgets.level_changed,
        }

    # -- lookups ---------------------------------------------------------------------------------

    def node(self, node_id: str) -> NodeState:
        return self.pool_of_node[node_id].by_id[node_id]

    def live(self) -> list[JobRecord]:
        """Every job whose attempt holds capacity, by id."""
        records = [r for by_id in self.running_in.values() for r in by_id.values()]
        return sorted(records, key=lambda record: record.id)

    # -- applying events -------------------------------------------------------------------------

    def apply(self, event: ev.Event) -> None:
        """Apply one event."""
        self.appliers[type(event)](event)

    def submitted(self, event: ev.JobSubmitted) -> None:
        if event.job_id in self.jobs or event.job_id in self.finished:
            raise BrokenInvariant(f"job {event.job_id} was submitted twice")
        record = JobRecord(event.job_id, event.spec, event.priority, event.at_ms)
        self.jobs[event.job_id] = record
        self.backlogs.add_job(record)
        if self._learns_mix:
            for group in event.spec.groups:
                self.mix.add(group, group.count, event.at_ms)
        if event.spec.depends_on:
            unmet = {d for d in event.spec.depends_on if self.finished.get(d) != JobState.SUCCEEDED}
            if unmet:
                self.block(record, frozenset(unmet))
                return
        record.backlog.join(record)

    def block(self, record: JobRecord, unmet: frozenset[str]) -> None:
        """Block a job until the jobs it depends on have succeeded."""
        record.state = JobState.BLOCKED
        record.unmet = unmet
        self.blocked[record.id] = record
        self.dependent_holds = None
        for dependency in unmet:
            self.dependents.setdefault(dependency, set()).add(record.id)

    def cancelled(self, event: ev.JobCancelled) -> None:
        record = self.jobs.get(event.job_id)
        if record is None:
            return
        was = record.state
        self._move(record, type(event))
        if was is JobState.BLOCKED:
            self._unblock(record)
        elif was is JobState.QUEUED:
            self._stop_waiting(record)
        elif not record.stop_requested:
            self.to_stop[record.id] = record
        self._finish_if_over(record)

    def assigned(self, event: ev.AttemptAssigned) -> None:
        record = self.jobs[event.job_id]
        if event.attempt != record.attempt + 1:
            raise BrokenInvariant(f"{record!r} cannot be assigned attempt {event.attempt}")
        self._stop_waiting(record)
        self._move(record, type(event))
        record.attempt = event.attempt
        self.occupy(record, event.placement)
        record.assigned_at_ms = record.saved_at_ms = event.at_ms
        record.end_at_ms = event.at_ms + remaining_ms(record)
        insort(self.pools[event.placement.pool].ends, (record.end_at_ms, record.id))
        if (anchors := event.placement.anchors) is not None:
            insort(self.pools[anchors.pool].ends, (record.end_at_ms, record.id))
        queue = record.spec.queue
        self.usage.start(queue, record.weight, event.at_ms)
        running = self.running_in.get(queue)
        if running is None:
            running = self.running_in[queue] = {}
            self.running_priorities[queue] = {}
        running[record.id] = record
        priorities = self.running_priorities[queue]
        priorities[record.priority] = priorities.get(record.priority, 0) + 1

    def occupy(self, record: JobRecord, placement: Placement) -> None:
        """Occupy a placement and charge its quota; its fair-share weight is only recorded."""
        apart = record.spec.constraints.apart
        part: Placement | None = placement
        while part is not None:
            pool = self.pools[part.pool]
            for task in part.tasks:
                pool.occupy(task, record.id)
                if apart is not None:
                    tags = pool.by_id[task.node].tags
                    tags[apart] = tags.get(apart, 0) + 1
            part = part.anchors
        if (similar := record.backlog.plan.similar_by_pool) is not None:
            similar[placement.pool] = similar.get(placement.pool, 0) + 1
        charge = self.charges.of(placement)
        record.placement = placement
        record.request, record.weight = charge.request, charge.weight
        self.quota.add_usage(record.spec.queue, charge.request)

    def vacate(self, record: JobRecord) -> None:
        """Undo ``occupy``."""
        placement = record.placement
        assert placement is not None
        if (similar := record.backlog.plan.similar_by_pool) is not None:
            similar[placement.pool] -= 1
        apart = record.spec.constraints.apart
        part: Placement | None = placement
        while part is not None:
            pool = self.pools[part.pool]
            for task in part.tasks:
                if task.node not in pool.by_id:
                    continue
                pool.vacate(task, record.id)
                if apart is not None:
                    tags = pool.by_id[task.node].tags
                    tags[apart] -= 1
            part = part.anchors
        self.quota.remove_usage(record.spec.queue, record.request)

    def started(self, event: ev.AttemptStarted) -> None:
        record = fence(self.jobs.get(event.job_id), event.attempt)
        if record is None:
            return
        self._move(record, type(event))
        if record.started_at_ms is not None:
            return
        record.started_at_ms = event.at_ms
        reload_ms = record.spec.checkpoint.restart_ms if record.has_run else 0
        record.saved_at_ms = event.at_ms + reload_ms
        record.has_run = True
        if not record.stop_requested and (limit_ms := limit_at_ms(record)) is not None:
            record.limit_at_ms = limit_ms
            insort(self.limits, (limit_ms, record.id))

    def saved(self, event: ev.CheckpointSaved) -> None:
        record = fence(self.jobs.get(event.job_id), event.attempt)
        if record is not None:
            self._move(record, type(event))
            if record.started_at_ms is not None:
                record.done_ms += work_ms(record, event.at_ms - record.saved_at_ms)
            record.saved_at_ms = max(event.at_ms, record.saved_at_ms)
            note_step(record, event.step)
            record.save_ms = record.save_ms if event.save_ms is None else event.save_ms

    def resumed(self, event: ev.AttemptResumed) -> None:
        record = fence(self.jobs.get(event.job_id), event.attempt)
        if record is not None:
            self._move(record, type(event))
            record.saved_at_ms = max(event.at_ms, record.started_at_ms or record.assigned_at_ms)

    def stop_requested(self, event: ev.AttemptStopping | ev.AttemptExpired) -> None:
        record = fence(self.jobs.get(event.job_id), event.attempt)
        if record is None:
            return
        self._move(record, type(event))
        record.stop_requested, record.moving = True, event.why == StopReason.MOVE
        self.to_stop.pop(record.id, None)
        self._drop_limit(record)

    def ended(self, event: ev.AttemptEnded) -> None:
        record = fence(self.jobs.get(event.job_id), event.attempt)
        if record is None:
            return
        if isinstance(event, AttemptFailed):
            record.failures += 1
        elif isinstance(event, AttemptPreempted):
            count_preemption(record, event.cause)
        self._end_attempt(record, type(event), event.at_ms)

    def _end_attempt(self, record: JobRecord, why: type, at_ms: int) -> None:
        self._move(record, why)
        assert record.placement is not None
        record.attained_gpu_ms = attained_gpu_ms(record, at_ms)
        if record.spec.max_cost_micro_usd is not None:
            record.charged_micro_usd = charged_micro_usd(record, at_ms)
        part: Placement | None = record.placement
        while part is not None:
            ends = self.pools[part.pool].ends
            del ends[bisect_left(ends, (record.end_at_ms, record.id))]
            part = part.anchors
        self.vacate(record)
        self.usage.stop(record.spec.queue, record.weight, at_ms)
        self._drop_limit(record)
        self.to_stop.pop(record.id, None)
        del self.running_in[record.spec.queue][record.id]
        priorities = self.running_priorities[record.spec.queue]
        priorities[record.priority] -= 1
        if not priorities[record.priority]:
            del priorities[record.priority]
        if record.state in OVER:
            self._finish_if_over(record)
            return
        record.forget_attempt()
        if record.state is JobState.QUEUED:
            record.rank = rank_of(record, self.policies.order, at_ms)
            record.backlog.join(record)

    # -- claims ----------------------------------------------------------------------------------

    def placement_claimed(self, event: ev.PlacementClaimed) -> None:
        """Closes the nodes of a claim to all other jobs until the claim is served or released."""
        record = self.jobs[event.job_id]
        record.backlog.leave(record)
        attempts = {victim: self.jobs[victim].attempt for victim in event.victims}
        record.claim = Claim(placement=event.placement, attempts=attempts)
        self.claims[record.id] = record
        for node_id in sorted({task.node for task in event.placement.all_tasks}):
            pool = self.pool_of_node[node_id]
            pool.close(pool.by_id[node_id], record.id)

    def claim_released(self, event: ev.ClaimReleased) -> None:
        record = self.claims.get(event.job_id)
        if record is not None:
            self._drop_claim(record)
            record.backlog.join(record)

    def _drop_claim(self, record: JobRecord) -> None:
        assert record.claim is not None
        for node_id in sorted({task.node for task in record.claim.placement.all_tasks}):
            if (pool := self.pool_of_node.get(node_id)) is not None:
                pool.reopen(pool.by_id[node_id])
        record.claim = None
        del self.claims[record.id]

    # -- parts of several events -----------------------------------------------------------------

    def _stop_waiting(self, record: JobRecord) -> None:
        if record.claim is not None:
            self._drop_claim(record)
        else:
            record.backlog.leave(record)

    def _move(self, record: JobRecord, why: type) -> None:
        if why is AttemptFailed:
            retries_left = record.spec.retries - record.failures + 1
            record.state = next_state(record.state, why, retries_left, record)
            return
        moved = NEXT.get((record.state, why))
        record.state = next_state(record.state, why, 0, record) if moved is None else moved

    def _drop_limit(self, record: JobRecord) -> None:
        if record.limit_at_ms is not None:
            del self.limits[bisect_left(self.limits, (record.limit_at_ms, record.id))]
            record.limit_at_ms = None

    def _unblock(self, record: JobRecord) -> None:
        del self.blocked[record.id]
        self.dependent_holds = None
        for dependency in record.unmet:
            waiting = self.dependents.get(dependency, set())
            waiting.discard(record.id)
            if not waiting:
                self.dependents.pop(dependency, None)
        record.unmet = frozenset()

    def _finish_if_over(self, record: JobRecord) -> None:
        if record.state not in OVER:
            return
        del self.jobs[record.id]
        self.backlogs.remove_job(record)
        self.finished[record.id] = record.state
        if record.id in self.dependents:
            self.dependent_holds = None
            if record.state is JobState.SUCCEEDED:
                self._release_dependents(record.id)

    def _release_dependents(self, succeeded: str) -> None:
        for job_id in sorted(self.dependents.pop(succeeded)):
            dependent = self.jobs[job_id]
            dependent.unmet -= {succeeded}
            if not dependent.unmet:
                del self.blocked[job_id]
                dependent.state = JobState.QUEUED
                dependent.backlog.join(dependent)

    # -- the fleet: a late report about a lost node changes nothing ------------------------------

    def partitioned(self, event: ev.GpuPartitioned) -> None:
        pool = self.pool_of_node.get(event.node)
        if pool is not None:
            pool.partition(pool.by_id[event.node], event.gpu, event.layout)

    def node_added(self, event: ev.NodeAdded) -> None:
        pool = self.pools[event.node.pool]
        if event.node.id in self.pool_of_node:
            raise BrokenInvariant(f"node {event.node.id} joined twice")
        self.pool_of_node[event.node.id] = pool
        pool.set_nodes([*pool.nodes, NodeState(event.node, pool.spec)])
        self.spot.observe(pool, event.at_ms, lost=False)
        self.backlogs.match_plans(self.limited)

    def node_drained(self, event: ev.NodeDrained) -> None:
        self._set_up(event.node, False)

    def node_restored(self, event: ev.NodeRestored) -> None:
        self._set_up(event.node, True)

    def _set_up(self, node_id: str, up: bool) -> None:
        pool = self.pool_of_node.get(node_id)
        if pool is None:
            return
        node = pool.by_id[node_id]
        node.up = up
        if up:
            self.notices.pop(node_id, None)
            pool.set_avoided(node, False)
        else:
            pool.reindex(node)

    def noticed(self, event: ev.SpotNotice) -> None:
        if event.job_id is None:
            apply_notice(event, self.notices, self.pool_of_node.get(event.node))
        elif (record := fence(self.jobs.get(event.job_id), event.attempt)) is not None:
            record.noticed = True

    def node_lost(self, event: ev.NodeLost) -> None:
        pool = self.pool_of_node.get(event.node)
        if pool is None:
            return
        node = pool.by_id[event.node]
        if node.closed_for is not None and node.closed_for in self.claims:
            claimant = self.claims[node.closed_for]
            self._drop_claim(claimant)
            claimant.backlog.join(claimant)
        for holder in sorted(node.holders):
            if holder != FOREIGN:
                self._end_attempt(self.jobs[holder], NodeLost, event.at_ms)
        del self.pool_of_node[event.node]
        self.notices.pop(event.node, None)
        pool.set_nodes([other for other in pool.nodes if other.id != event.node])
        self.spot.observe(pool, event.at_ms, lost=True)
        self.backlogs.match_plans(self.limited)

    def foreign_usage_seen(self, event: ev.ForeignUsageSeen) -> None:
        pool = self.pool_of_node.get(event.node)
        if pool is None:
            return
        node = pool.by_id[event.node]
        if node.foreign is not None:
            pool.vacate(node.foreign, FOREIGN)
        node.foreign = None
        task = foreign_task(event, node)
        for gpu in task.gpus:
            if node.devices[gpu].layout:
                pool.partition(node, gpu, ())
        pool.occupy(task, FOREIGN)
        node.foreign = task

    def tenant_changed(self, event: ev.TenantChanged) -> None:
        tenant = event.tenant
        known = tenant.name in self.tenants
        moved = known and self.parents[tenant.name] != tenant.parent
        self.tenants[tenant.name] = tenant
        self.preemption_policies[tenant.name] = tenant.preemption
        self.parents[tenant.name] = tenant.parent
        if not known:
            self.usage.add_tenant(tenant.name, tenant.parent)
        elif moved:
            self.usage.move(tenant.name, tenant.parent, event.at_ms)
        self.budgets.refresh()
        self._renew_quota()

    def _renew_quota(self) -> None:
        """Rebuild the quota tree; running attempts stay charged."""
        self._build_quota()
        for records in self.running_in.values():
            for record in records.values():
                assert record.placement is not None
                record.request = self.charges.of(record.placement).request
                self.quota.add_usage(record.spec.queue, record.request)

    def price_changed(self, event: ev.PriceChanged) -> None:
        pool = self.pools[event.pool]
        pool.set_price(event.node_micro_usd_per_hour)
        reprice(self, pool, event.at_ms)
        self.backlogs.match_plans(self.limited)
