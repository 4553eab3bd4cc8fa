"""Replay the orders on the counted ground, in their order, and collect what cannot be."""

from __future__ import annotations

from collections.abc import Sequence

from bursar.core.check.allocations import AllocationReplay
from bursar.core.check.constraints import SiteCheck, TasksOnNode
from bursar.core.check.fault import Fault
from bursar.core.check.gangs import gang_faults, price_faults
from bursar.core.check.mig_layouts import cut
from bursar.core.check.mixed_gangs import anchor_faults, unknown_pool
from bursar.core.check.recount import RecountedNodes
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.decision import ClaimPlacement, Decision, PartitionGpu, ReleaseClaim, StartJob
from bursar.model.jobs.attempt import Placement


def placement_faults(state: FleetState, decisions: Sequence[Decision]) -> list[Fault]:
    """What is wrong with where jobs are put, and with how GPUs are cut for them.

    A cut counts for the starts behind it in the list. Room of those who were told to leave is not
    free yet, so starts may not use it; a kept place is looked at last, with its victims gone and
    everything else that was started in.
    """
    replay = _Replay(state)
    for decision in decisions:
        match decision:
            case PartitionGpu():
                replay.partition(decision)
            case StartJob():
                replay.start(decision)
            case ClaimPlacement():
                replay.keep(decision)
            case ReleaseClaim():
                replay.reopen(state.jobs.get(decision.job_id))
            case _:
                pass
    for decision in decisions:
        if isinstance(decision, ClaimPlacement):
            replay.fill(decision)
    return replay.faults


class _Replay:
    def __init__(self, state: FleetState) -> None:
        self.state = state
        self.ground = RecountedNodes(state)
        self.faults: list[Fault] = []

    def partition(self, order: PartitionGpu) -> None:
        count = self.ground.count(order.node)
        if count is None:
            text = f"GPU {order.gpu} of {order.node} is to be cut; there is no such node"
            self.faults.append(Fault("unknown-node", order.node, text))
        else:
            self.faults += cut(count, order)

    def start(self, order: StartJob) -> None:
        record = self.state.jobs.get(order.job_id)
        site = self._site(record, order.placement)
        if record is None or site is None:
            return
        for node_id in sorted({task.node for task in order.placement.all_tasks}):
            count = self.ground.count(node_id)
            if count is not None:
                self.faults += site.node_faults(count)
                self.faults += site.apart_faults(count)
                count.tag(record.spec, record.id)
        giver = AllocationReplay(record.id, settled=True)
        for task in order.placement.all_tasks:
            count = self.ground.count(task.node)
            if count is not None:
                giver.give(count, task)
                self.ground.note_given(task, record.id)
        self.faults += giver.faults
        self.reopen(record)

    def keep(self, order: ClaimPlacement) -> None:
        """From here on in the list the nodes of a claim are closed to others."""
        site = self._site(self.state.jobs.get(order.job_id), order.placement)
        if site is None:
            return
        for node_id in sorted({task.node for task in order.placement.all_tasks}):
            count = self.ground.count(node_id)
            if count is not None:
                self.faults += site.node_faults(count)
                count.kept_for = order.job_id

    def fill(self, order: ClaimPlacement) -> None:
        """Put a claimant into its place as if its victims had left."""
        record = self.state.jobs.get(order.job_id)
        pool = self.state.pools.get(order.placement.pool)
        if record is None or pool is None:
            return
        levels = self.state.clusters[pool.spec.cluster].topology_levels
        site = SiteCheck(record.id, record.spec, pool, levels)
        giver = AllocationReplay(record.id, settled=False)
        victims = frozenset(order.victims)
        for node_id in sorted({task.node for task in order.placement.all_tasks}):
            count = self.ground.count_without(node_id, victims)
            if count is None:
                continue
            self.faults += site.apart_faults(count)
            for task in order.placement.all_tasks:
                if task.node == node_id:
                    giver.give(count, task)
        self.faults += giver.faults

    def reopen(self, record: JobRecord | None) -> None:
        """The place kept for a job is open again: it has started, or may not have it any more."""
        if record is None or record.claim is None:
            return
        for task in record.claim.placement.all_tasks:
            count = self.ground.count(task.node)
            if count is not None and count.kept_for == record.id:
                count.kept_for = None

    def _site(self, record: JobRecord | None, placement: Placement) -> SiteCheck | None:
        """Everything about a placement that does not depend on who else is there."""
        if record is None:
            return None
        pool = self.state.pools.get(placement.pool)
        if pool is None:
            self.faults.append(unknown_pool(record.id, placement.pool))
            return None
        levels = self.state.clusters[pool.spec.cluster].topology_levels
        site = SiteCheck(record.id, record.spec, pool, levels)
        self.faults += gang_faults(record.id, record.spec, placement)
        beside: list[TasksOnNode] = []
        if placement.anchors is not None or record.spec.constraints.anchors_percent:
            self.faults += anchor_faults(self.state, record, placement)
            beside = self._beside(record, placement.anchors)
        self.faults += site.faults(placement, beside)
        self.faults += price_faults(record.id, pool.spec, placement)
        return site

    def _beside(self, record: JobRecord, anchors: Placement | None) -> list[TasksOnNode]:
        """The seats of the anchors, and what is wrong with them by themselves."""
        pool = self.state.pools.get(anchors.pool) if anchors is not None else None
        if anchors is None or pool is None:
            return []
        levels = self.state.clusters[pool.spec.cluster].topology_levels
        site = SiteCheck(record.id, record.spec, pool, levels)
        self.faults += site.faults(anchors)
        self.faults += price_faults(record.id, pool.spec, anchors)
        return site.seats(anchors)
