"""Computes causes and cost of a job's interruptions, and advice, from its events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from bursar.core.admission.eligible_pools import EligiblePool
from bursar.model import event as ev
from bursar.model.decision import PreemptionReason, StopReason
from bursar.model.explain.interruption_report import Cause, Interruption, InterruptionReport
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.checkpoint_formulas import USUAL_SAVE_MS, daly_interval
from bursar.model.units import HOUR_MS, MINUTE_MS, SECOND_MS, write_duration, write_usd

CAUSE_OF_STOP = {
    PreemptionReason.IN_QUEUE.value: Cause.PRIORITY,
    PreemptionReason.RECLAIM.value: Cause.QUOTA,
    PreemptionReason.RECLAIM_WHILE_BORROWING.value: Cause.QUOTA,
    PreemptionReason.FAIR_SHARE.value: Cause.QUOTA,
    StopReason.BUDGET.value: Cause.BUDGET,
    StopReason.MOVE.value: Cause.PRICE,
}
CAUSE_OF_END = {
    ev.PreemptionCause.NOTICE: Cause.CAPACITY,
    ev.PreemptionCause.UNPROMPTED: Cause.ITSELF,
}


@dataclass(slots=True)
class _Attempt:
    """One attempt, filled in from its events."""

    attempt: int
    assigned_ms: int
    pool: str
    hourly: int
    started_ms: int | None = None
    saved_ms: list[int] = field(default_factory=list)
    back_ms: int | None = None
    """When it had resumed or saved: from then on it does new work."""
    stop_cause: Cause | None = None
    ended_ms: int | None = None
    cause: Cause | None = None

    @property
    def ran_ms(self) -> int:
        began = self.started_ms if self.started_ms is not None else self.ended_ms
        return max(0, (self.ended_ms or 0) - (began or 0))

    @property
    def lost_ms(self) -> int:
        """Run time since the last save."""
        since = self.saved_ms[-1] if self.saved_ms else self.started_ms
        return 0 if since is None or self.ended_ms is None else max(0, self.ended_ms - since)


def interruption_report(
    job_id: str, events: Iterable[ev.LoggedEvent], elsewhere: Sequence[EligiblePool]
) -> InterruptionReport:
    """The report from the events of one job in order, losses of its nodes included."""
    attempts, save_ms = _attempts(events)
    interrupted = [one for one in attempts if one.cause is not None]
    by_number = {one.attempt: one for one in attempts}
    interruptions = tuple(_interruption(one, by_number.get(one.attempt + 1)) for one in interrupted)
    recoveries = [one.recovery_ms for one in interruptions if one.recovery_ms is not None]
    mean_run_ms = _mean([one.ran_ms for one in interrupted])
    gaps = [gap for one in attempts for gap in _gaps(one)]
    measured = _mean(save_ms)
    advised = None
    if any(one.cause is Cause.CAPACITY for one in interrupted) and mean_run_ms:
        save_seconds = (measured or USUAL_SAVE_MS) / SECOND_MS
        advised = round(daly_interval(save_seconds, mean_run_ms / SECOND_MS)) * SECOND_MS
    report = InterruptionReport(
        job_id=job_id,
        interruptions=interruptions,
        mean_run_ms=mean_run_ms,
        saves=sum(len(one.saved_ms) for one in attempts),
        saves_every_ms=_mean(gaps),
        save_ms=measured,
        mean_recovery_ms=_mean(recoveries),
        waited_ms=sum(one.waited_ms or 0 for one in interruptions),
        lost_ms=sum(one.lost_ms for one in interruptions),
        lost_micro_usd=sum(one.lost_micro_usd for one in interruptions),
        spent_micro_usd=sum(one.hourly * one.ran_ms // HOUR_MS for one in interrupted),
        advised_every_ms=max(advised, SECOND_MS) if advised is not None else None,
        advice=(),
    )
    hourly = interrupted[-1].hourly if interrupted else 0
    advice = [
        *_checkpoint_advice(report, hourly),
        *_pool_advice(report, hourly, elsewhere),
        *_policy_advice(report),
    ]
    return replace(report, advice=tuple(advice))


# -- events ----------------------------------------------------------------------------------------


def _attempts(events: Iterable[ev.LoggedEvent]) -> tuple[list[_Attempt], list[int]]:
    """The attempts of a job, and the durations of its saves."""
    attempts: list[_Attempt] = []
    save_ms: list[int] = []
    for event in events:
        if isinstance(event, ev.AttemptAssigned):
            place = event.placement
            hourly = place.all_micro_usd_per_hour
            attempts.append(_Attempt(event.attempt, event.at_ms, place.pool, hourly))
        elif attempts:
            _apply(attempts[-1], event)
            if isinstance(event, ev.CheckpointSaved) and event.save_ms is not None:
                save_ms.append(event.save_ms)
    return attempts, save_ms


def _apply(live: _Attempt, event: ev.LoggedEvent) -> None:
    match event:
        case ev.AttemptStarted():
            live.started_ms = event.at_ms
        case ev.CheckpointSaved():
            live.saved_ms.append(event.at_ms)
            live.back_ms = live.back_ms or event.at_ms
        case ev.AttemptResumed():
            live.back_ms = live.back_ms or event.at_ms
        case ev.AttemptStopping():
            live.stop_cause = CAUSE_OF_STOP.get(event.why)
            if live.stop_cause is None and event.why and event.why != StopReason.CANCELLED.value:
                live.stop_cause = Cause.CAPACITY
        case ev.AttemptPreempted():
            live.ended_ms = event.at_ms
            live.cause = CAUSE_OF_END.get(event.cause, live.stop_cause)
        case ev.NodeLost():
            live.ended_ms, live.cause = event.at_ms, Cause.CAPACITY
        case ev.AttemptSucceeded() | ev.AttemptFailed():
            live.ended_ms = event.at_ms
        case _:
            pass


def _interruption(one: _Attempt, following: _Attempt | None) -> Interruption:
    assert one.cause is not None and one.ended_ms is not None
    recovery_ms = None
    if following is not None and None not in (following.back_ms, following.started_ms):
        assert following.back_ms is not None and following.started_ms is not None
        recovery_ms = following.back_ms - following.started_ms
    return Interruption(
        at_ms=one.ended_ms,
        attempt=one.attempt,
        cause=one.cause,
        pool=one.pool,
        ran_ms=one.ran_ms,
        lost_ms=one.lost_ms,
        lost_micro_usd=one.hourly * one.lost_ms // HOUR_MS,
        recovery_ms=recovery_ms,
        waited_ms=following.assigned_ms - one.ended_ms if following is not None else None,
    )


def _gaps(one: _Attempt) -> Iterator[int]:
    """Times between saves, and from the start to the first save."""
    previous_ms = one.started_ms
    for at_ms in one.saved_ms:
        if previous_ms is not None:
            yield at_ms - previous_ms
        previous_ms = at_ms


def _mean(values: Sequence[int]) -> int | None:
    return sum(values) // len(values) if values else None


# -- advice ----------------------------------------------------------------------------------------


def _checkpoint_advice(report: InterruptionReport, hourly: int) -> Iterator[str]:
    """Save more often: on average half an interval is lost at each interruption."""
    advised, every = report.advised_every_ms, report.saves_every_ms
    if advised is None or (every is not None and every < 2 * advised):
        return
    lost_then = hourly * (advised // 2) * len(report.interruptions) // HOUR_MS
    saved = max(0, report.lost_micro_usd - lost_then)
    if not saved:
        return
    now = f"instead of every {write_duration(every)}" if every else "instead of never"
    yield (
        f"save every {write_duration(max(advised, SECOND_MS))} {now} (checkpoint.every; "
        f"docs/checkpoints.md): that would have saved about {write_usd(saved)} of the "
        f"{write_usd(report.lost_micro_usd)} lost"
    )


def _pool_advice(
    report: InterruptionReport, hourly: int, elsewhere: Sequence[EligiblePool]
) -> Iterator[str]:
    """Compares the cost of an hour of useful work with the price of a non-spot pool."""
    non_spot = [one for one in elsewhere if one.market is not Market.SPOT]
    run_ms, recovery_ms = report.mean_run_ms, report.mean_recovery_ms or 0
    if not non_spot or not run_ms or not report.count(Cause.CAPACITY):
        return
    count = len(report.interruptions)
    useful_ms = run_ms * count - report.lost_ms - recovery_ms * count
    if recovery_ms * 4 > run_ms:
        yield (
            f"recover faster: {write_duration(recovery_ms)} of the {write_duration(run_ms)} between "
            "interruptions are spent on starting again; use a smaller checkpoint or a prepared image"
        )
    best = min(non_spot, key=lambda one: (one.micro_usd_per_hour, one.pool))
    useful_hourly = hourly * run_ms * count // max(useful_ms, MINUTE_MS)
    if useful_hourly > best.micro_usd_per_hour:
        yield (
            f"run it on {best.pool} ({best.market.value}) at {write_usd(best.micro_usd_per_hour)} an hour: "
            f"an hour of useful work has cost {write_usd(useful_hourly)}"
        )


def _policy_advice(report: InterruptionReport) -> Iterator[str]:
    quota, priority = report.count(Cause.QUOTA), report.count(Cause.PRIORITY)
    if quota:
        yield (
            f"stay within the queue's own quota: borrowed quota was reclaimed {quota} of "
            f"{len(report.interruptions)} times; run 'bursar quota' to see what is borrowed"
        )
    if priority:
        yield (
            f"use a higher priority class, or preemptible: false, if this job is as important as those "
            f"that preempted it {priority} of {len(report.interruptions)} times"
        )
    if report.count(Cause.BUDGET):
        yield "use a larger budget or cheaper pools; 'bursar budget' shows spending and the next period"
