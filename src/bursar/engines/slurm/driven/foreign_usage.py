"""Usage of our nodes by other users' jobs, as Slurm reports it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bursar.engines.slurm.commands.commands import Commands, SlurmRefused
from bursar.engines.slurm.commands.gres import parse_gres
from bursar.engines.slurm.commands.inventory import SlurmNode
from bursar.model.engine_report import ForeignReported
from bursar.model.units import MILLI
from bursar.slurm_text import expand_hosts

MOST_NEW_JOBS = 200
"""New foreign jobs queried in one poll; the rest follow in the next."""

_ON_NODES = re.compile(r"Nodes=(\S+) CPU_IDs=(\S+) Mem=(\d+) GRES=(\S*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignHolding:
    """What one foreign job holds on one node."""

    cpus: int = 0
    memory_mib: int = 0
    gpus: int = 0
    indices: tuple[int, ...] = ()


class ForeignUsage:
    """Caches the holdings of foreign jobs: they do not change, so each job is queried once."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._jobs: dict[str, dict[str, ForeignHolding]] = {}

    def on_nodes(self, running: Iterable[str]) -> dict[str, list[ForeignHolding]]:
        """Holdings by node. ``running`` are the ids of all foreign jobs that run now."""
        ids = sorted(running)
        self._jobs = {job_id: self._jobs[job_id] for job_id in ids if job_id in self._jobs}
        for job_id in [job_id for job_id in ids if job_id not in self._jobs][:MOST_NEW_JOBS]:
            self._jobs[job_id] = self._query(job_id)
        by_node: dict[str, list[ForeignHolding]] = {}
        for job_id in ids:
            for node, holding in self._jobs.get(job_id, {}).items():
                by_node.setdefault(node, []).append(holding)
        return by_node

    def _query(self, job_id: str) -> dict[str, ForeignHolding]:
        try:
            return parse_holdings(self._commands.run("scontrol", "-d", "-o", "show", "job", job_id))
        except SlurmRefused:
            return {}


def parse_holdings(text: str) -> dict[str, ForeignHolding]:
    """Holdings by node, from ``scontrol -d show job``."""
    by_node: dict[str, ForeignHolding] = {}
    for nodes, cpus, memory, gres in _ON_NODES.findall(text):
        gpus = [one for one in parse_gres(gres) if one.name == "gpu" and one.mig_profile is None]
        holding = ForeignHolding(
            cpus=_count(cpus),
            memory_mib=int(memory),
            gpus=sum(one.count for one in gpus),
            indices=tuple(sorted(index for one in gpus for index in one.indices)),
        )
        by_node |= dict.fromkeys(expand_hosts(nodes), holding)
    return by_node


def _count(ranges: str) -> int:
    """Size of a set of numbers such as ``0-3,8``."""
    total = 0
    for span in ranges.split(","):
        first, _, last = span.partition("-")
        if first.isdecimal():
            total += int(last or first) - int(first) + 1
    return total


def report_usage(
    node: SlurmNode, holdings: Iterable[ForeignHolding], held: set[int]
) -> ForeignReported:
    """The report of a node. Without named devices we choose the numbers: the highest that our own jobs
    do not hold, so that they do not collide."""
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
    reported: dict[str, ForeignReported],
) -> list[ForeignReported]:
    """Reports of nodes whose usage has changed since ``reported``, which is updated."""
    reports = []
    for name, node in sorted(nodes.items()):
        current = holdings.get(name, [])
        before = reported.get(name) or ForeignReported(node=name)
        if _amounts(current) == (before.cpu_milli, before.memory_mib, len(before.gpus)):
            continue
        report = report_usage(node, current, held.get(name, set()))
        if report != before:
            reported[name] = report
            reports.append(report)
    return reports


def _amounts(holdings: Sequence[ForeignHolding]) -> tuple[int, int, int]:
    return (
        sum(one.cpus for one in holdings) * MILLI,
        sum(one.memory_mib for one in holdings),
        sum(one.gpus for one in holdings),
    )
