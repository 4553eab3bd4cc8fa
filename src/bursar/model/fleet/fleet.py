"""The fleet: clusters, pools and nodes. GPUs and MIG instances are in ``gpu.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from bursar.model.fleet.gpu import GpuModel


class Market(StrEnum):
    """The purchase option of a pool: how its capacity is paid for and whether it can be taken away."""

    OWNED = "owned"
    RESERVED = "reserved"
    ON_DEMAND = "on-demand"
    SPOT = "spot"


CPU_ONLY = "cpu"
"""Model name in the flavor of nodes without GPUs."""


PARTITION_LABEL = "slurm.partition"
"""Label of a pool with the Slurm partitions of its nodes, separated by spaces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """Keeps jobs off a pool unless they tolerate it."""

    key: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Nodes of one shape and one purchase option.

    ``node_micro_usd_per_hour`` is required: owned hardware has an amortised rate, because GPUs at $0
    would make every comparison with the cloud wrong.
    """

    name: str
    cluster: str
    market: Market
    gpu_model: GpuModel | None
    gpus_per_node: int
    cpu_milli: int
    memory_mib: int
    disk_mib: int = 0
    node_micro_usd_per_hour: int
    interruptions_per_million_hours: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    mig_allowed: bool = True
    mps_client_limit: int = 48

    @property
    def flavor(self) -> str:
        """GPU model and purchase option, the unit of quotas."""
        return f"{self.gpu_model.name if self.gpu_model else CPU_ONLY}/{self.market}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine. Its own labels (topology labels included) add to its pool's."""

    id: str
    pool: str
    labels: Mapping[str, str] = field(default_factory=dict)


class EngineKind(StrEnum):
    """Engine that runs the jobs of a cluster."""

    LOCAL = "local"
    SLURM = "slurm"
    KUBERNETES = "kubernetes"
    SIMULATED = "simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """One engine and its nodes. ``topology_levels`` are label keys, widest first (zone, block, rack)."""

    name: str
    topology_levels: tuple[str, ...] = ()
    engine: EngineKind = EngineKind.SIMULATED


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All clusters, pools and nodes."""

    clusters: tuple[Cluster, ...]
    pools: tuple[Pool, ...]
    nodes: tuple[Node, ...]
