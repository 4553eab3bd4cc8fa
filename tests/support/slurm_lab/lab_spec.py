"""What a lab consists of: nodes with pretended hardware, partitions, users, and extra lines."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class LabNode:
    """One slurmd. ``gpus`` are the types of its devices in order of index; they are never opened.

    ``named_devices`` gives each device a type of its own (``t4-0``, ``t4-1``), which is how Slurm lets a job
    say exactly which it wants. ``shards`` cuts each GPU into so many.
    """

    name: str
    cpus: int = 32
    memory_mib: int = 64_000
    gpus: tuple[str, ...] = ()
    named_devices: bool = False
    shards: int = 0
    features: tuple[str, ...] = ()
    switch: str = "s1"

    def types(self) -> dict[str, list[int]]:
        """The indices of the devices of each type, in order."""
        found: dict[str, list[int]] = {}
        for index, kind in enumerate(self.gpus):
            found.setdefault(f"{kind}-{index}" if self.named_devices else kind, []).append(index)
        return found

    def gres(self) -> str:
        """As ``Gres=`` of the node has it."""
        parts = [f"gpu:{kind}:{len(indices)}" for kind, indices in self.types().items()]
        if self.shards:
            parts.append(f"shard:{self.shards * len(self.gpus)}")
        return ",".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class LabPartition:
    """A partition over some nodes (none named: all). ``more`` is added to its line as it is."""

    name: str
    nodes: tuple[str, ...] = ()
    more: str = ""


def t4_nodes(count: int, prefix: str = "t4") -> tuple[LabNode, ...]:
    """Nodes of four T4, two to a switch."""
    return tuple(
        LabNode(
            name=f"{prefix}-{number}",
            gpus=("t4",) * 4,
            features=("t4", "16g"),
            switch=f"rack-{(number + 1) // 2}",
        )
        for number in range(1, count + 1)
    )


def a100_nodes(count: int, prefix: str = "a100") -> tuple[LabNode, ...]:
    """Nodes of eight A100, two to a switch."""
    return tuple(
        LabNode(
            name=f"{prefix}-{number}",
            cpus=64,
            memory_mib=256_000,
            gpus=("a100",) * 8,
            features=("a100", "80g"),
            switch=f"rack-a{(number + 1) // 2}",
        )
        for number in range(1, count + 1)
    )


def every_kind() -> tuple[LabNode, ...]:
    """Whole GPUs of two models, named devices, MIG instances and shards."""
    mig = ("a100_3g.40gb", "a100_3g.40gb", "a100_1g.10gb", "a100_1g.10gb")
    return (
        *t4_nodes(4),
        *a100_nodes(2),
        LabNode(name="exact-1", gpus=("t4",) * 4, named_devices=True, switch="rack-3"),
        LabNode(name="mig-1", gpus=mig, features=("mig",), switch="rack-3"),
        LabNode(name="shard-1", gpus=("t4",) * 2, shards=4, switch="rack-4"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabPlan:
    """Everything about a lab that may differ.

    ``users`` can submit and run jobs without being known to the machine (libnss-wrapper); they need
    root. ``slurm_conf`` lines come last, and the last word counts where Slurm allows a repetition.
    ``associations`` is loaded by one ``sacctmgr load``; ``sacctmgr`` are commands run before it.
    """

    cluster: str = "lab"
    nodes: tuple[LabNode, ...] = field(default_factory=every_kind)
    partitions: tuple[LabPartition, ...] = (
        LabPartition(name="training", more="Default=YES"),
        LabPartition(name="inference", more="PriorityJobFactor=10"),
    )
    users: tuple[str, ...] = ("alice", "bob", "carol", "dave", "svc")
    database: bool = True
    rest: bool = True
    quick: bool = False
    """Whether it looks for work as often as is recommended for a cluster that Bursar drives."""
    enforce: str = ""
    """``AccountingStorageEnforce``: ``associations,limits,qos`` for a governed cluster, or nothing."""
    preempt: str = "PreemptType=preempt/none"
    slurm_conf: tuple[str, ...] = ()
    sacctmgr: tuple[tuple[str, ...], ...] = ()
    associations: str = ""
    slurmd_timeout_seconds: int = 20
    min_job_age_seconds: int = 300
