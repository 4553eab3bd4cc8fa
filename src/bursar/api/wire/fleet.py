"""Wire types about the fleet, tenants, tokens and operations."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

RoleName = Literal["viewer", "member", "lead", "admin"]
Scope = Literal[
    "jobs:read",
    "jobs:write",
    "fleet:read",
    "fleet:write",
    "tenants:read",
    "tenants:write",
    "tokens:write",
    "operate",
]


class HolderView(TypedDict):
    """A job that holds a GPU. Another tenant's job has no id."""

    job_id: str | None
    queue: str


class DeviceView(TypedDict):
    """One GPU of a node."""

    index: int
    mode: str
    used_milli: int
    is_healthy: bool
    layout: list[str]
    holders: list[HolderView]


class NoticeView(TypedDict):
    """A provider's notice that a node will (``terminate``) or may (``rebalance``) be interrupted."""

    source: str
    kind: str
    at_ms: int
    ends_at_ms: int | None
    """Null if the source did not specify it: then 30 seconds are assumed."""


class FleetNode(TypedDict):
    """One machine."""

    id: str
    is_up: bool
    is_open: bool
    notice: NoticeView | None
    """Valid until the node is lost or restored."""
    free_gpus: int
    free_cpu_milli: int
    free_memory_mib: int
    devices: list[DeviceView]


class FleetPool(TypedDict):
    """A pool: identical nodes."""

    name: str
    cluster: str
    flavor: str
    market: str
    gpu_model: str | None
    gpus_per_node: int
    node_micro_usd_per_hour: int
    nodes: list[FleetNode]
    node_count: int
    gpu_count: int
    free_gpus: int


class FleetView(TypedDict):
    """Pools, nodes and GPUs, and the jobs that hold them."""

    pools: list[FleetPool]


class QuotaRow(TypedDict):
    """The quota of one tenant for a resource of a flavor, in milli-GPUs, milli-CPUs or MiB.

    A null ``limit`` means no limit.
    """

    tenant: str
    flavor: str
    resource: str
    nominal: int
    used: int
    borrowed: int
    available: int | None
    limit: int | None
    limited_by: str


class QuotaPage(TypedDict):
    items: list[QuotaRow]


class FairRow(TypedDict):
    """A tenant's share of the usage of its siblings, against its fair share."""

    tenant: str
    parent: str | None
    weight: float
    usage: float
    share_permille: int
    entitlement_permille: int
    rank: int
    siblings: int


class FairPage(TypedDict):
    items: list[FairRow]


class TenantRow(TypedDict):
    name: str
    parent: str | None
    weight: float
    is_queue: bool
    queueing: str


class TenantPage(TypedDict):
    items: list[TenantRow]


class FleetFiles(TypedDict):
    """Fleet files by name, and the sequence number that they were planned against."""

    files: dict[str, str]
    expected_sequence: NotRequired[int | None]


class FleetChangeView(TypedDict):
    """One difference between the current fleet and the files."""

    kind: str
    subject: str
    before: str | None
    after: str | None
    effect: str


class FleetPlan(TypedDict):
    changes: list[FleetChangeView]
    sequence: int


class TokenRequest(TypedDict):
    """A token to create. By default it has all scopes of the role that you may grant."""

    user: str
    role: RoleName
    tenant: str
    scopes: NotRequired[list[Scope] | None]
    expires_in_seconds: NotRequired[int | None]


class NewToken(TypedDict):
    """A new token. Its text is only in this response."""

    id: str
    token: str
    user: str
    role: RoleName
    tenant: str
    scopes: list[Scope]
    expires_at_ms: int | None


class TokenRow(TypedDict):
    id: str
    user: str
    role: RoleName
    tenant: str
    scopes: list[Scope]
    created_at_ms: int
    created_by: str
    expires_at_ms: int | None
    revoked_at_ms: int | None
    last_used_at_ms: int | None


class TokenPage(TypedDict):
    items: list[TokenRow]


class WhoAmI(TypedDict):
    """The identity of the caller. An empty tenant is the whole installation."""

    user: str
    role: RoleName
    tenant: str
    permissions: list[Scope]
    queues: list[str]
    token_id: str


class StoredBundle(TypedDict):
    sha256: str
    size_bytes: int


class InterruptionRequest(TypedDict):
    """How a node is interrupted: the time of the notice (0: none), and the time of absence."""

    notice_seconds: NotRequired[int]
    absence_seconds: NotRequired[int]


class InterruptedView(TypedDict):
    """The node of a job that is interrupted, and when it is lost and back."""

    job_id: str
    node: str
    lost_at_ms: int
    back_at_ms: int


class NodeChanged(TypedDict):
    node: str
    action: Literal["drained", "restored"]


class AuditRow(TypedDict):
    number: int
    at_ms: int
    user: str
    token_id: str
    action: str
    subject: str
    outcome: str
    detail: str


class AuditPage(TypedDict):
    items: list[AuditRow]
    next_cursor: str | None


class FindingRow(TypedDict):
    """A finding of a governance rule on a job or a node. In ``dry-run`` it forbids nothing."""

    rule: str
    mode: str
    owner: str
    subject: str
    text: str
    fix: str
    micro_usd_per_hour: int


class FindingPage(TypedDict):
    items: list[FindingRow]
