"""The victim search by fair share: stops jobs of the tenant that borrows most."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from bursar.core.preemption.candidates import (
    Candidate,
    PreemptionRules,
    Running,
    Victim,
    eligible,
    in_victim_order,
    victim_key,
)
from bursar.core.preemption.trial import ChosenVictim, Trial
from bursar.core.quota.dominant_share import DominantShare, dominant_share
from bursar.core.quota.quota_tree import QuotaTree
from bursar.model.decision import PreemptionReason
from bursar.model.tenants.policy import FairStrategy, PreemptionPolicy


class FairSearch:
    """One search; shares count the preemptor as running."""

    def __init__(self, trial: Trial, rules: PreemptionRules) -> None:
        self._trial = trial
        self._rules = rules
        self._strategies = rules.fair_strategies
        self._order = rules.victim_order
        self._shares = _Shares(trial.tree)
        self._chosen: list[ChosenVictim] = []

    def victims(self, running: Running, policy: PreemptionPolicy) -> tuple[Victim, ...]:
        """Choose victims by the first rule, then by the second."""
        candidates = in_victim_order(
            _candidates(self._trial, running, policy), self._trial.preemptor.queue, self._order
        )
        if not candidates:
            return ()
        self._trial.count_preemptor()
        rejected: list[Candidate] = []
        enough = self._first_pass(candidates, rejected)
        if not enough and self._rules.retry_first_rule and self._has_own_victims():
            candidates, rejected = rejected, []
            enough = self._first_pass(candidates, rejected)
        if not enough and len(self._strategies) > 1:
            enough = self._second_pass(rejected)
        return self._trial.drop_needless_victims(self._chosen, borrowing=True) if enough else ()

    def _has_own_victims(self) -> bool:
        return any(reason is PreemptionReason.IN_QUEUE for _, reason in self._chosen)

    def _first_pass(self, candidates: list[Candidate], rejected: list[Candidate]) -> bool:
        targets = self._targets(candidates)
        preemptor = self._trial.preemptor
        entitled = self._rules.quota_entitles and self._trial.tree.within_nominal(
            preemptor.queue, preemptor.contested
        )
        for queue, waiting in targets:
            if queue == preemptor.queue:
                done = self._choose(waiting.popleft(), PreemptionReason.IN_QUEUE)
            elif entitled:
                done = self._choose(waiting.popleft(), PreemptionReason.RECLAIM)
            else:
                done = self._choose_fairly(targets, queue, rejected)
            if done:
                return True
        return False

    def _choose_fairly(self, targets: _Targets, queue: str, rejected: list[Candidate]) -> bool:
        """Choose the queue's first candidate that the first rule allows; reject those before it."""
        waiting = targets.waiting[queue]
        ours, theirs = targets.sides(queue)
        mine, before = self._shares[ours], self._shares[theirs]
        if mine > before:
            rejected.extend(waiting)
            waiting.clear()
            return False
        final = self._strategies[0] is FairStrategy.LESS_THAN_OR_EQUAL_TO_FINAL_SHARE
        while waiting:
            candidate = waiting.popleft()
            if mine <= self._share_without(candidate, theirs) if final else mine < before:
                return self._choose(candidate, PreemptionReason.FAIR_SHARE)
            rejected.append(candidate)
        return False

    def _second_pass(self, rejected: list[Candidate]) -> bool:
        """Choose at most one from each queue while the preemptor's side has the smaller share."""
        targets = self._targets(rejected)
        for queue, waiting in targets:
            ours, theirs = targets.sides(queue)
            if self._shares[ours] < self._shares[theirs]:
                if self._choose(waiting[0], PreemptionReason.FAIR_SHARE):
                    return True
            waiting.clear()
        return False

    def _targets(self, candidates: list[Candidate]) -> _Targets:
        own = self._trial.preemptor.queue

        def goes_before(one: Candidate, other: Candidate) -> bool:
            return victim_key(one, own, self._order) < victim_key(other, own, self._order)

        return _Targets(self._shares, own, candidates, goes_before)

    def _share_without(self, candidate: Candidate, side: str) -> DominantShare:
        tree = self._trial.tree
        tree.remove_usage(candidate.queue, candidate.usage)
        share = dominant_share(tree, side)
        tree.add_usage(candidate.queue, candidate.usage)
        return share

    def _choose(self, candidate: Candidate, reason: PreemptionReason) -> bool:
        """Choose a victim; returns whether the preemptor fits now."""
        self._trial.remove(candidate)
        self._shares.forget(candidate.queue)
        self._chosen.append((candidate, reason))
        return self._trial.fits(borrowing=True)


def _candidates(trial: Trial, running: Running, policy: PreemptionPolicy) -> Iterator[Candidate]:
    """The eligible jobs that use something contested: of the own queue, and of queues that borrow."""
    preemptor = trial.preemptor
    yield from eligible(policy.within_queue, preemptor, running.get(preemptor.queue, ()))
    for queue in trial.tree.borrowing_queues(preemptor.queue, preemptor.contested):
        if queue != preemptor.queue:
            yield from eligible(policy.reclaim, preemptor, running.get(queue, ()))


class _Shares:
    """Cached shares, recomputed only where a victim has changed them."""

    def __init__(self, tree: QuotaTree) -> None:
        self.tree = tree
        self._known: dict[str, DominantShare] = {}

    def __getitem__(self, name: str) -> DominantShare:
        share = self._known.get(name)
        if share is None:
            share = self._known[name] = dominant_share(self.tree, name)
        return share

    def forget(self, queue: str) -> None:
        """Drop the cached shares of a queue and its ancestors."""
        self._known.pop(queue, None)
        for name in self.tree.ancestors(queue):
            self._known.pop(name, None)


class _Targets:
    """Iterates over the queues to take victims from: from the root down, into the largest share.

    It yields a queue and its remaining candidates; the caller must remove at least one before the next step.
    Only tenants with candidates below them are visited.
    """

    def __init__(
        self,
        shares: _Shares,
        own_queue: str,
        candidates: Iterable[Candidate],
        goes_before: Callable[[Candidate, Candidate], bool],
    ) -> None:
        self._shares = shares
        self._own = own_queue
        self._goes_before = goes_before
        self._path = set(shares.tree.ancestors(own_queue))
        self._root = shares.tree.root(own_queue)
        self._pruned: set[str] = set()
        self.waiting: dict[str, deque[Candidate]] = {}
        for candidate in candidates:
            self.waiting.setdefault(candidate.queue, deque()).append(candidate)
        below: dict[str, set[str]] = {}
        for queue in self.waiting:
            name = queue
            for above in shares.tree.ancestors(queue):
                below.setdefault(above, set()).add(name)
                name = above
        self._below = {name: sorted(children) for name, children in below.items()}

    def __iter__(self) -> Iterator[tuple[str, deque[Candidate]]]:
        if self._root == self._own:
            while self.waiting.get(self._own):
                yield self._own, self.waiting[self._own]
            return
        while self._root not in self._pruned:
            queue = self._descend()
            if queue is not None:
                yield queue, self.waiting[queue]

    def sides(self, queue: str) -> tuple[str, str]:
        """The two siblings to compare: the ancestors of our queue and of this one where they part."""
        theirs = queue
        shared = self._root
        for above in self._shares.tree.ancestors(queue):
            if above in self._path:
                shared = above
                break
            theirs = above
        ours = self._own
        for above in self._shares.tree.ancestors(self._own):
            if above == shared:
                break
            ours = above
        return ours, theirs

    def _descend(self) -> str | None:
        """The queue to take from; None if this path has no candidates left."""
        name = self._root
        while True:
            queue, tenant = self._largest_queue(name), self._largest_tenant(name)
            if queue is None and tenant is None:
                self._pruned.add(name)
                return None
            if tenant is None:
                return queue
            if queue is not None and self._shares[queue] > self._shares[tenant]:
                return queue
            name = tenant

    def _largest_queue(self, name: str) -> str | None:
        best: str | None = None
        for queue in self._unpruned(name):
            waiting = self.waiting.get(queue)
            if waiting is None:
                continue
            share = self._shares[queue]
            if not waiting or (not share.borrowing and queue != self._own):
                self._pruned.add(queue)
            elif best is None or self._precedes(queue, best):
                best = queue
        return best

    def _precedes(self, queue: str, other: str) -> bool:
        """The larger share first; between equals, the queue with the first candidate."""
        one, two = self._shares[queue], self._shares[other]
        if one == two:
            return self._goes_before(self.waiting[queue][0], self.waiting[other][0])
        return one > two

    def _largest_tenant(self, name: str) -> str | None:
        best: str | None = None
        for tenant in self._unpruned(name):
            if tenant in self.waiting:
                continue
            share = self._shares[tenant]
            if not share.borrowing and tenant not in self._path:
                self._pruned.add(tenant)
            elif best is None or share > self._shares[best]:
                best = tenant
        return best

    def _unpruned(self, name: str) -> list[str]:
        return [child for child in self._below.get(name, ()) if child not in self._pruned]
