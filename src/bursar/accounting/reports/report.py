"""What things cost, row by row along chosen axes, and how that changed from one period to another.

All rows of a report come to what the books say of its days. Where the books hold capacity too, what nobody
used stands in rows of its own, so that nothing a fleet cost is missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bursar.accounting.ledger.books import GPU, USD, Books
from bursar.accounting.ledger.entry import AccountKind, kind_of, name_of
from bursar.accounting.ledger.sums import Cells
from bursar.accounting.reports.group_by import OF_JOBS, OF_PLACES, Dimension, GroupBy, Naming
from bursar.accounting.reports.statement import OF_POOLS, PLATFORM
from bursar.model.units import DAY_MS, HOUR_MS, MILLI

KINDS = (
    *(AccountKind.USAGE, AccountKind.WASTE, AccountKind.IDLE),
    *(AccountKind.RESERVED, AccountKind.FOREIGN, AccountKind.ADJUSTMENT),
)
"""Everything that money was spent on."""
_COLUMN = {kind: column for column, kind in enumerate(KINDS)}
_GPU, _IDLE_GPU = len(KINDS), len(KINDS) + 1

Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRow:
    """What came together under some keys. GPU time is what jobs held, idle GPU time what nobody did."""

    keys: Keys
    usage_micro_usd: int = 0
    waste_micro_usd: int = 0
    idle_micro_usd: int = 0
    reserved_micro_usd: int = 0
    foreign_micro_usd: int = 0
    adjustment_micro_usd: int = 0
    gpu_milli_ms: int = 0
    idle_gpu_milli_ms: int = 0
    jobs: int = 0

    @property
    def total_micro_usd(self) -> int:
        return (
            self.usage_micro_usd
            + self.waste_micro_usd
            + self.idle_micro_usd
            + self.reserved_micro_usd
            + self.foreign_micro_usd
            + self.adjustment_micro_usd
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """Rows, the dearest first unless they are days, what is nobody's last, and what they come to."""

    axes: tuple[GroupBy, ...]
    rows: tuple[ReportRow, ...]
    total: ReportRow


class _Cell:
    __slots__ = ("jobs", "sums")

    def __init__(self) -> None:
        self.sums = [0] * (len(KINDS) + 2)
        self.jobs: set[str] = set()

    def row(self, keys: Keys) -> ReportRow:
        return ReportRow(
            keys=keys,
            usage_micro_usd=self.sums[0],
            waste_micro_usd=self.sums[1],
            idle_micro_usd=self.sums[2],
            reserved_micro_usd=self.sums[3],
            foreign_micro_usd=self.sums[4],
            adjustment_micro_usd=self.sums[5],
            gpu_milli_ms=self.sums[_GPU],
            idle_gpu_milli_ms=self.sums[_IDLE_GPU],
            jobs=len(self.jobs) - ("" in self.jobs),
        )


def report(books: Books, axes: Sequence[GroupBy], naming: Naming) -> CostReport:
    """Everything in the books, along these axes: give it a copy of the days in question."""
    cells: dict[Keys, _Cell] = {}
    total = _Cell()
    _add_jobs(books, axes, naming, cells)
    _add_places(books, axes, naming, cells)
    for cell in cells.values():
        total.sums = [a + b for a, b in zip(total.sums, cell.sums, strict=True)]
        total.jobs |= cell.jobs
    rows = [cell.row(keys) for keys, cell in cells.items() if any(cell.sums)]
    by_day = axes[0].dimension is Dimension.DAY
    rows.sort(
        key=lambda row: (
            row.keys[0] if by_day else "",
            PLATFORM in row.keys,
            -row.total_micro_usd,
            row.keys,
        )
    )
    return CostReport(axes=tuple(axes), rows=tuple(rows), total=total.row(()))


def _add_jobs(
    books: Books, axes: Sequence[GroupBy], naming: Naming, cells: dict[Keys, _Cell]
) -> None:
    """What jobs used and wasted. Most of a key is the same for a whole group of jobs."""
    by_job = [place for place, axis in enumerate(axes) if axis.dimension in OF_JOBS]
    for (day_ms, account, pool, flavor), jobs in books.job_groups():
        queue, column = name_of(account), _COLUMN[kind_of(account)]
        keys = [
            naming.name_of_place(axis, day_ms, pool, flavor)
            if axis.dimension in OF_PLACES
            else naming.name_of_job(axis, queue, "")
            for axis in axes
        ]
        if by_job:
            names = [naming.names_of_jobs(axes[place], jobs) for place in by_job]
            for theirs, group in _alike(jobs, names).items():
                for place, name in zip(by_job, theirs, strict=True):
                    keys[place] = name
                _add_group(_cell(cells, tuple(keys)), column, group)
        else:
            _add_group(_cell(cells, tuple(keys)), column, jobs)


def _alike(jobs: Cells, names: Sequence[Sequence[str]]) -> dict[Keys, Cells]:
    """The jobs apart by their names, in the order in which those first come."""
    found: dict[Keys, Cells] = {}
    for theirs, (job_id, amounts) in zip(zip(*names, strict=True), jobs.items(), strict=True):
        group = found.get(theirs)
        if group is None:
            group = found[theirs] = {}
        group[job_id] = amounts
    return found


def _add_group(cell: _Cell, column: int, jobs: Cells) -> None:
    cell.sums[column] += sum([one[USD] for one in jobs.values()])
    cell.sums[_GPU] += sum([one[GPU] for one in jobs.values()])
    cell.jobs.update(jobs)


def _cell(cells: dict[Keys, _Cell], keys: Keys) -> _Cell:
    found = cells.get(keys)
    if found is None:
        found = cells[keys] = _Cell()
    return found


def _add_places(
    books: Books, axes: Sequence[GroupBy], naming: Naming, cells: dict[Keys, _Cell]
) -> None:
    """What no job of ours held."""
    for row in books.hour_rows(OF_POOLS):
        day_ms = row.hour_ms // DAY_MS * DAY_MS
        keys = tuple(naming.name_of_place(axis, day_ms, row.pool, row.flavor) for axis in axes)
        cell = _cell(cells, keys)
        cell.sums[_COLUMN[row.kind]] += row.micro_usd
        if row.kind is AccountKind.IDLE:
            cell.sums[_IDLE_GPU] += row.volume.gpu_milli_ms


def gpu_hours(gpu_milli_ms: int) -> float:
    """As people count them. For showing: sums are made of the whole numbers."""
    return round(gpu_milli_ms / (MILLI * HOUR_MS), 6)


# -- two periods ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChange:
    """One row of two reports."""

    keys: Keys
    before_micro_usd: int
    after_micro_usd: int
    before_gpu_milli_ms: int
    after_gpu_milli_ms: int

    @property
    def micro_usd(self) -> int:
        return self.after_micro_usd - self.before_micro_usd

    @property
    def permille(self) -> int | None:
        """Of what it was; None where it was nothing."""
        if not self.before_micro_usd:
            return None
        return round(self.micro_usd * MILLI / self.before_micro_usd)


def changes(before: CostReport, after: CostReport) -> tuple[RowChange, ...]:
    """Every row that either report has, the largest change first."""
    old = {row.keys: row for row in before.rows}
    new = {row.keys: row for row in after.rows}
    found = [_change(keys, old.get(keys), new.get(keys)) for keys in old.keys() | new.keys()]
    return tuple(sorted(found, key=lambda one: (-abs(one.micro_usd), one.keys)))


def total_change(before: CostReport, after: CostReport) -> RowChange:
    """What all rows together changed by."""
    return _change((), before.total, after.total)


def _change(keys: Keys, before: ReportRow | None, after: ReportRow | None) -> RowChange:
    nothing = ReportRow(keys=keys)
    old, new = before or nothing, after or nothing
    return RowChange(
        keys=keys,
        before_micro_usd=old.total_micro_usd,
        after_micro_usd=new.total_micro_usd,
        before_gpu_milli_ms=old.gpu_milli_ms,
        after_gpu_milli_ms=new.gpu_milli_ms,
    )


def needs_jobs(axes: Iterable[GroupBy]) -> bool:
    """Whether single jobs must be known, which are not kept for ever."""
    return any(axis.dimension in OF_JOBS for axis in axes)
