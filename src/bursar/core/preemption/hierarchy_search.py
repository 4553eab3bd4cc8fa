"""The search by hierarchy: who is closer to the quota may take it back, whatever the priority."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from bursar.core.preemption.candidates import Candidate, Preemptor, Victim
from bursar.core.preemption.eligibility import may_preempt
from bursar.core.preemption.trial import ChosenVictim, Trial
from bursar.core.preemption.victim_order import in_victim_order
from bursar.core.quota.quota_tree import QuotaTree
from bursar.model.decision import PreemptionReason
from bursar.model.tenants.policy import PreemptionPolicy, VictimOrder

Running = Mapping[str, Sequence[Candidate]]


class _Entitlement(Enum):
    """On what ground the preemptor may have a candidate's place."""

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
    claim: _Entitlement
    below_meeting: tuple[str, ...]
    """The candidate's queue and its ancestors strictly below where its path meets ours."""


def search_by_hierarchy(
    trial: Trial, running: Running, policy: PreemptionPolicy, order: VictimOrder
) -> tuple[Victim, ...]:
    """The first attempt that makes the preemptor fit, with needless victims spared."""
    own = _claims_in_own_queue(trial.preemptor, running, policy)
    others = _claims_elsewhere(trial.tree, trial.preemptor, running, policy)
    by_hierarchy = [claimed for claimed in others if claimed.claim is _Entitlement.HIERARCHY]
    by_priority = [claimed for claimed in others if claimed.claim is not _Entitlement.HIERARCHY]
    lists = [by_hierarchy, by_priority, own]
    claims = _in_order(lists, trial.preemptor.queue, order)
    for borrowing in _attempts(trial, policy, len(others), len(by_hierarchy)):
        chosen: list[ChosenVictim] = []
        for claimed in claims:
            if not _still_legal(trial, claimed, borrowing=borrowing):
                continue
            trial.remove(claimed.candidate)
            chosen.append((claimed.candidate, _REASONS[claimed.claim]))
            if trial.fits(borrowing=borrowing):
                return trial.drop_needless_victims(chosen, borrowing=borrowing)
        trial.restore_all(chosen)
    return ()


def _attempts(
    trial: Trial, policy: PreemptionPolicy, others: int, by_hierarchy: int
) -> tuple[bool, ...]:
    """Whether to allow borrowing, attempt by attempt.

    Without borrowing there are more candidates, with it less is needed; which is tried first keeps
    to what queues of Kueue have come to rely on.
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


def _still_legal(trial: Trial, claimed: _EntitledCandidate, *, borrowing: bool) -> bool:
    """Earlier victims may have brought a queue, or a tenant above it, back within its quota."""
    if claimed.claim is _Entitlement.OWN_QUEUE:
        return True
    if borrowing and claimed.claim is _Entitlement.WITHOUT_BORROWING:
        return False
    contested = trial.preemptor.contested
    return not any(trial.tree.within_nominal(name, contested) for name in claimed.below_meeting)


def _in_order(
    lists: list[list[_EntitledCandidate]], own_queue: str, order: VictimOrder
) -> list[_EntitledCandidate]:
    """The lists one after the other, but those already stopping of all lists before the rest."""
    stopping: list[_EntitledCandidate] = []
    going_on: list[_EntitledCandidate] = []
    for claims in lists:
        by_id = {claimed.candidate.id: claimed for claimed in claims}
        candidates = (claimed.candidate for claimed in claims)
        for candidate in in_victim_order(candidates, own_queue, order):
            (stopping if candidate.stopping else going_on).append(by_id[candidate.id])
    return stopping + going_on


def _claims_in_own_queue(
    preemptor: Preemptor, running: Running, policy: PreemptionPolicy
) -> list[_EntitledCandidate]:
    return [
        _EntitledCandidate(candidate, _Entitlement.OWN_QUEUE, ())
        for candidate in running.get(preemptor.queue, ())
        if not preemptor.contested.isdisjoint(candidate.usage)
        and may_preempt(policy.within_queue, preemptor, candidate)
    ]


def _claims_elsewhere(
    tree: QuotaTree, preemptor: Preemptor, running: Running, policy: PreemptionPolicy
) -> list[_EntitledCandidate]:
    """Jobs of queues that borrow, where every tenant up to the meeting point borrows as well."""
    found: list[_EntitledCandidate] = []
    advantages = dict(_advantages(tree, preemptor))
    protected: dict[str, bool] = {}
    for queue in tree.borrowing_queues(preemptor.queue, preemptor.contested):
        if queue == preemptor.queue or queue not in running:
            continue
        below, meeting = _path_to_meeting(tree, queue, advantages)
        for name in below:
            if name not in protected:
                protected[name] = tree.within_nominal(name, preemptor.contested)
        if any(protected[name] for name in below):
            continue
        for candidate in running[queue]:
            if preemptor.contested.isdisjoint(candidate.usage):
                continue
            if may_preempt(policy.reclaim, preemptor, candidate):
                claim = _claim_on(candidate, preemptor, policy, advantage=advantages[meeting])
                found.append(_EntitledCandidate(candidate, claim, below))
    return found


def _claim_on(
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


def _path_to_meeting(
    tree: QuotaTree, queue: str, ours: Mapping[str, bool]
) -> tuple[tuple[str, ...], str]:
    """The names from a queue up to, not including, the first tenant that is also above ours."""
    below = [queue]
    for above in tree.ancestors(queue):
        if above in ours:
            return tuple(below), above
        below.append(above)
    raise ValueError(f"{queue!r} is in another tree")


def _advantages(tree: QuotaTree, preemptor: Preemptor) -> Iterator[tuple[str, bool]]:
    """For each ancestor, whether the request fits in the quota of what lies below it on our path.

    What the unlendable quota passed on the way covers needs no quota further up.
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
