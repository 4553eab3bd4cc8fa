"""A MIG layout ordered by hand is refused with a code, the field and legal layouts near it."""

from __future__ import annotations

import pytest

from bursar.core.admission import check_partition
from bursar.core.state import FleetState
from bursar.model.attempt import Placement, Task
from bursar.model.errors import UserError
from bursar.model.event import AttemptAssigned, GpuPartitioned
from bursar.model.gpu import MigInstance
from bursar.testing import fleet_of, job, pool, state_of, submit


def world() -> FleetState:
    return state_of(fleet_of(pool("a100"), pool("t4", gpus=4, model="t4")))


def cut(*instances: str, node: str = "a100-0001", gpu: int = 0) -> GpuPartitioned:
    pairs = [one.split("@") for one in instances]
    layout = tuple(MigInstance(profile=name, start=int(start)) for name, start in pairs)
    return GpuPartitioned(at_ms=0, node=node, gpu=gpu, layout=layout)


PARTITION_CASES: dict[str, tuple[GpuPartitioned, str, tuple[str, ...]]] = {
    "instances do not overlap": (
        cut("4g.40gb@0", "2g.20gb@2"),
        "overlapping-mig",
        ("layout", "4g.40gb@0 and 2g.20gb@2 overlap", "Legal and near: 4g.40gb@0"),
    ),
    "an instance starts where it may": (
        cut("3g.40gb@2"),
        "wrong-mig-start",
        ("layout", "cannot start at memory slice 2; it can at 0, 4"),
    ),
    "a profile exists": (
        cut("3g.40@0"),
        "unknown-mig-profile",
        ("layout", "no 3g.40", "Did you mean '3g.40gb'"),
    ),
    "there are not more instances than the board has": (
        cut("1g.10gb+me@0", "1g.10gb+me@1"),
        "too-many-mig-instances",
        ("layout", "at most 1"),
    ),
    "the node exists": (
        cut("7g.80gb@0", node="a100-001"),
        "unknown-node",
        ("node is 'a100-001'", "Did you mean 'a100-0001'"),
    ),
    "the GPU exists": (
        cut("7g.80gb@0", gpu=8),
        "unknown-gpu",
        ("gpu is 8", "has 8 GPUs", "0 to 7"),
    ),
    "the board has MIG": (
        cut("1g.10gb@0", node="t4-0001"),
        "no-mig",
        ("layout", "t4-16gb has no MIG", "Leave the layout empty"),
    ),
    "nobody is on the GPU": (
        cut("7g.80gb@0", gpu=1),
        "gpu-in-use",
        ("gpu 1 of 'a100-0001' is held by first", "Drain"),
    ),
}


@pytest.mark.parametrize("sentence", PARTITION_CASES)
def test_a_partition_is_refused_unless(sentence: str) -> None:
    event, code, words = PARTITION_CASES[sentence]
    state = world()
    submit(state, job("first"))
    task = Task(group="main", node="a100-0001", count=1, gpus=(1,))
    placement = Placement(
        pool="a100", flavor="a100-80gb/owned", tasks=(task,), micro_usd_per_hour=0
    )
    state.apply(AttemptAssigned(at_ms=0, job_id="first", attempt=1, placement=placement))
    with pytest.raises(UserError) as refusal:
        check_partition(event, state)
    assert refusal.value.code == code
    for word in words:
        assert word in str(refusal.value)


def test_a_legal_partition_is_let_through() -> None:
    state = world()
    check_partition(cut("4g.40gb@0", "3g.40gb@4"), state)
    check_partition(cut(), state)
    check_partition(cut(node="t4-0001"), state)
