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
        self._reserved: dict[str, dict[str, int]] = {}
        self._unanswered: set[str] = set()

    def lift(self) -> None:
        """A new step: who has a reservation must not stand in its own way.

        Plans that are kept stay listed, so that no new ones are made, but bind nobody until their
        owners have had their turn.
        """
        draft = self._draft
        if self._replan:
            draft.victim_searches = 0
        self._reserved = draft.reserved or self._reserved
        draft.reserved = {}
        if self._replan or any(one.at_ms <= draft.now_ms for one in draft.planned):
            self._forget()
        self._unanswered = {one.job_id for one in draft.planned}
        draft.slack = [{} for _ in draft.planned]

    def answered(self, head: JobRecord, *, started: bool) -> None:
        """Put reservations back once their owners have had their turn."""
        if head.id not in self._unanswered:
            return
        self._unanswered.discard(head.id)
        if started:
            self._forget()
        elif not self._unanswered:
            self._draft.reserved = self._reserved
            self._draft.slack = [dict(one.slack) for one in self._draft.planned]

    def _forget(self) -> None:
        self._draft.planned, self._draft.slack = [], []
        self._reserved, self._unanswered = {}, set()
