"""The smallest changes that would start a held job now, each proven by the cycle itself.

A change is tried by putting the changed job in the place of the one that waits and asking ``decide``:
so an alternative starts for the same reasons, and after the same jobs, as it would if it were asked for.
Tries cost a cycle each and are counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from bursar.core.cycle import decide
from bursar.core.explain.hypothetical_job import swapped
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
from bursar.model.explain.explanation import Alternative
from bursar.model.fleet.fleet import Market
from bursar.model.jobs.job import JobSpec
from bursar.model.reason import Reason
from bursar.model.units import HOUR_MS

MOST_TRIES = 24
TRIES_OF_ONE_SORT = 6
ENOUGH = 5

ELSEWHERE = {OTHER_MARKET, SPOT_MARKET, OTHER_MODEL}
"""Changes after which nobody needs another model and another market at once."""


@dataclass(slots=True)
class AlternativeTries:
    """What has been tried, and what started."""

    state: FleetState
    record: JobRecord
    now_ms: int
    considered: int = 0
    tries: int = 0
    found: list[Alternative] = field(default_factory=list)

    @property
    def go_on(self) -> bool:
        return self.tries < MOST_TRIES and len(self.found) < ENOUGH

    def attempt(self, change: SpecChange) -> Alternative | None:
        """The change as an alternative if it starts the job now."""
        state = self.state
        self.considered += 1
        with swapped(state, self.record.id, change.spec) as record:
            if not _could_start(state, record):
                return None
            self.tries += 1
            for order in decide(state, self.now_ms):
                if isinstance(order, StartJob) and order.job_id == record.id:
                    return _priced(change, record, order)
        return None

    def each(self, changes: Iterable[SpecChange], most: int = 1) -> None:
        """Keep the first changes that start the job."""
        last_try = min(MOST_TRIES, self.tries + TRIES_OF_ONE_SORT)
        enough = min(ENOUGH, len(self.found) + most)
        for change in changes:
            if self.tries >= last_try or len(self.found) >= enough:
                return
            alternative = self.attempt(change)
            if alternative is not None:
                self.found.append(alternative)

    def most(self, counts: Sequence[int], change_to: Callable[[JobSpec, int], SpecChange]) -> None:
        """Keep the largest of falling counts that starts the job.

        Found by halving, as if every count below one that helps helped too. Where that is not so a
        larger one may be missed, but what is kept has been tried.
        """
        best: Alternative | None = None
        low, high = 0, len(counts) - 1
        middle = high
        while low <= high and self.go_on:
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


def _could_start(state: FleetState, record: JobRecord) -> bool:
    """A cheap no: no pool for it, or no quota on any, so that no try is wasted."""
    plan = record.backlog.plan
    return any(
        state.quota.fits(record.spec.queue, fit.request(fit.min_counts)) for fit in plan.fits
    )


def _priced(change: SpecChange, record: JobRecord, order: StartJob) -> Alternative:
    """What the alternative costs for as long as the job should run, rework included."""
    placement, plan = order.placement, record.backlog.plan
    fit = next(fit for fit in plan.fits if fit.is_at(placement))
    undisturbed = fit.expected_cost(0)
    run_ms = expected_run_ms(record, EndOdds.EVEN)
    hourly = placement.all_micro_usd_per_hour
    plain_micro_usd = hourly * run_ms // HOUR_MS
    return Alternative(
        change=change.words,
        spec=change.spec,
        pool=fit.name,
        weight=change.weight,
        micro_usd_per_hour=hourly,
        expected_micro_usd=plain_micro_usd * fit.expected_micro_usd // max(1, undisturbed),
    )


def _markets(state: FleetState) -> set[Market]:
    return {pool.spec.market for pool in state.pools.values()}


def _cheapest_first(state: FleetState) -> list[tuple[str, Market]]:
    """Every GPU model and purchase option of the fleet, by what a GPU costs there."""
    found = []
    for pool in state.pools.values():
        spec = pool.spec
        if spec.gpu_model is not None and spec.gpus_per_node:
            price = spec.node_micro_usd_per_hour // spec.gpus_per_node
            found.append((price, spec.gpu_model.name, spec.market))
    return list(dict.fromkeys((model, market) for _, model, market in sorted(found)))


def _sibling_queues(state: FleetState, queue: str) -> list[str]:
    """Queues under the same tenant: who may submit to one may be able to submit to another."""
    parent = state.parents[queue]
    if parent is None:
        return []
    return sorted(t.name for t in state.tenants.values() if t.is_queue and t.parent == parent)
