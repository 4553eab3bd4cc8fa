"""What can be wrong with where a job is put."""

from __future__ import annotations

from dataclasses import dataclass

from bursar.model.fleet import Market


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownPool:
    job_id: str
    pool: str

    def __str__(self) -> str:
        return f"{self.job_id} is put into pool {self.pool}, which does not exist"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownNode:
    node: str
    gpu: int

    def __str__(self) -> str:
        return f"GPU {self.gpu} of {self.node} is to be cut; there is no such node"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongFlavor:
    job_id: str
    stated: str
    flavor: str

    def __str__(self) -> str:
        return f"{self.job_id} is said to be on {self.stated}; its pool is {self.flavor}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotInPool:
    job_id: str
    node: str
    pool: str

    def __str__(self) -> str:
        return f"{self.job_id} is put on {self.node}, which is not in its pool {self.pool}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDown:
    job_id: str
    node: str

    def __str__(self) -> str:
        return f"{self.job_id} is put on {self.node}, which takes no jobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKept:
    job_id: str
    node: str
    kept_for: str

    def __str__(self) -> str:
        return f"{self.job_id} is put on {self.node}, which is kept for {self.kept_for}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketRefused:
    job_id: str
    pool: str
    market: Market

    def __str__(self) -> str:
        return f"{self.job_id} does not allow {self.market}, which pool {self.pool} is"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaintNotTolerated:
    job_id: str
    pool: str
    taint: str

    def __str__(self) -> str:
        return f"{self.job_id} does not tolerate the taint {self.taint} of pool {self.pool}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WrongModel:
    job_id: str
    pool: str
    model: str
    wanted: tuple[str, ...]

    def __str__(self) -> str:
        wanted = " or ".join(self.wanted) or "any GPU"
        return f"{self.job_id} wants {wanted}; pool {self.pool} has {self.model}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TooLittleMemory:
    job_id: str
    pool: str
    memory_mib: int
    wanted_mib: int

    def __str__(self) -> str:
        return (
            f"{self.job_id} wants GPUs with {self.wanted_mib} MiB; "
            f"those of pool {self.pool} have {self.memory_mib}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class MigRefused:
    job_id: str
    pool: str
    profile: str

    def __str__(self) -> str:
        return f"{self.job_id} wants {self.profile}; pool {self.pool} does not allow MIG"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelMissing:
    job_id: str
    node: str
    key: str
    wanted: str
    found: str | None

    def __str__(self) -> str:
        found = "has none" if self.found is None else f"has {self.found}"
        return f"{self.job_id} wants {self.key}={self.wanted}; {self.node} {found}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NotApart:
    job_id: str
    node: str
    tag: str
    others: tuple[str, ...]

    def __str__(self) -> str:
        others = ", ".join(self.others)
        return (
            f"{self.job_id} keeps apart by {self.tag}, but {self.node} has {others} with that tag"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TooCrowded:
    job_id: str
    level: str
    domain: str
    tasks: int
    max_tasks: int

    def __str__(self) -> str:
        return (
            f"{self.job_id} has {self.tasks} tasks in {self.level} {self.domain}; "
            f"it allows {self.max_tasks}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NotTogether:
    job_id: str
    level: str
    domains: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.job_id} must be in one {self.level}, but is in {len(self.domains)}: "
            f"{', '.join(self.domains[:3])}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerBroken:
    job_id: str
    group: str
    level: str
    domain: str
    tasks: int
    size: int

    def __str__(self) -> str:
        return (
            f"each {self.size} tasks {self.group} of {self.job_id} must share one {self.level}; "
            f"{self.domain} has {self.tasks}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownLevel:
    job_id: str
    level: str
    levels: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{self.job_id} speaks of the level {self.level}; its cluster has "
            f"{', '.join(self.levels)}"
        )


SiteFault = (
    UnknownPool
    | UnknownNode
    | WrongFlavor
    | NotInPool
    | NodeDown
    | NodeKept
    | MarketRefused
    | TaintNotTolerated
    | WrongModel
    | TooLittleMemory
    | MigRefused
    | LabelMissing
    | NotApart
    | TooCrowded
    | NotTogether
    | LayerBroken
    | UnknownLevel
)
