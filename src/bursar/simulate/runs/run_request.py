"""The request of a run: plain values that can be sent to another process."""

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
    """A named fleet with its tenants and policies."""

    name: str
    fleet: Fleet
    tenants: tuple[Tenant, ...]
    policies: Policies

    @property
    def gpus(self) -> int:
        per_node = {pool.name: pool.gpus_per_node for pool in self.fleet.pools}
        return sum(per_node[node.pool] for node in self.fleet.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions:
    """How a trace is read and mapped to a fleet.

    ``teams_share_a_queue`` puts teams that the fleet does not know into one queue. ``pin_label``
    restricts each queue's jobs to nodes whose label of this name is the queue. ``may_use_spot`` also
    allows spot capacity for every job. ``parts_are_slices`` replaces GPU shares by MIG slices.
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
        """These options for ``as_scenario``."""
        return TraceMapping(
            unknown_teams=(
                UnknownTeams.DEFAULT_QUEUE if self.teams_share_a_queue else UnknownTeams.OWN_QUEUE
            ),
            estimate=_ESTIMATE[estimates],
            any_model=self.any_model,
            constraints=_all_markets(fleet) if self.may_use_spot else Constraints(),
            checkpoint=self.checkpoint,
            retries=self.retries,
        )


# The predictor replaces the written estimate before the jobs are made.
_ESTIMATE = {
    RunTimeSource.WRITTEN: EstimateSource.WRITTEN,
    RunTimeSource.ORACLE: EstimateSource.TRUE,
    RunTimeSource.LEARNED: EstimateSource.WRITTEN,
    RunTimeSource.NONE: EstimateSource.NONE,
}


def _all_markets(fleet: Fleet) -> Constraints:
    """Allows all markets, and tolerates the taints of spot pools."""
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
    """One run: the workload, the fleet, the policy and the faults.

    ``source`` is a trace file or the name of a generated workload; ``log`` is the file for the event log
    of the run, if wanted.
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
        return WorkloadSource(
            name=self.source,
            format=self.workload.format,
            limit=self.workload.limit,
            seed=self.seed,
            gpus=self.fleet.gpus,
        )
