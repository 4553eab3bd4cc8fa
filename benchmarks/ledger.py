"""(g) Billing and reports for a month of 1,000 GPUs. Jobs are generated without a scheduler."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from benchmarks.figure import Figure, Stopwatch, peak_memory_gb
from bursar.accounting.ledger.books import Books
from bursar.accounting.ledger.entry import AccountKind, LedgerEntry, kind_of
from bursar.accounting.ledger.ledger import Ledger
from bursar.accounting.reports.focus import Issuer
from bursar.accounting.reports.group_by import Naming, read_axes
from bursar.accounting.reports.line_item import line_items
from bursar.accounting.reports.report import report
from bursar.accounting.reports.savings import savings
from bursar.accounting.reports.statement import (
    IdlePolicy,
    StatementRequest,
    StatementStyle,
    statements,
)
from bursar.api.endpoints.money.export_formats import write_focus
from bursar.gc_tuning import rare_gc
from bursar.model import event as ev
from bursar.model.fleet.fleet import Fleet, Market
from bursar.model.jobs.attempt import Placement, ShareUse, Task
from bursar.model.jobs.job import JobSpec, TaskGroup
from bursar.model.jobs.job_labels import JobLabel
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import Tenant
from bursar.model.units import DAY_MS, GIB_MIB, HOUR_MS, MILLI, MINUTE_MS
from tests.support import fleet_of, pool, queue, tenant

DAYS = 30
POOLS = {"owned": (75, Market.OWNED, 17.5), "spot": (50, Market.SPOT, 21.0)}
QUEUES = tuple(f"team-{number:02d}" for number in range(40))
SIZES = (1, 1, 1, 1, 1, 2, 2, 4, 8)
SHARED_EVERY = 10
"""A start at every tenth job number, if of one GPU, is four jobs that share it."""
MEAN_RUN_MS = 2.4 * HOUR_MS
SAVE_EVERY = 4
"""Every fourth job saves a checkpoint in the middle of its run."""
USE = 0.9
SPEC_GROUP = (TaskGroup(),)


@dataclass(frozen=True, slots=True, order=True)
class Due:
    """The end of an attempt and the GPUs it frees, or the time of a checkpoint."""

    end_ms: int
    number: int
    node: str
    gpus: tuple[int, ...]
    saves: bool = False


class Month:
    """Generates a month of events: random jobs start on random nodes with enough free GPUs."""

    def __init__(self, fleet: Fleet) -> None:
        self._random = random.Random(7)
        self._pool_of = {node.id: node.pool for node in fleet.nodes}
        self._flavors = {pool.name: pool.flavor for pool in fleet.pools}
        self._free = {node.id: list(range(8)) for node in fleet.nodes}
        self._free_gpus = 8 * len(fleet.nodes)
        self._queue: list[Due] = []
        self._number = 0
        self._now_ms = 0

    def day(self, day: int) -> Iterator[ev.LoggedEvent]:
        """Events of one day, in order of time."""
        nodes = sorted(self._free)
        while self._now_ms < (day + 1) * DAY_MS:
            while self._queue and self._queue[0].end_ms <= self._now_ms:
                yield self._apply_due(heapq.heappop(self._queue))
            if self._free_gpus > (1 - USE) * 8 * len(nodes):
                yield from self._start(self._random.choice(nodes))
            else:
                self._now_ms = max(self._now_ms, self._queue[0].end_ms)

    def _apply_due(self, due: Due) -> ev.LoggedEvent:
        if due.saves:
            return ev.CheckpointSaved(at_ms=due.end_ms, job_id=f"j{due.number}", attempt=1)
        self._free[due.node] += due.gpus
        self._free_gpus += len(due.gpus)
        self._free[due.node].sort()
        kind = self._random.choices(
            (ev.AttemptSucceeded, ev.AttemptFailed, ev.AttemptPreempted), (90, 6, 4)
        )[0]
        return kind(at_ms=due.end_ms, job_id=f"j{due.number}", attempt=1)

    def _start(self, node: str) -> Iterator[ev.LoggedEvent]:
        size = self._random.choice(SIZES)
        free = self._free[node]
        if len(free) < size:
            return
        gpus, self._free[node] = tuple(free[:size]), free[size:]
        self._free_gpus -= size
        jobs_per_gpu = 4 if self._number % SHARED_EVERY == 0 and size == 1 else 1
        run_ms = MINUTE_MS + int(self._random.expovariate(1 / MEAN_RUN_MS))
        for number in range(jobs_per_gpu):
            self._number += 1
            due = Due(self._now_ms + run_ms, self._number, node, gpus if not number else ())
            yield from self._job(due, gpus, jobs_per_gpu)
        self._now_ms += self._random.randrange(2_000)

    def _job(self, due: Due, gpus: tuple[int, ...], jobs_per_gpu: int) -> Iterator[ev.LoggedEvent]:
        job_id, name = f"j{due.number}", self._pool_of[due.node]
        spec = JobSpec(name="train", queue=QUEUES[due.number % len(QUEUES)], groups=SPEC_GROUP)
        shares = (ShareUse(gpu=gpus[0], percent=25, memory_mib=8 * GIB_MIB),)
        task = Task(
            group="main",
            node=due.node,
            count=1,
            gpus=gpus if jobs_per_gpu == 1 else (),
            shares=shares if jobs_per_gpu > 1 else (),
            cpu_milli=8 * MILLI * len(gpus) // jobs_per_gpu,
            memory_mib=64 * GIB_MIB * len(gpus) // jobs_per_gpu,
        )
        placement = Placement(
            pool=name, flavor=self._flavors[name], tasks=(task,), micro_usd_per_hour=0
        )
        now_ms = self._now_ms
        yield ev.JobSubmitted(at_ms=now_ms, job_id=job_id, spec=spec, priority=0)
        yield ev.AttemptAssigned(at_ms=now_ms, job_id=job_id, attempt=1, placement=placement)
        yield ev.AttemptStarted(at_ms=now_ms, job_id=job_id, attempt=1)
        heapq.heappush(self._queue, due)
        if due.number % SAVE_EVERY == 0:
            middle_ms = (now_ms + due.end_ms) // 2
            heapq.heappush(self._queue, Due(middle_ms, due.number, due.node, (), True))


class Counter:
    """Counts ledger entries, all and those of usage."""

    def __init__(self) -> None:
        self.usage = self.all = 0

    def count(self, entry: LedgerEntry) -> None:
        self.all += 1
        self.usage += kind_of(entry.debit) is AccountKind.USAGE


def figures() -> list[Figure]:
    """Bill a month, then compute statements, reports and savings, and export everything."""
    plans = [
        pool(name, nodes, model="h100-80gb", market=market, usd_per_node_hour=usd)
        for name, (nodes, market, usd) in POOLS.items()
    ]
    fleet = fleet_of(*plans)
    tenants = (tenant("acme"), *(queue(name, "acme") for name in QUEUES))
    counter, watch = Counter(), Stopwatch()
    ledger = Ledger(also=counter.count)
    ledger.apply(ev.FleetDeclared(at_ms=0, fleet=fleet, tenants=tenants, policies=Policies()))
    month, event_count = Month(fleet), 0
    for day in range(DAYS):
        events = list(month.day(day))
        event_count += len(events)
        with watch.lap():
            _bill(ledger, events)
    with watch.lap():
        ledger.meter.close(DAYS * DAY_MS)
    billed = watch.total
    with watch.lap():
        lines = _report(ledger.books, tenants)
    exported = Stopwatch()
    with exported.lap():
        rows = _export(ledger.books, tenants)
    name = (
        f"(g) {DAYS} days of 1,000 GPUs, {counter.usage:,} usage intervals, {event_count:,} events"
    )
    return [
        Figure(
            scenario=name,
            what="CPU seconds to bill / to report; total",
            measured=f"{billed:.1f} / {watch.total - billed:.1f}; {watch.total:.1f}",
            reference="target under 30 for a million intervals",
        ),
        Figure(
            scenario=name,
            what="usage intervals per CPU-second; statement lines",
            measured=f"{counter.usage / watch.total:,.0f}; {lines:,}",
            reference="target 33,333",
        ),
        Figure(
            scenario=name,
            what="CPU seconds to export FOCUS as CSV; rows",
            measured=f"{exported.total:.1f}; {rows:,}",
            reference="no target",
        ),
        Figure(
            scenario=name,
            what="peak memory, GB, including the events of a day",
            measured=f"{peak_memory_gb():.2f}",
            reference="target under 1",
        ),
    ]


@rare_gc()
def _bill(ledger: Ledger, events: Iterable[ev.LoggedEvent]) -> None:
    """Bill events with rare garbage collection, as a server does when it replays its log."""
    for event in events:
        ledger.apply(event)


@rare_gc()
def _report(books: Books, tenants: tuple[Tenant, ...]) -> int:
    request = StatementRequest(
        tenants=tenants,
        from_ms=0,
        to_ms=DAYS * DAY_MS,
        idle=IdlePolicy.PROPORTIONAL,
        style=StatementStyle.CHARGEBACK,
        payers=QUEUES,
    )
    all_statements = statements(books, request)
    if books.trial_balance() or all_statements.micro_usd != books.fleet_micro_usd():
        raise RuntimeError("the ledger does not balance")
    savings(books.hour_rows(), {"owned": 55_040_000, "spot": 55_040_000})
    naming = _naming(books, tenants)
    copied = books.between(0, DAYS * DAY_MS)
    for by in ("team", "user"):
        by_axis = report(copied, read_axes(by), naming)
        if by_axis.total.total_micro_usd != books.fleet_micro_usd():
            raise RuntimeError(f"the report by {by} does not sum to the cost of the fleet")
    return sum(len(statement.lines) for statement in all_statements.all)


@rare_gc()
def _export(books: Books, tenants: tuple[Tenant, ...]) -> int:
    """Write the file of ``bursar cost export`` and return its number of rows."""
    lines = line_items(books.between(0, DAYS * DAY_MS), _naming(books, tenants))
    return write_focus(lines, Issuer(organisation="acme")).count(b"\n") - 1


def _naming(books: Books, tenants: tuple[Tenant, ...]) -> Naming:
    """Labels of all jobs; identical labels share one object, as in the server."""

    @cache
    def tag(ending: str) -> JobLabel:
        return JobLabel(owner=f"user{ending}", name="train")

    return Naming(tenants, {job_id: tag(job_id[-2:]) for job_id in books.job_ids()})
