"""What the ledger tracks of an unfinished job: its queue, its attempt and its claim."""

from __future__ import annotations

from bursar.accounting.ledger.entry import AccountKind, account_of
from bursar.accounting.ledger.holding import UnsavedWork
from bursar.accounting.ledger.node_meter import NodeMeter


class LiveAttempt:
    """The attempt that holds nodes now. The anchors of a mixed gang are a second one, linked here."""

    __slots__ = ("anchors", "attempt", "flavor", "nodes", "pool", "unsaved")

    def __init__(self, attempt: int, pool: str, flavor: str, from_ms: int) -> None:
        self.attempt = attempt
        self.pool = pool
        self.flavor = flavor
        self.nodes: list[NodeMeter] = []
        self.unsaved = UnsavedWork(from_ms)
        self.anchors: LiveAttempt | None = None

    def live_on(self, node: NodeMeter) -> LiveAttempt:
        """The attempt itself or its anchors, whichever holds the node."""
        anchors = self.anchors
        return self if anchors is None or node not in anchors.nodes else anchors


class OpenJob:
    """One job from its submission until its last posting.

    A job that its user cancelled or its own time limit ended wastes nothing when it stops.
    """

    __slots__ = (
        *("id", "queue", "usage", "waste", "retries", "failures"),
        *("is_cancelled", "is_expired", "attempt", "live", "claimed"),
    )

    def __init__(self, job_id: str, queue: str, retries: int) -> None:
        self.id = job_id
        self.queue = queue
        self.usage = account_of(AccountKind.USAGE, queue)
        self.waste = account_of(AccountKind.WASTE, queue)
        self.retries = retries
        self.failures = self.attempt = 0
        self.is_cancelled = self.is_expired = False
        self.live: LiveAttempt | None = None
        self.claimed: tuple[NodeMeter, ...] = ()

    @property
    def is_live(self) -> bool:
        return self.live is not None

    @property
    def was_stopped_on_purpose(self) -> bool:
        return self.is_cancelled or self.is_expired
