"""What happened and why, as moments: the steps of a run retold for people."""

from __future__ import annotations

from bursar.core.state.fleet_state import FleetState
from bursar.model.decision import (
    ClaimPlacement,
    Decision,
    EvacuateJob,
    Hold,
    PartitionGpu,
    PreemptJob,
    StartJob,
    StopJob,
    StopReason,
)
from bursar.model.event import (
    AttemptAssigned,
    CheckpointSaved,
    Event,
    JobSubmitted,
    TenantChanged,
)
from bursar.model.explain.job_history import PREEMPTION_REASON_TEXT
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import JobSpec, MigSlice, MpsShare
from bursar.model.reason import NoCapacity, WaitsForVictims
from bursar.model.tenants.tenant import GPU
from bursar.model.units import write_duration, write_gpus, write_usd
from bursar.simulate.demo.timeline_entry import (
    TimelineEntry,
    Verb,
    Weight,
    gpus_of,
    time_of_day,
    write_cut,
    write_place,
    write_reasons,
    write_size,
)
from bursar.simulate.simulation import Step

BIG_GPUS = 8
"""A job of a whole node or more is always worth telling."""


class _Known:
    """What the story remembers of a job."""

    __slots__ = ("attempt", "since_ms", "spec", "work_saved")

    def __init__(self, spec: JobSpec, since_ms: int) -> None:
        self.spec = spec
        self.since_ms = since_ms
        self.attempt = 0
        self.work_saved: int | None = None


class Timeline:
    """Turns steps into moments; ``state`` is that of the same run."""

    def __init__(self, state: FleetState) -> None:
        self._state = state
        self._jobs: dict[str, _Known] = {}
        self._told: set[object] = set()
        self._borrowers: set[str] = set()
        self._roots = {t.name for t in state.tenants.values() if t.parent is None}
        self.moments: list[TimelineEntry] = []
        self.crowded: Step | None = None
        self._crowd = (0, 0)

    def note(self, step: Step) -> None:
        """Retell one step, right after it was taken."""
        for event in step.events:
            self._learn(event)
            if isinstance(event, TenantChanged):
                self._changed_quota(event)
        planned = _planned_starts(step.decisions)
        for decision in step.decisions:
            self._retell(decision, step.now_ms, planned)
        for event in step.committed:
            self._learn(event)
            if isinstance(event, AttemptAssigned):
                self._borrowing(event)
        self._remember_the_crowd(step)

    def since(self, job_id: str) -> int:
        """When a job was submitted."""
        return self._jobs[job_id].since_ms

    def spec(self, job_id: str) -> JobSpec:
        return self._jobs[job_id].spec

    # -- learning --------------------------------------------------------------------------------

    def _learn(self, event: Event) -> None:
        match event:
            case JobSubmitted(job_id=job_id, spec=spec, at_ms=at_ms):
                self._jobs[job_id] = _Known(spec, at_ms)
            case AttemptAssigned(job_id=job_id, attempt=attempt):
                self._jobs[job_id].attempt = attempt
            case CheckpointSaved(job_id=job_id, at_ms=at_ms):
                self._jobs[job_id].work_saved = at_ms
            case _:
                pass

    def _remember_the_crowd(self, step: Step) -> None:
        """Keep the cycle with the most different reasons to wait, then the most jobs waiting."""
        holds = [decision for decision in step.decisions if isinstance(decision, Hold)]
        kinds = {type(reason) for hold in holds for reason in hold.reasons}
        crowd = (len(kinds), sum(hold.waiting for hold in holds))
        if crowd > self._crowd:
            self._crowd = crowd
            self.crowded = step

    # -- telling ---------------------------------------------------------------------------------

    def _retell(self, decision: Decision, now_ms: int, planned: dict[str, tuple[int, str]]) -> None:
        match decision:
            case StartJob():
                self._started(decision, now_ms, planned)
            case PreemptJob():
                self._preempted(decision, now_ms)
            case ClaimPlacement(job_id=job_id, victims=victims, placement=placement):
                place = write_place(self._state, placement)
                text = f"keeps {place} until {', '.join(victims)} has left"
                self._tell(now_ms, Verb.CLAIM, job_id, (text,), Weight.KEY)
            case StopJob():
                self._stopped(decision, now_ms)
            case EvacuateJob(job_id=job_id, node=node, lost_micro_usd=lost):
                text = f"{node} is taken away; {write_usd(lost)} of work is lost unless it saves in time"
                self._tell(now_ms, Verb.PREEMPT, job_id, (text,), Weight.KEY)
            case PartitionGpu(node=node, gpu=gpu, layout=layout):
                cut = f"cut into {write_cut(layout)}" if layout else "made whole again"
                text = f"GPU {gpu} {cut}"
                self._tell(
                    now_ms, Verb.PARTITION, node, (text,), self._first("partition", node, gpu)
                )
            case Hold():
                self._held(decision, now_ms)
            case _:
                pass

    def _tell(
        self, now_ms: int, verb: Verb, subject: str, sentences: tuple[str, ...], weight: Weight
    ) -> None:
        self.moments.append(
            TimelineEntry(
                at_ms=now_ms, verb=verb, subject=subject, sentences=sentences, weight=weight
            )
        )

    def _first(self, *what: object) -> Weight:
        """Key the first time, a detail from then on."""
        if what in self._told:
            return Weight.DETAIL
        self._told.add(what)
        return Weight.KEY

    def _started(self, order: StartJob, now_ms: int, planned: dict[str, tuple[int, str]]) -> None:
        known = self._jobs[order.job_id]
        placement = order.placement
        place = write_place(self._state, placement)
        size = write_size(known.spec)
        text = f"{size} on {place}, {write_usd(placement.all_micro_usd_per_hour)}/h"
        granted = sum(task.count for task in placement.all_tasks)
        if granted < sum(group.count for group in known.spec.groups):
            text += f"; begins with {granted} tasks, which is what fits"
        waited_ms = now_ms - known.since_ms
        if known.attempt and known.work_saved is not None:
            text += f"; resumes from its checkpoint of {time_of_day(known.work_saved)}"
        elif known.attempt:
            text += "; starts over, it had saved nothing"
        elif waited_ms:
            text += f"; submitted {write_duration(waited_ms)} ago"
        passed = self._passed(order, now_ms, planned)
        if passed:
            text += f"; {passed}"
        weight = self._weight_of_start(known, placement, waited_ms, bool(passed))
        self._tell(now_ms, Verb.START, order.job_id, (text,), weight)

    def _passed(self, order: StartJob, now_ms: int, planned: dict[str, tuple[int, str]]) -> str:
        """Whom a start passes without delaying it."""
        known = self._jobs[order.job_id]
        at_ms, head = planned.get(order.placement.pool, (0, ""))
        if not head or self._jobs[head].since_ms > known.since_ms:
            return ""
        run_ms = known.spec.max_run_ms or known.spec.expected_run_ms or 0
        if now_ms + run_ms <= at_ms:
            return f"backfill: gone before {head} starts at {time_of_day(at_ms)}"
        return f"backfill: leaves the nodes planned for {head} alone"

    def _weight_of_start(
        self, known: _Known, placement: Placement, waited_ms: int, passed: bool
    ) -> Weight:
        gpu = known.spec.groups[0].gpu
        if gpus_of(known.spec) >= BIG_GPUS or known.attempt:
            return Weight.KEY
        if passed:
            return min(self._first("backfill"), Weight.WORTH_TELLING)
        if isinstance(gpu, MigSlice | MpsShare):
            return self._first("kind of request", type(gpu))
        if self._state.pools[placement.pool].spec.market is Market.SPOT:
            return self._first("market", Market.SPOT)
        return Weight.WORTH_TELLING if waited_ms else Weight.DETAIL

    def _preempted(self, order: PreemptJob, now_ms: int) -> None:
        saved_ms = self._jobs[order.job_id].work_saved
        saved = "nothing saved yet" if saved_ms is None else f"saved at {time_of_day(saved_ms)}"
        text = (
            f"for {order.on_behalf_of}: {PREEMPTION_REASON_TEXT[order.reason.value]}; "
            f"{write_usd(order.lost_micro_usd)} of work is lost ({saved})"
        )
        self._tell(now_ms, Verb.PREEMPT, order.job_id, (text,), Weight.KEY)

    def _stopped(self, order: StopJob, now_ms: int) -> None:
        job_id, reason = order.job_id, order.reason
        limit_ms = self._jobs[job_id].spec.max_run_ms
        text = "cancelled by its user"
        if reason is StopReason.TIME_LIMIT and limit_ms is not None:
            text = f"it has reached its maximum run time, {write_duration(limit_ms)}"
        if reason is StopReason.COST_LIMIT:
            text = f"it has reached what it may cost, {write_usd(order.charged_micro_usd)}"
        if reason is StopReason.BUDGET:
            text = "its tenant's budget is spent; it waits for the next period"
        if reason is StopReason.MOVE:
            text = "it goes on elsewhere: its deadline and what spot costs say so"
        self._tell(now_ms, Verb.STOP, job_id, (text,), Weight.KEY)

    def _held(self, hold: Hold, now_ms: int) -> None:
        """Tell a hold when it is new or when its reasons are of another type than before."""
        types = tuple(type(reason).__name__ for reason in hold.reasons)
        if (hold.head, types) in self._told or WaitsForVictims.__name__ in types:
            return
        self._told.add((hold.head, types))
        big = gpus_of(self._jobs[hold.head].spec) >= BIG_GPUS
        fresh = [self._first("reason", one) is Weight.KEY for one in types]
        weight = Weight.KEY if big or any(fresh) else Weight.DETAIL
        self._tell(now_ms, Verb.HOLD, hold.head, tuple(write_reasons(hold)), weight)

    def _borrowing(self, event: AttemptAssigned) -> None:
        """Tell when a tenant begins to hold more than its own."""
        flavor = event.placement.flavor
        queue = self._jobs[event.job_id].spec.queue
        for tenant in (queue, *self._state.quota.ancestors(queue)):
            used = self._state.quota.usage(tenant, (flavor, GPU))
            own = self._own(tenant, flavor)
            if not own or self._state.tenants[tenant].parent is None:
                continue
            if used <= own:
                self._borrowers.discard(tenant)
            elif tenant not in self._borrowers:
                self._borrowers.add(tenant)
                borrowed = write_gpus(used - own)
                text = f"holds {write_gpus(used)} of {flavor}, {borrowed} above its own: idle quota"
                team = self._state.tenants[tenant].parent in self._roots
                weight = self._first("borrow", tenant) if team else Weight.DETAIL
                self._tell(event.at_ms, Verb.BORROW, tenant, (text,), weight)

    def _own(self, tenant: str, flavor: str) -> int:
        """The nominal quota of a tenant and everything below it."""
        below = [t for t in self._state.tenants.values() if self._is_below(t.name, tenant)]
        return sum(t.quotas[flavor, GPU].nominal for t in below if (flavor, GPU) in t.quotas)

    def _is_below(self, name: str | None, tenant: str) -> bool:
        while name is not None and name != tenant:
            name = self._state.tenants[name].parent
        return name is not None

    def _changed_quota(self, event: TenantChanged) -> None:
        tenant = event.tenant
        parts = []
        for (flavor, resource), quota in sorted(tenant.quotas.items()):
            if resource == GPU and quota.nominal:
                text = f"now {write_gpus(quota.nominal)} of {flavor} of its own"
                if quota.borrowing_limit is not None:
                    text += f", and may borrow {write_gpus(quota.borrowing_limit)}"
                parts.append(text)
        self._tell(event.at_ms, Verb.QUOTA, tenant.name, tuple(parts) or ("changed",), Weight.KEY)


def _planned_starts(decisions: tuple[Decision, ...]) -> dict[str, tuple[int, str]]:
    """For each pool the reservation that comes first: when, and for whom."""
    found: dict[str, tuple[int, str]] = {}
    for hold in decisions:
        if isinstance(hold, Hold):
            for reason in hold.reasons:
                if isinstance(reason, NoCapacity) and reason.expected_at_ms is not None:
                    planned = (reason.expected_at_ms, hold.head)
                    found[reason.pool] = min(planned, found.get(reason.pool, planned))
    return found
