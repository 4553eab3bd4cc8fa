"""Watches the nodes of the cluster: loss and return, and usage by other users' jobs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from bursar.engines.slurm.commands.commands import Commands
from bursar.engines.slurm.commands.inventory import (
    node_records,
    nodes,
    partitions,
)
from bursar.engines.slurm.driven.attempt_folder import AttemptFolders
from bursar.engines.slurm.driven.foreign_usage import ForeignUsage, changes
from bursar.engines.slurm.driven.request import ClusterFacts
from bursar.model.engine_report import EngineReport, ForeignReported
from bursar.model.errors import EngineFault
from bursar.model.event import NodeLost, NodeRestored
from bursar.model.fleet.gpu import Layout

FACTS, FOREIGN = "cluster.json", "foreign.json"


class ClusterWatch:
    """Stores facts about the nodes, also on disk, for a start while Slurm does not respond."""

    def __init__(
        self, commands: Commands, folders: AttemptFolders, watched: tuple[str, ...] | None
    ) -> None:
        self._commands = commands
        self._folders = folders
        self._watched = None if watched is None else frozenset(watched)
        self._facts: ClusterFacts | None = None
        self._lost: set[str] = set()
        self._foreign = ForeignUsage(commands)
        self._reported: dict[str, ForeignReported] = {}

    def open(self) -> None:
        """Query Slurm; if it does not respond, use the stored facts."""
        self._reported = self._folders.read_record(FOREIGN, dict[str, ForeignReported]) or {}
        try:
            self._refresh(with_partitions=True)
        except EngineFault:
            self._facts = self._folders.read_record(FACTS, ClusterFacts)
            if self._facts is None:
                raise

    def facts(self) -> ClusterFacts:
        if self._facts is None:
            raise EngineFault("Slurm engine: it is not open", retry_after_seconds=1)
        return self._facts

    def _refresh(self, *, with_partitions: bool) -> None:
        records = node_records(self._commands)
        queried = partitions(self._commands) if with_partitions or self._facts is None else ()
        known = self._facts.partitions if self._facts is not None else ()
        facts = ClusterFacts(
            nodes={node.name: node for node in nodes(records)},
            partitions=queried or known,
            addresses={one["NodeName"]: one["NodeAddr"] for one in records if one.get("NodeAddr")},
        )
        if with_partitions:
            self._folders.write_record(FACTS, facts)
        self._facts = facts

    def poll(self, foreign: Iterable[str], held: Mapping[str, set[int]]) -> list[EngineReport]:
        """Changes since the last call. ``foreign`` are other users' running jobs, ``held`` the devices
        assigned to our own jobs by node."""
        self._refresh(with_partitions=False)
        holdings = self._foreign.on_nodes(foreign)
        known = self.facts().nodes
        watched = {name: node for name, node in known.items() if self._is_watched(name)}
        usage = changes(watched, holdings, held, self._reported)
        if usage:
            self._folders.write_record(FOREIGN, self._reported)
        return [*self._node_changes(), *usage]

    def _node_changes(self) -> Iterator[EngineReport]:
        at_ms = time.time_ns() // 1_000_000
        known = self.facts().nodes
        for name in sorted(known if self._watched is None else self._watched):
            node = known.get(name)
            is_lost = node is None or not node.is_up or node.is_drained
            if is_lost and name not in self._lost:
                self._lost.add(name)
                yield NodeLost(node=name, at_ms=at_ms)
            elif not is_lost and name in self._lost:
                self._lost.discard(name)
                yield NodeRestored(node=name, at_ms=at_ms)

    def mark_lost(self, name: str) -> bool:
        """Mark a watched node lost, so that its return is reported; False if it is not watched."""
        if not self._is_watched(name):
            return False
        self._lost.add(name)
        return True

    def _is_watched(self, name: str) -> bool:
        return self._watched is None or name in self._watched

    def require_layout(self, node: str, gpu: int, layout: Layout) -> None:
        """``EngineFault`` unless the node has these MIG instances."""
        known = self.facts().nodes.get(node)
        available = {one.mig_profile: one.count for one in (known.slices if known else ())}
        required = Counter(instance.profile for instance in layout)
        missing = [f"{n} x {p}" for p, n in sorted(required.items()) if available.get(p, 0) < n]
        if missing:
            raise EngineFault(
                f"Slurm has no {', '.join(missing)} on {node}; partition GPU {gpu} with nvidia-smi mig "
                "and add its types to gres.conf",
                retry_after_seconds=60,
            )
