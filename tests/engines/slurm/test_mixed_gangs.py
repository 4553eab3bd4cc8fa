"""A mixed gang is one Slurm job, so the nodes of both pools must share a partition."""

from __future__ import annotations

from bursar.core.placement.anchor_split import anchor_pairs
from bursar.core.placement.pool_fit import ShapePlan, shape_of
from bursar.engines.slurm.commands.inventory import SlurmPartition
from bursar.engines.slurm.driven.request import ClusterFacts, components_of, no_common_partition
from bursar.model.fleet.fleet import Market
from bursar.model.units import HOUR_MS
from tests.conformance.engine_orders import order, tasks_on
from tests.support import fleet_of, job, pool, state_of


def partition(name: str, *nodes: str) -> SlurmPartition:
    return SlurmPartition(
        name=name,
        nodes=nodes,
        is_default=False,
        is_up=True,
        max_minutes=60,
        default_minutes=None,
    )


MIXED = order("j-1", "true", tasks=tasks_on("a", "b"), anchors=tasks_on("c"))
APART = ClusterFacts(nodes={}, partitions=(partition("spot", "a", "b"), partition("owned", "c")))
TOGETHER = ClusterFacts(nodes={}, partitions=(*APART.partitions, partition("all", "a", "b", "c")))


def test_a_mixed_gang_is_one_component_with_anchors_first() -> None:
    assert [component.nodes for component in components_of(MIXED, {})] == [("c", "a", "b")]


def test_a_mixed_gang_without_a_common_partition_is_refused() -> None:
    assert no_common_partition(MIXED, TOGETHER, "") == ""
    problem = no_common_partition(MIXED, APART, "")
    assert "no Slurm partition has both the nodes of pool pool and those of its anchors" in problem
    assert "put them into one partition" in problem
    assert "partition spot does not have both" in no_common_partition(MIXED, TOGETHER, "spot")
    alone = order("j-1", "true", tasks=tasks_on("a", "c"))
    assert no_common_partition(alone, APART, "") == ""


def test_pools_without_a_common_partition_are_never_mixed() -> None:
    def mixed_fits(spot_partitions: str, owned_partitions: str) -> int:
        fleet = fleet_of(
            pool("s", labels={"slurm.partition": spot_partitions}, market=Market.SPOT),
            pool("o", labels={"slurm.partition": owned_partitions}),
        )
        state = state_of(fleet)
        spec = job(tasks=2, anchors_percent=50, markets=(Market.SPOT, Market.OWNED))
        plan = ShapePlan(0, shape_of(spec), HOUR_MS)
        plan.match(tuple(state.pools.values()), ())
        assert not anchor_pairs(plan, [fit for fit in plan.fits if fit.is_spot])
        return sum(fit.anchors is not None for fit in plan.fits)

    assert mixed_fits("all spot", "all owned") == 1
    assert mixed_fits("spot", "owned") == 0
    assert mixed_fits("", "owned") == 1
