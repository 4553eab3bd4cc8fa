"""The victim search by hierarchy: a subtree may reclaim its own quota regardless of priority."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from bursar.core.preemption.candidates import (
    Candidate,
    Preemptor,
    Running,
    Victim,
    eligible,
    in_victim_order,
)
from bursar.core.preemption.trial import ChosenVictim, Trial
from bursar.core.quota.quota_tree import QuotaTree
from bursar.model.decision import PreemptionReason
from bursar.model.tenants.policy import PreemptionPolicy, VictimOrder


class _Entitlement(Enum):
    """Why the preemptor may displace a candidate."""

    OWN_QUEUE = auto()
    HIERARCHY = auto()
    """The preemptor's subtree has quota for it, and the candidate sits outside that subtree."""
    WITHOUT_BORROWING = auto()
    """Only if the preemptor's queue ends up borrowing nothing."""
    WHILE_BORROWING = auto()


_REASONS = {
    _Entitlement.OWN_QUEUE: PreemptionReason.IN_QUEUE,
    _Entitlement.HIERARCHY: PreemptionReason.RECLAIM,
    _Entitlement.WITHOUT_BORROWING: PreemptionReason.RECLAIM,
    _Entitlement.WHILE_BORROWING: PreemptionReason.RECLAIM_WHILE_BORROWING,
}


@dataclass(frozen=True, slots=True)
class _EntitledCandidate:
    candidate: Candidate
    entitlement: _Entitlement
    below_shared: tuple[str, ...]
    """The candidate's queue and its ancestors below the first ancestor shared with the preemptor."""


def search_by_hierarchy(
    trial: Trial, running: Running, policy: PreemptionPolicy, order: VictimOrder
) -> tuple[Victim, ...]:
    """The victims of the first attempt that makes the preemptor fit, without unnecessary ones."""
    preemptor = trial.preemptor
    own = [
        _EntitledCandidate(candidate, _Entitlement.OWN_QUEUE, ())
        for candidate in eligible(policy.within_queue, preemptor, running.get(preemptor.queue, ()))
    ]
    others = _candidates_elsewhere(trial.tree, preemptor, running, policy)
    by_hierarchy = [one for one in others if one.entitlement is _Entitlement.HIERARCHY]
    by_priority = [one for one in others if one.entitlement is not _Entitlement.HIERARCHY]
    lists = [by_hierarchy, by_priority, own]
    candidates = _in_order(lists, preemptor.queue, order)
    for borrowing in _attempts(trial, policy, len(others), len(by_hierarchy)):
        chosen: list[ChosenVictim] = []
        for one in candidates:
            if not _still_legal(trial, one, borrowing=borrowing):
                continue
            trial.remove(one.candidate)
            chosen.append((one.candidate, _REASONS[one.entitlement]))
            if trial.fits(borrowing=borrowing):
                return trial.drop_needless_victims(chosen, borrowing=borrowing)
        trial.restore_all(chosen)
    return ()


def _attempts(
    trial: Trial, policy: PreemptionPolicy, others: int, by_hierarchy: int
) -> tuple[bool, ...]:
    """Whether each attempt allows borrowing.

    Without borrowing there are more candidates, with it fewer victims are needed; the order is Kueue's.
    """
    forbidden = policy.borrow_while_reclaiming is None
    if others == 0 or (forbidden and not _strictly_under_nominal(trial)):
        return (True,)
    if forbidden and by_hierarchy == 0:
        return (False, True)
    return (True, False)


def _strictly_under_nominal(trial: Trial) -> bool:
    tree, queue = trial.tree, trial.preemptor.queue
    return all(tree.usage(queue, fr) < tree.nominal(queue, fr) for fr in trial.preemptor.contested)


def _still_legal(trial: Trial, one: _EntitledCandidate, *, borrowing: bool) -> bool:
    """Whether a candidate is still eligible: earlier victims may have ended its queue's borrowing."""
    if one.entitlement is _Entitlement.OWN_QUEUE:
        return True
    if borrowing and one.entitlement is _Entitlement.WITHOUT_BORROWING:
        return False
    contested = trial.preemptor.contested
    return not any(trial.tree.within_nominal(name, contested) for name in one.below_shared)


def _in_order(
    lists: list[list[_EntitledCandidate]], own_queue: str, order: VictimOrder
) -> list[_EntitledCandidate]:
    """The lists one after the other, with candidates that are already stopping first."""
    stopping: list[_EntitledCandidate] = []
    running: list[_EntitledCandidate] = []
    for entitled in lists:
        by_id = {one.candidate.id: one for one in entitled}
        candidates = (one.candidate for one in entitled)
        for candidate in in_victim_order(candidates, own_queue, order):
            (stopping if candidate.stopping else running).append(by_id[candidate.id])
    return stopping + running


def _candidates_elsewhere(
    tree: QuotaTree, preemptor: Preemptor, running: Running, policy: PreemptionPolicy
) -> list[_EntitledCandidate]:
    """Jobs of queues that borrow, where every tenant up to the shared ancestor borrows as well."""
    candidates: list[_EntitledCandidate] = []
    advantages = dict(_advantages(tree, preemptor))
    protected: dict[str, bool] = {}
    for queue in tree.borrowing_queues(preemptor.queue, preemptor.contested):
        if queue == preemptor.queue or queue not in running:
            continue
        below, shared = _path_to_shared_ancestor(tree, queue, advantages)
        for name in below:
            if name not in protected:
                protected[name] = tree.within_nominal(name, preemptor.contested)
        if any(protected[name] for name in below):
            continue
        for candidate in eligible(policy.reclaim, preemptor, running[queue]):
            entitlement = _entitlement_to(
                candidate, preemptor, policy, advantage=advantages[shared]
            )
            candidates.append(_EntitledCandidate(candidate, entitlement, below))
    return candidates


def _entitlement_to(
    candidate: Candidate, preemptor: Preemptor, policy: PreemptionPolicy, *, advantage: bool
) -> _Entitlement:
    if advantage:
        return _Entitlement.HIERARCHY
    permission = policy.borrow_while_reclaiming
    if permission is None or candidate.priority >= preemptor.priority:
        return _Entitlement.WITHOUT_BORROWING
    if permission.max_priority is not None and candidate.priority > permission.max_priority:
        return _Entitlement.WITHOUT_BORROWING
    return _Entitlement.WHILE_BORROWING


def _path_to_shared_ancestor(
    tree: QuotaTree, queue: str, ours: Mapping[str, bool]
) -> tuple[tuple[str, ...], str]:
    """The path from a queue up to the first ancestor shared with ours, and that ancestor."""
    below = [queue]
    for above in tree.ancestors(queue):
        if above in ours:
            return tuple(below), above
        below.append(above)
    raise ValueError(f"{queue!r} is in another tree")


def _advantages(tree: QuotaTree, preemptor: Preemptor) -> Iterator[tuple[str, bool]]:
    """For each ancestor, whether the request fits in the quota of its child on our path.

    What unlendable quota covers on the way needs no quota further up.
    """
    advantage = False
    remaining = dict(preemptor.requests)
    name = preemptor.queue
    for above in tree.ancestors(preemptor.queue):
        fits_here = True
        for fr, amount in remaining.items():
            fits_here = fits_here and not tree.is_borrowing(name, fr, amount)
            remaining[fr] = max(0, amount - tree.local_available(name, fr))
        advantage = advantage or fits_here
        yield above, advantage
        name = above
