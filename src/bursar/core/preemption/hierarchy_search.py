"""The search by hierarchy: who is closer to the quota may take it back, whatever the priority."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from bursar.core.preemption.candidates import Candidate, Preemptor, Victim
from bursar.core.preemption.eligibility import may_preempt
from bursar.core.preemption.trial import Accused, Trial
from bursar.core.preemption.victim_order import in_victim_order
from bursar.core.quota.quota_tree import QuotaTree
from bursar.model.decision import PreemptionReason
from bursar.model.tenants.policy import PreemptionPolicy, VictimOrder

Running = Mapping[str, Sequence[Candidate]]


class _Claim(Enum):
    """On what ground the preemptor may have a candidate's place."""

    OWN_QUEUE = auto()
    HIERARCHY = auto()
    """The preemptor's subtree has quota for it, and the candidate sits outside that subtree."""
    WITHOUT_BORROWING = auto()
    """Only if the preemptor's queue ends up borrowing nothing."""
    WHILE_BORROWING = auto()


_REASONS = {
    _Claim.OWN_QUEUE: PreemptionReason.IN_QUEUE,
    _Claim.HIERARCHY: PreemptionReason.RECLAIM,
    _Claim.WITHOUT_BORROWING: PreemptionReason.RECLAIM,
    _Claim.WHILE_BORROWING: PreemptionReason.RECLAIM_WHILE_BORROWING,
}


@dataclass(frozen=True, slots=True)
class _Claimed:
    candidate: Candidate
    claim: _Claim
    below_meeting: tuple[str, ...]
    """The candidate's queue and its ancestors strictly below where its path meets ours."""


def search_by_hierarchy(
    trial: Trial, running: Running, policy: PreemptionPolicy, order: VictimOrder
) -> tuple[Victim, ...]:
    """The first attempt that makes the preemptor fit, with needless victims spared."""
    own = _claims_in_own_queue(trial.preemptor, running, policy)
    others = _claims_elsewhere(trial.tree, trial.preemptor, running, policy)
    by_hierarchy = [claimed for claimed in others if claimed.claim is _Claim.HIERARCHY]
    by_priority = [claimed for claimed in others if claimed.claim is not _Claim.HIERARCHY]
    lists = [by_hierarchy, by_priority, own]
    claims = _in_order(lists, trial.preemptor.queue, order)
    for borrowing in _attempts(trial, policy, len(others), len(by_hierarchy)):
        accused: list[Accused] = []
        for claimed in claims:
            if not _still_legal(trial, claimed, borrowing=borrowing):
                continue
            trial.take_out(claimed.candidate)
            accused.append((claimed.candidate, _REASONS[claimed.claim]))
            if trial.fits(borrowing=borrowing):
                return trial.spare_the_needless(accused, borrowing=borrowing)
        trial.put_all_back(accused)
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


def _still_legal(trial: Trial, claimed: _Claimed, *, borrowing: bool) -> bool:
    """Earlier victims may have brought a queue, or a tenant above it, back within its quota."""
    if claimed.claim is _Claim.OWN_QUEUE:
        return True
    if borrowing and claimed.claim is _Claim.WITHOUT_BORROWING:
        return False
    contested = trial.preemptor.contested
    return not any(trial.tree.within_nominal(name, contested) for name in claimed.below_meeting)


def _in_order(lists: list[list[_Claimed]], own_queue: str, order: VictimOrder) -> list[_Claimed]:
    """The lists one after the other, but those already stopping of all lists before the rest."""
    stopping: list[_Claimed] = []
    going_on: list[_Claimed] = []
    for claims in lists:
        by_id = {claimed.candidate.id: claimed for claimed in claims}
        candidates = (claimed.candidate for claimed in claims)
        for candidate in in_victim_order(candidates, own_queue, order):
            (stopping if candidate.stopping else going_on).append(by_id[candidate.id])
    return stopping + going_on


def _claims_in_own_queue(
    preemptor: Preemptor, running: Running, policy: PreemptionPolicy
) -> list[_Claimed]:
    return [
        _Claimed(candidate, _Claim.OWN_QUEUE, ())
        for candidate in running.get(preemptor.queue, ())
        if not preemptor.contested.isdisjoint(candidate.usage)
        and may_preempt(policy.within_queue, preemptor, candidate)
    ]


def _claims_elsewhere(
    tree: QuotaTree, preemptor: Preemptor, running: Running, policy: PreemptionPolicy
) -> list[_Claimed]:
    """Jobs of queues that borrow, where every tenant up to the meeting point borrows as well."""
    found: list[_Claimed] = []
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
                found.append(_Claimed(candidate, claim, below))
    return found


def _claim_on(
    candidate: Candidate, preemptor: Preemptor, policy: PreemptionPolicy, *, advantage: bool
) -> _Claim:
    if advantage:
        return _Claim.HIERARCHY
    permission = policy.borrow_while_reclaiming
    if permission is None or candidate.priority >= preemptor.priority:
        return _Claim.WITHOUT_BORROWING
    if permission.max_priority is not None and candidate.priority > permission.max_priority:
        return _Claim.WITHOUT_BORROWING
    return _Claim.WHILE_BORROWING


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
