"""The cluster around our jobs: nodes that go and come back, and what others run on them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bursar.engines.slurm.commands.commands import Commands
from bursar.engines.slurm.commands.gres import Gres
from bursar.engines.slurm.commands.inventory import (
    SlurmNode,
    SlurmPartition,
    node_records,
    nodes,
    partitions,
)
from bursar.engines.slurm.driven.attempt_folder import AttemptFolders
from bursar.engines.slurm.driven.foreign_usage import ForeignUsage, as_record, changes, from_record
from bursar.engines.slurm.driven.request import ClusterFacts
from bursar.model.engine_report import (
    EngineReport,
    ForeignReported,
    NodeBackReported,
    NodeLostReported,
)
from bursar.model.errors import EngineFault
from bursar.model.fleet.gpu import Layout

FACTS, FOREIGN = "cluster.json", "foreign.json"


class ClusterWatch:
    """Remembers what is known of the nodes, on disk too: Slurm need not answer when we start."""

    def __init__(
        self, commands: Commands, folders: AttemptFolders, watched: tuple[str, ...] | None
    ) -> None:
        self._commands = commands
        self._folders = folders
        self._watched = None if watched is None else frozenset(watched)
        self._facts: ClusterFacts | None = None
        self._gone: set[str] = set()
        self._foreign = ForeignUsage(commands)
        self._told: dict[str, ForeignReported] = {}
        self.addresses: dict[str, str] = {}

    def open(self) -> None:
        """Ask Slurm; without an answer what was known last must do."""
        self._told = from_record(self._folders.facts(FOREIGN) or {})
        try:
            self._refresh(with_partitions=True)
        except EngineFault:
            kept = self._folders.facts(FACTS)
            if kept is None:
                raise
            self._facts = _facts_from(kept)
            self.addresses = dict(kept["addresses"])

    def facts(self) -> ClusterFacts:
        if self._facts is None:
            raise EngineFault("Slurm engine: it is not open", retry_after_seconds=1)
        return self._facts

    def _refresh(self, *, with_partitions: bool) -> None:
        records = node_records(self._commands)
        self.addresses = {
            one["NodeName"]: one["NodeAddr"] for one in records if one.get("NodeAddr")
        }
        found = partitions(self._commands) if with_partitions or self._facts is None else ()
        known = self._facts.partitions if self._facts is not None else ()
        facts = ClusterFacts(
            nodes={node.name: node for node in nodes(records)}, partitions=found or known
        )
        if with_partitions:
            self._folders.keep_facts(FACTS, _record_of(facts, self.addresses))
        self._facts = facts

    def look(self, foreign: Iterable[str], held: Mapping[str, set[int]]) -> list[EngineReport]:
        """What changed since the last look. ``foreign`` are the jobs of others that run, ``held`` the
        devices of each node that our own jobs were given."""
        self._refresh(with_partitions=False)
        holdings = self._foreign.on_nodes(foreign)
        known = self.facts().nodes
        ours = {name: node for name, node in known.items() if self._is_watched(name)}
        seen = changes(ours, holdings, held, self._told)
        if seen:
            self._folders.keep_facts(FOREIGN, as_record(self._told))
        return [*self._changes(), *seen]

    def _changes(self) -> Iterator[EngineReport]:
        at_ms = time.time_ns() // 1_000_000
        known = self.facts().nodes
        for name in sorted(known if self._watched is None else self._watched):
            node = known.get(name)
            is_gone = node is None or not node.is_there or node.is_drained
            if is_gone and name not in self._gone:
                self._gone.add(name)
                yield NodeLostReported(node=name, at_ms=at_ms, detail=_why_gone(node))
            elif not is_gone and name in self._gone:
                self._gone.discard(name)
                yield NodeBackReported(node=name, at_ms=at_ms)

    def is_gone(self, name: str) -> bool:
        """Whether Slurm has just lost a node: then it is remembered, so that its return is told."""
        if not self._is_watched(name):
            return False
        self._gone.add(name)
        return True

    def _is_watched(self, name: str) -> bool:
        return self._watched is None or name in self._watched

    def require_layout(self, node: str, gpu: int, layout: Layout) -> None:
        """``EngineFault`` unless the node has these MIG instances."""
        known = self.facts().nodes.get(node)
        has = {one.mig_profile: one.count for one in (known.slices if known else ())}
        wanted: dict[str, int] = {}
        for instance in layout:
            wanted[instance.profile] = wanted.get(instance.profile, 0) + 1
        short = [f"{n} x {p}" for p, n in sorted(wanted.items()) if has.get(p, 0) < n]
        if short:
            raise EngineFault(
                f"Slurm has no {', '.join(short)} on {node}; cut GPU {gpu} with nvidia-smi mig and add "
                "its types to gres.conf",
                retry_after_seconds=60,
            )


def _why_gone(node: SlurmNode | None) -> str:
    if node is None:
        return "Slurm does not know it"
    states = "+".join(sorted(node.states))
    return f"Slurm says {states}{f': {node.reason}' if node.reason else ''}"


def _record_of(facts: ClusterFacts, addresses: Mapping[str, str]) -> dict[str, Any]:
    """What a submission needs of each node and partition."""
    return {
        "addresses": dict(addresses),
        "nodes": {
            name: [[one.name, one.kind, one.count] for one in node.gres]
            for name, node in facts.nodes.items()
        },
        "partitions": [
            [one.name, list(one.nodes), one.is_default, one.max_minutes] for one in facts.partitions
        ],
    }


def _facts_from(kept: Mapping[str, Any]) -> ClusterFacts:
    return ClusterFacts(
        nodes={
            name: SlurmNode(
                name=name,
                cpus=0,
                memory_mib=0,
                disk_mib=0,
                gres=tuple(Gres(name=n, kind=k, count=c) for n, k, c in gres),
                features=(),
                partitions=(),
                states=frozenset({"UNKNOWN"}),
            )
            for name, gres in kept["nodes"].items()
        },
        partitions=tuple(
            SlurmPartition(
                name=name,
                nodes=tuple(members),
                is_default=is_default,
                is_up=True,
                max_minutes=longest,
                default_minutes=None,
                priority_tier=0,
            )
            for name, members, is_default, longest in kept["partitions"]
        ),
    )
