"""(g) A month of a fleet of 1,000 GPUs, billed and reported. Its jobs are drawn without a scheduler."""

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
"""Every tenth job shares one GPU with three others like it."""
MEAN_RUN_MS = 2.4 * HOUR_MS
SAVE_EVERY = 4
"""Every fourth job saves a checkpoint in the middle of its run."""
USE = 0.9
SPEC_GROUP = (TaskGroup(),)


@dataclass(frozen=True, slots=True, order=True)
class Stay:
    """When a job's attempt ends, and what it holds until then; or when it saves its work."""

    end_ms: int
    number: int
    node: str
    gpus: tuple[int, ...]
    saves: bool = False


class Month:
    """Jobs come to whichever node has room, at a steady rate, and stay as long as they stay."""

    def __init__(self, fleet: Fleet) -> None:
        self._random = random.Random(7)
        self._pool_of = {node.id: node.pool for node in fleet.nodes}
        self._flavors = {pool.name: pool.flavor for pool in fleet.pools}
        self._free = {node.id: list(range(8)) for node in fleet.nodes}
        self._free_gpus = 8 * len(fleet.nodes)
        self._stays: list[Stay] = []
        self._number = 0
        self._now_ms = 0

    def day(self, day: int) -> Iterator[ev.LoggedEvent]:
        """Everything that happens on a day, in order."""
        nodes = sorted(self._free)
        while self._now_ms < (day + 1) * DAY_MS:
            while self._stays and self._stays[0].end_ms <= self._now_ms:
                yield self._due(heapq.heappop(self._stays))
            if self._free_gpus > (1 - USE) * 8 * len(nodes):
                yield from self._start(self._random.choice(nodes))
            else:
                self._now_ms = max(self._now_ms, self._stays[0].end_ms)

    def _due(self, stay: Stay) -> ev.LoggedEvent:
        if stay.saves:
            return ev.CheckpointSaved(at_ms=stay.end_ms, job_id=f"j{stay.number}", attempt=1)
        self._free[stay.node] += stay.gpus
        self._free_gpus += len(stay.gpus)
        self._free[stay.node].sort()
        kind = self._random.choices(
            (ev.AttemptSucceeded, ev.AttemptFailed, ev.AttemptPreempted), (90, 6, 4)
        )[0]
        return kind(at_ms=stay.end_ms, job_id=f"j{stay.number}", attempt=1)

    def _start(self, node: str) -> Iterator[ev.LoggedEvent]:
        size = self._random.choice(SIZES)
        free = self._free[node]
        if len(free) < size:
            return
        gpus, self._free[node] = tuple(free[:size]), free[size:]
        self._free_gpus -= size
        together = 4 if self._number % SHARED_EVERY == 0 and size == 1 else 1
        run_ms = MINUTE_MS + int(self._random.expovariate(1 / MEAN_RUN_MS))
        for number in range(together):
            self._number += 1
            ends = Stay(self._now_ms + run_ms, self._number, node, gpus if not number else ())
            yield from self._job(ends, gpus, together)
        self._now_ms += self._random.randrange(2_000)

    def _job(self, stay: Stay, gpus: tuple[int, ...], together: int) -> Iterator[ev.LoggedEvent]:
        job_id, name = f"j{stay.number}", self._pool_of[stay.node]
        spec = JobSpec(name="train", queue=QUEUES[stay.number % len(QUEUES)], groups=SPEC_GROUP)
        shares = (ShareUse(gpu=gpus[0], percent=25, memory_mib=8 * GIB_MIB),)
        task = Task(
            group="main",
            node=stay.node,
            count=1,
            gpus=gpus if together == 1 else (),
            shares=shares if together > 1 else (),
            cpu_milli=8 * MILLI * len(gpus) // together,
            memory_mib=64 * GIB_MIB * len(gpus) // together,
        )
        place = Placement(
            pool=name, flavor=self._flavors[name], tasks=(task,), micro_usd_per_hour=0
        )
        now_ms = self._now_ms
        yield ev.JobSubmitted(at_ms=now_ms, job_id=job_id, spec=spec, priority=0)
        yield ev.AttemptAssigned(at_ms=now_ms, job_id=job_id, attempt=1, placement=place)
        yield ev.AttemptStarted(at_ms=now_ms, job_id=job_id, attempt=1)
        heapq.heappush(self._stays, stay)
        if stay.number % SAVE_EVERY == 0:
            middle_ms = (now_ms + stay.end_ms) // 2
            heapq.heappush(self._stays, Stay(middle_ms, stay.number, stay.node, (), True))


class Counter:
    """How many postings there were of what."""

    def __init__(self) -> None:
        self.usage = self.all = 0

    def count(self, entry: LedgerEntry) -> None:
        self.all += 1
        self.usage += kind_of(entry.debit) is AccountKind.USAGE


def figures() -> list[Figure]:
    """Bill a month, then write everybody's statement, reports, the savings, and a file of it all."""
    plans = [
        pool(name, nodes, model="h100-80gb", market=market, usd_per_node_hour=usd)
        for name, (nodes, market, usd) in POOLS.items()
    ]
    fleet = fleet_of(*plans)
    tenants = (tenant("acme"), *(queue(name, "acme") for name in QUEUES))
    counter, watch = Counter(), Stopwatch()
    ledger = Ledger(also=counter.count)
    ledger.apply(ev.FleetDeclared(at_ms=0, fleet=fleet, tenants=tenants, policies=Policies()))
    month, events = Month(fleet), 0
    for day in range(DAYS):
        happened = list(month.day(day))
        events += len(happened)
        with watch.lap():
            _bill(ledger, happened)
    with watch.lap():
        ledger.meter.close(DAYS * DAY_MS)
    billed = watch.total
    with watch.lap():
        lines = _report(ledger.books, tenants)
    exported = Stopwatch()
    with exported.lap():
        rows = _export(ledger.books, tenants)
    name = f"(g) {DAYS} days of 1,000 GPUs, {counter.usage:,} usage intervals, {events:,} events"
    return [
        Figure(
            scenario=name,
            what="CPU seconds to bill / to report; together",
            measured=f"{billed:.1f} / {watch.total - billed:.1f}; {watch.total:.1f}",
            reference="under 30 for a million intervals",
        ),
        Figure(
            scenario=name,
            what="usage intervals a second; lines of statements",
            measured=f"{counter.usage / watch.total:,.0f}; {lines:,}",
            reference="33,333",
        ),
        Figure(
            scenario=name,
            what="CPU seconds to write FOCUS as CSV; rows",
            measured=f"{exported.total:.1f}; {rows:,}",
            reference="none",
        ),
        Figure(
            scenario=name,
            what="peak memory, GB, events of a day included",
            measured=f"{peak_memory_gb():.2f}",
            reference="under 1",
        ),
    ]


@rare_gc()
def _bill(ledger: Ledger, events: Iterable[ev.LoggedEvent]) -> None:
    """As the log is billed that a server begins with; it collects cycles no more often later on."""
    for event in events:
        ledger.apply(event)


@rare_gc()
def _report(books: Books, tenants: tuple[Tenant, ...]) -> int:
    terms = StatementRequest(
        tenants=tenants,
        from_ms=0,
        to_ms=DAYS * DAY_MS,
        idle=IdlePolicy.PROPORTIONAL,
        style=StatementStyle.CHARGEBACK,
        payers=QUEUES,
    )
    found = statements(books, terms)
    if books.trial_balance() or found.micro_usd != books.fleet_micro_usd():
        raise RuntimeError("the books do not balance")
    savings(books.hour_rows(), {"owned": 55_040_000, "spot": 55_040_000})
    naming = _naming(books, tenants)
    copied = books.between(0, DAYS * DAY_MS)
    for by in ("team", "user"):
        found_rows = report(copied, read_axes(by), naming)
        if found_rows.total.total_micro_usd != books.fleet_micro_usd():
            raise RuntimeError(f"the report by {by} is not what the fleet cost")
    return sum(len(statement.lines) for statement in found.all)


@rare_gc()
def _export(books: Books, tenants: tuple[Tenant, ...]) -> int:
    """As ``bursar cost export`` writes it."""
    lines = line_items(books.between(0, DAYS * DAY_MS), _naming(books, tenants))
    return write_focus(lines, Issuer(organisation="acme")).count(b"\n") - 1


def _naming(books: Books, tenants: tuple[Tenant, ...]) -> Naming:
    """As the server reads tags from its store: jobs that are alike share one."""

    @cache
    def tag(ending: str) -> JobLabel:
        return JobLabel(owner=f"user{ending}", name="train")

    return Naming(tenants, {job_id: tag(job_id[-2:]) for job_id in books.job_ids()})
