"""One attempt to run a job, and the devices it holds."""

from __future__ import annotations

from dataclasses import dataclass

from bursar.model.fleet.gpu import MigInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceUse:
    """A MIG instance of one GPU of a node."""

    gpu: int
    instance: MigInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareUse:
    """An MPS share of one GPU of a node."""

    gpu: int
    percent: int
    memory_mib: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The tasks of one group on one node: how many, and every device they hold."""

    group: str
    node: str
    count: int
    gpus: tuple[int, ...] = ()
    slices: tuple[SliceUse, ...] = ()
    shares: tuple[ShareUse, ...] = ()
    cpu_milli: int = 0
    memory_mib: int = 0
    disk_mib: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where a gang runs: its tasks, their pool, and the price per hour.

    For a mixed gang this is the spot part, and ``anchors`` is the part in a non-spot pool of the same
    cluster, with its own flavor and price. Anchors have no anchors.
    """

    pool: str
    flavor: str
    tasks: tuple[Task, ...]
    micro_usd_per_hour: int
    anchors: Placement | None = None

    @property
    def parts(self) -> tuple[Placement, ...]:
        """Pool by pool."""
        return (self,) if self.anchors is None else (self, self.anchors)

    @property
    def all_tasks(self) -> tuple[Task, ...]:
        """The whole gang, anchors first: rank 0, by which the others find each other, is one."""
        return self.tasks if self.anchors is None else self.anchors.tasks + self.tasks

    @property
    def all_micro_usd_per_hour(self) -> int:
        """What an hour of the whole gang costs."""
        if self.anchors is None:
            return self.micro_usd_per_hour
        return self.micro_usd_per_hour + self.anchors.micro_usd_per_hour

    def part_in(self, pool: str) -> Placement | None:
        """The part of the placement in a pool."""
        return next((part for part in self.parts if part.pool == pool), None)


PREEMPTED_EXIT = 85
"""The exit code with which a job asks to be run again; its work is saved as far as possible."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How the processes of an attempt ended: by a code of their own, by a signal, or unseen."""

    code: int | None = None
    signal: int | None = None
    detail: str = ""
