"""Supposing that jobs had stopped, without any of it being real."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

from bursar.core.preemption.candidates import Candidate, Preemptor, TrialPlacement, Victim
from bursar.core.quota.quota_tree import QuotaTree
from bursar.model.decision import PreemptionReason

ChosenVictim = tuple[Candidate, PreemptionReason]


class Trial:
    """Takes candidates out of the quota tree and the room; leaving the ``with`` puts all back."""

    __slots__ = ("_counted", "_out", "preemptor", "room", "tree")

    def __init__(self, tree: QuotaTree, preemptor: Preemptor, room: TrialPlacement | None) -> None:
        self.tree = tree
        self.preemptor = preemptor
        self.room = room
        self._out: dict[str, Candidate] = {}
        self._counted = False

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The tree comes first: it must be whole again even if the room fails to follow."""
        if self._counted:
            self._discount()
        out, self._out = self._out, {}
        for candidate in out.values():
            self.tree.add_usage(candidate.queue, candidate.usage)
        if self.room is not None:
            for candidate in reversed(out.values()):
                self.room.restore(candidate.id)

    def count_preemptor(self) -> None:
        """Suppose that the preemptor already ran, for comparing shares; fits looks past that."""
        self.tree.add_usage(self.preemptor.queue, self.preemptor.requests)
        self._counted = True

    def _discount(self) -> None:
        self.tree.remove_usage(self.preemptor.queue, self.preemptor.requests)
        self._counted = False

    def remove(self, candidate: Candidate) -> None:
        """Suppose the candidate had stopped."""
        self.tree.remove_usage(candidate.queue, candidate.usage)
        self._out[candidate.id] = candidate
        if self.room is not None:
            try:
                self.room.remove(candidate.id)
            except BaseException:
                del self._out[candidate.id]
                self.tree.add_usage(candidate.queue, candidate.usage)
                raise

    def restore(self, candidate: Candidate) -> None:
        """Suppose it went on running, after all."""
        del self._out[candidate.id]
        self.tree.add_usage(candidate.queue, candidate.usage)
        if self.room is not None:
            self.room.restore(candidate.id)

    def restore_all(self, chosen: Iterable[ChosenVictim]) -> None:
        """Give up an attempt and start from what really runs."""
        for candidate, _ in chosen:
            self.restore(candidate)

    def fits(self, *, borrowing: bool) -> bool:
        """Whether the preemptor could start now, by quota first (cheap) and then by room."""
        if not self._counted:
            return self._fits(borrowing=borrowing)
        self._discount()
        fitting = self._fits(borrowing=borrowing)
        self.count_preemptor()
        return fitting

    def _fits(self, *, borrowing: bool) -> bool:
        queue, requests = self.preemptor.queue, self.preemptor.requests
        if not borrowing:
            for fr, amount in requests.items():
                if self.tree.is_borrowing(queue, fr, amount):
                    return False
        return self.tree.fits(queue, requests) and (self.room is None or self.room.fits())

    def drop_needless_victims(
        self, chosen: list[ChosenVictim], *, borrowing: bool
    ) -> tuple[Victim, ...]:
        """Fill back: the latest choice was needed, earlier ones may have become superfluous.

        Goes from the last but one to the first; the last victim takes a spared one's place.
        """
        kept = list(chosen)
        for index in range(len(kept) - 2, -1, -1):
            candidate = kept[index][0]
            self.restore(candidate)
            if self.fits(borrowing=borrowing):
                kept[index] = kept[-1]
                kept.pop()
            else:
                self.remove(candidate)
        return tuple(Victim(id=candidate.id, reason=reason) for candidate, reason in kept)
