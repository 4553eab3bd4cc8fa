"""Reservations while a cycle is played forward.

A cycle plans anew for its first blocked jobs each time. Played forward over thousands of ends that would
cost more than all the rest, so in a large world a reservation stands until its owner starts or its
moment has come.
"""

from __future__ import annotations

from bursar.core.draft import Draft
from bursar.core.line import JobRecord


class KeptReservations:
    """Decides, step by step, whether blocked jobs are planned for anew or keep what they have."""

    def __init__(self, draft: Draft, *, replan: bool) -> None:
        self._draft = draft
        self._replan = replan
        self._most = draft.state.policies.backfill.reservations
        self._owners: set[str] = set()
        self._unanswered: set[str] = set()
        self._reserved: dict[str, dict[str, int]] = {}
        self._planned: dict[str, list[tuple[int, str]]] = {}

    def lift(self) -> None:
        """A new step: who has a reservation must not stand in its own way."""
        draft = self._draft
        if self._replan:
            draft.victim_searches = 0
        elif not self._owners and draft.planned:
            self._owners = {job_id for plans in draft.planned.values() for _, job_id in plans}
            self._reserved, self._planned = draft.reserved, draft.planned
        draft.reserved, draft.planned = {}, {}
        if any(at_ms <= draft.now_ms for plans in self._planned.values() for at_ms, _ in plans):
            self._forget()
        self._unanswered = set(self._owners)
        draft.reservations = self._most if self._owners else 0

    def answered(self, head: JobRecord, *, started: bool) -> None:
        """Put reservations back once their owners have had their turn."""
        if head.id not in self._unanswered:
            return
        self._unanswered.discard(head.id)
        if started:
            self._forget()
        elif not self._unanswered:
            self._draft.reserved, self._draft.planned = self._reserved, self._planned

    def _forget(self) -> None:
        self._owners, self._unanswered = set(), set()
        self._planned = {}
        self._draft.reservations = 0
