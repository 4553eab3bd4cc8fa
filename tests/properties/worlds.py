"""Small random worlds: fleets, tenant trees, policies and jobs of every shape.

All generated values are plain, so that failing examples shrink and print well. Invalid combinations are
left to admission to reject, as in production.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import Any

from hypothesis import strategies as st

from bursar.model.fleet.fleet import Fleet, Market, Pool, Taint
from bursar.model.fleet.gpu import GpuModel
from bursar.model.jobs.job import (
    CheckpointPolicy,
    FlavorChoice,
    GpuRequest,
    JobSpec,
    MigSlice,
    MpsShare,
    SliceLayer,
    Slo,
    Spread,
    TaskGroup,
    Toleration,
    Topology,
    WholeGpus,
)
from bursar.model.tenants.policy import (
    BackfillPolicy,
    BorrowWhileReclaiming,
    FairStrategy,
    OrderPolicy,
    OrderTerm,
    PlacementPolicy,
    Policies,
    PreemptionLimits,
    PreemptionPolicy,
    Reclaim,
    SharePolicy,
    UsageUnit,
    VictimOrder,
    WithinQueue,
)
from bursar.model.tenants.tenant import CPU, GPU, FlavorResource, Queueing, Quota, Tenant
from bursar.model.units import GIB_MIB, HOUR_MS, MILLI, MINUTE_MS, USD_MICRO
from tests.support import fleet_of, gang, gpu_model, pool
from tests.support.fleets import PoolPlan

MODELS = ("a100-80gb", "h100-80gb", "a30-24gb", "t4-16gb")
ANY_OF = ((), MODELS[:2], MODELS[2:])
TOPOLOGIES: tuple[dict[str, int], ...] = ({}, {"rack": 2}, {"rack": 1}, {"block": 2, "rack": 1})
PRIORITIES = ("low", "normal", "normal", "high")
TAINT = Taint(key="dedicated", value="batch")
GRACE = CheckpointPolicy(interval_ms=10 * MINUTE_MS, restart_ms=2 * MINUTE_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """A fleet, its tenants and policies; its jobs have up to ``extras`` optional settings.

    With ``anchors``, most jobs are gangs that require that percentage of their tasks on non-spot nodes.
    """

    fleet: Fleet
    tenants: tuple[Tenant, ...]
    policies: Policies
    extras: int = 3
    anchors: tuple[int, ...] = ()

    @property
    def queues(self) -> tuple[str, ...]:
        return tuple(tenant.name for tenant in self.tenants if tenant.is_queue)

    @property
    def levels(self) -> tuple[str, ...]:
        return (*self.fleet.clusters[0].topology_levels, "node")


def brief(value: object) -> str:
    """A value as code without default fields, for readable output of failing tests."""
    if isinstance(value, GpuModel):
        return f"gpu_model({value.name!r})"
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, tuple):
        return f"({', '.join(map(brief, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{brief(k)}: {brief(v)}' for k, v in value.items())}}}"
    if not is_dataclass(value) or isinstance(value, type):
        return repr(value)
    members = [(one.name, getattr(value, one.name), _default(one)) for one in fields(value)]
    return (
        f"{type(value).__name__}({', '.join(f'{n}={brief(v)}' for n, v, d in members if v != d)})"
    )


def _default(one: Field[Any]) -> object:
    return one.default if one.default_factory is MISSING else one.default_factory()


# -- fleets ----------------------------------------------------------------------------------------


@st.composite
def pool_plans(draw: st.DrawFn, name: str, nodes: int) -> PoolPlan:
    """One pool; sometimes without GPUs, tainted, on spot, or with few CPUs."""
    model = draw(st.sampled_from((*MODELS, *MODELS, "")))
    market = draw(st.sampled_from((Market.OWNED, Market.OWNED, Market.ON_DEMAND, Market.SPOT)))
    variant = draw(st.sampled_from(("", "", "", "taint", "no mig", "few clients", "label", "disk")))
    return pool(
        name,
        nodes,
        gpus=draw(st.sampled_from((1, 2, 4, 8))) if model else 0,
        model=model or MODELS[0],
        market=market,
        usd_per_node_hour=draw(st.sampled_from((4.0, 16.0, 30.0))),
        cpu=draw(st.sampled_from((4, 16, 96))),
        memory_gib=256,
        disk_gib=100 if variant == "disk" else 0,
        interruptions_per_million_hours=50_000 if market is Market.SPOT else 0,
        taints=(TAINT,) if variant == "taint" else (),
        labels={"net": "ib"} if variant == "label" else {},
        mig_allowed=variant != "no mig",
        mps_client_limit=2 if variant == "few clients" else 48,
    )


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    """One to three pools with at most six nodes; most pools have GPUs."""
    sizes = draw(st.sampled_from(((1,), (2,), (4,), (6,), (1, 2), (3, 2), (2, 2, 1), (1, 1, 1))))
    plans = [draw(pool_plans(f"p{number}", nodes)) for number, nodes in enumerate(sizes)]
    return fleet_of(*plans, topology=draw(st.sampled_from(TOPOLOGIES)))


# -- tenants ---------------------------------------------------------------------------------------

PREEMPTION = st.builds(
    PreemptionPolicy,
    within_queue=st.sampled_from(tuple(WithinQueue)),
    reclaim=st.sampled_from((Reclaim.NEVER, Reclaim.LOWER_PRIORITY, Reclaim.ANY, Reclaim.ANY)),
)
BORROWING = st.sampled_from(
    (None, None, BorrowWhileReclaiming(), BorrowWhileReclaiming(max_priority=0))
)
AMOUNTS = st.sampled_from((2, 4, 8, 16, 1, 0))
LIMITS = st.sampled_from((None, None, None, 0, 2))


@st.composite
def quota_tables(draw: st.DrawFn, flavors: Sequence[str]) -> dict[FlavorResource, Quota]:
    """Quotas for some flavors: mostly GPUs, sometimes CPUs."""
    table: dict[FlavorResource, Quota] = {}
    for flavor in draw(st.sets(st.sampled_from(flavors), max_size=2)):
        resource = draw(st.sampled_from((GPU, GPU, GPU, CPU)))
        borrow, lend = draw(LIMITS), draw(LIMITS)
        table[flavor, resource] = Quota(
            nominal=draw(AMOUNTS) * MILLI,
            borrowing_limit=None if borrow is None else borrow * MILLI,
            lending_limit=None if lend is None else lend * MILLI,
        )
    return dict(sorted(table.items()))


@st.composite
def preemption_policies(draw: st.DrawFn) -> PreemptionPolicy:
    policy = draw(PREEMPTION)
    if policy.reclaim is Reclaim.NEVER:
        return policy
    return replace(policy, borrow_while_reclaiming=draw(BORROWING))


@st.composite
def tenant_trees(draw: st.DrawFn, flavors: Sequence[str]) -> tuple[Tenant, ...]:
    """A forest of depth one to four with at least one queue."""
    tenants: list[Tenant] = []
    depth: dict[str, int] = {}
    limited = draw(st.booleans())
    for number in range(draw(st.integers(1, 6))):
        above = [one.name for one in tenants if not one.is_queue and depth[one.name] < 4]
        parent = draw(st.sampled_from((*above, None))) if above else None
        name = f"t{number}"
        depth[name] = 1 if parent is None else depth[parent] + 1
        tenants.append(
            Tenant(
                name=name,
                parent=parent,
                weight=draw(st.sampled_from((1.0, 1.0, 0.0, 0.5, 3.0))),
                quotas=draw(quota_tables(flavors)) if limited else {},
                is_queue=number > 0 and draw(st.booleans()),
                queueing=draw(st.sampled_from((Queueing.BEST_EFFORT, Queueing.STRICT))),
                preemption=draw(preemption_policies()),
            )
        )
    parents = {tenant.parent for tenant in tenants}
    last = tenants[-1]
    return tuple(
        replace(one, is_queue=True) if one is last and one.name not in parents else one
        for one in tenants
    )


# -- policies --------------------------------------------------------------------------------------

TERMS: tuple[tuple[OrderTerm, ...], ...] = (
    (OrderTerm.DEADLINE, OrderTerm.SUBMITTED),
    (OrderTerm.SUBMITTED,),
    (OrderTerm.SHORTEST,),
    (OrderTerm.SMALLEST, OrderTerm.SUBMITTED),
    (OrderTerm.LEAST_WORK,),
    (),
)
ORDERS = st.builds(
    OrderPolicy,
    share=st.sampled_from(tuple(SharePolicy)),
    terms=st.sampled_from(TERMS),
    half_life_ms=st.sampled_from((None, 0, HOUR_MS)),
    usage_unit=st.sampled_from(tuple(UsageUnit)),
    aging_step_ms=st.sampled_from((None, None, HOUR_MS)),
)
STRATEGIES = st.sampled_from(((), (), tuple(FairStrategy), (FairStrategy.LESS_THAN_INITIAL_SHARE,)))
VICTIM_ORDERS = st.sampled_from(tuple(VictimOrder))
PREEMPTION_LIMITS = st.builds(
    PreemptionLimits,
    victim_order=VICTIM_ORDERS,
    fair_strategies=STRATEGIES,
    minimum_run_ms=st.sampled_from((0, 0, 5 * MINUTE_MS)),
    preemptions_per_job=st.integers(1, 3),
    searches_per_cycle=st.sampled_from((8, 8, 1, 0)),
)
POLICIES = st.builds(
    Policies,
    order=ORDERS,
    placement=st.sampled_from(tuple(PlacementPolicy)),
    backfill=st.builds(BackfillPolicy, reservations=st.sampled_from((0, 1, 3))),
    preemption=PREEMPTION_LIMITS,
)


@st.composite
def worlds(draw: st.DrawFn, policies: st.SearchStrategy[Policies] = POLICIES) -> World:
    """A fleet, its tenants and its policies."""
    fleet = draw(fleets())
    flavors = sorted({one.flavor for one in fleet.pools})
    return World(fleet=fleet, tenants=draw(tenant_trees(flavors)), policies=draw(policies))


EAGER = PreemptionPolicy(
    within_queue=WithinQueue.LOWER_OR_NEWER_EQUAL_PRIORITY,
    reclaim=Reclaim.ANY,
    borrow_while_reclaiming=BorrowWhileReclaiming(),
)


@st.composite
def contested_worlds(draw: st.DrawFn, limits: st.SearchStrategy[PreemptionLimits]) -> World:
    """One pool that is too small for its tenants, all of which may preempt."""
    plan = pool("p0", draw(st.integers(1, 3)), gpus=draw(st.sampled_from((2, 4, 8))), cpu=16)
    flavor = plan.as_pool().flavor
    policy = st.sampled_from((EAGER, EAGER, replace(EAGER, borrow_while_reclaiming=None)))
    tenants = [Tenant(name="top"), Tenant(name="mid", parent="top")]
    for number in range(draw(st.integers(1, 4))):
        borrow, lend = draw(LIMITS), draw(LIMITS)
        quota = Quota(
            nominal=draw(AMOUNTS) * MILLI,
            borrowing_limit=None if borrow is None else borrow * MILLI,
            lending_limit=None if lend is None else lend * MILLI,
        )
        one = Tenant(
            name=f"q{number}",
            parent=draw(st.sampled_from(("top", "mid", None))),
            weight=draw(st.sampled_from((1.0, 0.0, 3.0))),
            quotas={(flavor, GPU): quota},
            is_queue=True,
            preemption=draw(policy),
        )
        tenants.append(one)
    order = draw(ORDERS)
    policies = Policies(
        order=order,
        backfill=BackfillPolicy(reservations=draw(st.sampled_from((0, 1, 3)))),
        preemption=draw(limits),
    )
    return World(fleet=fleet_of(plan), tenants=tuple(tenants), policies=policies, extras=1)


@st.composite
def mixed_worlds(draw: st.DrawFn) -> World:
    """Small spot and non-spot pools of one GPU model, in one cluster and one topology."""
    gpus = draw(st.sampled_from((1, 2, 4)))
    markets = draw(
        st.sampled_from(
            (
                (Market.SPOT, Market.ON_DEMAND),
                (Market.SPOT, Market.OWNED, Market.ON_DEMAND),
                (Market.SPOT, Market.SPOT, Market.OWNED),
            )
        )
    )
    plans = [
        pool(
            f"p{number}",
            draw(st.integers(1, 3)),
            gpus=gpus,
            market=market,
            usd_per_node_hour=draw(st.sampled_from((2.0, 4.0) if number == 0 else (4.0, 16.0))),
            cpu=16,
            interruptions_per_million_hours=50_000 if market is Market.SPOT else 0,
        )
        for number, market in enumerate(markets)
    ]
    fleet = fleet_of(*plans, topology=draw(st.sampled_from(TOPOLOGIES)))
    fleet = replace(
        fleet,
        nodes=tuple(
            replace(one, labels={k: v.removeprefix(f"{one.pool}-") for k, v in one.labels.items()})
            for one in fleet.nodes
        ),
    )
    flavors = sorted({one.flavor for one in fleet.pools})
    return World(
        fleet=fleet,
        tenants=tuple(
            replace(one, preemption=draw(st.sampled_from((EAGER, one.preemption))))
            for one in draw(tenant_trees(flavors))
        ),
        policies=draw(POLICIES),
        extras=2,
        anchors=(0, 10, 30, 50, 90, 100),
    )


# -- jobs ------------------------------------------------------------------------------------------


@st.composite
def gpu_requests(draw: st.DrawFn, target: Pool) -> GpuRequest | None:
    """A request that the pool could satisfy: mostly whole GPUs, less often fractions or none."""
    model = target.gpu_model
    if model is None:
        return None
    kinds = (
        "whole",
        "whole",
        "whole",
        "any of",
        "mps",
        "none",
        *(("mig", "mig") if model.mig else ()),
    )
    match draw(st.sampled_from(kinds)):
        case "whole":
            sizes = [count for count in (8, 4, 2, 1) if count <= target.gpus_per_node]
            return WholeGpus(count=draw(st.sampled_from(sizes)))
        case "any of":
            others = draw(st.permutations((model.name, *draw(st.sampled_from(ANY_OF)))))
            memory_mib = draw(st.sampled_from((0, 8 * GIB_MIB, 40 * GIB_MIB)))
            models = tuple(dict.fromkeys(others))
            return WholeGpus(count=1, models=models, min_memory_mib=memory_mib)
        case "mps":
            memory_gib = draw(st.sampled_from((0, 4, 10)))
            percent = draw(st.sampled_from((10, 30, 50, 100)))
            return MpsShare(percent=percent, memory_mib=memory_gib * GIB_MIB)
        case "mig" if model.mig is not None:
            return MigSlice(profile=draw(st.sampled_from(model.mig.profile_names)))
    return None


@st.composite
def task_groups(
    draw: st.DrawFn,
    target: Pool,
    name: str = "main",
    counts: Sequence[int] = (1, 1, 1, 2, 3, 4),
) -> TaskGroup:
    count = draw(st.sampled_from(counts))
    elastic = count > 1 and draw(st.booleans())
    return TaskGroup(
        name=name,
        count=count,
        min_count=draw(st.integers(1, count)) if elastic else None,
        gpu=draw(gpu_requests(target)),
        cpu_milli=draw(st.sampled_from((0, MILLI, 4 * MILLI))),
        memory_mib=draw(st.sampled_from((0, 0, GIB_MIB, 100 * GIB_MIB))),
        disk_mib=40 * GIB_MIB if target.disk_mib and draw(st.booleans()) else 0,
    )


EXTRAS = (
    "topology",
    "spread",
    "apart",
    "deadline",
    "slo",
    "retries",
    "checkpoint",
    "market",
    "firm",
    "limit",
    "ceiling",
)


NOT_WITH = {"slo": {"deadline"}, "spread": {"topology"}}


@st.composite
def extra_terms(draw: st.DrawFn, extra: str, levels: Sequence[str]) -> dict[str, Any]:
    """One optional setting of a job."""
    match extra:
        case "topology":
            return {"topology": draw(topologies(levels))}
        case "spread":
            level = draw(st.sampled_from(levels))
            return {"spread": Spread(level=level, max_tasks=draw(st.integers(1, 2)))}
        case "apart":
            return {"apart": draw(st.sampled_from(("red", "blue")))}
        case "deadline":
            return {"deadline_ms": draw(st.sampled_from((2, 5, 50))) * HOUR_MS}
        case "slo":
            return {"slo": Slo(gpu_ms=HOUR_MS, within_ms=6 * HOUR_MS)}
        case "retries":
            return {"retries": draw(st.integers(1, 2))}
        case "checkpoint":
            return {"checkpoint": GRACE}
        case "market":
            choice = draw(st.sampled_from(tuple(FlavorChoice)))
            order = draw(st.permutations(tuple(Market)))
            return {"markets": tuple(order), "choose_by": choice}
        case "firm":
            return {"preemptible": False}
        case "ceiling":
            dollars = draw(st.sampled_from((0.5, 4, 40)))
            return {"max_cost_micro_usd": round(dollars * USD_MICRO)}
        case _:
            return {"max_hours": draw(st.sampled_from((1.0, 6.0)))}


@st.composite
def topologies(draw: st.DrawFn, levels: Sequence[str]) -> Topology:
    level = draw(st.sampled_from(levels))
    layers: tuple[SliceLayer, ...] = ()
    if draw(st.booleans()):
        inner = draw(st.sampled_from(levels[levels.index(level) :]))
        layers = (SliceLayer(level=inner, size=draw(st.sampled_from((1, 1, 2)))),)
    if draw(st.booleans()):
        return Topology(required=level, layers=layers)
    return Topology(preferred=level, layers=layers)


@st.composite
def specs(draw: st.DrawFn, world: World) -> JobSpec:
    """A job that some pool of the world might run."""
    target = draw(st.sampled_from(world.fleet.pools))
    names = ("main", "side") if draw(st.sampled_from((False, False, False, True))) else ("main",)
    settings: dict[str, Any] = {"markets": tuple(dict.fromkeys((target.market, *Market)))}
    if target.taints:
        value = draw(st.sampled_from(("", TAINT.value)))
        settings["tolerations"] = (Toleration(key=TAINT.key, value=value),)
    if target.labels and draw(st.booleans()):
        settings["node_labels"] = tuple(sorted(target.labels.items()))
    chosen = draw(st.sets(st.sampled_from(EXTRAS), max_size=world.extras))
    for extra in sorted(one for one in chosen if not chosen & NOT_WITH.get(one, set())):
        settings |= draw(extra_terms(extra, world.levels))
    if world.anchors:
        settings["anchors_percent"] = draw(st.sampled_from(world.anchors))
    counts = (2, 3, 4) if settings.get("anchors_percent") else (1, 1, 1, 2, 3, 4)
    return gang(
        "job",
        *(draw(task_groups(target, name, counts)) for name in names),
        queue=draw(st.sampled_from(world.queues)),
        priority_class=draw(st.sampled_from(PRIORITIES)),
        hours=draw(st.sampled_from((None, 0.25, 1.0))),
        **settings,
    )


def known_models() -> tuple[str, ...]:
    return tuple(gpu_model(name).name for name in MODELS)
