"""What the ledger tracks of an unfinished job: its queue, its attempt and its claim."""

from __future__ import annotations

from dataclasses import dataclass, field

from bursar.accounting.ledger.holding import UnsavedWork
from bursar.accounting.ledger.node_meter import NodeMeter


@dataclass(slots=True, eq=False)
class LiveAttempt:
    """The attempt that holds nodes now. The anchors of a mixed gang are a second one, linked here."""

    attempt: int
    pool: str
    flavor: str
    unsaved: UnsavedWork
    nodes: list[NodeMeter] = field(default_factory=list)
    anchors: LiveAttempt | None = None

    def live_on(self, node: NodeMeter) -> LiveAttempt:
        """The attempt itself or its anchors, whichever holds the node."""
        anchors = self.anchors
        return self if anchors is None or node not in anchors.nodes else anchors


@dataclass(slots=True, eq=False)
class OpenJob:
    """One job from its submission until its last posting.

    A job that its user cancelled or its own time limit ended wastes nothing when it stops.
    """

    id: str
    queue: str
    retries: int
    failures: int = 0
    attempt: int = 0
    is_cancelled: bool = False
    is_expired: bool = False
    live: LiveAttempt | None = None
    claimed: tuple[NodeMeter, ...] = ()

    @property
    def is_live(self) -> bool:
        return self.live is not None

    @property
    def was_stopped_on_purpose(self) -> bool:
        return self.is_cancelled or self.is_expired
