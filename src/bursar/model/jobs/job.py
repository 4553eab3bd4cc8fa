"""Job specs. A job is a gang of task groups: all its tasks start or none does."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from bursar.model.fleet.fleet import Market


class GpuRequest:
    """GPU request of each task."""

    __slots__ = ()
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeGpus(GpuRequest):
    """Whole GPUs for each task: of one of the named models (none named: any), with enough memory."""

    count: int
    models: tuple[str, ...] = ()
    min_memory_mib: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MigSlice(GpuRequest):
    """One MIG instance for each task."""

    profile: str
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MpsShare(GpuRequest):
    """A fraction of one GPU for each task (MPS): percent of compute, and memory."""

    percent: int
    memory_mib: int = 0
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskGroup:
    """Identical tasks. ``min_count`` makes the group elastic: any size from it to ``count``."""

    name: str = "main"
    count: int = 1
    min_count: int | None = None
    gpu: GpuRequest | None = None
    cpu_milli: int = 0
    memory_mib: int = 0
    disk_mib: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceLayer:
    """Each ``size`` tasks must share one domain of ``level`` (e.g. 4 tasks to an NVLink domain)."""

    level: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Levels in which the gang must (required) or should (preferred) be together; layers are widest first."""

    required: str | None = None
    preferred: str | None = None
    layers: tuple[SliceLayer, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Limit of tasks of the job in one domain of a level (``node`` is the narrowest)."""

    level: str = "node"
    max_tasks: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """Lets a job onto pools with this taint; an empty value tolerates any."""

    key: str
    value: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """An amount of GPU time, to be done within a time after submission."""

    gpu_ms: int
    within_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPolicy:
    """Time between checkpoints, and the time of a restart in addition to lost work."""

    interval_ms: int | None = None
    restart_ms: int = 0


class FlavorChoice(StrEnum):
    """How a job that could run on several flavors chooses: by its own order, or by expected cost."""

    ORDER = "order"
    COST = "cost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """Where a job may run. Jobs with the same ``apart`` tag never share a node."""

    node_labels: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: Topology | None = None
    spread: Spread | None = None
    apart: str | None = None
    markets: tuple[Market, ...] = (Market.OWNED, Market.RESERVED, Market.ON_DEMAND)
    choose_by: FlavorChoice = FlavorChoice.COST
    closed_pools: tuple[str, ...] = ()
    """Pools that a governance rule has excluded; users do not write it."""
    anchors_percent: int = 0
    """Percentage of each group's tasks, rounded up, that must run on non-spot pools."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A user's full request. Times are durations except ``deadline_ms``, a point in time."""

    name: str
    queue: str
    groups: tuple[TaskGroup, ...]
    priority_class: str = "normal"
    preemptible: bool = True
    expected_run_ms: int | None = None
    max_run_ms: int | None = None
    deadline_ms: int | None = None
    slo: Slo | None = None
    constraints: Constraints = field(default_factory=Constraints)
    checkpoint: CheckpointPolicy = field(default_factory=CheckpointPolicy)
    depends_on: tuple[str, ...] = ()
    retries: int = 0
    array_size: int = 1
    similarity_keys: tuple[str, ...] = ()
    """Earlier jobs with these keys (queue, user, name; widest first) predict its run time."""
    max_cost_micro_usd: int | None = None
    """Cost limit of all its attempts together; the job is stopped early enough to stay below."""
    grace_ms: int = 0
    """Grace time to stop on request; set only if that time is charged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobShape:
    """What a job needs. ``run_ms`` is its run time rounded up to the grid.

    ``own`` is the id of a deadline-managed job: its pools depend on its progress, so it is alone in its
    kind.
    """

    groups: tuple[TaskGroup, ...]
    constraints: Constraints
    checkpoint: CheckpointPolicy
    preemptible: bool
    run_ms: int | None
    own: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobKind:
    """Jobs that the scheduler cannot tell apart: a shape, a queue and a priority.

    A cycle schedules kinds (kube-scheduler: equivalence classes).
    """

    queue: str
    priority: int
    shape: JobShape


class JobState(StrEnum):
    """The state of a job. ``lifecycle.py`` has the table of transitions."""

    BLOCKED = "blocked"
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    CANCELLING = "cancelling"
    EXPIRING = "expiring"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


OVER: Final = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})
"""States that a job never leaves."""
