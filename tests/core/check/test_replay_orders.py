"""The checker reports every fault in hand-written placements, and passes valid ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from bursar.core.check import require_valid
from bursar.model.errors import BrokenInvariant
from bursar.model.event import ForeignUsageSeen, GpuPartitioned, NodeDrained
from bursar.model.fleet.fleet import Fleet, Market, Taint
from bursar.model.jobs.attempt import Task
from bursar.model.jobs.job import SliceLayer, Spread, Toleration, Topology
from tests.core.check.scene import Scene, a_pool, at, layout_of, share_of, slice_of
from tests.support import (
    fleet_of,
    gang,
    group,
    job,
    mig_job,
    mps_job,
)

Build = Callable[[], Scene]


def sliced(gpu: int, *texts: str, node: str = "a-0001") -> Task:
    uses = tuple(slice_of(gpu, text) for text in texts)
    return Task(group="main", node=node, count=len(texts), slices=uses)


def shared(gpu: int, percent: int, memory_mib: int = 0, node: str = "a-0001") -> Task:
    return Task(group="main", node=node, count=1, shares=(share_of(gpu, percent, memory_mib),))


def start_two(first: Scene, *tasks: Task) -> Scene:
    """Two waiting jobs, ``job`` and ``job-2``, started there."""
    return first.start("job", tasks[0]).start("job-2", tasks[1])


SPOT = fleet_of(a_pool(market=Market.SPOT))
TAINTED = fleet_of(a_pool(taints=(Taint(key="lab", value="x"),)))
RACKS = fleet_of(a_pool(), topology={"block": 2, "rack": 1})
OTHER_POOL = fleet_of(a_pool(), a_pool("b"))
NO_MIG = fleet_of(a_pool(mig_allowed=False))
FEW_CLIENTS = fleet_of(a_pool(mps_client_limit=1))
SMALL = "1g.5gb@0 1g.5gb@1 2g.10gb@2 3g.20gb@4"

DEVICES: dict[str, tuple[Build, str]] = {
    "a GPU is not assigned to two jobs": (
        lambda: start_two(Scene().wait(job(), job()), at("a-0001", 0), at("a-0001", 0)),
        "job-2 is assigned all of GPU 0 of a-0001, of which job holds all",
    ),
    "a GPU is not assigned twice to one job": (
        lambda: Scene().wait(job(gpus=2)).start("job", at("a-0001", 1, 1)),
        "job is assigned all of GPU 1 of a-0001, of which job holds all",
    ),
    "a GPU that a running job holds is not free": (
        lambda: Scene().run(job("old"), at("a-0001", 0)).wait(job()).start("job", at("a-0001", 0)),
        "job is assigned all of GPU 0 of a-0001, of which old holds all",
    ),
    "a GPU of a job that is stopping is not free yet": (
        lambda: (
            Scene()
            .run(job("old"), at("a-0001", 0))
            .stopping("old")
            .wait(job())
            .start("job", at("a-0001", 0))
        ),
        "job is assigned all of GPU 0 of a-0001, of which old holds all",
    ),
    "a GPU in foreign use is not free": (
        lambda: foreign().wait(job()).start("job", at("a-0001", 0)),
        "job is assigned all of GPU 0 of a-0001, of which (foreign) holds all",
    ),
    "a GPU must exist": (
        lambda: Scene().wait(job()).start("job", at("a-0001", 4)),
        "node a-0001 has 4 GPUs; there is no GPU 4",
    ),
    "a GPU must be healthy": (
        lambda: unhealthy().wait(job()).start("job", at("a-0001", 0)),
        "job is assigned GPU 0 of a-0001, which is not healthy",
    ),
    "a slice is not assigned twice": (
        lambda: (
            Scene()
            .wait(mig_job(profile="1g.5gb"), mig_job(profile="1g.5gb"))
            .partition("a-0001", 0, SMALL)
            .start("slice", sliced(0, "1g.5gb@0"))
            .start("slice-2", sliced(0, "1g.5gb@0"))
        ),
        "slice-2 is assigned 1g.5gb@0 of GPU 0 of a-0001, of which slice holds 1g.5gb@0",
    ),
    "a slice is never on a GPU that is used whole": (
        lambda: (
            Scene()
            .run(job("old"), at("a-0001", 0))
            .wait(mig_job(profile="1g.5gb"))
            .start("slice", sliced(0, "1g.5gb@0"))
        ),
        "slice is assigned 1g.5gb@0 of GPU 0 of a-0001, of which old holds all",
    ),
    "a slice is never on a GPU shared by MPS": (
        lambda: (
            Scene()
            .run(mps_job("old"), shared(0, 25))
            .wait(mig_job(profile="1g.5gb"))
            .start("slice", sliced(0, "1g.5gb@0"))
        ),
        "slice is assigned 1g.5gb@0 of GPU 0 of a-0001, of which old holds 25 %",
    ),
    "a share is never on a GPU that is used whole": (
        lambda: (
            Scene().run(job("old"), at("a-0001", 0)).wait(mps_job()).start("share", shared(0, 25))
        ),
        "share is assigned 25 % of GPU 0 of a-0001, of which old holds all",
    ),
    "a GPU must be partitioned before a job starts on a slice of it": (
        lambda: Scene().wait(mig_job(profile="1g.5gb")).start("slice", sliced(0, "1g.5gb@0")),
        "slice is assigned 1g.5gb@0 of GPU 0 of a-0001, whose layout is then: not partitioned",
    ),
    "a partition after the start in the list is too late": (
        lambda: (
            Scene()
            .wait(mig_job(profile="1g.5gb"))
            .start("slice", sliced(0, "1g.5gb@0"))
            .partition("a-0001", 1, SMALL)
        ),
        "slice is assigned 1g.5gb@0 of GPU 0 of a-0001, whose layout is then: not partitioned",
    ),
    "a slice must be in the layout": (
        lambda: (
            Scene()
            .wait(mig_job(profile="1g.5gb"))
            .partition("a-0001", 0, "3g.20gb@4")
            .start("slice", sliced(0, "1g.5gb@0"))
        ),
        "slice is assigned 1g.5gb@0 of GPU 0 of a-0001, whose layout is then: 3g.20gb@4",
    ),
    "a partitioned GPU cannot be used whole": (
        lambda: (
            Scene().wait(job()).partition("a-0001", 0, "3g.20gb@4").start("job", at("a-0001", 0))
        ),
        "job is assigned all of GPU 0 of a-0001, which is still partitioned by MIG: 3g.20gb@4",
    ),
    "a partitioned GPU cannot be shared by MPS": (
        lambda: (
            Scene()
            .wait(mps_job())
            .partition("a-0001", 0, "3g.20gb@4")
            .start("share", shared(0, 25))
        ),
        "share is assigned 25 % of GPU 0 of a-0001, which is still partitioned by MIG: 3g.20gb@4",
    ),
    "shares of a GPU are 100 % at most": (
        lambda: (
            Scene()
            .run(mps_job("old", percent=60), shared(0, 60))
            .wait(mps_job(percent=50))
            .start("share", shared(0, 50))
        ),
        "with share, shares of GPU 0 of a-0001 add up to 110 % of 100",
    ),
    "shares of a GPU do not exceed its memory": (
        lambda: (
            Scene()
            .run(mps_job("old", gpu_memory_gib=30), shared(0, 25, 30 * 1024))
            .wait(mps_job(gpu_memory_gib=20))
            .start("share", shared(0, 25, 20 * 1024))
        ),
        "with share, shares of GPU 0 of a-0001 add up to 51200 MiB of 40960",
    ),
    "a GPU does not exceed its limit of MPS clients": (
        lambda: (
            Scene(FEW_CLIENTS)
            .run(mps_job("old"), shared(0, 25))
            .wait(mps_job())
            .start("share", shared(0, 25))
        ),
        "with share, shares of GPU 0 of a-0001 add up to 2 clients of 1",
    ),
    "a GPU in use is not partitioned": (
        lambda: Scene().run(job("old"), at("a-0001", 0)).partition("a-0001", 0, "3g.20gb@4"),
        "GPU 0 of a-0001 is repartitioned while in use by old",
    ),
    "a GPU on which a job starts is not partitioned": (
        lambda: Scene().wait(job()).start("job", at("a-0001", 0)).partition("a-0001", 0, ""),
        "GPU 0 of a-0001 is repartitioned while in use by job",
    ),
    "the node of a partitioned GPU must exist": (
        lambda: Scene().partition("b-0001", 0, "3g.20gb@4"),
        "GPU 0 of b-0001 is repartitioned; there is no such node",
    ),
    "a layout has known profiles": (
        lambda: Scene().partition("a-0001", 0, "9g.99gb@0"),
        "GPU 0 of a-0001 cannot have this MIG layout: it has no profile 9g.99gb",
    ),
    "instances of a layout have valid starts": (
        lambda: Scene().partition("a-0001", 0, "3g.20gb@1"),
        "GPU 0 of a-0001 cannot have this MIG layout: 3g.20gb@1 has an invalid start",
    ),
    "a layout does not exceed the maximum of a profile": (
        lambda: Scene().partition("a-0001", 0, " ".join(["1g.5gb@0"] * 8)),
        "GPU 0 of a-0001 cannot have this MIG layout: 8 of 1g.5gb, at most 7 fit",
    ),
    "instances of a layout do not overlap": (
        lambda: Scene().partition("a-0001", 0, "3g.20gb@0 2g.10gb@2"),
        "GPU 0 of a-0001 cannot have this MIG layout: 3g.20gb@0 and 2g.10gb@2 overlap at memory slice 2",
    ),
    "a pool may forbid MIG": (
        lambda: Scene(NO_MIG).partition("a-0001", 0, "3g.20gb@4"),
        "GPU 0 of a-0001 cannot have this MIG layout: pool a does not allow MIG",
    ),
    "the CPUs of a node are not assigned twice": (
        lambda: (
            Scene()
            .run(job("old", cpu=20), at("a-0001", 0))
            .wait(job(cpu=20))
            .start("job", at("a-0001", 1))
        ),
        "with job, 40000 milli-CPU of a-0001 are in use; it has 32000",
    ),
    "CPUs in foreign use are not free": (
        lambda: foreign().wait(job(cpu=10)).start("job", at("a-0001", 1)),
        "with job, 40000 milli-CPU of a-0001 are in use; it has 32000",
    ),
    "the disk of a node is not assigned twice": (
        lambda: (
            Scene()
            .run(job("old", disk_gib=6), at("a-0001", 0))
            .wait(job(disk_gib=6))
            .start("job", at("a-0001", 1))
        ),
        "with job, 12288 MiB of disk of a-0001 are in use; it has 10240",
    ),
}


def foreign() -> Scene:
    """GPU 0 and 30 CPUs of the first node are in foreign use."""
    scene = Scene()
    scene.harness.apply(ForeignUsageSeen(at_ms=0, node="a-0001", gpus=(0,), cpu_milli=30_000))
    return scene


def unhealthy() -> Scene:
    scene = Scene()
    node = scene.state.node("a-0001")
    node.devices[0].healthy = False
    node.refresh(0)
    scene.state.pools["a"].reindex(node)
    return scene


def drained() -> Scene:
    scene = Scene()
    scene.harness.apply(NodeDrained(at_ms=0, node="a-0001"))
    return scene


def labelled(value: str) -> Scene:
    return Scene(RACKS).wait(job(node_labels=(("rack", value),)))


SITES: dict[str, tuple[Build, str]] = {
    "the pool must exist": (
        lambda: Scene().wait(job()).start("job", at("a-0001", 0), pool="z"),
        "job is placed in pool z, which does not exist",
    ),
    "the flavor is that of the pool": (
        lambda: (
            Scene()
            .wait(job())
            .start("job", at("a-0001", 0))
            .change_placement(flavor="a100-40gb/spot")
        ),
        "job has flavor a100-40gb/spot; its pool has a100-40gb/owned",
    ),
    "every task is on a node of the pool": (
        lambda: Scene(OTHER_POOL).wait(job()).start("job", at("b-0001", 0)),
        "job is placed on b-0001, which is not in its pool a",
    ),
    "a node must be up": (
        lambda: drained().wait(job()).start("job", at("a-0001", 0)),
        "job is placed on a-0001, which accepts no jobs",
    ),
    "a node claimed for a job accepts no other": (
        lambda: (
            Scene()
            .wait(job("first"), job(cpu=1))
            .claimed("first", at("a-0001", 0))
            .hold("first", jobs=("first",))
            .start("job", at("a-0001", 1))
        ),
        "job is placed on a-0001, which is claimed for first",
    ),
    "a node claimed earlier in the list accepts no other job": (
        lambda: (
            Scene()
            .run(job("old"), at("a-0001", 0))
            .wait(job("first"), job(cpu=1))
            .preempt("old", "first")
            .claim("first", at("a-0001", 0), victims=("old",))
            .start("job", at("a-0001", 1))
        ),
        "job is placed on a-0001, which is claimed for first",
    ),
    "a market must be allowed": (
        lambda: Scene(SPOT).wait(job()).start("job", at("a-0001", 0)),
        "job does not allow the market spot of pool a",
    ),
    "a taint must be tolerated": (
        lambda: (
            Scene(TAINTED)
            .wait(job(tolerations=(Toleration(key="lab", value="y"),)))
            .start("job", at("a-0001", 0))
        ),
        "job does not tolerate the taint lab of pool a",
    ),
    "labels must match": (
        lambda: labelled("a-rack-0002").start("job", at("a-0001", 0)),
        "job requests rack=a-rack-0002; a-0001 has a-rack-0001",
    ),
    "the model must be one of those named": (
        lambda: Scene().wait(job(models=("h100-80gb",))).start("job", at("a-0001", 0)),
        "job requests h100-80gb; pool a has a100-40gb",
    ),
    "GPUs must have the requested memory": (
        lambda: Scene().wait(job(gpu_memory_gib=80)).start("job", at("a-0001", 0)),
        "job requests GPUs with 81920 MiB; those of pool a have 40960",
    ),
    "jobs with the same tag are on different nodes": (
        lambda: (
            Scene()
            .run(job("old", apart="t"), at("a-0001", 0))
            .wait(job(apart="t"))
            .start("job", at("a-0001", 1))
        ),
        "job must be apart from jobs with tag t, but a-0001 has old",
    ),
    "jobs with the same tag that start together are on different nodes": (
        lambda: start_two(
            Scene().wait(job(apart="t"), job(apart="t")), at("a-0001", 0), at("a-0001", 1)
        ),
        "job-2 must be apart from jobs with tag t, but a-0001 has job",
    ),
    "tasks are spread": (
        lambda: (
            Scene().wait(job(tasks=2, spread=Spread())).start("job", at("a-0001", 0, 1, count=2))
        ),
        "job has 2 tasks in node a-0001; it allows 1",
    ),
    "all groups count in a spread": (
        lambda: (
            Scene()
            .wait(gang("job", group("l"), group("w", gpus=1), spread=Spread()))
            .start("job", at("a-0001", group="l"), at("a-0001", 0, group="w"))
        ),
        "job has 2 tasks in node a-0001; it allows 1",
    ),
    "a gang is in one required domain": (
        lambda: (
            Scene(RACKS)
            .wait(job(tasks=2, topology=Topology(required="rack")))
            .start("job", at("a-0001", 0), at("a-0002", 0))
        ),
        "job must be in one rack, but is in 2: a-block-0001/a-rack-0001, a-block-0001/a-rack-0002",
    ),
    "a domain of a layer has a multiple of its size": (
        lambda: (
            Scene(RACKS)
            .wait(job(tasks=4, topology=Topology(layers=(SliceLayer(level="rack", size=2),))))
            .start("job", at("a-0001", 0, 1, 2, count=3), at("a-0002", 0))
        ),
        "job needs a multiple of 2 tasks of main in each rack; a-block-0001/a-rack-0001 has 3\n"
        "job needs a multiple of 2 tasks of main in each rack; a-block-0001/a-rack-0002 has 1",
    ),
    "a topology level must exist in the cluster": (
        lambda: Scene().wait(job(topology=Topology(required="rack"))).start("job", at("a-0001", 0)),
        "job requests the level rack; its cluster has node",
    ),
    "MIG must be allowed": (
        lambda: partitioned(NO_MIG).start("slice", sliced(0, "1g.5gb@0")),
        "slice requests 1g.5gb; pool a does not allow MIG",
    ),
}


def partitioned(fleet: Fleet | None = None) -> Scene:
    """A slice job waits, and the first GPU is already partitioned for it."""
    scene = Scene(fleet)
    scene.harness.apply(GpuPartitioned(at_ms=0, node="a-0001", gpu=0, layout=layout_of(SMALL)))
    return scene.wait(mig_job(profile="1g.5gb"))


LAUNCHED = gang("job", group("l", cpu=2), group("w", 2, gpus=2))
LAUNCHER = at("a-0001", group="l")

GANGS: dict[str, tuple[Build, str]] = {
    "no task of a group is missing": (
        lambda: Scene().wait(job(tasks=2)).start("job", at("a-0001", 0)),
        "job is placed with 1 task of main, needs 2",
    ),
    "a group has no extra tasks": (
        lambda: Scene().wait(job()).start("job", at("a-0001", 0), at("a-0002", 0)),
        "job is placed with 2 tasks of main, needs 1",
    ),
    "no group is missing": (
        lambda: Scene().wait(LAUNCHED).start("job", LAUNCHER),
        "job is placed with 0 tasks of w, needs 2",
    ),
    "every group exists in the job": (
        lambda: Scene().wait(job()).start("job", at("a-0001", 0), at("a-0002", group="x")),
        "job has no task group x, but its placement has tasks of it",
    ),
    "an elastic gang has at least its minimum": (
        lambda: Scene().wait(job(tasks=4, min_tasks=2)).start("job", at("a-0001", 0)),
        "job is placed with 1 task of main, needs 2 to 4",
    ),
    "every task has its GPUs": (
        lambda: Scene().wait(job(gpus=2, tasks=2)).start("job", at("a-0001", 0, 1, 2, count=2)),
        "tasks main of job on a-0001 need 4 GPUs, have 3",
    ),
    "every task has its profile": (
        lambda: partitioned().start("slice", sliced(0, "2g.10gb@2")),
        "tasks main of slice on a-0001 need ('1g.5gb',) slices, have ('2g.10gb',)",
    ),
    "every task has its share": (
        lambda: Scene().wait(mps_job(percent=50)).start("share", shared(0, 25)),
        "tasks main of share on a-0001 need ((50, 0),) shares (percent, MiB), have ((25, 0),)",
    ),
    "every task has its CPUs": (
        lambda: Scene().wait(job(cpu=2)).start("job", replace(at("a-0001", 0), cpu_milli=1_000)),
        "tasks main of job on a-0001 need 2000 milli-CPU, have 1000",
    ),
    "the price is that of the largest fraction of the node": (
        lambda: (
            Scene().wait(job()).start("job", at("a-0001", 0)).change_placement(micro_usd_per_hour=7)
        ),
        "job is priced at $0.0000 an hour; its resources cost $1.00",
    ),
}


@pytest.mark.parametrize("sentence", sorted({**DEVICES, **SITES, **GANGS}))
def test_an_invalid_placement_is_reported(sentence: str) -> None:
    build, expected = {**DEVICES, **SITES, **GANGS}[sentence]
    assert build().faults() == expected.split("\n")


GOOD: dict[str, Build] = {
    "no decision is needed when no job waits": lambda: Scene(),
    "two jobs on whole GPUs of one node": lambda: start_two(
        Scene().wait(job(), job()), at("a-0001", 0), at("a-0001", 1)
    ),
    "a partition, then two slices of one GPU": lambda: (
        Scene()
        .wait(mig_job(profile="1g.5gb", tasks=2))
        .partition("a-0001", 0, SMALL)
        .start("slice", sliced(0, "1g.5gb@0", "1g.5gb@1"))
    ),
    "shares that fill a GPU": lambda: (
        Scene()
        .run(mps_job("old", percent=60, gpu_memory_gib=20), shared(0, 60, 20 * 1024))
        .wait(mps_job(percent=40, gpu_memory_gib=20))
        .start("share", shared(0, 40, 20 * 1024))
    ),
    "an unpartitioned GPU, then used whole": lambda: (
        partitioned()
        .hold("slice")
        .wait(job())
        .partition("a-0001", 0, "")
        .start("job", at("a-0001", 0))
    ),
    "a gang with a launcher, over two nodes": lambda: (
        Scene()
        .wait(LAUNCHED)
        .start("job", LAUNCHER, at("a-0001", 0, 1, group="w"), at("a-0002", 2, 3, group="w"))
    ),
    "an elastic gang at less than its full size": lambda: (
        Scene().wait(job(tasks=4, min_tasks=2)).start("job", at("a-0001", 0, 1, 2, count=3))
    ),
    "a tolerated taint, by any value": lambda: (
        Scene(TAINTED).wait(job(tolerations=(Toleration(key="lab"),))).start("job", at("a-0001", 0))
    ),
    "a gang in one rack, with pairs on each node": lambda: (
        Scene(RACKS)
        .wait(
            job(
                tasks=4,
                topology=Topology(required="rack", layers=(SliceLayer(level="node", size=2),)),
            )
        )
        .start("job", at("a-0002", 0, 1, 2, 3, count=4))
    ),
    "an overcommitted resource does not block a job that needs none of it": lambda: (
        foreign().wait(job()).start("job", at("a-0001", 1))
    ),
    "a job with a tag may have two groups on a node": lambda: (
        Scene()
        .wait(gang("job", group("l"), group("w", gpus=1), apart="t"))
        .start("job", at("a-0001", group="l"), at("a-0001", 0, group="w"))
    ),
}


@pytest.mark.parametrize("sentence", sorted(GOOD))
def test_a_valid_placement_passes(sentence: str) -> None:
    assert GOOD[sentence]().faults() == []


def test_faults_raise_an_error_that_lists_them() -> None:
    scene = Scene().wait(job(), job()).start("job", at("a-0001", 0)).start("job-2", at("a-0001", 0))
    expected = r"1 fault in 2 decisions:\n- job-2 is assigned all of GPU 0 of a-0001"
    with pytest.raises(BrokenInvariant, match=expected):
        require_valid(scene.state, scene.decisions, scene.harness.now_ms)
