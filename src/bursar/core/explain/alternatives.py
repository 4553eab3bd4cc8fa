"""Finds the smallest spec changes that would start a held job now.

Each change is tried: the job gets the new spec and ``decide`` runs. So an alternative starts under the
same rules as a submitted job. A try costs a cycle, so tries are limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from bursar.core.cycle import decide
from bursar.core.explain.smaller_requests import (
    OTHER_MARKET,
    OTHER_MODEL,
    SPOT_MARKET,
    SpecChange,
    allow_markets,
    gpu_counts,
    loosen_topology,
    move_to_queues,
    shorten,
    task_counts,
    use_flavors,
    use_models,
    with_gpus,
    with_tasks,
)
from bursar.core.reservation.expected_ends import EndOdds, expected_run_ms
from bursar.core.state.fleet_state import FleetState
from bursar.core.state.job_record import JobRecord
from bursar.model.decision import StartJob
from bursar.model.errors import BrokenInvariant
from bursar.model.explain.explanation import Alternative
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import JobSpec, JobState
from bursar.model.reason import Reason
from bursar.model.units import HOUR_MS

MOST_TRIES = 24
TRIES_PER_TYPE = 6
MOST_ALTERNATIVES = 5

ELSEWHERE = {OTHER_MARKET, SPOT_MARKET, OTHER_MODEL}
"""If one of these helps, changing model and market together is not tried."""


@dataclass(slots=True)
class AlternativeTries:
    """Counts tries and collects the changes that started the job."""

    state: FleetState
    record: JobRecord
    now_ms: int
    considered: int = 0
    tries: int = 0
    found: list[Alternative] = field(default_factory=list)

    @property
    def can_continue(self) -> bool:
        return self.tries < MOST_TRIES and len(self.found) < MOST_ALTERNATIVES

    def attempt(self, change: SpecChange) -> Alternative | None:
        """Returns the change as an alternative if it starts the job now."""
        state = self.state
        self.considered += 1
        with with_spec(state, self.record.id, change.spec) as record:
            if not _could_start(state, record):
                return None
            self.tries += 1
            for order in decide(state, self.now_ms):
                if isinstance(order, StartJob) and order.job_id == record.id:
                    return _priced(change, record, order)
        return None

    def each(self, changes: Iterable[SpecChange], most: int = 1) -> None:
        """Collects the first changes that start the job, at most ``most``."""
        last_try = min(MOST_TRIES, self.tries + TRIES_PER_TYPE)
        enough = min(MOST_ALTERNATIVES, len(self.found) + most)
        for change in changes:
            if self.tries >= last_try or len(self.found) >= enough:
                return
            alternative = self.attempt(change)
            if alternative is not None:
                self.found.append(alternative)

    def most(self, counts: Sequence[int], change_to: Callable[[JobSpec, int], SpecChange]) -> None:
        """Collects the largest of descending counts that starts the job.

        Binary search, as if every smaller count helped too. Where that is not so, a larger count may
        be missed, but the result has been tried.
        """
        best: Alternative | None = None
        low, high = 0, len(counts) - 1
        middle = high
        while low <= high and self.can_continue:
            alternative = self.attempt(change_to(self.record.spec, counts[middle]))
            if alternative is not None:
                best, high = alternative, middle - 1
            else:
                low = middle + 1
            middle = (low + high) // 2
        if best is not None:
            self.found.append(best)


def find_alternatives(
    state: FleetState, record: JobRecord, reasons: Sequence[Reason], now_ms: int
) -> tuple[tuple[Alternative, ...], int]:
    """Up to five alternatives, the smallest change first, and how many changes were considered."""
    spec = record.spec
    flavors = _cheapest_first(state)
    models = list(dict.fromkeys(model for model, _ in flavors))
    attempts = AlternativeTries(state, record, now_ms)
    attempts.each(loosen_topology(spec))
    attempts.each(allow_markets(spec, _markets(state)), most=2)
    attempts.each(move_to_queues(spec, _sibling_queues(state, spec.queue)))
    attempts.each(use_models(spec, models))
    attempts.each(shorten(spec, reasons, record.run_ms))
    if not ELSEWHERE & {one.weight for one in attempts.found}:
        attempts.each(use_flavors(spec, flavors))
    attempts.most(gpu_counts(spec), with_gpus)
    attempts.most(task_counts(spec), with_tasks)
    found = sorted(attempts.found, key=lambda one: (one.weight, one.expected_micro_usd, one.change))
    return tuple(found), attempts.considered


def is_queued(record: JobRecord) -> bool:
    """Whether a job waits in a queue without a claim."""
    return record.state is JobState.QUEUED and record.claim is None


@contextmanager
def with_spec(state: FleetState, job_id: str, new_spec: JobSpec) -> Iterator[JobRecord]:
    """Gives a waiting job another spec until the block ends.

    Its id, priority and submission time stay. A backlog or a plan that only the changed job uses is
    removed afterwards.
    """
    record = state.jobs[job_id]
    if not is_queued(record):
        raise BrokenInvariant(f"{record!r} is not queued and cannot be changed")
    old = (record.spec, record.backlog, record.rank, record.run_ms)
    record.backlog.leave(record)
    record.spec = new_spec
    state.backlogs.add_job(record)
    record.backlog.join(record)
    try:
        yield record
    finally:
        record.backlog.leave(record)
        state.backlogs.remove_job(record)
        record.spec, record.backlog, record.rank, record.run_ms = old
        record.backlog.join(record)


def _could_start(state: FleetState, record: JobRecord) -> bool:
    """Whether some pool has quota for it: a cheap test that saves cycles."""
    plan = record.backlog.plan
    return any(
        state.quota.fits(record.spec.queue, fit.request(fit.min_counts)) for fit in plan.fits
    )


def _priced(change: SpecChange, record: JobRecord, order: StartJob) -> Alternative:
    """The alternative with its cost for the expected run time, lost work included."""
    placement, plan = order.placement, record.backlog.plan
    fit = next(fit for fit in plan.fits if fit.is_at(placement))
    undisturbed = fit.expected_cost(0)
    run_ms = expected_run_ms(record, EndOdds.EVEN)
    hourly = placement.all_micro_usd_per_hour
    plain_micro_usd = hourly * run_ms // HOUR_MS
    return Alternative(
        change=change.text,
        spec=change.spec,
        pool=fit.name,
        weight=change.weight,
        micro_usd_per_hour=hourly,
        expected_micro_usd=plain_micro_usd * fit.expected_micro_usd // max(1, undisturbed),
    )


def _markets(state: FleetState) -> set[Market]:
    return {pool.spec.market for pool in state.pools.values()}


def _cheapest_first(state: FleetState) -> list[tuple[str, Market]]:
    """Every GPU model and market of the fleet, by price per GPU."""
    flavors = []
    for pool in state.pools.values():
        spec = pool.spec
        if spec.gpu_model is not None and spec.gpus_per_node:
            price = spec.node_micro_usd_per_hour // spec.gpus_per_node
            flavors.append((price, spec.gpu_model.name, spec.market))
    return list(dict.fromkeys((model, market) for _, model, market in sorted(flavors)))


def _sibling_queues(state: FleetState, queue: str) -> list[str]:
    """Queues of the same tenant: users of one can often use another."""
    parent = state.parents[queue]
    if parent is None:
        return []
    return sorted(t.name for t in state.tenants.values() if t.is_queue and t.parent == parent)
