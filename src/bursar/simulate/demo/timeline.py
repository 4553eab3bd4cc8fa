"""The timeline of a run: its steps as entries in plain sentences."""

from __future__ import annotations

from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
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
    TenantChanged,
)
from bursar.model.explain.job_history import PREEMPTION_REASON_TEXT
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import JobSpec, MigSlice, MpsShare
from bursar.model.reason import NoCapacity, WaitsForVictims
from bursar.model.tenants.tenant import GPU
from bursar.model.units import counted, write_duration, write_gpus, write_usd
from bursar.simulate.demo.timeline_entry import (
    Importance,
    TimelineEntry,
    Verb,
    gpus_of,
    time_of_day,
    write_layout,
    write_placement,
    write_reasons,
    write_size,
)
from bursar.simulate.simulation import Step

BIG_GPUS = 8
"""A job of a whole node or more is always important."""


class Timeline:
    """Turns steps into entries; ``state`` is that of the same run."""

    def __init__(self, state: FleetState) -> None:
        self._state = state
        self._saved_ms: dict[str, int] = {}
        self._seen: set[object] = set()
        self._borrowers: set[str] = set()
        self._roots = {t.name for t in state.tenants.values() if t.parent is None}
        self.entries: list[TimelineEntry] = []
        self.busiest: dict[Hold, tuple[JobSpec, int]] = {}
        self.busiest_ms = 0
        self._busiest = (0, 0)

    def note(self, step: Step) -> None:
        """Adds the entries of one step; must be called before the next is taken."""
        for event in step.events:
            if isinstance(event, CheckpointSaved):
                self._saved_ms[event.job_id] = event.at_ms
            elif isinstance(event, TenantChanged):
                self._quota_changed(event)
        planned = _planned_starts(step.decisions)
        for decision in step.decisions:
            self._describe(decision, step.now_ms, planned)
        for event in step.committed:
            if isinstance(event, AttemptAssigned):
                self._borrowing(event)
        self._note_holds(step)

    def _note_holds(self, step: Step) -> None:
        """Remembers the holds of the step with the most types of reasons, then the most waiting jobs."""
        holds = [decision for decision in step.decisions if isinstance(decision, Hold)]
        types = {type(reason) for hold in holds for reason in hold.reasons}
        size = (len(types), sum(hold.waiting for hold in holds))
        if size > self._busiest:
            jobs = self._state.jobs
            self._busiest, self.busiest_ms = size, step.now_ms
            self.busiest = {
                hold: (jobs[hold.head].spec, jobs[hold.head].submitted_at_ms) for hold in holds
            }

    # -- entries ---------------------------------------------------------------------------------

    def _describe(
        self, decision: Decision, now_ms: int, planned: dict[str, tuple[int, str]]
    ) -> None:
        match decision:
            case StartJob():
                self._started(decision, now_ms, planned)
            case PreemptJob():
                self._preempted(decision, now_ms)
            case ClaimPlacement(job_id=job_id, victims=victims, placement=placement):
                place = write_placement(self._state, placement)
                verb = "stops" if len(victims) == 1 else "stop"
                text = f"reserves {place} until {', '.join(victims)} {verb}"
                self._add(now_ms, Verb.CLAIM, job_id, (text,), Importance.HIGH)
            case StopJob():
                self._stopped(decision, now_ms)
            case EvacuateJob(job_id=job_id, node=node, lost_micro_usd=lost):
                text = f"{node} is reclaimed; {write_usd(lost)} of work is lost unless it saves in time"
                self._add(now_ms, Verb.PREEMPT, job_id, (text,), Importance.HIGH)
            case PartitionGpu(node=node, gpu=gpu, layout=layout):
                change = (
                    f"partitioned into {write_layout(layout)}"
                    if layout
                    else "no longer partitioned"
                )
                text = f"GPU {gpu} {change}"
                self._add(
                    now_ms, Verb.PARTITION, node, (text,), self._high_once("partition", node, gpu)
                )
            case Hold():
                self._held(decision, now_ms)
            case _:
                pass

    def _add(
        self,
        at_ms: int,
        verb: Verb,
        subject: str,
        sentences: tuple[str, ...],
        importance: Importance,
    ) -> None:
        entry = TimelineEntry(
            at_ms=at_ms, verb=verb, subject=subject, sentences=sentences, importance=importance
        )
        self.entries.append(entry)

    def _high_once(self, *key: object) -> Importance:
        """High the first time, low from then on."""
        if key in self._seen:
            return Importance.LOW
        self._seen.add(key)
        return Importance.HIGH

    def _started(self, order: StartJob, now_ms: int, planned: dict[str, tuple[int, str]]) -> None:
        known = self._state.jobs[order.job_id]
        placement = order.placement
        place = write_placement(self._state, placement)
        size = write_size(known.spec)
        text = f"{size} on {place}, {write_usd(placement.all_micro_usd_per_hour)}/h"
        granted = sum(task.count for task in placement.all_tasks)
        if granted < sum(group.count for group in known.spec.groups):
            text += f"; starts with the {counted(granted, 'task')} that fit"
        waited_ms = now_ms - known.submitted_at_ms
        saved_ms = self._saved_ms.get(order.job_id)
        if saved_ms is not None:
            text += f"; resumes from its checkpoint of {time_of_day(saved_ms)}"
        elif order.attempt > 1:
            text += "; starts over: it had saved no checkpoint"
        elif waited_ms:
            text += f"; submitted {write_duration(waited_ms)} ago"
        backfill = self._backfill(order, now_ms, planned)
        if backfill:
            text += f"; {backfill}"
        importance = self._importance(known, placement, waited_ms, is_backfill=bool(backfill))
        self._add(now_ms, Verb.START, order.job_id, (text,), importance)

    def _backfill(self, order: StartJob, now_ms: int, planned: dict[str, tuple[int, str]]) -> str:
        """How a start passes an earlier job without delaying it."""
        jobs = self._state.jobs
        known = jobs[order.job_id]
        at_ms, head = planned.get(order.placement.pool, (0, ""))
        if not head or jobs[head].submitted_at_ms > known.submitted_at_ms:
            return ""
        run_ms = known.spec.max_run_ms or known.spec.expected_run_ms or 0
        if now_ms + run_ms <= at_ms:
            return f"backfill: ends before {head} starts at {time_of_day(at_ms)}"
        return f"backfill: does not use the nodes planned for {head}"

    def _importance(
        self, known: JobRecord, placement: Placement, waited_ms: int, *, is_backfill: bool
    ) -> Importance:
        gpu = known.spec.groups[0].gpu
        if gpus_of(known.spec) >= BIG_GPUS or known.attempt > 1:
            return Importance.HIGH
        if is_backfill:
            return min(self._high_once("backfill"), Importance.MEDIUM)
        if isinstance(gpu, MigSlice | MpsShare):
            return self._high_once("type of request", type(gpu))
        if self._state.pools[placement.pool].spec.market is Market.SPOT:
            return self._high_once("market", Market.SPOT)
        return Importance.MEDIUM if waited_ms else Importance.LOW

    def _preempted(self, order: PreemptJob, now_ms: int) -> None:
        saved_ms = self._saved_ms.get(order.job_id)
        saved = "no checkpoint yet" if saved_ms is None else f"saved at {time_of_day(saved_ms)}"
        text = (
            f"for {order.on_behalf_of}: {PREEMPTION_REASON_TEXT[order.reason.value]}; "
            f"{write_usd(order.lost_micro_usd)} of work is lost ({saved})"
        )
        self._add(now_ms, Verb.PREEMPT, order.job_id, (text,), Importance.HIGH)

    def _stopped(self, order: StopJob, now_ms: int) -> None:
        job_id, reason = order.job_id, order.reason
        limit_ms = self._state.jobs[job_id].spec.max_run_ms
        text = "cancelled by its user"
        if reason is StopReason.TIME_LIMIT and limit_ms is not None:
            text = f"reached its maximum run time, {write_duration(limit_ms)}"
        if reason is StopReason.COST_LIMIT:
            text = f"reached its maximum cost, {write_usd(order.charged_micro_usd)}"
        if reason is StopReason.BUDGET:
            text = "its tenant's budget is spent; it waits for the next period"
        if reason is StopReason.MOVE:
            text = "moves to another pool because of its deadline and the cost of spot"
        self._add(now_ms, Verb.STOP, job_id, (text,), Importance.HIGH)

    def _held(self, hold: Hold, now_ms: int) -> None:
        """Adds a hold when it is new or its reasons are of other types than before."""
        types = tuple(type(reason).__name__ for reason in hold.reasons)
        if (hold.head, types) in self._seen or WaitsForVictims.__name__ in types:
            return
        self._seen.add((hold.head, types))
        big = gpus_of(self._state.jobs[hold.head].spec) >= BIG_GPUS
        new = [self._high_once("reason", one) is Importance.HIGH for one in types]
        importance = Importance.HIGH if big or any(new) else Importance.LOW
        self._add(now_ms, Verb.HOLD, hold.head, tuple(write_reasons(hold)), importance)

    def _borrowing(self, event: AttemptAssigned) -> None:
        """Adds an entry when a tenant begins to borrow."""
        flavor = event.placement.flavor
        quota, queue = self._state.quota, self._state.jobs[event.job_id].spec.queue
        for tenant in (queue, *quota.ancestors(queue)):
            used = quota.usage(tenant, (flavor, GPU))
            own = quota.subtree_quota(tenant, (flavor, GPU))
            if not own or self._state.tenants[tenant].parent is None:
                continue
            if used <= own:
                self._borrowers.discard(tenant)
            elif tenant not in self._borrowers:
                self._borrowers.add(tenant)
                borrowed = write_gpus(used - own)
                text = f"holds {write_gpus(used)} of {flavor}, of which {borrowed} borrowed"
                is_team = self._state.tenants[tenant].parent in self._roots
                importance = self._high_once("borrow", tenant) if is_team else Importance.LOW
                self._add(event.at_ms, Verb.BORROW, tenant, (text,), importance)

    def _quota_changed(self, event: TenantChanged) -> None:
        tenant = event.tenant
        sentences = []
        for (flavor, resource), quota in sorted(tenant.quotas.items()):
            if resource == GPU and quota.nominal:
                text = f"its quota is now {write_gpus(quota.nominal)} of {flavor}"
                if quota.borrowing_limit is not None:
                    text += f"; it may borrow {write_gpus(quota.borrowing_limit)}"
                sentences.append(text)
        sentences = sentences or ["changed"]
        self._add(event.at_ms, Verb.QUOTA, tenant.name, tuple(sentences), Importance.HIGH)


def _planned_starts(decisions: tuple[Decision, ...]) -> dict[str, tuple[int, str]]:
    """The first reservation of each pool: its time and its job."""
    first: dict[str, tuple[int, str]] = {}
    for hold in decisions:
        if isinstance(hold, Hold):
            for reason in hold.reasons:
                if isinstance(reason, NoCapacity) and reason.expected_at_ms is not None:
                    planned = (reason.expected_at_ms, hold.head)
                    first[reason.pool] = min(planned, first.get(reason.pool, planned))
    return first
