"""The place suits the job: pool, market, taints, labels, model, topology, spread, apart.

A domain of the topology is known by its path of labels, widest level first, so that two racks of one
name in two zones are two racks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bursar.core.check.ground import NodeCount
from bursar.core.check.site_faults import (
    LabelMissing,
    LayerBroken,
    MarketRefused,
    MigRefused,
    NodeDown,
    NodeKept,
    NotApart,
    NotInPool,
    NotTogether,
    SiteFault,
    TaintNotTolerated,
    TooCrowded,
    TooLittleMemory,
    UnknownLevel,
    WrongFlavor,
    WrongModel,
)
from bursar.core.node import NodeState
from bursar.core.pool import PoolState
from bursar.model.attempt import Placement
from bursar.model.fleet import CPU_ONLY
from bursar.model.job import GpuRequest, JobSpec, MigSlice, MpsShare, Topology, WholeGpus

NODE_LEVEL = "node"


class Seat(NamedTuple):
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

    def faults(self, placement: Placement, beside: Sequence[Seat] = ()) -> list[SiteFault]:
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
                found.append(NotInPool(job_id=self.job_id, node=task.node, pool=pool))
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

    def seats(self, placement: Placement) -> list[Seat]:
        """The tasks of a placement on nodes of this pool."""
        by_id = self.pool.by_id
        tasks = [task for task in placement.tasks if task.node in by_id]
        return [Seat(by_id[task.node], task.group, task.count) for task in tasks]

    def node_faults(self, count: NodeCount) -> list[SiteFault]:
        """Whether anything, and this job at all, may start on a node."""
        found: list[SiteFault] = []
        node = count.node
        if not node.up:
            found.append(NodeDown(job_id=self.job_id, node=node.id))
        if count.kept_for is not None and count.kept_for != self.job_id:
            found.append(NodeKept(job_id=self.job_id, node=node.id, kept_for=count.kept_for))
        return found

    def apart_faults(self, count: NodeCount) -> list[SiteFault]:
        """Whether another job with the same tag is on the node."""
        tag = self.spec.constraints.apart
        if tag is None:
            return []
        others = tuple(sorted(count.tags.get(tag, set()) - {self.job_id}))
        if not others:
            return []
        return [NotApart(job_id=self.job_id, node=count.node.id, tag=tag, others=others)]

    # -- the pool --------------------------------------------------------------------------------

    def _pool_faults(self, placement: Placement) -> Iterator[SiteFault]:
        pool = self.pool.spec
        constraints = self.spec.constraints
        flavor = f"{CPU_ONLY if pool.gpu_model is None else pool.gpu_model.name}/{pool.market}"
        if placement.flavor != flavor:
            yield WrongFlavor(job_id=self.job_id, stated=placement.flavor, flavor=flavor)
        if pool.market not in constraints.markets:
            yield MarketRefused(job_id=self.job_id, pool=pool.name, market=pool.market)
        for taint in pool.taints:
            if not any(
                one.key == taint.key and one.value in ("", taint.value)
                for one in constraints.tolerations
            ):
                yield TaintNotTolerated(job_id=self.job_id, pool=pool.name, taint=taint.key)

    def _gpu_faults(self, wanted: GpuRequest) -> Iterator[SiteFault]:
        pool = self.pool.spec
        model = pool.gpu_model
        if model is None or (wanted.models and model.name not in wanted.models):
            name = "no GPUs" if model is None else model.name
            yield WrongModel(job_id=self.job_id, pool=pool.name, model=name, wanted=wanted.models)
            return
        match wanted:
            case WholeGpus(min_memory_mib=least) | MpsShare(memory_mib=least):
                if model.memory_mib < least:
                    yield TooLittleMemory(
                        job_id=self.job_id,
                        pool=pool.name,
                        memory_mib=model.memory_mib,
                        wanted_mib=least,
                    )
            case MigSlice(profile=profile):
                if not pool.mig_allowed:
                    yield MigRefused(job_id=self.job_id, pool=pool.name, profile=profile)

    # -- the nodes -------------------------------------------------------------------------------

    def _label_faults(self, seats: Sequence[Seat]) -> Iterator[SiteFault]:
        nodes = {seat.node.id: seat.node for seat in seats}
        for node_id, node in sorted(nodes.items()):
            for key, value in self.spec.constraints.node_labels:
                label = node.labels.get(key)
                if label != value:
                    yield LabelMissing(
                        job_id=self.job_id, node=node_id, key=key, wanted=value, found=label
                    )

    def _spread_faults(self, seats: Sequence[Seat], level: str) -> Iterator[SiteFault]:
        """Any label may name the domains to spread over, in the topology or not."""
        spread = self.spec.constraints.spread
        assert spread is not None
        tasks: Counter[str] = Counter()
        for seat in seats:
            tasks[self._domain(seat.node, level)] += seat.tasks
        for domain, number in sorted(tasks.items()):
            if number > spread.max_tasks:
                yield TooCrowded(
                    job_id=self.job_id,
                    level=level,
                    domain=domain,
                    tasks=number,
                    max_tasks=spread.max_tasks,
                )

    def _topology_faults(self, seats: Sequence[Seat], topology: Topology) -> Iterator[SiteFault]:
        named = (topology.required, *(layer.level for layer in topology.layers))
        unknown = [level for level in named if level is not None and level not in self.levels]
        for level in unknown:
            yield UnknownLevel(job_id=self.job_id, level=level, levels=self.levels)
        if unknown:
            return
        if topology.required is not None:
            domains = sorted({self._domain(seat.node, topology.required) for seat in seats})
            if len(domains) > 1:
                yield NotTogether(
                    job_id=self.job_id, level=topology.required, domains=tuple(domains)
                )
        if topology.layers:
            yield from self._layer_faults(seats, topology)

    def _layer_faults(self, seats: Sequence[Seat], topology: Topology) -> Iterator[SiteFault]:
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
                    yield LayerBroken(
                        job_id=self.job_id,
                        group=group,
                        level=layer.level,
                        domain=domain,
                        tasks=number,
                        size=layer.size,
                    )

    def _domain(self, node: NodeState, level: str) -> str:
        if level == NODE_LEVEL:
            return node.id
        if level not in self.levels:
            return node.labels.get(level, "")
        wider = self.levels[: self.levels.index(level) + 1]
        return "/".join(node.labels.get(name, "") for name in wider)
