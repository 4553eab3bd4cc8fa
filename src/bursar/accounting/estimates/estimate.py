"""Median and P90 cost of a job on each pool, before it is submitted.

The fraction of a node comes from the rule that bills it (``node_fraction``): for an uninterrupted job of
known run time at a fixed price, estimate and ledger agree. Waiting costs nothing and is not included;
``core/explain/forecast.py`` predicts it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bursar.accounting.estimates.price_path import PricePath
from bursar.accounting.estimates.rework import (
    MAX_FAILURES,
    MILLION,
    TYPICAL_SAVE_MS,
    Hazard,
    lost_ms,
)
from bursar.accounting.estimates.run_time import RunTime
from bursar.accounting.ledger.node_fraction import WHOLE_NODE, SliceRule, fraction_of_node
from bursar.model.fleet.fleet import Market, Pool
from bursar.model.fleet.gpu import MigInstance
from bursar.model.fleet.price import SpotPoint
from bursar.model.jobs.attempt import ShareUse, SliceUse, Task
from bursar.model.jobs.checkpoint_formulas import daly_interval
from bursar.model.jobs.job import JobSpec, MigSlice, MpsShare, TaskGroup, WholeGpus
from bursar.model.units import HOUR_MS, write_duration, write_usd

P50, P90 = 500, 900
"""Quantiles, in thousandths."""
WARN_FAILURES = 0.05
"""Expected interruptions from which a job without checkpoints gets a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateRequest:
    """A job, its run time, and the time an attempt takes to start, which is paid too."""

    spec: JobSpec
    run: RunTime
    start_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOffer:
    """A pool on which the job could run, and the history of its market.

    ``interruptions_per_million_hours`` is the measured rate; it replaces the declared rate of the pool.
    ``warnings`` are added to every estimate, for example about an old price. Of a mixed gang only ``groups``
    run here; the others run in the non-spot pool of ``anchors``.
    """

    pool: Pool
    history: tuple[SpotPoint, ...] = ()
    interruptions_per_million_hours: int | None = None
    warnings: tuple[str, ...] = ()
    groups: tuple[TaskGroup, ...] | None = None
    anchors: PoolOffer | None = None

    @property
    def name(self) -> str:
        """The name of the pool, or of both pools."""
        return self.pool.name if self.anchors is None else f"{self.pool.name}+{self.anchors.name}"

    def hourly_micro_usd(self, spec: JobSpec) -> int:
        """Cost of an hour at current prices."""
        hourly = _cost(self.pool, self.node_billionths(spec), HOUR_MS)
        return hourly if self.anchors is None else hourly + self.anchors.hourly_micro_usd(spec)

    def node_billionths(self, spec: JobSpec) -> int:
        """Billionths of a node that the job's tasks in this pool take together."""
        groups = spec.groups if self.groups is None else self.groups
        return sum(group.count * _task_fraction(group, self.pool) for group in groups)

    @property
    def per_million_hours(self) -> int:
        measured = self.interruptions_per_million_hours
        return self.pool.interruptions_per_million_hours if measured is None else measured


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """Cost of the job on one offer, and the time from its first start to its end."""

    option: Market
    pool: str
    p50_micro_usd: int
    p90_micro_usd: int
    p50_ms: int
    p90_ms: int
    basis: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotEstimated:
    """An offer on which the job is not expected to finish."""

    option: Market
    pool: str
    reason: str


def estimate_all(
    request: EstimateRequest, offers: Iterable[PoolOffer], now_ms: int
) -> tuple[CostEstimate | NotEstimated, ...]:
    """Estimates for all offers, the cheapest first, offers without an estimate last."""
    results = [estimate(request, offer, now_ms) for offer in offers]
    return tuple(sorted(results, key=_cheapest_first))


def estimate(
    request: EstimateRequest, offer: PoolOffer, now_ms: int
) -> CostEstimate | NotEstimated:
    """The estimate for one offer."""
    pool, run, checkpoint = offer.pool, request.run, request.spec.checkpoint
    billionths = offer.node_billionths(request.spec)
    hazard = Hazard(
        per_million_hours=offer.per_million_hours * _node_count(billionths),
        interval_ms=checkpoint.interval_ms,
        restart_ms=checkpoint.restart_ms + request.start_ms,
    )
    failures = hazard.expected_failures(run.p90_ms)
    if failures > MAX_FAILURES:
        return NotEstimated(option=pool.market, pool=offer.name, reason=_never_ends(hazard, run))
    path = PricePath(offer.history, now_ms)
    walls = {
        quantile: request.start_ms + run_ms + (lost_ms(hazard, run_ms, quantile) if failures else 0)
        for quantile, run_ms in ((P50, run.p50_ms), (P90, run.p90_ms))
    }
    parts = [(pool, billionths, path)]
    if offer.anchors is not None:
        anchors, anchor_path = offer.anchors, PricePath(offer.anchors.history, now_ms)
        parts.append((anchors.pool, anchors.node_billionths(request.spec), anchor_path))
    costs = {
        q: sum(_cost(part, size, prices.paid_ms(wall, q)) for part, size, prices in parts)
        for q, wall in walls.items()
    }
    return CostEstimate(
        option=pool.market,
        pool=offer.name,
        p50_micro_usd=costs[P50],
        p90_micro_usd=costs[P90],
        p50_ms=walls[P50],
        p90_ms=walls[P90],
        basis=_basis(request, offer, hazard, path),
        warnings=(*offer.warnings, *_warnings(request, offer, hazard, path)),
    )


# -- resources -----------------------------------------------------------------------------------------


def _node_count(billionths: int) -> int:
    """Nodes of a tightly packed job; the loss of any of them interrupts it."""
    return max(1, -(-billionths // WHOLE_NODE))


def _task_fraction(group: TaskGroup, pool: Pool) -> int:
    """Billionths of an otherwise empty node that one task of a group takes."""
    gpus: tuple[int, ...] = ()
    slices: tuple[SliceUse, ...] = ()
    shares: tuple[ShareUse, ...] = ()
    match group.gpu:
        case WholeGpus(count=count):
            gpus = tuple(range(count))
        case MigSlice(profile=profile):
            slices = (SliceUse(gpu=0, instance=MigInstance(profile=profile, start=0)),)
        case MpsShare(percent=percent, memory_mib=memory_mib):
            shares = (ShareUse(gpu=0, percent=percent, memory_mib=memory_mib),)
    task = Task(
        group=group.name,
        node="",
        count=1,
        gpus=gpus,
        slices=slices,
        shares=shares,
        cpu_milli=group.cpu_milli,
        memory_mib=group.memory_mib,
    )
    return fraction_of_node(task, pool, SliceRule.MAX).fraction


def _cost(pool: Pool, billionths: int, paid_ms: int) -> int:
    return pool.node_micro_usd_per_hour * billionths * paid_ms // (WHOLE_NODE * HOUR_MS)


# -- texts ---------------------------------------------------------------------------------------------


def _basis(request: EstimateRequest, offer: PoolOffer, hazard: Hazard, path: PricePath) -> str:
    """The numbers that the estimate is based on."""
    pool = offer.pool
    hourly = write_usd(offer.hourly_micro_usd(request.spec))
    facts = [f"{request.run.basis}, at {hourly} an hour on {offer.name} ({pool.market})"]
    if request.start_ms:
        facts.append(f"{write_duration(request.start_ms)} to start")
    if hazard.per_million_hours:
        between = write_duration(MILLION * HOUR_MS // hazard.per_million_hours)
        expected = hazard.expected_failures(request.run.p50_ms)
        saves = "no checkpoints"
        if hazard.interval_ms is not None:
            saves = f"a checkpoint every {write_duration(hazard.interval_ms)}"
        facts.append(
            f"an interruption every {between} on average ({expected:.2f} expected), {saves},"
            f" {write_duration(hazard.restart_ms)} to restart"
        )
    if path.changes > 1:
        low, high = write_usd(path.lowest or 0), write_usd(path.highest or 0)
        span = write_duration(path.span_ms)
        facts.append(f"prices of {span}: {path.changes:,} changes from {low} to {high} a node")
    return "; ".join(facts)


def _warnings(
    request: EstimateRequest, offer: PoolOffer, hazard: Hazard, path: PricePath
) -> Iterable[str]:
    pool, run = offer.pool, request.run
    if not pool.node_micro_usd_per_hour:
        yield f"{pool.name} is priced at $0; give the price of its nodes in the fleet file."
    if pool.market is Market.SPOT:
        if not hazard.per_million_hours:
            yield (
                f"The interruption rate of {pool.name} is unknown; no interruptions are assumed."
                " Set interruptions_per_million_hours in the fleet file."
            )
        if path.changes < 2:
            yield f"{pool.name} has no price history; its current price is used for the whole run."
        elif run.p90_ms > path.span_ms:
            span = write_duration(path.span_ms)
            yield f"The job may run longer than the {span} of price history."
    expected = hazard.expected_failures(run.p90_ms)
    if expected > WARN_FAILURES and hazard.interval_ms is None:
        every = write_duration(_advised_ms(hazard))
        yield (
            f"The job saves no checkpoints: {expected:.1f} interruptions are expected, and each loses"
            f" the run so far. A checkpoint every {every} would lose least, if one takes a minute."
        )


def _never_ends(hazard: Hazard, run: RunTime) -> str:
    between = write_duration(MILLION * HOUR_MS // hazard.per_million_hours)
    segment = write_duration(hazard.segment_ms(run.p90_ms))
    return (
        f"The job is interrupted every {between} on average and saves nothing for {segment}:"
        f" more than {MAX_FAILURES} interruptions are expected before it ends."
        f" Save a checkpoint every {write_duration(_advised_ms(hazard))}."
    )


def _advised_ms(hazard: Hazard) -> int:
    between_ms = MILLION * HOUR_MS // hazard.per_million_hours
    return max(1, round(daly_interval(TYPICAL_SAVE_MS, between_ms)))


def _cheapest_first(result: CostEstimate | NotEstimated) -> tuple[bool, int, str]:
    if isinstance(result, NotEstimated):
        return True, 0, result.pool
    return False, result.p50_micro_usd, result.pool
