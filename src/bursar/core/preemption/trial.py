"""A trial: assumes that some candidates have stopped, and undoes it at the end."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType

from bursar.core.preemption.candidates import Candidate, Preemptor, TrialPlacement, Victim
from bursar.core.quota.quota_tree import QuotaTree
from bursar.model.decision import PreemptionReason

ChosenVictim = tuple[Candidate, PreemptionReason]


class Trial:
    """Removes candidates from the quota tree and the placement; leaving the ``with`` restores all."""

    def __init__(
        self, tree: QuotaTree, preemptor: Preemptor, placement: TrialPlacement | None
    ) -> None:
        self.tree = tree
        self.preemptor = preemptor
        self.placement = placement
        self._removed: dict[str, Candidate] = {}
        self._counted = False

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """The tree is restored first: it must be complete even if restoring the placement fails."""
        if self._counted:
            self._discount()
        removed, self._removed = self._removed, {}
        for candidate in removed.values():
            self.tree.add_usage(candidate.queue, candidate.usage)
        if self.placement is not None:
            for candidate in reversed(removed.values()):
                self.placement.restore(candidate.id)

    def count_preemptor(self) -> None:
        """Count the preemptor as running, to compare shares; ``fits`` ignores it."""
        self.tree.add_usage(self.preemptor.queue, self.preemptor.requests)
        self._counted = True

    def _discount(self) -> None:
        self.tree.remove_usage(self.preemptor.queue, self.preemptor.requests)
        self._counted = False

    def remove(self, candidate: Candidate) -> None:
        """Assume that a candidate has stopped."""
        self.tree.remove_usage(candidate.queue, candidate.usage)
        self._removed[candidate.id] = candidate
        if self.placement is not None:
            try:
                self.placement.remove(candidate.id)
            except BaseException:
                del self._removed[candidate.id]
                self.tree.add_usage(candidate.queue, candidate.usage)
                raise

    def restore(self, candidate: Candidate) -> None:
        """Undo ``remove``."""
        del self._removed[candidate.id]
        self.tree.add_usage(candidate.queue, candidate.usage)
        if self.placement is not None:
            self.placement.restore(candidate.id)

    def restore_all(self, chosen: Iterable[ChosenVictim]) -> None:
        """Undo ``remove`` of all these."""
        for candidate, _ in chosen:
            self.restore(candidate)

    def fits(self, *, borrowing: bool) -> bool:
        """Whether the preemptor could start now, by quota first (cheap), then by capacity."""
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
        return self.tree.fits(queue, requests) and (self.placement is None or self.placement.fits())

    def drop_needless_victims(
        self, chosen: list[ChosenVictim], *, borrowing: bool
    ) -> tuple[Victim, ...]:
        """The victims without those that later choices made unnecessary.

        Goes from the last but one to the first; the last victim replaces a dropped one in the list.
        """
        victims = list(chosen)
        for index in range(len(victims) - 2, -1, -1):
            candidate = victims[index][0]
            self.restore(candidate)
            if self.fits(borrowing=borrowing):
                victims[index] = victims[-1]
                victims.pop()
            else:
                self.remove(candidate)
        return tuple(Victim(id=candidate.id, reason=reason) for candidate, reason in victims)
