"""Builders of fleets, tenants and states, in everyday units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypedDict, Unpack

from bursar.catalog.gpu_models import find_gpu_model
from bursar.core.state.fleet_state import FleetState
from bursar.model.event import JobSubmitted
from bursar.model.fleet.fleet import Cluster, Fleet, Market, Node, Pool, Taint
from bursar.model.fleet.gpu import GpuModel
from bursar.model.jobs.job import JobSpec
from bursar.model.tenants.policy import Policies, PreemptionPolicy
from bursar.model.tenants.tenant import CPU, GPU, MEMORY, FlavorResource, Queueing, Quota, Tenant
from bursar.model.units import GIB_MIB, MILLI, USD_MICRO

MAIN_CLUSTER = "main"
MAIN_QUEUE = "research"
UNIT_OF = {GPU: MILLI, CPU: MILLI, MEMORY: GIB_MIB}
"""One GPU, one CPU and one GiB in the units of quotas."""


def gpu_model(name: str) -> GpuModel:
    """A model of the catalog, by any of its names."""
    return find_gpu_model(name)


# -- fleets ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPlan:
    """A pool and how many nodes it has. ``gpus=0`` makes a pool without GPUs."""

    name: str
    nodes: int = 1
    gpus: int = 8
    model: str | GpuModel = "a100-80gb"
    market: Market = Market.OWNED
    usd_per_node_hour: float = 16.0
    cpu: int = 96
    memory_gib: int = 1024
    disk_gib: int = 0
    cluster: str = MAIN_CLUSTER
    interruptions_per_million_hours: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    mig_allowed: bool = True
    mps_client_limit: int = 48

    def as_pool(self) -> Pool:
        model = gpu_model(self.model) if isinstance(self.model, str) else self.model
        return Pool(
            name=self.name,
            cluster=self.cluster,
            market=self.market,
            gpu_model=model if self.gpus else None,
            gpus_per_node=self.gpus,
            cpu_milli=self.cpu * MILLI,
            memory_mib=self.memory_gib * GIB_MIB,
            disk_mib=self.disk_gib * GIB_MIB,
            node_micro_usd_per_hour=round(self.usd_per_node_hour * USD_MICRO),
            interruptions_per_million_hours=self.interruptions_per_million_hours,
            labels=self.labels,
            taints=self.taints,
            mig_allowed=self.mig_allowed,
            mps_client_limit=self.mps_client_limit,
        )

    def as_nodes(self, topology: Mapping[str, int]) -> tuple[Node, ...]:
        """``topology`` gives the number of consecutive nodes in a domain of each level."""
        return tuple(
            Node(
                id=f"{self.name}-{number + 1:04d}",
                pool=self.name,
                labels={
                    level: f"{self.name}-{level}-{number // width + 1:04d}"
                    for level, width in topology.items()
                },
            )
            for number in range(self.nodes)
        )


class PoolTerms(TypedDict, total=False):
    """Options of a pool, as keywords; ``PoolPlan`` has the defaults."""

    gpus: int
    model: str | GpuModel
    market: Market
    usd_per_node_hour: float
    cpu: int
    memory_gib: int
    disk_gib: int
    cluster: str
    interruptions_per_million_hours: int
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    mig_allowed: bool
    mps_client_limit: int


def pool(name: str, nodes: int = 1, **terms: Unpack[PoolTerms]) -> PoolPlan:
    """A number of identical nodes: ``pool("a100", nodes=4, gpus=8, market=Market.SPOT)``."""
    return PoolPlan(name=name, nodes=nodes, **terms)


def fleet_of(*pools: PoolPlan, topology: Mapping[str, int] | None = None) -> Fleet:
    """A fleet of these pools.

    ``topology`` names the levels, widest first, and how many nodes of a pool share one domain of
    each: ``{"block": 16, "rack": 4}`` gives nodes 1 to 4 the first rack of the first block.
    """
    levels = topology or {}
    names = dict.fromkeys(plan.cluster for plan in pools)
    return Fleet(
        clusters=tuple(Cluster(name=name, topology_levels=tuple(levels)) for name in names),
        pools=tuple(plan.as_pool() for plan in pools),
        nodes=tuple(node for plan in pools for node in plan.as_nodes(levels)),
    )


# -- tenants ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """A quota in whole GPUs, CPUs or GiB; ``None`` is no limit."""

    nominal: float
    borrow: float | None = None
    lend: float | None = None

    def in_units_of(self, resource: str) -> Quota:
        unit = UNIT_OF.get(resource, 1)
        return Quota(
            nominal=round(self.nominal * unit),
            borrowing_limit=None if self.borrow is None else round(self.borrow * unit),
            lending_limit=None if self.lend is None else round(self.lend * unit),
        )


QuotaTable = Mapping[str | FlavorResource, float | Allowance]
"""A flavor alone means its GPUs; a number alone is a nominal quota without limits."""


def quota(nominal: float, borrow: float | None = None, lend: float | None = None) -> Allowance:
    """A nominal amount with its limits: ``quota(16, borrow=8, lend=0)``."""
    return Allowance(nominal=nominal, borrow=borrow, lend=lend)


class TenantTerms(TypedDict, total=False):
    """Other options of a tenant."""

    weight: float
    is_queue: bool
    queueing: Queueing
    preemption: PreemptionPolicy


def tenant(
    name: str,
    parent: str | None = None,
    quota: QuotaTable | None = None,
    **terms: Unpack[TenantTerms],
) -> Tenant:
    """A tenant: ``tenant("acme", quota={"a100-80gb/owned": 16})``."""
    quotas: dict[FlavorResource, Quota] = {}
    for key, amount in (quota or {}).items():
        flavor_resource = (key, GPU) if isinstance(key, str) else key
        allowance = amount if isinstance(amount, Allowance) else Allowance(nominal=amount)
        quotas[flavor_resource] = allowance.in_units_of(flavor_resource[1])
    return Tenant(name=name, parent=parent, quotas=quotas, **terms)


def queue(
    name: str = MAIN_QUEUE,
    parent: str | None = None,
    quota: QuotaTable | None = None,
    **terms: Unpack[TenantTerms],
) -> Tenant:
    """A tenant that is a queue."""
    return replace(tenant(name, parent, quota, **terms), is_queue=True)


# -- states ----------------------------------------------------------------------------------------


def state_of(
    fleet: Fleet, tenants: Iterable[Tenant] | None = None, policies: Policies | None = None
) -> FleetState:
    """An empty state. Without tenants there is one queue, ``research``, without quota."""
    known = (queue(),) if tenants is None else tuple(tenants)
    return FleetState(fleet, known, Policies() if policies is None else policies)


def submission(
    state: FleetState,
    spec: JobSpec,
    job_id: str | None = None,
    at_ms: int = 0,
    priority: int | None = None,
) -> JobSubmitted:
    """The job as submitted, unchecked; its name is its id unless another is given."""
    classes = state.policies.priority_classes
    return JobSubmitted(
        at_ms=at_ms,
        job_id=spec.name if job_id is None else job_id,
        spec=spec,
        priority=classes[spec.priority_class] if priority is None else priority,
    )


def submit(
    state: FleetState,
    spec: JobSpec,
    job_id: str | None = None,
    at_ms: int = 0,
    priority: int | None = None,
) -> str:
    """Submits a job to a state without admission; returns its id."""
    event = submission(state, spec, job_id, at_ms, priority)
    state.apply(event)
    return event.job_id
