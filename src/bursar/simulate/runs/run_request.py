"""What is to be run. Plain values, so that a request travels to a process of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from bursar.model.fleet.fleet import Fleet, Market
from bursar.model.jobs.job import CheckpointPolicy, Constraints, Toleration
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import Tenant
from bursar.simulate.named_policies import RunTimeSource
from bursar.simulate.runs.workload_source import WorkloadSource
from bursar.simulate.scenario import Delays
from bursar.simulate.workload.trace_scenario import EstimateSource, TraceMapping, UnknownTeams


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetChoice:
    """A fleet and who shares it, by the name it is shown under."""

    name: str
    fleet: Fleet
    tenants: tuple[Tenant, ...]
    policies: Policies

    @property
    def gpus(self) -> int:
        """All of them."""
        per_node = {pool.name: pool.gpus_per_node for pool in self.fleet.pools}
        return sum(per_node[node.pool] for node in self.fleet.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions:
    """How a trace is read and put on a fleet.

    ``teams_share_a_queue`` puts teams that the fleet does not know into one queue. ``pin_label`` keeps
    each queue's jobs on nodes whose label of this name is the queue. ``may_use_spot`` lets every job run
    on spot capacity too. With ``parts_are_slices`` a job that asks for a part of a GPU gets a MIG slice.
    """

    format: str | None = None
    limit: int | None = None
    teams_share_a_queue: bool = False
    pin_label: str | None = None
    any_model: bool = False
    may_use_spot: bool = False
    parts_are_slices: bool = False
    checkpoint: CheckpointPolicy = field(default_factory=CheckpointPolicy)
    retries: int = 0

    def mapping(self, estimates: RunTimeSource, fleet: Fleet) -> TraceMapping:
        """The same in the words of ``from_trace``."""
        return TraceMapping(
            unknown_teams=(
                UnknownTeams.DEFAULT_QUEUE if self.teams_share_a_queue else UnknownTeams.OWN_QUEUE
            ),
            estimate=_ESTIMATE[estimates],
            any_model=self.any_model,
            constraints=_anywhere(fleet) if self.may_use_spot else Constraints(),
            checkpoint=self.checkpoint,
            retries=self.retries,
        )


# What is learned stands in the trace's own column by the time the jobs are made.
_ESTIMATE = {
    RunTimeSource.WRITTEN: EstimateSource.WRITTEN,
    RunTimeSource.ORACLE: EstimateSource.TRUE,
    RunTimeSource.LEARNED: EstimateSource.WRITTEN,
    RunTimeSource.NONE: EstimateSource.NONE,
}


def _anywhere(fleet: Fleet) -> Constraints:
    """Spot capacity as well, and whatever taints keep others off it."""
    taints = {
        (taint.key, taint.value)
        for pool in fleet.pools
        if pool.market is Market.SPOT
        for taint in pool.taints
    }
    return Constraints(
        markets=tuple(Market),
        tolerations=tuple(Toleration(key=key, value=value) for key, value in sorted(taints)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """One run: which workload, on which fleet, under which policy and what bad luck.

    ``source`` is a trace's file or the name of a generated workload; ``log`` is where the run's own
    event log goes, if anywhere.
    """

    name: str
    source: str
    fleet: FleetChoice
    policy: str = ""
    workload: WorkloadOptions = field(default_factory=WorkloadOptions)
    seed: int = 0
    faults: str = ""
    delays: Delays = field(default_factory=Delays)
    log: Path | None = None

    def jobs(self) -> WorkloadSource:
        """Where its jobs come from."""
        return WorkloadSource(
            name=self.source,
            format=self.workload.format,
            limit=self.workload.limit,
            seed=self.seed,
            gpus=self.fleet.gpus,
        )
