"""Cost reports along chosen axes, and the change between two periods.

The rows of a report sum to the balances of its days. If the books contain capacity, unused capacity has rows
of its own, so the rows sum to the cost of the fleet.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bursar.accounting.ledger.books import GPU, USD, Books
from bursar.accounting.ledger.entry import AccountKind, kind_of, name_of
from bursar.accounting.ledger.sums import Cells
from bursar.accounting.reports.group_by import (
    JOB_DIMENSIONS,
    POOL_DIMENSIONS,
    Dimension,
    GroupBy,
    Naming,
)
from bursar.accounting.reports.statement import PLATFORM, POOL_KINDS
from bursar.model.units import DAY_MS, HOUR_MS, MILLI

KINDS = (
    *(AccountKind.USAGE, AccountKind.WASTE, AccountKind.IDLE),
    *(AccountKind.RESERVED, AccountKind.FOREIGN, AccountKind.ADJUSTMENT),
)
"""Kinds of account that are debited."""
_COLUMN = {kind: column for column, kind in enumerate(KINDS)}
_GPU, _IDLE_GPU = len(KINDS), len(KINDS) + 1

Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReportRow:
    """Costs under one combination of keys, in the order of ``KINDS``. ``gpu_milli_ms`` is time of jobs."""

    keys: Keys
    jobs: int = 0
    usage_micro_usd: int = 0
    waste_micro_usd: int = 0
    idle_micro_usd: int = 0
    reserved_micro_usd: int = 0
    foreign_micro_usd: int = 0
    adjustment_micro_usd: int = 0
    gpu_milli_ms: int = 0
    idle_gpu_milli_ms: int = 0

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
    """Rows and their total. Days are in order; otherwise the most expensive row comes first, the
    platform's rows last."""

    axes: tuple[GroupBy, ...]
    rows: tuple[ReportRow, ...]
    total: ReportRow


class _Cell:
    __slots__ = ("jobs", "sums")

    def __init__(self) -> None:
        self.sums = [0] * (len(KINDS) + 2)
        self.jobs: set[str] = set()

    def row(self, keys: Keys) -> ReportRow:
        return ReportRow(keys, len(self.jobs) - ("" in self.jobs), *self.sums)


def report(books: Books, axes: Sequence[GroupBy], naming: Naming) -> CostReport:
    """A report of everything in the books; pass a copy of the wanted days."""
    cells: dict[Keys, _Cell] = defaultdict(_Cell)
    total = _Cell()
    _add_jobs(books, axes, naming, cells)
    _add_pools(books, axes, naming, cells)
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
    """Adds what jobs used and wasted. Keys of other dimensions are equal for a whole group of jobs."""
    by_job = [index for index, axis in enumerate(axes) if axis.dimension in JOB_DIMENSIONS]
    for (day_ms, account, pool, flavor), jobs in books.job_groups():
        queue, column = name_of(account), _COLUMN[kind_of(account)]
        keys = [
            naming.pool_key(axis, day_ms, pool, flavor)
            if axis.dimension in POOL_DIMENSIONS
            else naming.job_key(axis, queue, "")
            for axis in axes
        ]
        if by_job:
            names = [naming.job_keys(axes[index], jobs) for index in by_job]
            for job_names, group in _group_by_names(jobs, names).items():
                for index, name in zip(by_job, job_names, strict=True):
                    keys[index] = name
                _add_group(cells[tuple(keys)], column, group)
        else:
            _add_group(cells[tuple(keys)], column, jobs)


def _group_by_names(jobs: Cells, names: Sequence[Sequence[str]]) -> dict[Keys, Cells]:
    groups: dict[Keys, Cells] = defaultdict(dict)
    for job_names, (job_id, amounts) in zip(zip(*names, strict=True), jobs.items(), strict=True):
        groups[job_names][job_id] = amounts
    return groups


def _add_group(cell: _Cell, column: int, jobs: Cells) -> None:
    cell.sums[column] += sum([one[USD] for one in jobs.values()])
    cell.sums[_GPU] += sum([one[GPU] for one in jobs.values()])
    cell.jobs.update(jobs)


def _add_pools(
    books: Books, axes: Sequence[GroupBy], naming: Naming, cells: dict[Keys, _Cell]
) -> None:
    """Adds costs of pools that no job of ours held."""
    for row in books.hour_rows(POOL_KINDS):
        day_ms = row.hour_ms // DAY_MS * DAY_MS
        keys = tuple(naming.pool_key(axis, day_ms, row.pool, row.flavor) for axis in axes)
        cell = cells[keys]
        cell.sums[_COLUMN[row.kind]] += row.micro_usd
        if row.kind is AccountKind.IDLE:
            cell.sums[_IDLE_GPU] += row.volume.gpu_milli_ms


def gpu_hours(gpu_milli_ms: int) -> float:
    """GPU-hours for display; sums are computed from the integers."""
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
        """Thousandths of the earlier cost; None if that was zero."""
        if not self.before_micro_usd:
            return None
        return round(self.micro_usd * MILLI / self.before_micro_usd)


def changes(before: CostReport, after: CostReport) -> tuple[RowChange, ...]:
    """Every row of either report, the largest change first."""
    old = {row.keys: row for row in before.rows}
    new = {row.keys: row for row in after.rows}
    rows = [_change(keys, old.get(keys), new.get(keys)) for keys in old.keys() | new.keys()]
    return tuple(sorted(rows, key=lambda one: (-abs(one.micro_usd), one.keys)))


def total_change(before: CostReport, after: CostReport) -> RowChange:
    """The change of the totals."""
    return _change((), before.total, after.total)


def _change(keys: Keys, before: ReportRow | None, after: ReportRow | None) -> RowChange:
    zero = ReportRow(keys=keys)
    old, new = before or zero, after or zero
    return RowChange(
        keys=keys,
        before_micro_usd=old.total_micro_usd,
        after_micro_usd=new.total_micro_usd,
        before_gpu_milli_ms=old.gpu_milli_ms,
        after_gpu_milli_ms=new.gpu_milli_ms,
    )


def needs_jobs(axes: Iterable[GroupBy]) -> bool:
    """Whether the report needs single jobs, which are not stored for ever."""
    return any(axis.dimension in JOB_DIMENSIONS for axis in axes)
