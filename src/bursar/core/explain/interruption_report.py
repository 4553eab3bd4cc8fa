"""Why a job was interrupted, what that cost, and which change would help, from the events of its log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from bursar.model import event as ev
from bursar.model.decision import PreemptionReason, StopReason
from bursar.model.explain.interruption_report import Cause, Interruption, InterruptionReport
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.checkpoint_formulas import daly_interval
from bursar.model.units import HOUR_MS, MINUTE_MS, SECOND_MS, write_duration, write_usd

USUAL_SAVE_MS = 30 * SECOND_MS
"""What a save is taken to need where none was measured."""

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
class _Try:
    """One attempt while its events go by."""

    attempt: int
    assigned_ms: int
    pool: str
    hourly: int
    started_ms: int | None = None
    saved_ms: list[int] = field(default_factory=list)
    back_ms: int | None = None
    told: Cause | None = None
    ended_ms: int | None = None
    cause: Cause | None = None

    @property
    def ran_ms(self) -> int:
        began = self.started_ms if self.started_ms is not None else self.ended_ms
        return max(0, (self.ended_ms or 0) - (began or 0))

    @property
    def lost_ms(self) -> int:
        """Since the last save; of an attempt that never was back, all of it."""
        since = self.saved_ms[-1] if self.saved_ms else self.started_ms
        return 0 if since is None or self.ended_ms is None else max(0, self.ended_ms - since)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolPrice:
    """A pool that could run the job as well, and its price."""

    pool: str
    market: Market
    micro_usd_per_hour: int


def interruption_report(
    job_id: str, events: Iterable[ev.LoggedEvent], elsewhere: Sequence[PoolPrice]
) -> InterruptionReport:
    """From the events of one job, with the losses of its nodes among them, in order."""
    tries, save_ms = _tries(events)
    broken = [one for one in tries if one.cause is not None]
    following = {one.attempt: one for one in tries}
    found = tuple(_interruption(one, following.get(one.attempt + 1)) for one in broken)
    mean_run_ms = _mean([one.ran_ms for one in broken])
    gaps = [gap for one in tries for gap in _gaps(one)]
    measured = _mean(save_ms)
    advised = None
    if any(one.cause is Cause.CAPACITY for one in broken) and mean_run_ms:
        save_seconds = (measured or USUAL_SAVE_MS) / SECOND_MS
        advised = round(daly_interval(save_seconds, mean_run_ms / SECOND_MS)) * SECOND_MS
    story = InterruptionReport(
        job_id=job_id,
        interruptions=found,
        mean_run_ms=mean_run_ms,
        saves=sum(len(one.saved_ms) for one in tries),
        saves_every_ms=_mean(gaps),
        save_ms=measured,
        mean_recovery_ms=_mean([one.recovery_ms for one in found if one.recovery_ms is not None]),
        waited_ms=sum(one.waited_ms or 0 for one in found),
        lost_ms=sum(one.lost_ms for one in found),
        lost_micro_usd=sum(one.lost_micro_usd for one in found),
        spent_micro_usd=sum(one.hourly * one.ran_ms // HOUR_MS for one in broken),
        advised_every_ms=max(advised, SECOND_MS) if advised is not None else None,
        advice=(),
    )
    hourly = broken[-1].hourly if broken else 0
    return _with_advice(story, hourly, elsewhere)


# -- the events ------------------------------------------------------------------------------------


def _tries(events: Iterable[ev.LoggedEvent]) -> tuple[list[_Try], list[int]]:
    tries: list[_Try] = []
    save_ms: list[int] = []
    for event in events:
        if isinstance(event, ev.AttemptAssigned):
            where = event.placement
            tries.append(_Try(event.attempt, event.at_ms, where.pool, where.all_micro_usd_per_hour))
        elif tries:
            _hear(tries[-1], event)
            if isinstance(event, ev.CheckpointSaved) and event.save_ms is not None:
                save_ms.append(event.save_ms)
    return tries, save_ms


def _hear(live: _Try, event: ev.LoggedEvent) -> None:
    match event:
        case ev.AttemptStarted():
            live.started_ms = event.at_ms
        case ev.CheckpointSaved():
            live.saved_ms.append(event.at_ms)
            live.back_ms = live.back_ms or event.at_ms
        case ev.AttemptResumed():
            live.back_ms = live.back_ms or event.at_ms
        case ev.AttemptStopping():
            live.told = CAUSE_OF_STOP.get(event.why)
            if live.told is None and event.why and event.why != StopReason.CANCELLED.value:
                live.told = Cause.CAPACITY
        case ev.AttemptPreempted():
            live.ended_ms = event.at_ms
            live.cause = CAUSE_OF_END.get(event.cause, live.told)
        case ev.NodeLost():
            live.ended_ms, live.cause = event.at_ms, Cause.CAPACITY
        case ev.AttemptSucceeded() | ev.AttemptFailed():
            live.ended_ms = event.at_ms
        case _:
            pass


def _interruption(one: _Try, then: _Try | None) -> Interruption:
    assert one.cause is not None and one.ended_ms is not None
    back_ms = None
    if then is not None and then.back_ms is not None and then.started_ms is not None:
        back_ms = then.back_ms - then.started_ms
    return Interruption(
        at_ms=one.ended_ms,
        attempt=one.attempt,
        cause=one.cause,
        pool=one.pool,
        ran_ms=one.ran_ms,
        lost_ms=one.lost_ms,
        lost_micro_usd=one.hourly * one.lost_ms // HOUR_MS,
        recovery_ms=back_ms,
        waited_ms=then.assigned_ms - one.ended_ms if then is not None else None,
    )


def _gaps(one: _Try) -> Iterator[int]:
    """Times between two saves, and from the start to the first."""
    before = one.started_ms
    for at_ms in one.saved_ms:
        if before is not None:
            yield at_ms - before
        before = at_ms


def _mean(values: Sequence[int]) -> int | None:
    return sum(values) // len(values) if values else None


# -- what would help -------------------------------------------------------------------------------


def _with_advice(
    story: InterruptionReport, hourly: int, elsewhere: Sequence[PoolPrice]
) -> InterruptionReport:
    said = [*_save_more(story, hourly), *_steadier(story, hourly, elsewhere), *_more_right(story)]
    return replace(story, advice=tuple(said))


def _save_more(story: InterruptionReport, hourly: int) -> Iterator[str]:
    """Half an interval is lost at each interruption, on average."""
    advised, count = story.advised_every_ms, len(story.interruptions)
    if advised is None or (story.saves_every_ms is not None and story.saves_every_ms < 2 * advised):
        return
    lost_then = hourly * (advised // 2) * count // HOUR_MS
    kept = max(0, story.lost_micro_usd - lost_then)
    if not kept:
        return
    every = write_duration(max(advised, SECOND_MS))
    now = (
        f"instead of every {write_duration(story.saves_every_ms)}"
        if story.saves_every_ms
        else "at all"
    )
    yield (
        f"save every {every} {now} (checkpoint.every; docs/checkpoints.md): about {write_usd(kept)} of the "
        f"{write_usd(story.lost_micro_usd)} that were lost would have been kept"
    )


def _steadier(
    story: InterruptionReport, hourly: int, elsewhere: Sequence[PoolPrice]
) -> Iterator[str]:
    """What an hour of work that lasts has cost, against an hour where nobody takes nodes away."""
    steady = [one for one in elsewhere if one.market is not Market.SPOT]
    lives_ms, back_ms = story.mean_run_ms, story.mean_recovery_ms or 0
    if not steady or not lives_ms or not story.count(Cause.CAPACITY):
        return
    count = len(story.interruptions)
    useful_ms = lives_ms * count - story.lost_ms - back_ms * count
    if back_ms * 4 > lives_ms:
        yield (
            f"be back sooner: {write_duration(back_ms)} of the {write_duration(lives_ms)} between two "
            "interruptions go into starting again; a smaller checkpoint or a prepared image shortens that"
        )
    best = min(steady, key=lambda one: (one.micro_usd_per_hour, one.pool))
    really = hourly * lives_ms * count // max(useful_ms, MINUTE_MS)
    if really > best.micro_usd_per_hour:
        yield (
            f"run it on {best.pool} ({best.market.value}): an hour of work that lasted has cost "
            f"{write_usd(really)}, there it is {write_usd(best.micro_usd_per_hour)}"
        )


def _more_right(story: InterruptionReport) -> Iterator[str]:
    quota, priority = story.count(Cause.QUOTA), story.count(Cause.PRIORITY)
    if quota:
        yield (
            f"stay within the queue's own quota: what is borrowed can be taken back, as it was {quota} of "
            f"{len(story.interruptions)} times; 'bursar quota' shows what is borrowed"
        )
    if priority:
        yield (
            f"a higher priority class, or preemptible: false, if this job matters as much as those that "
            f"went first {priority} of {len(story.interruptions)} times"
        )
    if story.count(Cause.BUDGET):
        yield "a larger budget, or cheaper hours: 'bursar budget' shows what is spent and when it begins anew"
