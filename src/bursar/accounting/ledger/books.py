"""The balances: what the entries come to, by hour and account and by day and job.

Entries are not kept. Two tables grow with hours x pools x accounts and with jobs x days; ``fold`` makes
the old part of both coarser. Both are filled from each entry on their own, so that their agreement says
something.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from operator import neg
from typing import Any, NamedTuple, TypeVar

from bursar.accounting.ledger.entry import (
    OF_QUEUES,
    AccountKind,
    LedgerEntry,
    Volume,
    kind_of,
    made_of,
    name_of,
)
from bursar.accounting.ledger.sums import Cell, Cells, add_all, add_to, merged
from bursar.model.units import DAY_MS, HOUR_MS

Place = tuple[int, str, str]
"""Hour, pool, flavor: accounts are grouped by it."""
Account = tuple[int, str, str, str]
"""Day, account, pool, flavor: jobs are grouped by it."""
Carried = dict[str, list[list[Any]]]
"""The rows of both tables: keys, and then cells by account or by job."""
Name = TypeVar("Name", str, int, AccountKind)

USD, GPU, CPU, MEMORY, NODE, UNSHARED = range(6)

MOST_FRESH = 4_096
"""So many entries are added up together: some hours of a thousand GPUs, in some megabytes."""

Fresh = dict[tuple[int, str, str, str, str], list[Any]]
"""What is not added up yet, by hour since the epoch, pool, flavor, debit and credit: job, money and volume
of one entry after the other, in few lists, because the entries themselves are let go.
"""
POSTED = 3
"""So many values are of one entry."""

Accrue = Callable[[int], Iterable[LedgerEntry]]


class HourRow(NamedTuple):
    """One account in one hour of one pool. A credited account has negative amounts."""

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
    """What one job used, or wasted, on one day in one pool. ``job_id`` is empty once folded."""

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
    """Balances of a ledger. ``accrue`` tells what has come together since the last postings."""

    def __init__(self, accrue: Accrue | None = None, beneath: Books | None = None) -> None:
        self.accrue = accrue
        self._beneath = beneath
        self._hours: dict[Place, Cells] = {}
        self._jobs: dict[Account, Cells] = {}
        self._fresh: Fresh = {}
        self._fresh_entries = 0

    # -- writing ---------------------------------------------------------------------------------

    def post(self, entry: LedgerEntry) -> None:
        """Add an entry to the balances of both its accounts.

        It is added up together with those that follow, at the latest before anybody reads the balances.
        """
        _, from_ms, _, _, debit, credit, micro_usd, pool, flavor, _, _, job_id, _, volume = entry
        key = (from_ms // HOUR_MS, pool, flavor, debit, credit)
        posted = self._fresh.get(key)
        if posted is None:
            posted = self._fresh[key] = []
        posted += (job_id, micro_usd, volume)
        self._fresh_entries += 1
        if self._fresh_entries >= MOST_FRESH:
            self._enter()

    def _enter(self) -> None:
        """Add up what was posted lately. Most entries of an hour are between the same few accounts."""
        fresh, self._fresh, self._fresh_entries = self._fresh, {}, 0
        for (hour, pool, flavor, debit, credit), posted in fresh.items():
            accounts = self._hours.setdefault((hour * HOUR_MS, pool, flavor), {})
            job_ids, money, volumes = posted[::POSTED], posted[1::POSTED], posted[2::POSTED]
            columns = (money, *zip(*volumes, strict=True))
            sums = tuple(map(sum, columns))
            add_to(accounts, debit, sums)
            add_to(accounts, credit, map(neg, sums))
            day_ms = hour * HOUR_MS // DAY_MS * DAY_MS
            if kind_of(debit) in OF_QUEUES:
                jobs = self._jobs.setdefault((day_ms, debit, pool, flavor), {})
                _debit_jobs(jobs, zip(job_ids, *columns[:NODE], strict=True))
            if kind_of(credit) in OF_QUEUES:
                jobs = self._jobs.setdefault((day_ms, credit, pool, flavor), {})
                for job_id, *amounts in zip(job_ids, *columns[:NODE], strict=True):
                    add_to(jobs, job_id, map(neg, amounts))

    def fold(self, before_ms: int) -> None:
        """Keep days instead of hours, and queues instead of jobs, for all days before a moment."""
        limit_ms = before_ms // DAY_MS * DAY_MS
        folded = Books()
        for (hour_ms, pool, flavor), accounts in self._hour_groups():
            kept_ms = hour_ms if hour_ms >= limit_ms else hour_ms // DAY_MS * DAY_MS
            add_all(folded._hours.setdefault((kept_ms, pool, flavor), {}), accounts)
        for key, jobs in self.job_groups():
            into = folded._jobs.setdefault(key, {})
            if key[0] >= limit_ms:
                add_all(into, jobs)
                continue
            for cell in jobs.values():
                add_to(into, "", cell)
        self._hours, self._jobs = folded._hours, folded._jobs

    def add_rows(self, hours: Iterable[HourRow], jobs: Iterable[JobCostRow]) -> Books:
        """Add rows that were read from other books: ``Books().add_rows(old.hour_rows(), ...)``."""
        for row in hours:
            accounts = self._hours.setdefault((row.hour_ms, row.pool, row.flavor), {})
            add_to(accounts, row.account, (row.micro_usd, *row.volume))
        for one in jobs:
            amounts = (one.micro_usd, one.gpu_milli_ms, one.cpu_milli_ms, one.memory_mib_ms)
            group = self._jobs.setdefault((one.day_ms, one.account, one.pool, one.flavor), {})
            add_to(group, one.job_id, amounts)
        return self

    def to_snapshot(self) -> Carried:
        """Everything in plain values, for ``bring_in``: to be written down before the next posting."""
        self._enter()
        hours = [[*place, accounts] for place, accounts in self._hours.items()]
        return {"hours": hours, "jobs": [[*key, jobs] for key, jobs in self._jobs.items()]}

    def restore(self, carried: Carried) -> Books:
        """Put what was carried into books that are empty. Written as text, cells have become lists."""
        for hour_ms, pool, flavor, accounts in carried["hours"]:
            cells = {name: tuple(cell) for name, cell in accounts.items()}
            self._hours[hour_ms, pool, flavor] = cells
        for day_ms, account, pool, flavor, jobs in carried["jobs"]:
            cells = {job_id: tuple(cell) for job_id, cell in jobs.items()}
            self._jobs[day_ms, account, pool, flavor] = cells
        return self

    # -- reading ---------------------------------------------------------------------------------

    def at(self, now_ms: int) -> Books:
        """The books as they would be, were everything posted up to now. These are not changed."""
        ahead = Books(beneath=self)
        for entry in self.accrue(now_ms) if self.accrue is not None else ():
            ahead.post(entry)
        return ahead

    def between(self, from_ms: int, to_ms: int, queues: Collection[str] | None = None) -> Books:
        """A copy of what is of these days, to be read elsewhere; with ``queues``, of theirs alone.

        What is of some queues has no other side: such a copy does not balance.
        """
        copied = Books()
        for place, accounts in self._hour_groups():
            if from_ms <= place[0] < to_ms:
                wanted = {name: cell for name, cell in accounts.items() if _is_of(name, queues)}
                add_all(copied._hours.setdefault(place, {}), wanted)
        for key, jobs in self.job_groups():
            if from_ms <= key[0] < to_ms and _is_of(key[1], queues):
                add_all(copied._jobs.setdefault(key, {}), jobs)
        return copied

    def _hour_groups(self) -> Iterator[tuple[Place, Cells]]:
        if self._beneath is not None:
            yield from self._beneath._hour_groups()
        self._enter()
        yield from self._hours.items()

    def job_groups(self) -> Iterator[tuple[Account, Cells]]:
        """Jobs by day, account, pool and flavor, without order and without copying: hundreds of
        thousands pass here. A group of the books beneath and one of these may have the same key."""
        if self._beneath is not None:
            yield from self._beneath.job_groups()
        self._enter()
        yield from self._jobs.items()

    def hour_rows(self, kinds: Collection[AccountKind] = frozenset(AccountKind)) -> list[HourRow]:
        """Everything by hour, pool and account, in order; or only accounts of some kinds."""
        rows: list[HourRow] = []
        for (hour_ms, pool, flavor), accounts in merged(self._hour_groups()):
            names = sorted([name for name in accounts if kind_of(name) in kinds])
            for name in names:
                cell = accounts[name]
                volume = made_of(Volume, cell[1:])
                rows.append(made_of(HourRow, (hour_ms, pool, flavor, name, cell[USD], volume)))
        return rows

    def job_rows(self) -> list[JobCostRow]:
        """What jobs used and wasted, by day, job and pool, in order."""
        days: dict[int, list[tuple[str, str, str, str, Cell]]] = {}
        for (day_ms, account, pool, flavor), jobs in merged(self.job_groups()):
            rows = days.setdefault(day_ms, [])
            rows += [(job_id, account, pool, flavor, cell) for job_id, cell in jobs.items()]
        return [
            made_of(JobCostRow, (day_ms, job_id, account, pool, flavor, *cell))
            for day_ms, rows in days.items()
            for job_id, account, pool, flavor, cell in sorted(rows)
        ]

    def jobs_between(self, from_ms: int, to_ms: int) -> list[tuple[tuple[str, str, str], Cells]]:
        """Money and volume of jobs in whole days, by account, pool and flavor, and then by job."""
        return merged(
            (key[1:], jobs) for key, jobs in self.job_groups() if from_ms <= key[0] < to_ms
        )

    def balances(self) -> dict[str, int]:
        """Micro-dollars by account; capacity is negative, everything else is what it was spent on."""
        return _summed((account, cell[USD]) for _, account, cell in self._hour_cells())

    def trial_balance(self) -> int:
        """All balances together: zero, or an entry was posted on one side only."""
        return sum(self.balances().values())

    def fleet_micro_usd(self) -> int:
        """What the fleet cost."""
        return -sum(cell[USD] for _, _, cell in self._of({AccountKind.CAPACITY}))

    def capacity_micro_usd(self, place: tuple[str, str], from_ms: int, to_ms: int) -> int:
        """What a pool, as one flavor, cost in whole hours."""
        return -sum(
            cell[USD]
            for (hour_ms, *where), _, cell in self._of({AccountKind.CAPACITY})
            if from_ms <= hour_ms < to_ms and tuple(where) == place
        )

    def by_kind(self) -> dict[AccountKind, int]:
        """Usage, waste, idle and so on, over everything."""
        found = _summed((kind_of(account), cell[USD]) for _, account, cell in self._hour_cells())
        return dict(sorted(found.items()))

    def by_hour(self, kinds: Collection[AccountKind]) -> dict[int, int]:
        """Micro-dollars of these kinds of account by hour."""
        return _summed((place[0], amount) for place, amount in self._places(kinds))

    def by_day(self, kinds: Collection[AccountKind]) -> dict[int, int]:
        return _summed(
            (place[0] // DAY_MS * DAY_MS, amount) for place, amount in self._places(kinds)
        )

    def by_pool(self, kinds: Collection[AccountKind]) -> dict[str, int]:
        return _summed((place[1], amount) for place, amount in self._places(kinds))

    def by_gpu_model(self, kinds: Collection[AccountKind]) -> dict[str, int]:
        return _summed((model_of(place[2]), amount) for place, amount in self._places(kinds))

    def by_market(self, kinds: Collection[AccountKind]) -> dict[str, int]:
        return _summed((market_of(place[2]), amount) for place, amount in self._places(kinds))

    def _places(self, kinds: Collection[AccountKind]) -> Iterator[tuple[Place, int]]:
        """Micro-dollars of some kinds of account; of the books beneath and of these, each on its own."""
        for place, accounts in self._hour_groups():
            found = [cell[USD] for name, cell in accounts.items() if kind_of(name) in kinds]
            if found:
                yield place, sum(found)

    def by_queue(self) -> dict[str, int]:
        """What each queue used and wasted."""
        return _summed((name_of(account), cell[USD]) for _, account, cell in self._of(OF_QUEUES))

    def queue_days(self, from_ms: int) -> dict[tuple[int, str], int]:
        """What each queue used and wasted, on each day from a moment on."""
        found: dict[tuple[int, str], int] = {}
        for place, account, cell in self._of(OF_QUEUES):
            if place[0] >= from_ms:
                name = (place[0] // DAY_MS * DAY_MS, name_of(account))
                found[name] = found.get(name, 0) + cell[USD]
        return found

    def first_hour_ms(self) -> int | None:
        """When these books begin."""
        return min((place[0] for place, _, _ in self._hour_cells()), default=None)

    def job_ids(self) -> set[str]:
        """Every job that is in these books."""
        found: set[str] = set()
        for _, jobs in self.job_groups():
            found.update(jobs)
        return found - {""}

    def by_job(self) -> dict[str, int]:
        """What each job used and wasted."""
        return _summed(self._job_costs())

    def by_owner(self, owner_of: Callable[[str], str]) -> dict[str, int]:
        """The same by whatever is known of a job elsewhere: its owner, a label."""
        return _summed((owner_of(job_id), micro_usd) for job_id, micro_usd in self._job_costs())

    def _of(self, kinds: Collection[AccountKind]) -> Iterator[tuple[Place, str, Cell]]:
        for place, account, cell in self._hour_cells():
            if kind_of(account) in kinds:
                yield place, account, cell

    def _hour_cells(self) -> Iterator[tuple[Place, str, Cell]]:
        """All cells; those of the books beneath and of these may have the same key."""
        for place, accounts in self._hour_groups():
            for account, cell in accounts.items():
                yield place, account, cell

    def _job_costs(self) -> Iterator[tuple[str, int]]:
        for _, jobs in self.job_groups():
            for job_id, cell in jobs.items():
                yield job_id, cell[USD]


@cache
def model_of(flavor: str) -> str:
    """The GPU model of a flavor, or ``cpu``."""
    return flavor.rpartition("/")[0]


@cache
def market_of(flavor: str) -> str:
    """The purchase option of a flavor."""
    return flavor.rpartition("/")[2]


def _is_of(account: str, queues: Collection[str] | None) -> bool:
    return queues is None or (kind_of(account) in OF_QUEUES and name_of(account) in queues)


def _debit_jobs(jobs: Cells, posted: Iterable[tuple[str, int, int, int, int]]) -> None:
    """What was posted to single jobs. Written out: millions pass here."""
    for job_id, micro_usd, gpu, cpu, memory in posted:
        known = jobs.get(job_id)
        if known is None:
            jobs[job_id] = (micro_usd, gpu, cpu, memory)
        else:
            a, b, c, d = known
            jobs[job_id] = (a + micro_usd, b + gpu, c + cpu, d + memory)


def _summed(amounts: Iterable[tuple[Name, int]]) -> dict[Name, int]:
    found: dict[Name, int] = {}
    for name, amount in amounts:
        found[name] = found.get(name, 0) + amount
    return {name: found[name] for name in sorted(found)}
