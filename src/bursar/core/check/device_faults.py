"""What can be wrong with a device or an amount that is promised."""

from __future__ import annotations

from dataclasses import dataclass

from bursar.model.gpu import Layout, MigInstance


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSuchGpu:
    node: str
    gpu: int
    gpus: int

    def __str__(self) -> str:
        return f"node {self.node} has {self.gpus} GPUs; there is no GPU {self.gpu}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnhealthyGpu:
    job_id: str
    node: str
    gpu: int

    def __str__(self) -> str:
        return f"{self.job_id} is given GPU {self.gpu} of {self.node}, which is not healthy"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceTaken:
    """The part of a GPU that is promised is held, or cannot stand beside what is held."""

    job_id: str
    node: str
    gpu: int
    wanted: str
    holder: str
    held: str

    def __str__(self) -> str:
        return (
            f"{self.job_id} is given {self.wanted} of GPU {self.gpu} of {self.node}, "
            f"of which {self.holder} holds {self.held}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NotCutSo:
    job_id: str
    node: str
    gpu: int
    instance: MigInstance
    layout: Layout

    def __str__(self) -> str:
        cut = " ".join(str(one) for one in self.layout) or "not cut at all"
        return (
            f"{self.job_id} is given {self.instance} of GPU {self.gpu} of {self.node}, "
            f"which is then cut otherwise: {cut}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StillCut:
    job_id: str
    node: str
    gpu: int
    wanted: str
    layout: Layout

    def __str__(self) -> str:
        cut = " ".join(str(one) for one in self.layout)
        return (
            f"{self.job_id} is given {self.wanted} of GPU {self.gpu} of {self.node}, "
            f"which is still cut by MIG: {cut}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OverShared:
    """More MPS shares than one GPU has percent, memory or client slots for."""

    job_id: str
    node: str
    gpu: int
    resource: str
    used: int
    limit: int

    def __str__(self) -> str:
        return (
            f"with {self.job_id}, shares of GPU {self.gpu} of {self.node} add up to {self.used} "
            f"{self.resource} of {self.limit}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OverCapacity:
    job_id: str
    node: str
    resource: str
    used: int
    capacity: int

    def __str__(self) -> str:
        return (
            f"with {self.job_id}, {self.used} {self.resource} of {self.node} are in use; "
            f"it has {self.capacity}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CutInUse:
    node: str
    gpu: int
    holders: tuple[str, ...]

    def __str__(self) -> str:
        return f"GPU {self.gpu} of {self.node} is to be cut while {', '.join(self.holders)} hold it"


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLayout:
    node: str
    gpu: int
    problem: str

    def __str__(self) -> str:
        return f"GPU {self.gpu} of {self.node} cannot be cut so: {self.problem}"


DeviceFault = (
    NoSuchGpu
    | UnhealthyGpu
    | DeviceTaken
    | NotCutSo
    | StillCut
    | OverShared
    | OverCapacity
    | CutInUse
    | BadLayout
)
