"""Parsing of Slurm's output, without Slurm."""

from __future__ import annotations

import pytest

from bursar.engines.slurm.commands.gres import Gres, device_types, parse_gres
from bursar.engines.slurm.commands.inventory import inventory, minutes
from bursar.engines.slurm.commands.job_query import SlurmJobState, queue
from bursar.engines.slurm.driven.foreign_usage import ForeignHolding, changes, parse_holdings
from bursar.model.engine_report import ForeignReported
from bursar.slurm_text import expand_hosts

NODES = """\
NodeName=t4-1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=1 CPUTot=32 CPULoad=3.84 AvailableFeatures=t4,16g \
ActiveFeatures=t4,16g Gres=gpu:t4:4(S:0-1) GresDrain=N/A GresUsed=gpu:t4:1(IDX:2),shard:0 NodeAddr=10.0.0.7 \
OS=Linux 6.1.0 #1 SMP @0  RealMemory=64000 AllocMem=100 State=MIXED+DRAIN ThreadsPerCore=1 TmpDisk=5000 \
Partitions=training,inference  BootTime=1 Reason=bad fan [root@2026-11-16T02:00:00]
NodeName=mig-1 CPUTot=64 ActiveFeatures=(null) Gres=gpu:a100_3g.40gb:2,gpu:a100_1g.10gb:4 RealMemory=256000 \
State=DOWN* TmpDisk=0 Partitions=training
NodeName=cloud-1 CPUTot=8 Gres=gpu:t4-0:1,gpu:t4-1:1 RealMemory=1000 State=IDLE+CLOUD+POWERED_DOWN TmpDisk=0
NodeName=quiet-1 CPUTot=8 Gres=gpu:t4:2,shard:t4:8 RealMemory=1000 State=IDLE* TmpDisk=0
"""
PARTITIONS = """\
PartitionName=training Default=YES DefaultTime=01:00:00 MaxTime=7-00:00:00 Nodes=t4-1,mig-1 \
PriorityTier=2 State=UP
PartitionName=long Default=NO DefaultTime=NONE MaxTime=UNLIMITED Nodes=t4-[1-3] PriorityTier=1 State=DOWN
"""
TOPOLOGY = """\
SwitchName=rack-1 Level=0 LinkSpeed=1 Nodes=t4-1
SwitchName=core Level=1 LinkSpeed=1 Nodes=mig-1,t4-1 Switches=rack-1
"""


class FakeSlurm:
    """Returns stored output of scontrol."""

    def run(self, *argv: str, text: str | None = None) -> str:
        outputs = {"node": NODES, "partition": PARTITIONS, "topology": TOPOLOGY}
        return outputs[argv[-1]]


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("", ()),
        ("(null)", ()),
        ("a", ("a",)),
        ("n[1-3,07-08],login", ("n1", "n2", "n3", "n07", "n08", "login")),
        ("r[1-2]n[09-10]", ("r1n09", "r1n10", "r2n09", "r2n10")),
    ],
)
def test_a_list_of_hosts_is_expanded(written: str, names: tuple[str, ...]) -> None:
    assert expand_hosts(written) == names


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("(null)", ()),
        ("gpu:4", (Gres(name="gpu", kind="", count=4),)),
        ("gpu", (Gres(name="gpu", kind="", count=1),)),
        ("gpu:t4:2(IDX:0,2-3)", (Gres(name="gpu", kind="t4", count=2, indices=(0, 2, 3)),)),
        ("gpu:t4:0(IDX:N/A),shard:2K", (Gres(name="shard", kind="", count=2_000),)),
        ("gres:gpu:a100:1", (Gres(name="gpu", kind="a100", count=1),)),
    ],
)
def test_devices_are_counted_by_type(written: str, expected: tuple[Gres, ...]) -> None:
    assert parse_gres(written) == expected


def test_devices_are_distinct_only_where_each_has_its_own_type() -> None:
    assert device_types(parse_gres("gpu:t4-1:1,gpu:t4-0:1")) == ("t4-0", "t4-1")
    assert device_types(parse_gres("gpu:t4:2")) is None
    assert device_types(parse_gres("gpu:t4-0:1,gpu:t4-2:1")) is None
    assert device_types(parse_gres("gpu:t4-0:2,gpu:t4-1:1")) is None


@pytest.mark.parametrize(
    ("written", "count"),
    [("7-00:00:00", 10_080), ("01:30:00", 90), ("30:30", 31), ("15", 15), ("UNLIMITED", None)],
)
def test_time_limits_are_parsed_as_minutes(written: str, count: int | None) -> None:
    assert minutes(written) == count


def test_an_inventory_has_nodes_with_resources_and_states() -> None:
    cluster = inventory(FakeSlurm())
    node = cluster.by_name["t4-1"]
    assert (node.cpus, node.memory_mib, node.disk_mib) == (32, 64_000, 5_000)
    assert (node.gpu_kind, node.gpu_count, node.device_types) == ("t4", 4, None)
    assert node.switches == ("core", "rack-1") and cluster.topology_depth == 2
    assert node.is_up and not node.is_open and node.reason.startswith("bad fan")
    mig = cluster.by_name["mig-1"]
    assert {one.mig_profile: one.count for one in mig.slices} == {"3g.40gb": 2, "1g.10gb": 4}
    assert mig.gpu_count == 0 and not mig.is_up
    cloud = cluster.by_name["cloud-1"]
    assert cloud.device_types == ("t4-0", "t4-1") and cloud.gpu_kind == "t4" and not cloud.is_up
    quiet = cluster.by_name["quiet-1"]
    assert quiet.is_up and not quiet.is_open and quiet.shards == 8


def test_an_inventory_has_partitions() -> None:
    first, second = inventory(FakeSlurm()).partitions
    assert (first.name, first.is_default, first.max_minutes) == ("training", True, 10_080)
    assert second.nodes == ("t4-1", "t4-2", "t4-3") and not second.is_up


def test_components_of_a_heterogeneous_job_have_the_id_of_the_job() -> None:
    class Queue:
        def run(self, *argv: str, text: str | None = None) -> str:
            return "12+0|RUNNING|None|a|x@1\n12+1|PENDING|None||x@1\n"

    assert [line.id for line in queue(Queue())] == ["12", "12"]  # type: ignore[arg-type]


def test_an_external_end_has_a_cause() -> None:
    assert "not by Bursar" in SlurmJobState(state="CANCELLED", code=0, signal=15).external_cause
    assert SlurmJobState(state="FAILED", code=3, signal=0).external_cause == ""
    assert not SlurmJobState(state="COMPLETING", code=0, signal=0).is_over


def test_usage_of_other_jobs_is_parsed_for_each_node() -> None:
    line = "JobId=2 Nodes=a,b CPU_IDs=0-1,4 Mem=300 GRES=gpu:t4:2(IDX:1-2) Nodes=c CPU_IDs=0 Mem=1 GRES="
    holdings = parse_holdings(line)
    assert holdings["b"] == ForeignHolding(cpus=3, memory_mib=300, gpus=2, indices=(1, 2))
    assert holdings["c"] == ForeignHolding(cpus=1, memory_mib=1)


def test_devices_of_other_users_are_numbered_around_ours_and_reported_once() -> None:
    nodes = {"t4-1": inventory(FakeSlurm()).by_name["t4-1"]}
    held = {"t4-1": {3}}
    reported: dict[str, ForeignReported] = {}
    theirs = {"t4-1": [ForeignHolding(cpus=2, memory_mib=10, gpus=2, indices=(0, 3))]}
    report = ForeignReported(node="t4-1", gpus=(1, 2), cpu_milli=2_000, memory_mib=10)
    assert changes(nodes, theirs, held, reported) == [report]
    assert changes(nodes, theirs, {}, reported) == []
    assert changes(nodes, {}, {}, reported) == [ForeignReported(node="t4-1")]
