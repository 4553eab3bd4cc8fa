"""Events, in the past tense. Job state and ledger are folds over them and can be rebuilt."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from bursar.model.fleet.fleet import Fleet, Node
from bursar.model.fleet.gpu import MigInstance
from bursar.model.jobs.attempt import Exit, Placement
from bursar.model.jobs.job import JobSpec
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfJob:
    at_ms: int
    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfAttempt(_OfJob):
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfNode:
    at_ms: int
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSubmitted(_OfJob):
    """A job was admitted. ``priority`` is the value of its class at that time.

    ``hold_micro_usd`` is reserved in every hard budget above it until it ends; 0 if there is none.
    """

    spec: JobSpec
    priority: int
    hold_micro_usd: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelled(_OfJob):
    """A user cancelled the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptAssigned(_OfAttempt):
    """A placement was assigned to the job and is its own from now on."""

    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(_OfAttempt):
    """The engine reports that its processes run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved(_OfAttempt):
    """All work up to this time is saved; the other fields are set if the job reported them."""

    step: int | None = None
    save_ms: int | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResumed(_OfAttempt):
    """The attempt resumed from a checkpoint; from now on its work is new."""

    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStopping(_OfAttempt):
    """A stop was requested; the attempt still holds its devices.

    ``on_behalf_of`` is the job it is preempted for, ``why`` the reason, and ``lost_micro_usd`` the lost
    work; all three are empty if its own user cancelled it.
    """

    on_behalf_of: str = ""
    why: str = ""
    lost_micro_usd: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptExpired(_OfAttempt):
    """The attempt reached a limit and a stop was requested; it still holds its devices.

    ``why`` is the limit: run time or cost; for cost, ``charged_micro_usd`` is the charge so far.
    """

    why: str = "time-limit"
    charged_micro_usd: int = 0


class PreemptionCause(StrEnum):
    """What made an attempt stop."""

    ORDER = "order"
    """An order of ours."""
    NOTICE = "notice"
    """A termination notice for its node."""
    UNPROMPTED = "unprompted"
    """Its own exit code, which asks to be run again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPreempted(_OfAttempt):
    """The attempt stopped on request. The job is queued again unless it was cancelled or expired.

    Only stops by our order count towards the job's preemption limit.
    """

    exit: Exit | None = None
    cause: PreemptionCause = PreemptionCause.ORDER


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSucceeded(_OfAttempt):
    """All processes of the attempt succeeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed(_OfAttempt):
    """The attempt failed. The job is queued again while it has retries left."""

    exit: Exit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementClaimed(_OfJob):
    """A placement is reserved for a job until its victims have stopped."""

    placement: Placement
    victims: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimReleased(_OfJob):
    """The placement reserved for a job is free again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPartitioned(_OfNode):
    """An idle GPU has a new MIG layout; an empty layout makes it a whole GPU again."""

    gpu: int
    layout: tuple[MigInstance, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAdded:
    """A node joined its pool."""

    at_ms: int
    node: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDrained(_OfNode):
    """No new task may start on the node; running tasks may finish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRestored(_OfNode):
    """The node accepts jobs again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLost(_OfNode):
    """The node is lost with the attempts on it; their jobs are queued again."""


class NoticeKind(StrEnum):
    """The type of a provider's notice."""

    TERMINATE = "terminate"
    """The machine will be reclaimed."""
    REBALANCE = "rebalance"
    """The machine may be reclaimed soon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotNotice(_OfNode):
    """A provider will or may reclaim a node.

    After a termination notice no task starts on the node, and its attempts are stopped by ``ends_at_ms``.
    With a ``job_id`` the notice is for that job alone (its engine stops it): the job knows already, and the
    node stays.
    """

    source: str
    kind: NoticeKind
    ends_at_ms: int | None = None
    job_id: str | None = None
    attempt: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignUsageSeen(_OfNode):
    """Capacity of a node used by other schedulers; each report replaces the previous one."""

    gpus: tuple[int, ...] = ()
    cpu_milli: int = 0
    memory_mib: int = 0
    disk_mib: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantChanged:
    """A tenant's weight, quotas or policies are now these."""

    at_ms: int
    tenant: Tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceChanged:
    """A pool's price from now on; past usage is not repriced."""

    at_ms: int
    pool: str
    node_micro_usd_per_hour: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLevelChanged:
    """A tenant's spending passed a step of its budget, or a new period began.

    ``level`` is the highest step reached, in percent of the amount; 0 is none.
    """

    at_ms: int
    tenant: str
    level: int
    spent_micro_usd: int
    amount_micro_usd: int
    period_start_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetDeclared:
    """Fleet, tenants and policies from now on; replaces the previous declaration.

    The state is rebuilt from it and the live jobs, so ``FleetState`` itself never applies one.
    """

    at_ms: int
    fleet: Fleet
    tenants: tuple[Tenant, ...]
    policies: Policies


@dataclass(frozen=True, slots=True, kw_only=True)
class BillReceived:
    """A provider's bill for a pool over a past period of whole hours.

    The ledger applies it; ``FleetState`` never does.
    """

    at_ms: int
    pool: str
    flavor: str
    from_ms: int
    to_ms: int
    billed_micro_usd: int


AttemptEnded = AttemptPreempted | AttemptSucceeded | AttemptFailed
JobEvent = (
    JobSubmitted
    | JobCancelled
    | AttemptAssigned
    | AttemptStarted
    | CheckpointSaved
    | AttemptResumed
    | AttemptStopping
    | AttemptExpired
    | AttemptEnded
    | PlacementClaimed
    | ClaimReleased
)
FleetEvent = (
    GpuPartitioned
    | NodeAdded
    | NodeDrained
    | NodeRestored
    | NodeLost
    | SpotNotice
    | ForeignUsageSeen
    | TenantChanged
    | PriceChanged
    | BudgetLevelChanged
)
Event = JobEvent | FleetEvent
LoggedEvent = Event | FleetDeclared | BillReceived
"""All events of a control plane's log."""
