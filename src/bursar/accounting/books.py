"""The balances: what the entries come to, by hour and account and by day and job.

Entries are not kept. Two tables grow with hours x pools x accounts and with jobs x days; ``fold`` makes
the old part of both coarser. Both are filled from each entry on their own, so that their agreement says
something.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from bursar.accounting.entry import OF_QUEUES, AccountKind, Entry, Volume, kind_of, name_of
from bursar.model.units import DAY_MS, HOUR_MS

HourKey = tuple[int, str, str, str]
"""Hour, pool, flavor, account."""
JobKey = tuple[int, str, str, str, str]
"""Day, job, account, pool, flavor."""
Place = tuple[int, str, str]
"""Hour, pool, flavor."""
Account = tuple[int, str, str, str]
"""Day, account, pool, flavor."""
Accounts = dict[str, list[int]]
Jobs = dict[str, list[int]]
JobPlace = tuple[str, str, str, str]
"""Account, job, pool, flavor."""
Carried = dict[str, list[list[Any]]]
"""The rows of both tables: keys, and then cells by account or by job."""
Key = TypeVar("Key", HourKey, JobKey)
Name = TypeVar("Name", str, int, AccountKind)

USD, GPU, CPU, MEMORY, NODE, UNSHARED = range(6)

Accrue = Callable[[int], Iterable[Entry]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HourRow:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
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
        self._hours: dict[Place, Accounts] = {}
        self._jobs: dict[Account, Jobs] = {}
        self._last: tuple[Place, Accounts] = ((-1, "", ""), {})

    # -- writing ---------------------------------------------------------------------------------

    def post(self, entry: Entry) -> None:
        """Add an entry to the balances of both its accounts. Written out: millions pass here."""
        micro_usd, volume = entry.micro_usd, entry.volume
        place = (entry.from_ms // HOUR_MS * HOUR_MS, entry.pool, entry.flavor)
        known, accounts = self._last
        if place != known:
            accounts = self._hours.setdefault(place, {})
            self._last = (place, accounts)
        debit, credit = entry.debit, entry.credit
        gpu, cpu, memory, node, unshared = volume
        cell = accounts.get(debit) or accounts.setdefault(debit, [0] * 6)
        cell[0] += micro_usd
        cell[1] += gpu
        cell[2] += cpu
        cell[3] += memory
        cell[4] += node
        cell[5] += unshared
        cell = accounts.get(credit) or accounts.setdefault(credit, [0] * 6)
        cell[0] -= micro_usd
        cell[1] -= gpu
        cell[2] -= cpu
        cell[3] -= memory
        cell[4] -= node
        cell[5] -= unshared
        if kind_of(debit) in OF_QUEUES:
            cell = self._job_cell(place, debit, entry.job_id)
            cell[0] += micro_usd
            cell[1] += gpu
            cell[2] += cpu
            cell[3] += memory
        if kind_of(credit) in OF_QUEUES:
            _add(self._job_cell(place, credit, entry.job_id), (-micro_usd, -gpu, -cpu, -memory))

    def _job_cell(self, place: Place, account: str, job_id: str) -> list[int]:
        key = (place[0] // DAY_MS * DAY_MS, account, place[1], place[2])
        jobs = self._jobs.get(key)
        if jobs is None:
            jobs = self._jobs[key] = {}
        return jobs.get(job_id) or jobs.setdefault(job_id, [0] * 4)

    def fold(self, before_ms: int) -> None:
        """Keep days instead of hours, and queues instead of jobs, for all days before a moment."""
        limit_ms = before_ms // DAY_MS * DAY_MS
        folded = Books()
        for (hour_ms, *place), cell in self._hour_cells():
            kept_ms = hour_ms if hour_ms >= limit_ms else hour_ms // DAY_MS * DAY_MS
            pool, flavor, account = place
            folded._add_hour((kept_ms, pool, flavor, account), cell)
        for (day_ms, job_id, *account_and_place), cell in self._job_cells():
            account, pool, flavor = account_and_place
            kept = job_id if day_ms >= limit_ms else ""
            folded._add_job((day_ms, kept, account, pool, flavor), cell)
        self._hours, self._jobs = folded._hours, folded._jobs
        self._last = ((-1, "", ""), {})

    def restore(self, hours: Iterable[HourRow], jobs: Iterable[JobRow]) -> Books:
        """Add rows that were read from other books: ``Books().restore(old.hour_rows(), ...)``."""
        for row in hours:
            key = (row.hour_ms, row.pool, row.flavor, row.account)
            self._add_hour(key, (row.micro_usd, *row.volume))
        for one in jobs:
            amounts = (one.micro_usd, one.gpu_milli_ms, one.cpu_milli_ms, one.memory_mib_ms)
            self._add_job((one.day_ms, one.job_id, one.account, one.pool, one.flavor), amounts)
        return self

    def carry(self) -> Carried:
        """Everything in plain values, for ``bring_in``: to be written down before the next posting."""
        hours = [[*place, accounts] for place, accounts in self._hours.items()]
        return {"hours": hours, "jobs": [[*key, jobs] for key, jobs in self._jobs.items()]}

    def bring_in(self, carried: Carried) -> Books:
        """Put what was carried into books that are empty."""
        for hour_ms, pool, flavor, accounts in carried["hours"]:
            self._hours[hour_ms, pool, flavor] = accounts
        for day_ms, account, pool, flavor, jobs in carried["jobs"]:
            self._jobs[day_ms, account, pool, flavor] = jobs
        return self

    def _add_hour(self, key: HourKey, amounts: Iterable[int]) -> None:
        hour_ms, pool, flavor, account = key
        accounts = self._hours.setdefault((hour_ms, pool, flavor), {})
        _add(accounts.setdefault(account, [0] * 6), amounts)

    def _add_job(self, key: JobKey, amounts: Iterable[int]) -> None:
        day_ms, job_id, account, pool, flavor = key
        jobs = self._jobs.setdefault((day_ms, account, pool, flavor), {})
        _add(jobs.setdefault(job_id, [0] * 4), amounts)

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
                _add_copies(copied._hours.setdefault(place, {}), wanted)
        for key, jobs in self.job_groups():
            if from_ms <= key[0] < to_ms and _is_of(key[1], queues):
                _add_copies(copied._jobs.setdefault(key, {}), jobs)
        return copied

    def _hour_groups(self) -> Iterator[tuple[Place, Accounts]]:
        if self._beneath is not None:
            yield from self._beneath._hour_groups()
        yield from self._hours.items()

    def job_groups(self) -> Iterator[tuple[Account, Jobs]]:
        """Jobs by day, account, pool and flavor, without order and without copying: hundreds of
        thousands pass here. A group of the books beneath and one of these may have the same key."""
        if self._beneath is not None:
            yield from self._beneath.job_groups()
        yield from self._jobs.items()

    def hour_rows(self) -> list[HourRow]:
        """Everything by hour, pool and account, in order."""
        return [
            HourRow(
                hour_ms=hour_ms,
                pool=pool,
                flavor=flavor,
                account=account,
                micro_usd=cell[USD],
                volume=Volume(*cell[1:]),
            )
            for (hour_ms, pool, flavor, account), cell in _merged(self._hour_cells())
        ]

    def job_rows(self) -> list[JobRow]:
        """What jobs used and wasted, by day, job and pool, in order."""
        return [
            JobRow(
                day_ms=day_ms,
                job_id=job_id,
                account=account,
                pool=pool,
                flavor=flavor,
                micro_usd=cell[USD],
                gpu_milli_ms=cell[GPU],
                cpu_milli_ms=cell[CPU],
                memory_mib_ms=cell[MEMORY],
            )
            for (day_ms, job_id, account, pool, flavor), cell in _merged(self._job_cells())
        ]

    def jobs_between(self, from_ms: int, to_ms: int) -> Iterator[tuple[JobPlace, list[int]]]:
        """Money and volume of jobs in whole days, by account, pool and flavor, and then by job."""
        places: dict[tuple[str, str, str], list[Jobs]] = {}
        layer: Books | None = self
        while layer is not None:
            for (day_ms, account, pool, flavor), jobs in layer._jobs.items():
                if from_ms <= day_ms < to_ms:
                    places.setdefault((account, pool, flavor), []).append(jobs)
            layer = layer._beneath
        for (account, pool, flavor), days in sorted(places.items()):
            for job_id, cell in _together(days):
                yield (account, job_id, pool, flavor), cell

    def balances(self) -> dict[str, int]:
        """Micro-dollars by account; capacity is negative, everything else is what it was spent on."""
        return _summed((key[3], cell[USD]) for key, cell in self._hour_cells())

    def trial_balance(self) -> int:
        """All balances together: zero, or an entry was posted on one side only."""
        return sum(self.balances().values())

    def fleet_micro_usd(self) -> int:
        """What the fleet cost."""
        return -sum(
            cell[USD] for key, cell in self._hour_cells() if kind_of(key[3]) is AccountKind.CAPACITY
        )

    def capacity_micro_usd(self, place: tuple[str, str], from_ms: int, to_ms: int) -> int:
        """What a pool, as one flavor, cost in whole hours."""
        return -sum(
            cell[USD]
            for (hour_ms, pool, flavor, account), cell in self._hour_cells()
            if from_ms <= hour_ms < to_ms
            and (pool, flavor) == place
            and kind_of(account) is AccountKind.CAPACITY
        )

    def by_kind(self) -> dict[AccountKind, int]:
        """Usage, waste, idle and so on, over everything."""
        found = _summed((kind_of(key[3]), cell[USD]) for key, cell in self._hour_cells())
        return dict(sorted(found.items()))

    def by_hour(self, kinds: Collection[AccountKind]) -> dict[int, int]:
        """Micro-dollars of these kinds of account by hour."""
        return _summed((key[0], cell[USD]) for key, cell in self._of(kinds))

    def by_day(self, kinds: Collection[AccountKind]) -> dict[int, int]:
        return _summed((key[0] // DAY_MS * DAY_MS, cell[USD]) for key, cell in self._of(kinds))

    def by_pool(self, kinds: Collection[AccountKind]) -> dict[str, int]:
        return _summed((key[1], cell[USD]) for key, cell in self._of(kinds))

    def by_gpu_model(self, kinds: Collection[AccountKind]) -> dict[str, int]:
        return _summed((model_of(key[2]), cell[USD]) for key, cell in self._of(kinds))

    def by_market(self, kinds: Collection[AccountKind]) -> dict[str, int]:
        return _summed((market_of(key[2]), cell[USD]) for key, cell in self._of(kinds))

    def by_queue(self) -> dict[str, int]:
        """What each queue used and wasted."""
        return _summed((name_of(key[3]), cell[USD]) for key, cell in self._of(OF_QUEUES))

    def queue_days(self, from_ms: int) -> dict[tuple[int, str], int]:
        """What each queue used and wasted, on each day from a moment on."""
        found: dict[tuple[int, str], int] = {}
        for key, cell in self._of(OF_QUEUES):
            if key[0] >= from_ms:
                name = (key[0] // DAY_MS * DAY_MS, name_of(key[3]))
                found[name] = found.get(name, 0) + cell[USD]
        return found

    def first_hour_ms(self) -> int | None:
        """When these books begin."""
        return min((key[0] for key, _ in self._hour_cells()), default=None)

    def by_job(self) -> dict[str, int]:
        """What each job used and wasted."""
        return _summed((key[1], cell[USD]) for key, cell in self._job_cells())

    def by_owner(self, owner_of: Callable[[str], str]) -> dict[str, int]:
        """The same by whatever is known of a job elsewhere: its owner, a label."""
        return _summed((owner_of(key[1]), cell[USD]) for key, cell in self._job_cells())

    def _of(self, kinds: Collection[AccountKind]) -> Iterator[tuple[HourKey, list[int]]]:
        for key, cell in self._hour_cells():
            if kind_of(key[3]) in kinds:
                yield key, cell

    def _hour_cells(self) -> Iterator[tuple[HourKey, list[int]]]:
        """All cells; those of the books beneath and of these may have the same key."""
        for place, accounts in self._hour_groups():
            for account, cell in accounts.items():
                yield (*place, account), cell

    def _job_cells(self) -> Iterator[tuple[JobKey, list[int]]]:
        for (day_ms, account, pool, flavor), jobs in self.job_groups():
            for job_id, cell in jobs.items():
                yield (day_ms, job_id, account, pool, flavor), cell


def model_of(flavor: str) -> str:
    """The GPU model of a flavor, or ``cpu``."""
    return flavor.rpartition("/")[0]


def market_of(flavor: str) -> str:
    """The purchase option of a flavor."""
    return flavor.rpartition("/")[2]


def _is_of(account: str, queues: Collection[str] | None) -> bool:
    return queues is None or (kind_of(account) in OF_QUEUES and name_of(account) in queues)


def _add(cell: list[int], amounts: Iterable[int]) -> None:
    for index, amount in enumerate(amounts):
        cell[index] += amount


def _add_copies(into: dict[str, list[int]], cells: dict[str, list[int]]) -> None:
    """Cells of one group, copied; only where there are some already are they added up."""
    if not into:
        into.update({name: cell.copy() for name, cell in cells.items()})
        return
    for name, cell in cells.items():
        known = into.get(name)
        into[name] = (
            cell.copy() if known is None else [a + b for a, b in zip(known, cell, strict=True)]
        )


def _merged(cells: Iterable[tuple[Key, list[int]]]) -> list[tuple[Key, list[int]]]:
    """In order, with cells of one key added up."""
    found: dict[Key, list[int]] = {}
    for key, cell in cells:
        known = found.get(key)
        found[key] = cell if known is None else [a + b for a, b in zip(known, cell, strict=True)]
    return sorted(found.items())


def _together(days: list[Jobs]) -> list[tuple[str, list[int]]]:
    """What jobs came to over several days, in order."""
    found = dict(days[0])
    for jobs in days[1:]:
        for job_id, cell in jobs.items():
            known = found.get(job_id)
            found[job_id] = (
                cell if known is None else [a + b for a, b in zip(known, cell, strict=True)]
            )
    return sorted(found.items())


def _summed(amounts: Iterable[tuple[Name, int]]) -> dict[Name, int]:
    found: dict[Name, int] = {}
    for name, amount in amounts:
        found[name] = found.get(name, 0) + amount
    return dict(sorted(found.items()))
