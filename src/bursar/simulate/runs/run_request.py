"""The request of a run: plain values that can be sent to another process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from bursar.model.fleet.fleet import Fleet
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import Tenant
from bursar.simulate.named_policies import RunTimeSource
from bursar.simulate.runs.workload_source import WorkloadSource
from bursar.simulate.scenario import Delays
from bursar.simulate.workload.trace_scenario import TraceMapping


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetChoice:
    """A named fleet with its tenants and policies; ``estimates`` are those of a changed policy."""

    name: str
    fleet: Fleet
    tenants: tuple[Tenant, ...]
    policies: Policies
    estimates: RunTimeSource = RunTimeSource.WRITTEN

    @property
    def gpus(self) -> int:
        per_node = {pool.name: pool.gpus_per_node for pool in self.fleet.pools}
        return sum(per_node[node.pool] for node in self.fleet.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One run: the workload, the fleet, the policy and the faults.

    ``source`` is a trace file or the name of a generated workload; ``log`` is the file for the event log
    of the run, if wanted.
    """

    name: str
    source: str
    fleet: FleetChoice
    format: str | None = None
    limit: int | None = None
    mapping: TraceMapping = field(default_factory=TraceMapping)
    policy: str = ""
    seed: int = 0
    faults: str = ""
    delays: Delays = field(default_factory=Delays)
    log: Path | None = None

    def jobs(self) -> WorkloadSource:
        return WorkloadSource(
            name=self.source,
            format=self.format,
            limit=self.limit,
            seed=self.seed,
            gpus=self.fleet.gpus,
        )
