"""The scenario of the demonstration: one day of a company.

The main jobs are written by hand, so that each scheduling rule takes effect. Submission and run times
of the many small jobs are drawn from a seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

from bursar.catalog.gpu_models import find_gpu_model
from bursar.model.event import Event, JobSubmitted, TenantChanged
from bursar.model.fleet.fleet import Cluster, Fleet, Market, Node, Pool
from bursar.model.jobs.job import (
    CheckpointPolicy,
    Constraints,
    GpuRequest,
    JobSpec,
    MigSlice,
    MpsShare,
    TaskGroup,
    Topology,
    WholeGpus,
)
from bursar.model.tenants.policy import OrderPolicy, OrderTerm, Policies
from bursar.model.tenants.tenant import GPU, Quota, Tenant
from bursar.model.units import GIB_MIB, HOUR_MS, MILLI, MINUTE_MS, USD_MICRO
from bursar.simulate.scenario import Scenario

OWNED = "a100-80gb/owned"
SPOT = "a100-80gb/spot"
SPOT_OR_OWNED = Constraints(markets=(Market.SPOT, Market.OWNED))
ONE_RACK = Constraints(topology=Topology(required="rack"))
POLICIES = Policies(order=OrderPolicy(terms=(OrderTerm.DEADLINE, OrderTerm.SUBMITTED)))
"""First come, first served inside a queue: a day is too short to learn run times."""


def at(hours: int, minutes: int = 0) -> int:
    return hours * HOUR_MS + minutes * MINUTE_MS


def demonstration(seed: int) -> Scenario:
    """The scenario of ``bursar demo``."""
    jobs = [*main_jobs(), *small_jobs(Random(seed))]
    jobs.sort(key=lambda one: (one.at_ms, one.spec.name))
    submissions: list[Event] = [
        JobSubmitted(
            at_ms=one.at_ms,
            job_id=one.spec.name,
            spec=one.spec,
            priority=POLICIES.priority_classes[one.spec.priority_class],
        )
        for one in jobs
    ]
    raised = TenantChanged(at_ms=at(16), tenant=replace(PLATFORM, quotas=quotas(12, borrow=12)))
    return Scenario(
        fleet=fleet(),
        tenants=TENANTS,
        policies=POLICIES,
        events=sorted([*submissions, raised], key=lambda event: event.at_ms),
        run_ms={one.spec.name: one.run_ms for one in jobs},
    )


# -- the fleet and its tenants -------------------------------------------------------------------


def fleet() -> Fleet:
    """Eight owned nodes in two racks, and two spot nodes that are cheaper but may be reclaimed."""
    a100 = find_gpu_model("a100-80gb")
    owned = Pool(
        name="owned",
        cluster="hq",
        market=Market.OWNED,
        gpu_model=a100,
        gpus_per_node=8,
        cpu_milli=128 * MILLI,
        memory_mib=1024 * GIB_MIB,
        node_micro_usd_per_hour=1440 * USD_MICRO // 100,
    )
    spot = replace(
        owned,
        name="spot",
        cluster="cloud",
        market=Market.SPOT,
        node_micro_usd_per_hour=880 * USD_MICRO // 100,
        interruptions_per_million_hours=20_000,
    )
    racks = {f"n{number}": "r1" if number <= 4 else "r2" for number in range(1, 9)}
    nodes = [Node(id=name, pool="owned", labels={"rack": rack}) for name, rack in racks.items()]
    rented = [Node(id=name, pool="spot") for name in ("s1", "s2")]
    clusters = (Cluster(name="hq", topology_levels=("rack",)), Cluster(name="cloud"))
    return Fleet(clusters=clusters, pools=(owned, spot), nodes=(*nodes, *rented))


def quotas(own: int, *, borrow: int | None = None) -> dict[tuple[str, str], Quota]:
    """A nominal quota of owned GPUs, and a borrowing limit."""
    limit = None if borrow is None else borrow * MILLI
    return {(OWNED, GPU): Quota(nominal=own * MILLI, borrowing_limit=limit), (SPOT, GPU): Quota()}


PLATFORM = Tenant(name="platform", parent="acme", is_queue=True, quotas=quotas(12, borrow=6))
TENANTS = (
    Tenant(name="acme", quotas={(SPOT, GPU): Quota(nominal=16 * MILLI)}),
    Tenant(name="research", parent="acme", weight=2.0),
    Tenant(name="product", parent="acme", weight=1.5),
    Tenant(name="research-llm", parent="research", is_queue=True, quotas=quotas(24)),
    Tenant(name="research-vision", parent="research", is_queue=True, quotas=quotas(8)),
    Tenant(name="product-serving", parent="product", is_queue=True, quotas=quotas(8)),
    Tenant(name="product-training", parent="product", is_queue=True, quotas=quotas(12)),
    PLATFORM,
)


# -- the jobs ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoJob:
    """A job, its submission time and its true run time."""

    at_ms: int
    spec: JobSpec
    run_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoRequest:
    """The request of a job. ``saves`` are minutes between checkpoints, 0 for none."""

    tasks: int = 1
    gpu: GpuRequest = field(default_factory=lambda: WholeGpus(count=1))
    saves: int = 0
    constraints: Constraints = field(default_factory=Constraints)
    priority: str = "normal"
    preemptible: bool = True
    after: tuple[str, ...] = ()
    min_tasks: int | None = None
    limit_ms: int | None = None


GANG_NODE = WholeGpus(count=8)


def job(name: str, queue: str, at_ms: int, times: tuple[int, int], request: DemoRequest) -> DemoJob:
    """A job; ``times`` are its expected and its true run time in minutes."""
    expected, real = times
    group = TaskGroup(
        count=request.tasks,
        min_count=request.min_tasks,
        gpu=request.gpu,
        cpu_milli=4 * MILLI,
        memory_mib=16 * GIB_MIB,
    )
    saves_ms = request.saves * MINUTE_MS or None
    spec = JobSpec(
        name=name,
        queue=queue,
        groups=(group,),
        priority_class=request.priority,
        preemptible=request.preemptible,
        expected_run_ms=expected * MINUTE_MS,
        max_run_ms=request.limit_ms,
        constraints=request.constraints,
        checkpoint=CheckpointPolicy(interval_ms=saves_ms, restart_ms=5 * MINUTE_MS),
        depends_on=request.after,
    )
    return DemoJob(at_ms=at_ms, spec=spec, run_ms=real * MINUTE_MS)


def main_jobs() -> Iterator[DemoJob]:
    yield from _research()
    yield from _product()
    yield job("burn-in", "platform", at(15, 20), (60, 55), DemoRequest(tasks=2, gpu=GANG_NODE))
    yield job("forgotten-notebook", "platform", at(8, 10), (120, 900), DemoRequest(limit_ms=at(3)))


def _research() -> Iterator[DemoJob]:
    """Two queues that borrow in the morning, and in the evening a gang that needs a whole rack."""
    rack = DemoRequest(tasks=4, gpu=GANG_NODE, saves=30, constraints=ONE_RACK)
    yield job("llm-pretrain-a", "research-llm", at(6), (540, 520), rack)
    yield job(
        "llm-eval", "research-llm", at(11, 5), (45, 40), DemoRequest(after=("llm-pretrain-a",))
    )
    half_rack = DemoRequest(tasks=2, gpu=GANG_NODE, saves=20, constraints=ONE_RACK)
    yield job("vision-detector", "research-vision", at(6, 30), (360, 340), half_rack)
    seldom_saves = DemoRequest(gpu=GANG_NODE, saves=240)
    yield job("vision-segmenter", "research-vision", at(6, 40), (400, 390), seldom_saves)
    yield job("vision-video", "research-vision", at(14, 30), (150, 140), half_rack)
    yield from _evening(rack)


def _evening(rack: DemoRequest) -> Iterator[DemoJob]:
    """A gang that waits for one small job, and later jobs of which some may backfill."""
    three_nodes = DemoRequest(tasks=3, gpu=GANG_NODE, constraints=ONE_RACK, preemptible=False)
    yield job("vision-batch", "research-vision", at(18, 55), (300, 290), three_nodes)
    same_rack = Constraints(node_labels=(("rack", "r1"),))
    small = DemoRequest(gpu=WholeGpus(count=4), constraints=same_rack)
    yield job("llm-finetune", "research-llm", at(19), (120, 115), small)
    yield job("llm-pretrain-b", "research-llm", at(19, 10), (240, 230), rack)
    smaller = DemoRequest(gpu=WholeGpus(count=2), constraints=same_rack)
    yield job("llm-ablation", "research-llm", at(19, 15), (60, 50), smaller)
    yield job(
        "llm-distill", "research-llm", at(19, 20), (240, 235), DemoRequest(gpu=GANG_NODE, saves=30)
    )


def _product() -> Iterator[DemoJob]:
    """Inference on slices all day, and training that wants its own quota back."""
    for number, profile in enumerate(("3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb", "2g.20gb"), 1):
        serving = DemoRequest(gpu=MigSlice(profile=profile), priority="high", preemptible=False)
        start_ms = at(7, 5 * number)
        yield job(f"serve-{number}", "product-serving", start_ms, (840, 800 + number), serving)
    training = DemoRequest(gpu=GANG_NODE, saves=15)
    yield job("ranker-train", "product-training", at(9, 25), (150, 160), training)
    yield job(
        "ranker-eval", "product-training", at(9, 26), (30, 30), DemoRequest(after=("ranker-train",))
    )
    elastic = DemoRequest(tasks=6, gpu=WholeGpus(count=2), min_tasks=2, saves=15)
    yield job("ads-refresh", "product-training", at(11, 40), (90, 90), elastic)


def small_jobs(rng: Random) -> Iterator[DemoJob]:
    """Small jobs of a working day; most run shorter than expected."""
    cheap = DemoRequest(gpu=WholeGpus(count=2), saves=30, constraints=SPOT_OR_OWNED)
    share = DemoRequest(gpu=MpsShare(percent=25, memory_mib=16 * GIB_MIB))
    for number in range(1, 17):
        yield _drawn(rng, f"sweep-{number:02}", "research-vision", cheap)
    for number in range(1, 11):
        yield _drawn(rng, f"notebook-{number:02}", "platform", share)
    for number in range(1, 11):
        yield _drawn(rng, f"ci-{number:02}", "platform", DemoRequest(gpu=WholeGpus(count=2)))
    for number in range(1, 11):
        tune = DemoRequest(gpu=WholeGpus(count=4), saves=20)
        yield _drawn(rng, f"tune-{number:02}", "product-training", tune)


def _drawn(rng: Random, name: str, queue: str, request: DemoRequest) -> DemoJob:
    start_ms = at(8) + rng.randrange(9 * 60) * MINUTE_MS
    expected = rng.choice((20, 40, 60, 120, 180))
    real = max(5, expected * rng.randrange(50, 105) // 100)
    return job(name, queue, start_ms, (expected, real), request)
