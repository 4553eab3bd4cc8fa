"""What a job will cost, before it is submitted: with even odds and with nine in ten, for each offer.

The part of a node that a task takes is worked out by the very rule that bills it (``parts.py``), so that at
a fixed price, for a job that runs as long as it should and is not disturbed, estimate and ledger agree.
Waiting costs nothing and is not in it; ``core/explain/forecast.py`` says how long that takes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from bursar.accounting.estimates.price_path import PricePath
from bursar.accounting.estimates.rework import (
    MILLION,
    MOST_FAILURES,
    USUAL_SAVE_MS,
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

EVEN, NINE_IN_TEN = 500, 900
"""Of a thousand."""
WORTH_A_WARNING = 0.05
"""So many expected interruptions are worth a word about checkpoints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateRequest:
    """A job, how long it runs, and how long an attempt takes to start, which is paid like the rest."""

    spec: JobSpec
    run: RunTime
    start_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOffer:
    """A pool on which the job could run, and what is known of its market.

    ``interruptions_per_million_hours`` is what was learned of it, in place of what the pool says.
    ``warnings`` go into every estimate: an old or estimated price is never used without a word. Of a mixed
    gang only ``groups`` stand here, and the others in the pool of ``anchors``, which nobody takes away.
    """

    pool: Pool
    history: tuple[SpotPoint, ...] = ()
    interruptions_per_million_hours: int | None = None
    warnings: tuple[str, ...] = ()
    groups: tuple[TaskGroup, ...] | None = None
    anchors: PoolOffer | None = None

    @property
    def name(self) -> str:
        """The pool, or both."""
        return self.pool.name if self.anchors is None else f"{self.pool.name}+{self.anchors.name}"

    def hourly_micro_usd(self, spec: JobSpec) -> int:
        """What an hour costs at the prices of now."""
        here = _cost(self.pool, self.parts(spec), HOUR_MS)
        return here if self.anchors is None else here + self.anchors.hourly_micro_usd(spec)

    def parts(self, spec: JobSpec) -> int:
        """How much of the pool's nodes is taken, in billionths of one."""
        return parts_of(spec.groups if self.groups is None else self.groups, self.pool)

    @property
    def per_million_hours(self) -> int:
        said = self.interruptions_per_million_hours
        return self.pool.interruptions_per_million_hours if said is None else said


@dataclass(frozen=True, slots=True, kw_only=True)
class CostEstimate:
    """What the job costs on one offer, and how long it takes from its first start to its end."""

    option: Market
    pool: str
    p50_micro_usd: int
    p90_micro_usd: int
    p50_ms: int
    p90_ms: int
    basis: str
    warnings: tuple[str, ...] = ()

    @property
    def hours_p50(self) -> float:
        return self.p50_ms / HOUR_MS

    @property
    def hours_p90(self) -> float:
        return self.p90_ms / HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class NotEstimated:
    """An offer on which the job is not expected to end."""

    option: Market
    pool: str
    reason: str


def estimate_all(
    asked: EstimateRequest, offers: Iterable[PoolOffer], now_ms: int
) -> tuple[CostEstimate | NotEstimated, ...]:
    """Every offer, the cheapest first; those without an estimate at the end."""
    found = [estimate(asked, offer, now_ms) for offer in offers]
    return tuple(sorted(found, key=_cheapest_first))


def estimate(asked: EstimateRequest, offer: PoolOffer, now_ms: int) -> CostEstimate | NotEstimated:
    """One offer."""
    pool, run, saving = offer.pool, asked.run, asked.spec.checkpoint
    parts = offer.parts(asked.spec)
    hazard = Hazard(
        per_million_hours=offer.per_million_hours * nodes_of(parts),
        interval_ms=saving.interval_ms,
        restart_ms=saving.restart_ms + asked.start_ms,
    )
    failures = hazard.expected_failures(run.p90_ms)
    if failures > MOST_FAILURES:
        return NotEstimated(option=pool.market, pool=offer.name, reason=_why_not(hazard, run))
    path = PricePath(offer.history, now_ms)
    walls = {
        odds: asked.start_ms + run_ms + (lost_ms(hazard, run_ms, odds) if failures else 0)
        for odds, run_ms in ((EVEN, run.p50_ms), (NINE_IN_TEN, run.p90_ms))
    }
    costs = {odds: _cost(pool, parts, path.paid_ms(wall, odds)) for odds, wall in walls.items()}
    if offer.anchors is not None:
        steady = offer.anchors
        theirs = PricePath(steady.history, now_ms)
        for odds, wall in walls.items():
            paid_ms = theirs.paid_ms(wall, odds)
            costs[odds] += _cost(steady.pool, steady.parts(asked.spec), paid_ms)
    return CostEstimate(
        option=pool.market,
        pool=offer.name,
        p50_micro_usd=costs[EVEN],
        p90_micro_usd=costs[NINE_IN_TEN],
        p50_ms=walls[EVEN],
        p90_ms=walls[NINE_IN_TEN],
        basis=_basis(asked, offer, hazard, path),
        warnings=(*offer.warnings, *_warnings(asked, offer, hazard, path)),
    )


# -- what it takes -------------------------------------------------------------------------------------


def parts_of(groups: Iterable[TaskGroup], pool: Pool) -> int:
    """How much of the pool's nodes tasks take, in billionths of one."""
    return sum(group.count * _task_part(group, pool) for group in groups)


def nodes_of(parts: int) -> int:
    """On how many nodes it is, packed tightly; the loss of any of them stops it."""
    return max(1, -(-parts // WHOLE_NODE))


def _task_part(group: TaskGroup, pool: Pool) -> int:
    """One task of a group, as if it stood on a node by itself."""
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


def _cost(pool: Pool, parts: int, paid_ms: int) -> int:
    return pool.node_micro_usd_per_hour * parts * paid_ms // (WHOLE_NODE * HOUR_MS)


# -- in words ------------------------------------------------------------------------------------------


def _basis(asked: EstimateRequest, offer: PoolOffer, hazard: Hazard, path: PricePath) -> str:
    """What the figures rest on, in numbers."""
    pool = offer.pool
    hourly = write_usd(offer.hourly_micro_usd(asked.spec))
    told = [f"{asked.run.basis}, at {hourly} an hour on {offer.name} ({pool.market})"]
    if asked.start_ms:
        told.append(f"{write_duration(asked.start_ms)} to start")
    if hazard.per_million_hours:
        between = write_duration(MILLION * HOUR_MS // hazard.per_million_hours)
        expected = hazard.expected_failures(asked.run.p50_ms)
        saves = "nothing is saved on the way"
        if hazard.interval_ms is not None:
            saves = f"saves every {write_duration(hazard.interval_ms)}"
        told.append(
            f"an interruption every {between} on average ({expected:.2f} expected), {saves},"
            f" {write_duration(hazard.restart_ms)} to restart"
        )
    if path.changes > 1:
        low, high = write_usd(path.lowest or 0), write_usd(path.highest or 0)
        past = write_duration(path.span_ms)
        told.append(f"prices of {past}: {path.changes:,} changes from {low} to {high} a node")
    return "; ".join(told)


def _warnings(
    asked: EstimateRequest, offer: PoolOffer, hazard: Hazard, path: PricePath
) -> Iterable[str]:
    pool, run = offer.pool, asked.run
    if not pool.node_micro_usd_per_hour:
        yield f"{pool.name} is priced at $0; write what its nodes cost."
    if pool.market is Market.SPOT:
        if not hazard.per_million_hours:
            yield (
                f"No interruption rate of {pool.name} is known; none is counted."
                " Write interruptions_per_million_hours."
            )
        if path.changes < 2:
            yield f"No price history of {pool.name} is known; its price now is taken for all of it."
        elif run.p90_ms > path.span_ms:
            past = write_duration(path.span_ms)
            yield f"The job may run longer than the {past} of price history there are."
    expected = hazard.expected_failures(run.p90_ms)
    if expected > WORTH_A_WARNING and hazard.interval_ms is None:
        every = write_duration(_advised_ms(hazard))
        yield (
            f"It saves no checkpoints: {expected:.1f} interruptions are expected, and each costs the"
            f" run so far. Saving every {every} would lose least, at a minute a save."
        )


def _why_not(hazard: Hazard, run: RunTime) -> str:
    between = write_duration(MILLION * HOUR_MS // hazard.per_million_hours)
    stretch = write_duration(hazard.stretch_ms(run.p90_ms))
    return (
        f"An interruption comes every {between} on average and nothing is saved for {stretch}:"
        f" more than {MOST_FAILURES} are expected before it ends."
        f" Save a checkpoint every {write_duration(_advised_ms(hazard))}."
    )


def _advised_ms(hazard: Hazard) -> int:
    between_ms = MILLION * HOUR_MS // hazard.per_million_hours
    return max(1, round(daly_interval(USUAL_SAVE_MS, between_ms)))


def _cheapest_first(found: CostEstimate | NotEstimated) -> tuple[bool, int, str]:
    if isinstance(found, NotEstimated):
        return True, 0, found.pool
    return False, found.p50_micro_usd, found.pool
