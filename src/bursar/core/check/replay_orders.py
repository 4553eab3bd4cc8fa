"""Replays the orders on recounted nodes, in list order, and collects faults."""

from __future__ import annotations

from collections.abc import Sequence

from bursar.core.check.allocations import AllocationReplay
from bursar.core.check.constraints import ConstraintCheck, TasksOnNode
from bursar.core.check.fault import Fault
from bursar.core.check.gangs import gang_faults, price_faults
from bursar.core.check.mig_layouts import partition
from bursar.core.check.mixed_gangs import anchor_faults, unknown_pool
from bursar.core.check.recount import RecountedNodes
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.decision import ClaimPlacement, Decision, PartitionGpu, ReleaseClaim, StartJob
from bursar.model.jobs.attempt import Placement


def placement_faults(state: FleetState, decisions: Sequence[Decision]) -> list[Fault]:
    """Faults in placements and MIG layouts.

    A new MIG layout applies to the starts after it in the list. Resources of jobs that are stopping
    are not free yet, so starts must not use them. Claims are checked last, with their victims gone
    and all starts in place.
    """
    replay = _Replay(state)
    for decision in decisions:
        match decision:
            case PartitionGpu():
                replay.partition(decision)
            case StartJob():
                replay.start(decision)
            case ClaimPlacement():
                replay.claim(decision)
            case ReleaseClaim():
                replay.release(state.jobs.get(decision.job_id))
            case _:
                pass
    for decision in decisions:
        if isinstance(decision, ClaimPlacement):
            replay.allocate_claim(decision)
    return replay.faults


class _Replay:
    def __init__(self, state: FleetState) -> None:
        self.state = state
        self.nodes = RecountedNodes(state)
        self.faults: list[Fault] = []

    def partition(self, order: PartitionGpu) -> None:
        count = self.nodes.count(order.node)
        if count is None:
            text = f"GPU {order.gpu} of {order.node} is repartitioned; there is no such node"
            self.faults.append(Fault("unknown-node", order.node, text))
        else:
            self.faults += partition(count, order)

    def start(self, order: StartJob) -> None:
        record = self.state.jobs.get(order.job_id)
        constraints = self._check_placement(record, order.placement)
        if record is None or constraints is None:
            return
        for node_id in sorted({task.node for task in order.placement.all_tasks}):
            count = self.nodes.count(node_id)
            if count is not None:
                self.faults += constraints.node_faults(count)
                self.faults += constraints.apart_faults(count)
                count.tag(record.spec, record.id)
        allocations = AllocationReplay(record.id, starts_now=True)
        for task in order.placement.all_tasks:
            count = self.nodes.count(task.node)
            if count is not None:
                allocations.allocate(count, task)
                self.nodes.add_started(task, record.id)
        self.faults += allocations.faults
        self.release(record)

    def claim(self, order: ClaimPlacement) -> None:
        """Closes the nodes of a claim to jobs later in the list."""
        record = self.state.jobs.get(order.job_id)
        constraints = self._check_placement(record, order.placement)
        if constraints is None:
            return
        for node_id in sorted({task.node for task in order.placement.all_tasks}):
            count = self.nodes.count(node_id)
            if count is not None:
                self.faults += constraints.node_faults(count)
                count.claimed_for = order.job_id

    def allocate_claim(self, order: ClaimPlacement) -> None:
        """Allocates a claim as if its victims had left."""
        record = self.state.jobs.get(order.job_id)
        pool = self.state.pools.get(order.placement.pool)
        if record is None or pool is None:
            return
        levels = self.state.clusters[pool.spec.cluster].topology_levels
        constraints = ConstraintCheck(record.id, record.spec, pool, levels)
        allocations = AllocationReplay(record.id, starts_now=False)
        victims = frozenset(order.victims)
        for node_id in sorted({task.node for task in order.placement.all_tasks}):
            count = self.nodes.count_without(node_id, victims)
            if count is None:
                continue
            self.faults += constraints.apart_faults(count)
            for task in order.placement.all_tasks:
                if task.node == node_id:
                    allocations.allocate(count, task)
        self.faults += allocations.faults

    def release(self, record: JobRecord | None) -> None:
        """Opens the nodes of a job's claim: the job has started, or the claim was released."""
        if record is None or record.claim is None:
            return
        for task in record.claim.placement.all_tasks:
            count = self.nodes.count(task.node)
            if count is not None and count.claimed_for == record.id:
                count.claimed_for = None

    def _check_placement(
        self, record: JobRecord | None, placement: Placement
    ) -> ConstraintCheck | None:
        """Checks everything about a placement that does not depend on other jobs."""
        if record is None:
            return None
        pool = self.state.pools.get(placement.pool)
        if pool is None:
            self.faults.append(unknown_pool(record.id, placement.pool))
            return None
        levels = self.state.clusters[pool.spec.cluster].topology_levels
        constraints = ConstraintCheck(record.id, record.spec, pool, levels)
        self.faults += gang_faults(record.id, record.spec, placement)
        anchor_tasks: list[TasksOnNode] = []
        if placement.anchors is not None or record.spec.constraints.anchors_percent:
            self.faults += anchor_faults(self.state, record, placement)
            anchor_tasks = self._check_anchors(record, placement.anchors)
        self.faults += constraints.faults(placement, anchor_tasks)
        self.faults += price_faults(record.id, pool.spec, placement)
        return constraints

    def _check_anchors(self, record: JobRecord, anchors: Placement | None) -> list[TasksOnNode]:
        """Checks the anchors alone, and returns their tasks by node."""
        pool = self.state.pools.get(anchors.pool) if anchors is not None else None
        if anchors is None or pool is None:
            return []
        levels = self.state.clusters[pool.spec.cluster].topology_levels
        constraints = ConstraintCheck(record.id, record.spec, pool, levels)
        self.faults += constraints.faults(anchors)
        self.faults += price_faults(record.id, pool.spec, anchors)
        return constraints.tasks_by_node(anchors)
