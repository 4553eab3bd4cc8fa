"""Preempts for a job: chooses victims, claims their placement and orders them to stop.

No loop is possible: every preemption raises its victim's count by one, a job whose count has reached the
policy's limit is no candidate, and nothing lowers the count. So there are at most limit x jobs preemptions.
Eligibility rules alone do not guarantee this (docs/decisions/0004).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bursar.core.draft import Draft, EvictableJobs
from bursar.core.placement.find_placement import find_placement
from bursar.core.placement.pool_fit import Counts, PoolFit
from bursar.core.placement.search import Allocation
from bursar.core.preemption.candidates import Candidate, PreemptionRules, Preemptor, Running, Victim
from bursar.core.preemption.evictable import Evictable, is_leaving, may_preempt_any
from bursar.core.preemption.fair_search import FairSearch
from bursar.core.preemption.hierarchy_search import search_by_hierarchy
from bursar.core.preemption.trial import Trial
from bursar.core.preemption.victim_cost import cost_of_stopping, on_cheapest_nodes, work_lost
from bursar.core.quota.quota_tree import QuotaTree
from bursar.core.state.job_record import JobRecord
from bursar.model.decision import ClaimPlacement, PreemptJob
from bursar.model.tenants.policy import PreemptionPolicy
from bursar.model.tenants.tenant import GPU, FlavorResource


class TrialAllocation:
    """Free capacity as it would be without some of the running jobs."""

    def __init__(self, draft: Draft, record: JobRecord, fit: PoolFit, counts: Counts) -> None:
        self._draft = draft
        self._record = record
        self._fit = fit
        self._counts = counts

    def remove(self, candidate_id: str) -> None:
        self._move_tasks(candidate_id, leaves=True)

    def restore(self, candidate_id: str) -> None:
        self._move_tasks(candidate_id, leaves=False)

    def fits(self) -> bool:
        """Whether the gang could be placed now; nothing stays occupied."""
        mark = self._draft.journal.mark
        allocation = self.place()
        self._draft.journal.roll_back(mark)
        return allocation is not None

    def place(self) -> Allocation | None:
        """Place the gang without the removed jobs; the allocation is occupied in the journal."""
        search = self._draft.search(self._record, self._fit)
        blocked_at, self._fit.blocked_at = self._fit.blocked_at, -1
        allocation = find_placement(self._fit, self._counts, search)
        self._fit.blocked_at = blocked_at
        return allocation

    def _move_tasks(self, job_id: str, *, leaves: bool) -> None:
        record = self._draft.state.jobs[job_id]
        assert record.placement is not None
        tasks = record.placement.all_tasks
        apart = record.spec.constraints.apart
        for task in tasks if leaves else reversed(tasks):
            pool = self._draft.state.pool_of_node[task.node]
            if leaves:
                pool.vacate(task, job_id)
            else:
                pool.occupy(task, job_id)
            if apart is not None:
                pool.by_id[task.node].tags[apart] += -1 if leaves else 1


def fits_quota_when_idle(
    quota: QuotaTree, queue: str, request: Mapping[FlavorResource, int]
) -> bool:
    """Whether quota allows the request when nothing else runs."""
    return all(quota.potential(queue, fr) >= amount for fr, amount in request.items())


def preempt_for(draft: Draft, record: JobRecord, fit: PoolFit, counts: Counts) -> bool:
    """Preempt for a job if it may; returns whether it now has a claim."""
    request = fit.request(counts)
    if not may_preempt_any(draft.state, record, request):
        return False
    if not fits_quota_when_idle(draft.state.quota, record.spec.queue, request):
        return False
    legal = _legal_victims(draft, record, fit, request)
    if not legal:
        return False
    draft.victim_searches += 1
    trial = TrialAllocation(draft, record, fit, counts)
    short = frozenset(
        fr
        for fr, amount in request.items()
        if draft.state.quota.available(record.spec.queue, fr) < amount
    )
    only_quota = bool(short) and trial.fits()
    if not only_quota:
        candidates = [one for records in legal.values() for one in records]
        order, now_ms = draft.state.policies.preemption.victim_order, draft.now_ms
        cheapest: set[str] = set()
        for part, tasks in fit.parts(counts):
            cheapest |= on_cheapest_nodes(
                part, candidates, sum(tasks), lambda one: cost_of_stopping(one, order, now_ms)
            )
        legal = {queue: [r for r in some if r.id in cheapest] for queue, some in legal.items()}
    preemptor = Preemptor(
        id=record.id,
        queue=record.spec.queue,
        priority=record.priority,
        queued_at_ms=record.submitted_at_ms,
        requests=request,
        contested=short
        or frozenset(request)
        or frozenset((part.flavor, GPU) for part, _ in fit.parts(counts)),
    )
    victims = _search(draft, preemptor, legal, None if only_quota else trial)
    if victims:
        _claim(draft, record, fit, trial, victims)
    return bool(victims)


def _legal_victims(
    draft: Draft, record: JobRecord, fit: PoolFit, request: Mapping[FlavorResource, int]
) -> dict[str, list[JobRecord]]:
    """By queue, the jobs that a job may displace in the pools of a fit and its anchors."""
    legal = _evictable(draft, fit.flavor).legal(record, request)
    if fit.anchors is None:
        return legal
    for queue, others in _evictable(draft, fit.anchors.flavor).legal(record, request).items():
        known = legal.setdefault(queue, [])
        known_ids = {one.id for one in known}
        known += [one for one in others if one.id not in known_ids]
    return legal


def _evictable(draft: Draft, flavor: str) -> EvictableJobs:
    """The running jobs of a flavor that may be stopped, collected once per cycle."""
    evictable = draft.evictable.get(flavor)
    if evictable is None:
        evictable = draft.evictable[flavor] = Evictable(draft.state, flavor, draft.now_ms)
    return evictable


def _search(
    draft: Draft,
    preemptor: Preemptor,
    legal: Mapping[str, Sequence[JobRecord]],
    trial: TrialAllocation | None,
) -> tuple[Victim, ...]:
    """Victims by eligibility and quota, and by capacity if there is a trial allocation."""
    limits = draft.state.policies.preemption
    running = {
        queue: [
            _candidate(
                one,
                preemptor.contested,
                draft.now_ms,
                cost_of_stopping(one, limits.victim_order, draft.now_ms),
            )
            for one in records
            if one.id not in draft.victims and one.id not in draft.stopped
        ]
        for queue, records in legal.items()
    }
    return choose_victims(
        draft.state.quota,
        preemptor,
        running,
        draft.state.preemption_policies,
        PreemptionRules(
            fair_strategies=limits.fair_strategies,
            victim_order=limits.victim_order,
            placement=trial,
        ),
    )


def choose_victims(
    tree: QuotaTree,
    preemptor: Preemptor,
    running: Running,
    policies: Mapping[str, PreemptionPolicy],
    rules: PreemptionRules,
) -> tuple[Victim, ...]:
    """A small set of victims whose end makes the preemptor fit; empty if there is no legal set.

    ``running`` has the candidates by queue. The search changes the tree and the trial placement and restores
    both. Call it only for a job that does not fit: the first check comes after the first victim.
    """
    policy = policies.get(preemptor.queue, PreemptionPolicy())
    with Trial(tree, preemptor, rules.placement) as trial:
        if rules.fair_strategies:
            return FairSearch(trial, rules).victims(running, policy)
        return search_by_hierarchy(trial, running, policy, rules.victim_order)


def _candidate(
    record: JobRecord, contested: frozenset[FlavorResource], now_ms: int, cost: int
) -> Candidate:
    """A running job as a candidate.

    It holds nodes that the preemptor needs, so it counts as a user of what is contested, even where that is
    unlimited and its charged usage is 0.
    """
    return Candidate(
        id=record.id,
        queue=record.spec.queue,
        priority=record.priority,
        queued_at_ms=record.submitted_at_ms,
        started_at_ms=record.assigned_at_ms,
        usage={**dict.fromkeys(contested, 0), **record.request},
        stopping=is_leaving(record, now_ms),
        lost_micro_usd=cost,
    )


def _claim(
    draft: Draft, record: JobRecord, fit: PoolFit, trial: TrialAllocation, victims: Sequence[Victim]
) -> None:
    """Claim the placement that the victims' end frees, and order them to stop."""
    state, journal = draft.state, draft.journal
    for victim in victims:
        trial.remove(victim.id)
    mark = journal.mark
    allocation = trial.place()
    assert allocation is not None
    journal.roll_back(mark)
    for victim in reversed(victims):
        trial.restore(victim.id)
    placement = fit.placement_for(allocation)
    for victim in sorted(victims, key=lambda one: one.id):
        victim_record = state.jobs[victim.id]
        draft.victims.add(victim.id)
        if not is_leaving(victim_record, draft.now_ms):
            draft.orders.append(
                PreemptJob(
                    job_id=victim_record.id,
                    attempt=victim_record.attempt,
                    on_behalf_of=record.id,
                    reason=victim.reason,
                    lost_micro_usd=work_lost(victim_record, draft.now_ms),
                )
            )
    names = tuple(sorted(victim.id for victim in victims))
    draft.orders.append(ClaimPlacement(job_id=record.id, placement=placement, victims=names))
    draft.charge_claim(
        record, state.charges.of(placement).request, [state.jobs[name] for name in names]
    )
    for node_id in sorted({task.node for task in placement.all_tasks}):
        pool = state.pool_of_node[node_id]
        journal.close(pool, pool.by_id[node_id], record.id)
    draft.add_weight(record.spec.queue, state.charges.of(placement).weight)
