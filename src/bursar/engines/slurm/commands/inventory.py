"""What a Slurm cluster has: nodes, devices, partitions and topology.

Read from three commands, however large the cluster is. Types of GPU are as the site spells them; the
catalog knows which of ours each is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from bursar.engines.slurm.commands.gres import NAMED, Gres, device_types, parse_gres
from bursar.engines.slurm.commands.hostlist import expand

UNUSABLE = frozenset(
    {"DOWN", "FAIL", "FAILING", "ERROR", "POWERED_DOWN", "INVAL", "INVALID_REG", "FUTURE"}
    | {"POWERING_DOWN", "POWER_DOWN"}
)
"""States in which nothing runs on a node. One that does not respond is not among them: Slurm gives it
time, all the more after a restart of its own, and then says DOWN."""
CLOSED = frozenset(
    {"DRAIN", "MAINTENANCE", "RESERVED", "REBOOT_REQUESTED", "REBOOT_ISSUED", "BLOCKED"}
    | {"NOT_RESPONDING", "UNKNOWN"}
)
"""States in which nothing new starts there."""
UNLIMITED_MINUTES = 365 * 24 * 60

_FIELD = re.compile(r"(?:^| )([A-Za-z][\w:/]*)=(.*?)(?= [A-Za-z][\w:/]*=|$)")


class CommandRunner(Protocol):
    """Something that runs Slurm's programs: ``commands.Commands``, or a stand-in."""

    def run(self, *argv: str, text: str | None = None) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """One node as Slurm knows it."""

    name: str
    cpus: int
    memory_mib: int
    disk_mib: int
    gres: tuple[Gres, ...]
    features: tuple[str, ...]
    partitions: tuple[str, ...]
    states: frozenset[str]
    reason: str = ""
    switches: tuple[str, ...] = ()
    """The switches above it, widest first."""
    gres_used: tuple[Gres, ...] = ()

    @property
    def gpus(self) -> tuple[Gres, ...]:
        """Whole GPUs, by type."""
        return tuple(one for one in self.gres if one.name == "gpu" and one.mig_profile is None)

    @property
    def gpu_count(self) -> int:
        return sum(one.count for one in self.gpus)

    @property
    def gpu_kind(self) -> str:
        """The type of its whole GPUs without the index of devices that are named; may be empty."""
        if not self.gpus:
            return ""
        kind = self.gpus[0].kind
        named = NAMED.fullmatch(kind) if self.device_types else None
        return named["kind"] if named else kind

    @property
    def device_types(self) -> tuple[str, ...] | None:
        """The type of each device, where each has its own; see ``gres.device_types``."""
        return device_types(self.gpus) if self.gpus else None

    @property
    def slices(self) -> tuple[Gres, ...]:
        """MIG instances, by type."""
        return tuple(one for one in self.gres if one.name == "gpu" and one.mig_profile is not None)

    @property
    def shards(self) -> int:
        """Shares of its GPUs, all together."""
        return sum(one.count for one in self.gres if one.name in ("shard", "mps"))

    @property
    def is_there(self) -> bool:
        """Whether what runs there can go on."""
        return not self.states & UNUSABLE

    @property
    def is_drained(self) -> bool:
        """Closed by an administrator, or by Slurm itself, and nothing runs there any more."""
        return {"IDLE", "DRAIN"} <= self.states

    @property
    def is_open(self) -> bool:
        """Whether something new may start there."""
        return self.is_there and not self.states & CLOSED


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmPartition:
    """One partition. Times are in minutes."""

    name: str
    nodes: tuple[str, ...]
    is_default: bool
    is_up: bool
    max_minutes: int
    default_minutes: int | None
    priority_tier: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """A cluster at one moment."""

    nodes: tuple[SlurmNode, ...]
    partitions: tuple[SlurmPartition, ...]
    topology_depth: int = 0
    by_name: Mapping[str, SlurmNode] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_name", {node.name: node for node in self.nodes})


def inventory(commands: CommandRunner) -> Inventory:
    """Ask Slurm for everything. ``commands`` is ``commands.from_environment()``, or a lab's."""
    switches = _switches(commands)
    return Inventory(
        nodes=nodes(node_records(commands), switches),
        partitions=partitions(commands),
        topology_depth=max((len(above) for above in switches.values()), default=0),
    )


def node_records(commands: CommandRunner) -> list[dict[str, str]]:
    """Nodes as Slurm writes them."""
    return list(parse_records(commands.run("scontrol", "-d", "-o", "show", "node")))


def nodes(
    records: Iterable[Mapping[str, str]], switches: Mapping[str, tuple[str, ...]] | None = None
) -> tuple[SlurmNode, ...]:
    """In order of name."""
    found = (_node(one, switches or {}) for one in records)
    return tuple(sorted(found, key=lambda node: node.name))


def partitions(commands: CommandRunner) -> tuple[SlurmPartition, ...]:
    """As they are written."""
    text = commands.run("scontrol", "-o", "show", "partition")
    return tuple(map(_partition, parse_records(text)))


# -- reading -------------------------------------------------------------------------------------------


def parse_records(text: str) -> Iterator[dict[str, str]]:
    """One line each of ``scontrol -o``."""
    for line in text.splitlines():
        if "=" in line and not line.startswith("No "):
            yield {name: value.strip() for name, value in _FIELD.findall(line)}


def _node(said: Mapping[str, str], switches: Mapping[str, tuple[str, ...]]) -> SlurmNode:
    name = said["NodeName"]
    states = re.split(r"[+*~#!%$@^-]+", said.get("State", "UNKNOWN").strip("*~#!%$@^-"))
    flags = {"*": "NOT_RESPONDING", "~": "POWERED_DOWN", "%": "POWERING_DOWN"}
    marks = {flag for mark, flag in flags.items() if mark in said.get("State", "")}
    return SlurmNode(
        name=name,
        cpus=_number(said.get("CPUTot")),
        memory_mib=_number(said.get("RealMemory")),
        disk_mib=_number(said.get("TmpDisk")),
        gres=parse_gres(said.get("Gres", "")),
        gres_used=parse_gres(said.get("GresUsed", "")),
        features=_words(said.get("ActiveFeatures")),
        partitions=_words(said.get("Partitions")),
        states=frozenset({*states, *marks} - {""}),
        reason=said.get("Reason", ""),
        switches=switches.get(name, ()),
    )


def _partition(said: Mapping[str, str]) -> SlurmPartition:
    longest = minutes(said.get("MaxTime", "UNLIMITED"))
    return SlurmPartition(
        name=said["PartitionName"],
        nodes=expand(said.get("Nodes", "")),
        is_default=said.get("Default") == "YES",
        is_up=said.get("State") == "UP",
        max_minutes=UNLIMITED_MINUTES if longest is None else longest,
        default_minutes=minutes(said.get("DefaultTime", "NONE")),
        priority_tier=_number(said.get("PriorityTier")),
    )


def _switches(commands: CommandRunner) -> dict[str, tuple[str, ...]]:
    """For each node the switches above it, widest first; nothing where there is no topology."""
    found: dict[str, list[tuple[int, str]]] = {}
    for said in parse_records(commands.run("scontrol", "show", "topology")):
        if "SwitchName" in said:
            for node in expand(said.get("Nodes", "")):
                found.setdefault(node, []).append((-_number(said.get("Level")), said["SwitchName"]))
    return {node: tuple(name for _, name in sorted(above)) for node, above in found.items()}


def minutes(text: str) -> int | None:
    """``7-00:00:00``, ``01:30:00``, ``30:00``; None for what has no end."""
    if text in ("UNLIMITED", "INFINITE", "NONE", "N/A", ""):
        return None
    days, dash, clock = text.partition("-")
    if not dash:
        days, clock = "0", text
    parts = [int(part) for part in clock.split(":")]
    if dash or len(parts) == 3:
        hours, mins, seconds = [*parts, 0, 0][:3]
    else:
        hours, mins, seconds = 0, parts[0], [*parts, 0][1]
    return int(days) * 1440 + hours * 60 + mins + (seconds > 0)


def _number(text: str | None) -> int:
    found = re.match(r"\d+", text or "")
    return int(found[0]) if found else 0


def _words(text: str | None) -> tuple[str, ...]:
    return tuple(word for word in (text or "").split(",") if word and word != "(null)")
