"""The place suits the job: pool, market, taints, labels, model, topology, spread, apart.

A domain of the topology is known by its path of labels, widest level first, so that two racks of one
name in two zones are two racks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bursar.core.check.fault import Fault
from bursar.core.check.recount import NodeCount
from bursar.core.nodes.node import NodeState
from bursar.core.nodes.pool import PoolState
from bursar.model.fleet.fleet import CPU_ONLY
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import GpuRequest, JobSpec, MigSlice, MpsShare, Topology, WholeGpus

NODE_LEVEL = "node"


class TasksOnNode(NamedTuple):
    """So many tasks of a group on a node."""

    node: NodeState
    group: str
    tasks: int


class SiteCheck:
    """One placement held against what its job says about where it may run."""

    def __init__(self, job_id: str, spec: JobSpec, pool: PoolState, levels: Sequence[str]) -> None:
        self.job_id = job_id
        self.spec = spec
        self.pool = pool
        self.levels = (*levels, NODE_LEVEL)

    def faults(self, placement: Placement, beside: Sequence[TasksOnNode] = ()) -> list[Fault]:
        """Everything that does not depend on who else is there.

        Where a part of the gang stands in another pool, its seats are ``beside``: what is said of the
        gang as a whole is said of both.
        """
        found = list(self._pool_faults(placement))
        for group in self.spec.groups:
            if group.gpu is not None:
                found += self._gpu_faults(group.gpu)
        pool = self.pool.spec.name
        for task in placement.tasks:
            if task.node not in self.pool.by_id:
                text = f"is put on {task.node}, which is not in its pool {pool}"
                found.append(self._fault("node-not-in-pool", text))
        seats = self.seats(placement)
        constraints = self.spec.constraints
        if constraints.node_labels:
            found += self._label_faults(seats)
        seats += beside
        if constraints.spread is not None:
            found += self._spread_faults(seats, constraints.spread.level)
        if constraints.topology is not None:
            found += self._topology_faults(seats, constraints.topology)
        return found

    def seats(self, placement: Placement) -> list[TasksOnNode]:
        """The tasks of a placement on nodes of this pool."""
        by_id = self.pool.by_id
        tasks = [task for task in placement.tasks if task.node in by_id]
        return [TasksOnNode(by_id[task.node], task.group, task.count) for task in tasks]

    def node_faults(self, count: NodeCount) -> list[Fault]:
        """Whether anything, and this job at all, may start on a node."""
        found: list[Fault] = []
        node = count.node
        if not node.up:
            found.append(self._fault("node-down", f"is put on {node.id}, which takes no jobs"))
        if count.kept_for is not None and count.kept_for != self.job_id:
            text = f"is put on {node.id}, which is kept for {count.kept_for}"
            found.append(self._fault("node-kept", text))
        return found

    def apart_faults(self, count: NodeCount) -> list[Fault]:
        """Whether another job with the same tag is on the node."""
        tag = self.spec.constraints.apart
        if tag is None:
            return []
        others = ", ".join(sorted(count.tags.get(tag, set()) - {self.job_id}))
        if not others:
            return []
        text = f"keeps apart by {tag}, but {count.node.id} has {others} with that tag"
        return [self._fault("not-apart", text)]

    def _fault(self, rule: str, text: str) -> Fault:
        """A sentence that begins with the job."""
        return Fault(rule, self.job_id, f"{self.job_id} {text}")

    # -- the pool --------------------------------------------------------------------------------

    def _pool_faults(self, placement: Placement) -> Iterator[Fault]:
        pool = self.pool.spec
        constraints = self.spec.constraints
        flavor = f"{CPU_ONLY if pool.gpu_model is None else pool.gpu_model.name}/{pool.market}"
        if placement.flavor != flavor:
            text = f"is said to be on {placement.flavor}; its pool is {flavor}"
            yield self._fault("wrong-flavor", text)
        if pool.market not in constraints.markets:
            text = f"does not allow {pool.market}, which pool {pool.name} is"
            yield self._fault("market-refused", text)
        for taint in pool.taints:
            if not any(
                one.key == taint.key and one.value in ("", taint.value)
                for one in constraints.tolerations
            ):
                text = f"does not tolerate the taint {taint.key} of pool {pool.name}"
                yield self._fault("taint-not-tolerated", text)

    def _gpu_faults(self, wanted: GpuRequest) -> Iterator[Fault]:
        pool = self.pool.spec
        model = pool.gpu_model
        if model is None or (wanted.models and model.name not in wanted.models):
            name = "no GPUs" if model is None else model.name
            models = " or ".join(wanted.models) or "any GPU"
            yield self._fault("wrong-model", f"wants {models}; pool {pool.name} has {name}")
            return
        match wanted:
            case WholeGpus(min_memory_mib=least) | MpsShare(memory_mib=least):
                if model.memory_mib < least:
                    text = (
                        f"wants GPUs with {least} MiB; "
                        f"those of pool {pool.name} have {model.memory_mib}"
                    )
                    yield self._fault("too-little-gpu-memory", text)
            case MigSlice(profile=profile):
                if not pool.mig_allowed:
                    text = f"wants {profile}; pool {pool.name} does not allow MIG"
                    yield self._fault("mig-not-allowed", text)

    # -- the nodes -------------------------------------------------------------------------------

    def _label_faults(self, seats: Sequence[TasksOnNode]) -> Iterator[Fault]:
        nodes = {seat.node.id: seat.node for seat in seats}
        for node_id, node in sorted(nodes.items()):
            for key, value in self.spec.constraints.node_labels:
                label = node.labels.get(key)
                if label != value:
                    found = "has none" if label is None else f"has {label}"
                    yield self._fault("label-missing", f"wants {key}={value}; {node_id} {found}")

    def _spread_faults(self, seats: Sequence[TasksOnNode], level: str) -> Iterator[Fault]:
        """Any label may name the domains to spread over, in the topology or not."""
        spread = self.spec.constraints.spread
        assert spread is not None
        tasks: Counter[str] = Counter()
        for seat in seats:
            tasks[self._domain(seat.node, level)] += seat.tasks
        for domain, number in sorted(tasks.items()):
            if number > spread.max_tasks:
                text = f"has {number} tasks in {level} {domain}; it allows {spread.max_tasks}"
                yield self._fault("not-spread", text)

    def _topology_faults(self, seats: Sequence[TasksOnNode], topology: Topology) -> Iterator[Fault]:
        named = (topology.required, *(layer.level for layer in topology.layers))
        unknown = [level for level in named if level is not None and level not in self.levels]
        for level in unknown:
            text = f"speaks of the level {level}; its cluster has {', '.join(self.levels)}"
            yield self._fault("unknown-topology-level", text)
        if unknown:
            return
        if topology.required is not None:
            domains = sorted({self._domain(seat.node, topology.required) for seat in seats})
            if len(domains) > 1:
                text = (
                    f"must be in one {topology.required}, but is in {len(domains)}: "
                    f"{', '.join(domains[:3])}"
                )
                yield self._fault("not-in-one-domain", text)
        if topology.layers:
            yield from self._layer_faults(seats, topology)

    def _layer_faults(self, seats: Sequence[TasksOnNode], topology: Topology) -> Iterator[Fault]:
        """Tasks of a group can be told off by ``size`` if each domain has a multiple of it.

        Layers are about tasks that exchange results: a group without GPUs (a launcher) has none.
        """
        with_gpus = {group.name for group in self.spec.groups if group.gpu is not None}
        for layer in topology.layers:
            tasks: Counter[tuple[str, str]] = Counter()
            for seat in seats:
                if seat.group in with_gpus:
                    tasks[seat.group, self._domain(seat.node, layer.level)] += seat.tasks
            for (group, domain), number in sorted(tasks.items()):
                if number % layer.size:
                    text = (
                        f"each {layer.size} tasks {group} of {self.job_id} must share one "
                        f"{layer.level}; {domain} has {number}"
                    )
                    yield Fault("slice-layer-broken", self.job_id, text)

    def _domain(self, node: NodeState, level: str) -> str:
        if level == NODE_LEVEL:
            return node.id
        if level not in self.levels:
            return node.labels.get(level, "")
        wider = self.levels[: self.levels.index(level) + 1]
        return "/".join(node.labels.get(name, "") for name in wider)
