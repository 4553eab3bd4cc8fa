"""Placements satisfy pool, market, taints, labels, GPU model, topology, spread and anti-affinity.

A topology domain is identified by its path of labels, widest level first: two racks with the same
name in two zones are different domains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bursar.core.check.fault import Fault
from bursar.core.check.recount import NodeCount
from bursar.core.nodes.node import NodeState
from bursar.core.nodes.pool import NODE_LEVEL, PoolState
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import GpuRequest, JobSpec, MigSlice, MpsShare, Topology, WholeGpus


class TasksOnNode(NamedTuple):
    """Number of tasks of one group on one node."""

    node: NodeState
    group: str
    tasks: int


class ConstraintCheck:
    """Compares one placement with the constraints of its job."""

    def __init__(self, job_id: str, spec: JobSpec, pool: PoolState, levels: Sequence[str]) -> None:
        self.job_id = job_id
        self.spec = spec
        self.pool = pool
        self.levels = (*levels, NODE_LEVEL)

    def faults(self, placement: Placement, anchor_tasks: Sequence[TasksOnNode] = ()) -> list[Fault]:
        """Faults that do not depend on other jobs.

        ``anchor_tasks`` are the gang's tasks in another pool: spread and topology cover both pools.
        """
        faults = list(self._pool_faults(placement))
        for group in self.spec.groups:
            if group.gpu is not None:
                faults += self._gpu_faults(group.gpu)
        pool = self.pool.spec.name
        for task in placement.tasks:
            if task.node not in self.pool.by_id:
                text = f"is placed on {task.node}, which is not in its pool {pool}"
                faults.append(self._fault("node-not-in-pool", text))
        tasks = self.tasks_by_node(placement)
        constraints = self.spec.constraints
        if constraints.node_labels:
            faults += self._label_faults(tasks)
        tasks += anchor_tasks
        if constraints.spread is not None:
            faults += self._spread_faults(tasks, constraints.spread.level)
        if constraints.topology is not None:
            faults += self._topology_faults(tasks, constraints.topology)
        return faults

    def tasks_by_node(self, placement: Placement) -> list[TasksOnNode]:
        """Tasks of a placement on nodes of this pool."""
        by_id = self.pool.by_id
        tasks = [task for task in placement.tasks if task.node in by_id]
        return [TasksOnNode(by_id[task.node], task.group, task.count) for task in tasks]

    def node_faults(self, count: NodeCount) -> list[Fault]:
        """Faults if a node is down or claimed for another job."""
        faults: list[Fault] = []
        node = count.node
        if not node.up:
            text = f"is placed on {node.id}, which accepts no jobs"
            faults.append(self._fault("node-down", text))
        if count.claimed_for is not None and count.claimed_for != self.job_id:
            text = f"is placed on {node.id}, which is claimed for {count.claimed_for}"
            faults.append(self._fault("node-claimed", text))
        return faults

    def apart_faults(self, count: NodeCount) -> list[Fault]:
        """A fault if another job with the same anti-affinity tag is on the node."""
        tag = self.spec.constraints.apart
        if tag is None:
            return []
        others = ", ".join(sorted(count.tags.get(tag, set()) - {self.job_id}))
        if not others:
            return []
        text = f"must be apart from jobs with tag {tag}, but {count.node.id} has {others}"
        return [self._fault("not-apart", text)]

    def _fault(self, rule: str, text: str) -> Fault:
        """A fault whose sentence begins with the job ID."""
        return Fault(rule, self.job_id, f"{self.job_id} {text}")

    # -- the pool --------------------------------------------------------------------------------

    def _pool_faults(self, placement: Placement) -> Iterator[Fault]:
        pool = self.pool.spec
        constraints = self.spec.constraints
        if placement.flavor != pool.flavor:
            text = f"has flavor {placement.flavor}; its pool has {pool.flavor}"
            yield self._fault("wrong-flavor", text)
        if pool.market not in constraints.markets:
            text = f"does not allow the market {pool.market} of pool {pool.name}"
            yield self._fault("market-refused", text)
        for taint in pool.taints:
            if not any(
                one.key == taint.key and one.value in ("", taint.value)
                for one in constraints.tolerations
            ):
                text = f"does not tolerate the taint {taint.key} of pool {pool.name}"
                yield self._fault("taint-not-tolerated", text)

    def _gpu_faults(self, request: GpuRequest) -> Iterator[Fault]:
        pool = self.pool.spec
        model = pool.gpu_model
        if model is None or (request.models and model.name not in request.models):
            name = "no GPUs" if model is None else model.name
            models = " or ".join(request.models) or "any GPU"
            yield self._fault("wrong-model", f"requests {models}; pool {pool.name} has {name}")
            return
        match request:
            case WholeGpus(min_memory_mib=least) | MpsShare(memory_mib=least):
                if model.memory_mib < least:
                    text = (
                        f"requests GPUs with {least} MiB; "
                        f"those of pool {pool.name} have {model.memory_mib}"
                    )
                    yield self._fault("too-little-gpu-memory", text)
            case MigSlice(profile=profile):
                if not pool.mig_allowed:
                    text = f"requests {profile}; pool {pool.name} does not allow MIG"
                    yield self._fault("mig-not-allowed", text)

    # -- the nodes -------------------------------------------------------------------------------

    def _label_faults(self, placed_tasks: Sequence[TasksOnNode]) -> Iterator[Fault]:
        nodes = {placed.node.id: placed.node for placed in placed_tasks}
        for node_id, node in sorted(nodes.items()):
            for key, value in self.spec.constraints.node_labels:
                label = node.labels.get(key)
                if label != value:
                    actual = "has no such label" if label is None else f"has {label}"
                    text = f"requests {key}={value}; {node_id} {actual}"
                    yield self._fault("label-missing", text)

    def _spread_faults(self, placed_tasks: Sequence[TasksOnNode], level: str) -> Iterator[Fault]:
        """Domains to spread over may be any node label, not only topology levels."""
        spread = self.spec.constraints.spread
        assert spread is not None
        tasks: Counter[str] = Counter()
        for placed in placed_tasks:
            tasks[self._domain(placed.node, level)] += placed.tasks
        for domain, number in sorted(tasks.items()):
            if number > spread.max_tasks:
                text = f"has {number} tasks in {level} {domain}; it allows {spread.max_tasks}"
                yield self._fault("not-spread", text)

    def _topology_faults(
        self, placed_tasks: Sequence[TasksOnNode], topology: Topology
    ) -> Iterator[Fault]:
        named = (topology.required, *(layer.level for layer in topology.layers))
        unknown = [level for level in named if level is not None and level not in self.levels]
        for level in unknown:
            text = f"requests the level {level}; its cluster has {', '.join(self.levels)}"
            yield self._fault("unknown-topology-level", text)
        if unknown:
            return
        if topology.required is not None:
            domains = sorted(
                {self._domain(placed.node, topology.required) for placed in placed_tasks}
            )
            if len(domains) > 1:
                text = (
                    f"must be in one {topology.required}, but is in {len(domains)}: "
                    f"{', '.join(domains[:3])}"
                )
                yield self._fault("not-in-one-domain", text)
        if topology.layers:
            yield from self._layer_faults(placed_tasks, topology)

    def _layer_faults(
        self, placed_tasks: Sequence[TasksOnNode], topology: Topology
    ) -> Iterator[Fault]:
        """Each domain of a layer must have a multiple of ``size`` tasks of a group.

        Groups without GPUs (launchers) are exempt: layers are for tasks that exchange results.
        """
        with_gpus = {group.name for group in self.spec.groups if group.gpu is not None}
        for layer in topology.layers:
            tasks: Counter[tuple[str, str]] = Counter()
            for placed in placed_tasks:
                if placed.group in with_gpus:
                    tasks[placed.group, self._domain(placed.node, layer.level)] += placed.tasks
            for (group, domain), number in sorted(tasks.items()):
                if number % layer.size:
                    text = (
                        f"{self.job_id} needs a multiple of {layer.size} tasks of {group} "
                        f"in each {layer.level}; {domain} has {number}"
                    )
                    yield Fault("slice-layer-broken", self.job_id, text)

    def _domain(self, node: NodeState, level: str) -> str:
        if level == NODE_LEVEL:
            return node.id
        if level not in self.levels:
            return node.labels.get(level, "")
        wider = self.levels[: self.levels.index(level) + 1]
        return "/".join(node.labels.get(name, "") for name in wider)
