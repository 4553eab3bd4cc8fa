"""Nodes, devices, partitions and topology of a Slurm cluster.

Three commands, whatever the size of the cluster. GPU types are the site's own names; the catalog maps
them to ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from bursar.engines.slurm.commands.gres import NAMED, Gres, device_types, parse_gres
from bursar.model.units import MINUTE_MS
from bursar.slurm_text import expand_hosts, parse_duration_ms, parse_records

UNUSABLE = frozenset(
    {"DOWN", "FAIL", "FAILING", "ERROR", "POWERED_DOWN", "INVAL", "INVALID_REG", "FUTURE"}
    | {"POWERING_DOWN", "POWER_DOWN"}
)
"""States in which nothing runs on a node. NOT_RESPONDING is not one of them: Slurm waits, longer after its
own restart, and then sets DOWN."""
CLOSED = frozenset(
    {"DRAIN", "MAINTENANCE", "RESERVED", "REBOOT_REQUESTED", "REBOOT_ISSUED", "BLOCKED"}
    | {"NOT_RESPONDING", "UNKNOWN"}
)
"""States in which no new job starts on a node."""
UNLIMITED_MINUTES = 365 * 24 * 60


class CommandRunner(Protocol):
    """Runs Slurm's programs: ``commands.Commands``, or a fake."""

    def run(self, *argv: str, text: str | None = None) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """One node of Slurm."""

    name: str
    cpus: int
    memory_mib: int
    disk_mib: int
    gres: tuple[Gres, ...]
    partitions: tuple[str, ...]
    states: frozenset[str]
    reason: str = ""
    switches: tuple[str, ...] = ()
    """Its switches, from the top of the tree."""

    @property
    def gpus(self) -> tuple[Gres, ...]:
        """Whole GPUs by type."""
        return tuple(one for one in self.gres if one.name == "gpu" and one.mig_profile is None)

    @property
    def gpu_count(self) -> int:
        return sum(one.count for one in self.gpus)

    @property
    def gpu_kind(self) -> str:
        """The type of its whole GPUs, without the index of a named device; may be empty."""
        if not self.gpus:
            return ""
        kind = self.gpus[0].kind
        named = NAMED.fullmatch(kind) if self.device_types else None
        return named["kind"] if named else kind

    @property
    def device_types(self) -> tuple[str, ...] | None:
        """The type of each device, if each has its own; see ``gres.device_types``."""
        return device_types(self.gpus) if self.gpus else None

    @property
    def slices(self) -> tuple[Gres, ...]:
        """MIG instances by type."""
        return tuple(one for one in self.gres if one.name == "gpu" and one.mig_profile is not None)

    @property
    def shards(self) -> int:
        """Number of shards of all its GPUs."""
        return sum(one.count for one in self.gres if one.name in ("shard", "mps"))

    @property
    def is_up(self) -> bool:
        """Whether jobs can run on it."""
        return not self.states & UNUSABLE

    @property
    def is_drained(self) -> bool:
        """Whether it is drained and no job runs on it any more."""
        return {"IDLE", "DRAIN"} <= self.states

    @property
    def is_open(self) -> bool:
        """Whether new jobs may start on it."""
        return self.is_up and not self.states & CLOSED


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmPartition:
    """One partition. Times are in minutes."""

    name: str
    nodes: tuple[str, ...]
    is_default: bool
    is_up: bool
    max_minutes: int
    default_minutes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """A snapshot of a cluster."""

    nodes: tuple[SlurmNode, ...]
    partitions: tuple[SlurmPartition, ...]
    topology_depth: int = 0
    by_name: Mapping[str, SlurmNode] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {node.name: node for node in self.nodes})


def inventory(commands: CommandRunner) -> Inventory:
    """Query the whole cluster."""
    switches = _switches(commands)
    return Inventory(
        nodes=nodes(node_records(commands), switches),
        partitions=partitions(commands),
        topology_depth=max((len(above) for above in switches.values()), default=0),
    )


def node_records(commands: CommandRunner) -> list[dict[str, str]]:
    """The records of all nodes, as Slurm prints them."""
    return parse_records(commands.run("scontrol", "-d", "-o", "show", "node"))


def nodes(
    records: Iterable[Mapping[str, str]], switches: Mapping[str, tuple[str, ...]] | None = None
) -> tuple[SlurmNode, ...]:
    """Nodes in order of name."""
    parsed = (_node(record, switches or {}) for record in records)
    return tuple(sorted(parsed, key=lambda node: node.name))


def partitions(commands: CommandRunner) -> tuple[SlurmPartition, ...]:
    """Partitions in the order of slurm.conf."""
    text = commands.run("scontrol", "-o", "show", "partition")
    return tuple(map(_partition, parse_records(text)))


def _node(record: Mapping[str, str], switches: Mapping[str, tuple[str, ...]]) -> SlurmNode:
    name = record["NodeName"]
    states = re.split(r"[+*~#!%$@^-]+", record.get("State", "UNKNOWN").strip("*~#!%$@^-"))
    flags = {"*": "NOT_RESPONDING", "~": "POWERED_DOWN", "%": "POWERING_DOWN"}
    suffixes = {flag for suffix, flag in flags.items() if suffix in record.get("State", "")}
    return SlurmNode(
        name=name,
        cpus=_number(record.get("CPUTot")),
        memory_mib=_number(record.get("RealMemory")),
        disk_mib=_number(record.get("TmpDisk")),
        gres=parse_gres(record.get("Gres", "")),
        partitions=_words(record.get("Partitions")),
        states=frozenset({*states, *suffixes} - {""}),
        reason=record.get("Reason", ""),
        switches=switches.get(name, ()),
    )


def _partition(record: Mapping[str, str]) -> SlurmPartition:
    max_minutes = minutes(record.get("MaxTime", "UNLIMITED"))
    return SlurmPartition(
        name=record["PartitionName"],
        nodes=expand_hosts(record.get("Nodes", "")),
        is_default=record.get("Default") == "YES",
        is_up=record.get("State") == "UP",
        max_minutes=UNLIMITED_MINUTES if max_minutes is None else max_minutes,
        default_minutes=minutes(record.get("DefaultTime", "NONE")),
    )


def _switches(commands: CommandRunner) -> dict[str, tuple[str, ...]]:
    """The switches of each node from the top of the tree; empty without a topology."""
    by_node: dict[str, list[tuple[int, str]]] = {}
    for record in parse_records(commands.run("scontrol", "show", "topology")):
        if "SwitchName" in record:
            switch = (-_number(record.get("Level")), record["SwitchName"])
            for node in expand_hosts(record.get("Nodes", "")):
                by_node.setdefault(node, []).append(switch)
    return {node: tuple(name for _, name in sorted(levels)) for node, levels in by_node.items()}


def minutes(text: str) -> int | None:
    """A duration in minutes, rounded up; None for no limit."""
    duration_ms = parse_duration_ms(text)
    return None if duration_ms is None else -(-duration_ms // MINUTE_MS)


def _number(text: str | None) -> int:
    match = re.match(r"\d+", text or "")
    return int(match[0]) if match else 0


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word for word in (text or "").split(",") if word and word != "(null)")
