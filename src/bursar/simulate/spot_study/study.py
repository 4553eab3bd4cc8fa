"""Runs the study: the cost of each rule on a user's history of spot capacity and prices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from bursar.core.deadline.deadline_rules import POLICIES
from bursar.core.deadline.inputs import DeadlineTerms
from bursar.model.errors import UserError
from bursar.model.units import HOUR_MS
from bursar.simulate.parallel_tasks import Progress, Watch, run_in_parallel
from bursar.simulate.spot_study.cells import OPTIMUM, JobSize, StudyCell, evenly_spaced
from bursar.simulate.spot_study.history import PoolHistory, SpotHistory, common_span, read_history
from bursar.simulate.spot_study.market import PoolTrack, markets
from bursar.simulate.spot_study.optimum import optimum_of_one_pool, optimum_of_pools
from bursar.simulate.spot_study.replay import replay

PART: Final = "history"
ALL_POOLS: Final = "all pools"
DEFAULT_STARTS: Final = 20
DEFAULT_SIZE: Final = JobSize()


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStudy:
    """The history files, the job and the rules, none for all.

    Prices are per machine-hour; 0 means not given.
    """

    histories: Sequence[str]
    size: JobSize = DEFAULT_SIZE
    rules: Sequence[str] = ()
    starts: int | None = None
    nodes: int = 1
    on_demand_micro_usd: int = 0
    spot_micro_usd: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotOutcome:
    """Rows in display order, and the reasons for what was left out."""

    cells: tuple[StudyCell, ...]
    left_out: tuple[str, ...]
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryTask:
    """One pool, or all pools together, from every start under every rule."""

    name: str
    tracks: tuple[PoolTrack, ...]
    size: JobSize
    terms: DeadlineTerms
    rules: tuple[str, ...]
    starts: tuple[int, ...]

    def run(self) -> list[StudyCell]:
        """Returns one row; its costs are those of one machine."""
        cell = StudyCell(part=PART, group="", name=self.name, size=self.size)
        market = markets(self.tracks, self.terms.tick_ms)
        for start in self.starts:
            end = start + self.terms.ticks
            for rule in self.rules:
                cell.tally(rule).add(replay(self.terms, market[start:end], POLICIES[rule]))
            best = cell.tally(OPTIMUM)
            best.runs += 1
            best.cost_micro_usd += self._optimum(start, end)
        return [cell]

    def _optimum(self, start: int, end: int) -> int:
        prices = list(
            zip(*(track.prices_micro_usd[start:end] for track in self.tracks), strict=True)
        )
        distinct = {price for tick in prices for price in tick if price}
        if len(self.tracks) == 1 and len(distinct) == 1:
            return optimum_of_one_pool(self.terms, [one for (one,) in prices], distinct.pop())
        return optimum_of_pools(self.terms, prices)


class SpotTask(Protocol):
    """A picklable part of a study that returns rows."""

    def run(self) -> list[StudyCell]: ...


def run_tasks(
    tasks: Sequence[SpotTask], watch: Watch | None = None, *, processes: int | None = None
) -> tuple[list[StudyCell], bool]:
    """The rows in the order of the tasks, and whether all tasks finished."""

    def watch_all(progress: Sequence[Progress | None]) -> bool:
        over = sum(one is not None for one in progress)
        return watch is not None and watch([Progress(jobs_over=over, jobs_in_all=len(progress))])

    rows_by_task = run_in_parallel(_run_task, tasks, watch_all, processes)
    return [row for rows in rows_by_task for row in rows], len(rows_by_task) == len(tasks)


def _run_task(task: SpotTask, watch: Watch) -> list[StudyCell]:
    rows = task.run()
    watch([Progress(jobs_over=1, jobs_in_all=1)])
    return rows


def run_history_study(study: HistoryStudy, watch: Watch | None = None) -> SpotOutcome:
    """Reads the histories and runs every start under every rule."""
    check_rules(study.rules)
    if not study.histories:
        raise UserError(
            "simulate spot needs a history of your spot capacity.",
            fix="Name a file with --history FILE: a CSV with the columns at,machines,usd_per_hour, "
            "a recorded series, or the event log of a fleet with spot pools; docs/spot.md shows one.",
            code="no-spot-history",
        )
    histories = [read_history(path) for path in study.histories]
    tasks = _tasks(study, histories)
    cells, complete = run_tasks(tasks, watch)
    bad = [str(row) for history in histories for row in history.bad_rows]
    return SpotOutcome(cells=tuple(cells), left_out=tuple(bad), complete=complete)


def check_rules(rules: Sequence[str]) -> None:
    """Rejects an unknown rule."""
    for name in rules:
        if name not in POLICIES:
            raise UserError(
                f"'{name}' is not a rule of the spot study.",
                fix=f"Choose from {', '.join(POLICIES)}.",
                code="unknown-spot-rule",
            )


def _tasks(study: HistoryStudy, histories: Sequence[SpotHistory]) -> list[HistoryTask]:
    pools = sorted((pool for one in histories for pool in one.pools), key=lambda one: one.pool)
    _check_unique_names(pools)
    span = common_span(pools)
    listed = [one.on_demand_micro_usd for one in histories if one.on_demand_micro_usd]
    on_demand = study.on_demand_micro_usd or min(listed, default=0)
    _check_prices(study, pools, on_demand)
    terms = study.size.terms(span.step, on_demand)
    last = len(span) - terms.ticks
    if last < 0:
        hours = len(span) * span.step / HOUR_MS
        raise UserError(
            f"the history covers {hours:.1f} h, less than the {study.size.deadline_hours:g} h "
            "from a job's start to its deadline.",
            fix="Use a longer history, or a shorter job with --job-hours and --deadline-hours.",
            code="short-spot-history",
        )
    tracks = tuple(pool.track(span, study.nodes, study.spot_micro_usd) for pool in pools)
    named: list[tuple[str, tuple[PoolTrack, ...]]] = [(one.pool, (one,)) for one in tracks]
    if len(tracks) > 1:
        named.append((ALL_POOLS, tracks))
    return [
        HistoryTask(
            name=name,
            tracks=chosen,
            size=study.size,
            terms=terms,
            rules=tuple(study.rules or POLICIES),
            starts=evenly_spaced(0, last, study.starts or DEFAULT_STARTS),
        )
        for name, chosen in named
    ]


def _check_unique_names(pools: Sequence[PoolHistory]) -> None:
    names = [pool.pool for pool in pools]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise UserError(
            f"two histories have a pool with the name {duplicates[0]!r}.",
            fix="Rename a file, or name the pools in a column 'pool'.",
            code="bad-spot-history",
        )


def _check_prices(study: HistoryStudy, pools: Sequence[PoolHistory], on_demand: int) -> None:
    if not on_demand:
        raise UserError(
            "the history has no on-demand price.",
            fix="Pass --on-demand-price USD, the price of one machine-hour.",
            code="no-spot-prices",
        )
    unpriced = [pool.pool for pool in pools if not pool.has_prices]
    if unpriced and not study.spot_micro_usd:
        raise UserError(
            f"the history has no price for the pool {unpriced[0]!r}.",
            fix="Pass --spot-price USD, or add a column usd_per_hour.",
            code="no-spot-prices",
        )
