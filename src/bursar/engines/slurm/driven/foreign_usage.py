"""What others run on the nodes that we use: it occupies, and nobody tells us but Slurm."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bursar.engines.slurm.commands.commands import Commands, SlurmRefused
from bursar.engines.slurm.commands.gres import parse_gres
from bursar.engines.slurm.commands.hostlist import expand
from bursar.engines.slurm.commands.inventory import SlurmNode
from bursar.model.engine_report import ForeignReported
from bursar.model.units import MILLI

MOST_AT_ONCE = 200
"""So many new jobs of others are asked about in one look; the rest in the next."""

_ON_NODES = re.compile(r"Nodes=(\S+) CPU_IDs=(\S+) Mem=(\d+) GRES=(\S*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignHolding:
    """What one job of others holds on one node."""

    cpus: int = 0
    memory_mib: int = 0
    gpus: int = 0
    indices: tuple[int, ...] = ()


class ForeignUsage:
    """Jobs of others do not change while they run, so each is asked about once."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._jobs: dict[str, dict[str, ForeignHolding]] = {}

    def on_nodes(self, running: Iterable[str]) -> dict[str, list[ForeignHolding]]:
        """By node. ``running`` are the ids of all jobs of others that run now."""
        wanted = sorted(running)
        self._jobs = {ident: self._jobs[ident] for ident in wanted if ident in self._jobs}
        for ident in [one for one in wanted if one not in self._jobs][:MOST_AT_ONCE]:
            self._jobs[ident] = self._ask(ident)
        found: dict[str, list[ForeignHolding]] = {}
        for ident in wanted:
            for node, holding in self._jobs.get(ident, {}).items():
                found.setdefault(node, []).append(holding)
        return found

    def _ask(self, ident: str) -> dict[str, ForeignHolding]:
        try:
            return read_holdings(self._commands.run("scontrol", "-d", "-o", "show", "job", ident))
        except SlurmRefused:
            return {}


def read_holdings(text: str) -> dict[str, ForeignHolding]:
    """What ``scontrol -d show job`` says of each node."""
    found: dict[str, ForeignHolding] = {}
    for nodes, cpus, memory, gres in _ON_NODES.findall(text):
        gpus = [one for one in parse_gres(gres) if one.name == "gpu" and one.mig_profile is None]
        holding = ForeignHolding(
            cpus=_count(cpus),
            memory_mib=int(memory),
            gpus=sum(one.count for one in gpus),
            indices=tuple(sorted(index for one in gpus for index in one.indices)),
        )
        found |= dict.fromkeys(expand(nodes), holding)
    return found


def _count(ranges: str) -> int:
    """``0-3,8``."""
    total = 0
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        if first.isdecimal():
            total += int(last or first) - int(first) + 1
    return total


def seen_on(node: SlurmNode, holdings: Iterable[ForeignHolding], held: set[int]) -> ForeignReported:
    """As a report. Where devices have no names their numbers are ours to choose: the highest that our
    own jobs do not hold, so that no job of ours seems to be in the way."""
    holdings = list(holdings)
    if node.device_types is not None:
        gpus = sorted({index for one in holdings for index in one.indices})
    else:
        free = [index for index in range(node.gpu_count) if index not in held]
        count = sum(one.gpus for one in holdings)
        gpus = sorted(free[len(free) - min(count, len(free)) :])
    return ForeignReported(
        node=node.name,
        gpus=tuple(gpus),
        cpu_milli=sum(one.cpus for one in holdings) * MILLI,
        memory_mib=sum(one.memory_mib for one in holdings),
    )


def changes(
    nodes: Mapping[str, SlurmNode],
    holdings: Mapping[str, list[ForeignHolding]],
    held: Mapping[str, set[int]],
    told: dict[str, ForeignReported],
) -> list[ForeignReported]:
    """What is not as it was told last, for the nodes in ``nodes``; ``told`` is brought up to date."""
    found = []
    for name, node in sorted(nodes.items()):
        own = holdings.get(name, [])
        before = told.get(name) or ForeignReported(node=name)
        if _amount(own) == _amount_told(before):
            continue
        seen = seen_on(node, own, held.get(name, set()))
        if seen != before:
            told[name] = seen
            found.append(seen)
    return found


def as_record(told: Mapping[str, ForeignReported]) -> dict[str, Any]:
    """Plain values to store: after a restart they show what must be released."""
    return {
        name: [list(seen.gpus), seen.cpu_milli, seen.memory_mib]
        for name, seen in sorted(told.items())
    }


def from_record(record: Mapping[str, Any]) -> dict[str, ForeignReported]:
    """The way back."""
    return {
        name: ForeignReported(node=name, gpus=tuple(gpus), cpu_milli=cpu, memory_mib=memory)
        for name, (gpus, cpu, memory) in record.items()
    }


def _amount(holdings: Iterable[ForeignHolding]) -> tuple[int, int, int]:
    holdings = list(holdings)
    return (
        sum(one.cpus for one in holdings) * MILLI,
        sum(one.memory_mib for one in holdings),
        sum(one.gpus for one in holdings),
    )


def _amount_told(seen: ForeignReported) -> tuple[int, int, int]:
    return seen.cpu_milli, seen.memory_mib, len(seen.gpus)
