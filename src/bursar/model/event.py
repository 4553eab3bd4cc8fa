"""Facts, in the past tense. Job state and bills are folds over them and can be rebuilt from them."""

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
class JobSubmitted:
    """A user's job was accepted. ``priority`` is its class's value at that moment.

    ``hold_micro_usd`` is kept for it of every hard budget above it until it is over; 0 where there is none.
    """

    at_ms: int
    job_id: str
    spec: JobSpec
    priority: int
    hold_micro_usd: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelled:
    """Its user does not want it any more."""

    at_ms: int
    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptAssigned:
    """A place was promised to the job: from now on nobody else may have it."""

    at_ms: int
    job_id: str
    attempt: int
    placement: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted:
    """The engine reports that its processes run."""

    at_ms: int
    job_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSaved:
    """All work up to this moment would survive a stop; the rest is known when the job said so."""

    at_ms: int
    job_id: str
    attempt: int
    step: int | None = None
    save_ms: int | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptResumed:
    """It goes on from what an earlier attempt saved; from now on it does work that is new."""

    at_ms: int
    job_id: str
    attempt: int
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStopping:
    """It was told to stop and still holds what it held.

    ``on_behalf_of`` is the job that gets its room, ``why`` by what right, and ``lost_micro_usd`` the
    work that is lost; all three are empty when its own user cancelled it.
    """

    at_ms: int
    job_id: str
    attempt: int
    on_behalf_of: str = ""
    why: str = ""
    lost_micro_usd: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptExpired:
    """It reached its limit, was told to stop, and still holds what it held.

    ``why`` is the limit: of its run time, or of what it may be charged, which then is how much it was.
    """

    at_ms: int
    job_id: str
    attempt: int
    why: str = "time-limit"
    charged_micro_usd: int = 0


class PreemptionCause(StrEnum):
    """Who made an attempt stop."""

    ORDER = "order"
    """We told it to, for another job or because its own is over."""
    NOTICE = "notice"
    """What it ran on was about to be taken away."""
    UNPROMPTED = "unprompted"
    """Nobody that we know of: it asked to be run again by its exit code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptPreempted:
    """It stopped because it was told to. The job waits again, unless it was cancelled or expired.

    Only those by our order count against the preemptions that a job can be made to bear.
    """

    at_ms: int
    job_id: str
    attempt: int
    exit: Exit | None = None
    cause: PreemptionCause = PreemptionCause.ORDER


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptSucceeded:
    """Its processes ended well."""

    at_ms: int
    job_id: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFailed:
    """Its processes ended badly. The job waits again while it has retries left."""

    at_ms: int
    job_id: str
    attempt: int
    exit: Exit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementClaimed:
    """A place is kept for a job until those who were told to leave it have left."""

    at_ms: int
    job_id: str
    placement: Placement
    victims: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimReleased:
    """The place kept for a job is open to all again."""

    at_ms: int
    job_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPartitioned:
    """A GPU without holders has a new MIG layout; an empty one gives the whole GPU back."""

    at_ms: int
    node: str
    gpu: int
    layout: tuple[MigInstance, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAdded:
    """A node joined its pool."""

    at_ms: int
    node: Node


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDrained:
    """Nothing new may start there; what runs may end."""

    at_ms: int
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRestored:
    """It takes jobs again."""

    at_ms: int
    node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLost:
    """It is gone. The attempts on it are lost; their jobs wait again."""

    at_ms: int
    node: str


class NoticeKind(StrEnum):
    """What a provider announces."""

    TERMINATE = "terminate"
    """It takes the machine away."""
    REBALANCE = "rebalance"
    """It may soon have to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotNotice:
    """A provider says that it will take a node away, or may have to.

    A terminated node takes nothing new, and what runs there is told to stop so that it has left by
    ``ends_at_ms``. With a ``job_id`` the notice is for that job alone (an engine stops it for reasons of
    its own): it has heard already, and the node stays.
    """

    at_ms: int
    node: str
    source: str
    kind: NoticeKind
    ends_at_ms: int | None = None
    job_id: str | None = None
    attempt: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignUsageSeen:
    """What others run on a node of ours: it occupies. Each report replaces the one before."""

    at_ms: int
    node: str
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
    """A pool costs this from now on. What already ran keeps the price it ran at."""

    at_ms: int
    pool: str
    node_micro_usd_per_hour: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLevelChanged:
    """What a tenant has spent in this period has passed a step of its budget, or a new period began.

    ``level`` is the highest step that is reached, in percent of the amount; 0 is none.
    """

    at_ms: int
    tenant: str
    level: int
    spent_micro_usd: int
    amount_micro_usd: int
    period_start_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetDeclared:
    """What there is, who shares it and by which rules, from now on; it replaces what was declared before.

    The state is built anew from it and what is still live (``core/redeclare.py``), so ``FleetState``
    itself never applies one.
    """

    at_ms: int
    fleet: Fleet
    tenants: tuple[Tenant, ...]
    policies: Policies


@dataclass(frozen=True, slots=True, kw_only=True)
class BillReceived:
    """What a provider says a pool cost in a period of whole hours that is over.

    It changes what things cost, not who runs where: the ledger applies it, ``FleetState`` never does.
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
"""What the log of a control plane holds."""
