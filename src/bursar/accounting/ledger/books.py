"""The balances of all entries, by hour and account and by day and job.

Entries themselves are not stored. The two tables grow with hours x pools x accounts and with jobs x days;
``fold`` makes old rows of both coarser. Each table is filled from the entries on its own, so comparing them
is a real check.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from operator import neg
from typing import Any, NamedTuple, TypeVar

from bursar.accounting.ledger.entry import (
    QUEUE_KINDS,
    AccountKind,
    LedgerEntry,
    Volume,
    fast_tuple,
    kind_of,
    name_of,
)
from bursar.accounting.ledger.sums import Cell, Cells, add_all, add_to, merged
from bursar.model.units import DAY_MS, HOUR_MS

HourKey = tuple[int, str, str]
"""Hour, pool and flavor of a group of accounts."""
JobGroupKey = tuple[int, str, str, str]
"""Day, account, pool and flavor of a group of jobs."""
BooksSnapshot = dict[str, list[list[Any]]]
"""The rows of both tables: the key, then cells by account or by job."""
Name = TypeVar("Name", str, AccountKind)

USD, GPU, CPU, MEMORY, NODE = range(5)
"""Columns of a cell."""

BATCH_ENTRIES = 4_096
"""Entries that are summed in one batch: a few hours of a thousand GPUs, in a few megabytes."""

PendingEntries = dict[tuple[int, str, str, str, str], list[Any]]
"""Entries that are not summed yet, by hour since the epoch, pool, flavor, debit and credit. Each list holds
job id, micro-dollars and volume of one entry after the other: cheaper than to hold the entries.
"""
VALUES_PER_ENTRY = 3

Accrue = Callable[[int], Iterable[LedgerEntry]]


class HourRow(NamedTuple):
    """One account in one hour of one pool. Amounts of a credited account are negative."""

    hour_ms: int
    pool: str
    flavor: str
    account: str
    micro_usd: int
    volume: Volume

    @property
    def kind(self) -> AccountKind:
        return kind_of(self.account)


class JobCostRow(NamedTuple):
    """What one job used or wasted on one day in one pool. ``job_id`` is empty in folded rows."""

    day_ms: int
    job_id: str
    account: str
    pool: str
    flavor: str
    micro_usd: int
    gpu_milli_ms: int
    cpu_milli_ms: int
    memory_mib_ms: int

    @property
    def queue(self) -> str:
        return name_of(self.account)

    @property
    def kind(self) -> AccountKind:
        return kind_of(self.account)


class Books:
    """Balances of a ledger. ``accrue`` returns the entries that are not posted yet.

    Books with a ``base`` contain its rows too.
    """

    def __init__(self, accrue: Accrue | None = None, base: Books | None = None) -> None:
        self.accrue = accrue
        self._base = base
        self._hours: dict[HourKey, Cells] = {}
        self._jobs: dict[JobGroupKey, Cells] = {}
        self._pending: PendingEntries = {}
        self._pending_count = 0

    # -- writing ---------------------------------------------------------------------------------

    def post(self, entry: LedgerEntry) -> None:
        """Adds an entry to the balances of both its accounts.

        Entries are summed in batches, at the latest before the balances are read.
        """
        _, from_ms, _, _, debit, credit, micro_usd, pool, flavor, _, _, job_id, _, volume = entry
        key = (from_ms // HOUR_MS, pool, flavor, debit, credit)
        values = self._pending.get(key)
        if values is None:
            values = self._pending[key] = []
        values += (job_id, micro_usd, volume)
        self._pending_count += 1
        if self._pending_count >= BATCH_ENTRIES:
            self._add_pending()

    def _add_pending(self) -> None:
        """Adds pending entries to both tables. Most entries of an hour have the same few accounts."""
        pending, self._pending, self._pending_count = self._pending, {}, 0
        for (hour, pool, flavor, debit, credit), values in pending.items():
            accounts = self._hours.setdefault((hour * HOUR_MS, pool, flavor), {})
            job_ids, micro_usd, volumes = (values[i::VALUES_PER_ENTRY] for i in range(3))
            columns = (micro_usd, *zip(*volumes, strict=True))
            sums = tuple(map(sum, columns))
            add_to(accounts, debit, sums)
            add_to(accounts, credit, map(neg, sums))
            day_ms = hour * HOUR_MS // DAY_MS * DAY_MS
            if kind_of(debit) in QUEUE_KINDS:
                jobs = self._jobs.setdefault((day_ms, debit, pool, flavor), {})
                _debit_jobs(jobs, zip(job_ids, *columns[:NODE], strict=True))
            if kind_of(credit) in QUEUE_KINDS:
                jobs = self._jobs.setdefault((day_ms, credit, pool, flavor), {})
                for job_id, *amounts in zip(job_ids, *columns[:NODE], strict=True):
                    add_to(jobs, job_id, map(neg, amounts))

    def fold(self, before_ms: int) -> None:
        """Replaces hours by days and jobs by queues in all rows before a day."""
        limit_ms = before_ms // DAY_MS * DAY_MS
        folded = Books()
        for (hour_ms, pool, flavor), accounts in self._hour_groups():
            folded_ms = hour_ms if hour_ms >= limit_ms else hour_ms // DAY_MS * DAY_MS
            add_all(folded._hours.setdefault((folded_ms, pool, flavor), {}), accounts)
        for key, jobs in self.job_groups():
            into = folded._jobs.setdefault(key, {})
            if key[0] >= limit_ms:
                add_all(into, jobs)
                continue
            for cell in jobs.values():
                add_to(into, "", cell)
        self._hours, self._jobs = folded._hours, folded._jobs

    def to_snapshot(self) -> BooksSnapshot:
        """Both tables in plain values, for ``restore``. Shared with these books until the next posting."""
        self._add_pending()
        hours = [[*place, accounts] for place, accounts in self._hours.items()]
        return {"hours": hours, "jobs": [[*key, jobs] for key, jobs in self._jobs.items()]}

    def restore(self, snapshot: BooksSnapshot) -> Books:
        """Fills empty books from a snapshot, in which cells may be lists."""
        for hour_ms, pool, flavor, accounts in snapshot["hours"]:
            cells = {name: tuple(cell) for name, cell in accounts.items()}
            self._hours[hour_ms, pool, flavor] = cells
        for day_ms, account, pool, flavor, jobs in snapshot["jobs"]:
            cells = {job_id: tuple(cell) for job_id, cell in jobs.items()}
            self._jobs[day_ms, account, pool, flavor] = cells
        return self

    # -- reading ---------------------------------------------------------------------------------

    def at(self, now_ms: int) -> Books:
        """The books with everything posted up to now. These books do not change."""
        current = Books(base=self)
        for entry in self.accrue(now_ms) if self.accrue is not None else ():
            current.post(entry)
        return current

    def between(self, from_ms: int, to_ms: int, queues: Collection[str] | None = None) -> Books:
        """A copy of these days, to be read on another thread; optionally of some queues only.

        A copy of some queues lacks the credited accounts, so it does not balance.
        """
        copied = Books()
        for key, accounts in self._hour_groups():
            if from_ms <= key[0] < to_ms:
                wanted = {name: cell for name, cell in accounts.items() if _is_of(name, queues)}
                add_all(copied._hours.setdefault(key, {}), wanted)
        for job_key, jobs in self.job_groups():
            if from_ms <= job_key[0] < to_ms and _is_of(job_key[1], queues):
                add_all(copied._jobs.setdefault(job_key, {}), jobs)
        return copied

    def _hour_groups(self) -> Iterator[tuple[HourKey, Cells]]:
        if self._base is not None:
            yield from self._base._hour_groups()
        self._add_pending()
        yield from self._hours.items()

    def job_groups(self) -> Iterator[tuple[JobGroupKey, Cells]]:
        """Jobs by day, account, pool and flavor, unsorted and not copied: there are hundreds of thousands.

        A group of the base and one of these books may have the same key.
        """
        if self._base is not None:
            yield from self._base.job_groups()
        self._add_pending()
        yield from self._jobs.items()

    def hour_rows(self, kinds: Collection[AccountKind] = frozenset(AccountKind)) -> list[HourRow]:
        """Rows by hour, pool and account, sorted; optionally of some kinds of account only."""
        rows: list[HourRow] = []
        for (hour_ms, pool, flavor), accounts in merged(self._hour_groups()):
            names = sorted([name for name in accounts if kind_of(name) in kinds])
            for name in names:
                cell = accounts[name]
                volume = fast_tuple(Volume, cell[1:])
                rows.append(fast_tuple(HourRow, (hour_ms, pool, flavor, name, cell[USD], volume)))
        return rows

    def job_rows(self) -> list[JobCostRow]:
        """What jobs used and wasted, by day, job and pool, sorted."""
        days: dict[int, list[tuple[str, str, str, str, Cell]]] = {}
        for (day_ms, account, pool, flavor), jobs in merged(self.job_groups()):
            rows = days.setdefault(day_ms, [])
            rows += [(job_id, account, pool, flavor, cell) for job_id, cell in jobs.items()]
        return [
            fast_tuple(JobCostRow, (day_ms, job_id, account, pool, flavor, *cell))
            for day_ms, rows in days.items()
            for job_id, account, pool, flavor, cell in sorted(rows)
        ]

    def jobs_between(self, from_ms: int, to_ms: int) -> list[tuple[tuple[str, str, str], Cells]]:
        """Cells of jobs in whole days, by account, pool and flavor, then by job."""
        return merged(
            (key[1:], jobs) for key, jobs in self.job_groups() if from_ms <= key[0] < to_ms
        )

    def balances(self) -> dict[str, int]:
        """Micro-dollars by account; capacity is negative."""
        return _sum_by_name((account, cell[USD]) for _, account, cell in self._hour_cells())

    def trial_balance(self) -> int:
        """The sum of all balances: zero unless an entry was posted on one side only."""
        return sum(self.balances().values())

    def fleet_micro_usd(self) -> int:
        """What the fleet cost."""
        return -sum(cell[USD] for _, _, cell in self._of({AccountKind.CAPACITY}))

    def capacity_micro_usd(self, pool: str, flavor: str, from_ms: int, to_ms: int) -> int:
        """What a pool cost in whole hours while it had this flavor."""
        return -sum(
            cell[USD]
            for key, _, cell in self._of({AccountKind.CAPACITY})
            if from_ms <= key[0] < to_ms and key[1:] == (pool, flavor)
        )

    def by_kind(self) -> dict[AccountKind, int]:
        """Micro-dollars by kind of account: usage, waste, idle and so on."""
        return _sum_by_name(
            (kind_of(account), cell[USD]) for _, account, cell in self._hour_cells()
        )

    def queue_days(self, from_ms: int) -> dict[tuple[int, str], int]:
        """What each queue used and wasted on each day since ``from_ms``."""
        sums: dict[tuple[int, str], int] = {}
        for (hour_ms, _, _), account, cell in self._of(QUEUE_KINDS):
            if hour_ms >= from_ms:
                key = (hour_ms // DAY_MS * DAY_MS, name_of(account))
                sums[key] = sums.get(key, 0) + cell[USD]
        return sums

    def first_hour_ms(self) -> int | None:
        """When these books begin."""
        return min((key[0] for key, _, _ in self._hour_cells()), default=None)

    def job_ids(self) -> set[str]:
        """Every job in these books."""
        job_ids: set[str] = set()
        for _, jobs in self.job_groups():
            job_ids.update(jobs)
        return job_ids - {""}

    def _of(self, kinds: Collection[AccountKind]) -> Iterator[tuple[HourKey, str, Cell]]:
        for key, account, cell in self._hour_cells():
            if kind_of(account) in kinds:
                yield key, account, cell

    def _hour_cells(self) -> Iterator[tuple[HourKey, str, Cell]]:
        """All cells; one of the base and one of these books may have the same key."""
        for key, accounts in self._hour_groups():
            for account, cell in accounts.items():
                yield key, account, cell


@cache
def model_of(flavor: str) -> str:
    """The GPU model of a flavor, or ``cpu``."""
    return flavor.rpartition("/")[0]


@cache
def market_of(flavor: str) -> str:
    """The purchase option of a flavor."""
    return flavor.rpartition("/")[2]


def _is_of(account: str, queues: Collection[str] | None) -> bool:
    return queues is None or (kind_of(account) in QUEUE_KINDS and name_of(account) in queues)


def _debit_jobs(jobs: Cells, posted: Iterable[tuple[str, int, int, int, int]]) -> None:
    """Adds debits to the cells of jobs. Unrolled for speed: millions of entries pass here."""
    for job_id, micro_usd, gpu, cpu, memory in posted:
        known = jobs.get(job_id)
        if known is None:
            jobs[job_id] = (micro_usd, gpu, cpu, memory)
        else:
            a, b, c, d = known
            jobs[job_id] = (a + micro_usd, b + gpu, c + cpu, d + memory)


def _sum_by_name(amounts: Iterable[tuple[Name, int]]) -> dict[Name, int]:
    sums: dict[Name, int] = {}
    for name, amount in amounts:
        sums[name] = sums.get(name, 0) + amount
    return {name: sums[name] for name in sorted(sums)}
