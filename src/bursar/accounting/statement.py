"""Statements: what each tenant is shown, or charged, for a period, so that all together are the fleet's cost.

A tenant's own lines are what its jobs used and wasted. What nobody used is borne by the platform, by all
in proportion, or by those whose quota it was. Money is rounded to cents twice, statements and then their
lines, and each time what is left over goes to the largest, so that every sum can be checked by hand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from bursar.accounting.books import Books, HourRow, JobPlace, market_of, model_of
from bursar.accounting.entry import AccountKind, kind_of, name_of
from bursar.accounting.parts import largest_remainder
from bursar.accounting.tenant_tree import TenantTree
from bursar.model.errors import UserError
from bursar.model.fleet import CPU_ONLY
from bursar.model.tenant import CPU, GPU, Tenant
from bursar.model.units import DAY_MS, USD_MICRO

PLATFORM = "(platform)"
"""Who bears what no tenant does."""

CENT_MICRO = USD_MICRO // 100
SHARED = frozenset({AccountKind.IDLE, AccountKind.RESERVED})
OF_POOLS = SHARED | {AccountKind.FOREIGN, AccountKind.ADJUSTMENT}

Place = tuple[str, str]
"""A pool and its flavor."""
JobSum = tuple[JobPlace, list[int]]
Row = tuple[AccountKind, str, str, str, int, int]
"""A line in the making: kind, flavor, queue, job, micro-dollars, GPU time."""
QUEUE: Final = 2
MICRO_USD: Final = 4


class IdlePolicy(StrEnum):
    """Who bears what a pool cost while nobody used it."""

    ABSORBED = "absorbed"
    """The platform."""
    PROPORTIONAL = "proportional"
    """Those who used the pool, in proportion; all who used anything where nobody used that pool."""
    QUOTA_OWNER = "quota-owner"
    """Those who had quota of the flavor and left it unused; the platform where nobody did."""


class Style(StrEnum):
    """Whether a statement only shows, or is owed."""

    SHOWBACK = "showback"
    CHARGEBACK = "chargeback"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Which statements: for whole days (UTC), of these tenants. ``payers`` get one; empty: the roots."""

    tenants: tuple[Tenant, ...]
    from_ms: int
    to_ms: int
    idle: IdlePolicy = IdlePolicy.ABSORBED
    style: Style = Style.SHOWBACK
    payers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One row of a statement. ``job_id`` and ``queue`` are empty where the row is about no job."""

    kind: AccountKind
    gpu_model: str
    market: str
    queue: str = ""
    job_id: str = ""
    micro_usd: int
    gpu_milli_ms: int = 0
    cents: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What one payer is shown or owes; ``cents`` is the sum of its lines'."""

    payer: str
    style: Style
    from_ms: int
    to_ms: int
    lines: tuple[Line, ...]
    micro_usd: int
    cents: int

    @property
    def owed_cents(self) -> int:
        """Nothing is owed by a showback, nor by the platform to itself."""
        return self.cents if self.style is Style.CHARGEBACK and self.payer != PLATFORM else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """All of a period. The platform's own comes last; ``micro_usd`` is what the fleet cost."""

    all: tuple[Statement, ...]
    micro_usd: int
    cents: int

    def of(self, payer: str) -> Statement | None:
        return next((one for one in self.all if one.payer == payer), None)


def statements(books: Books, terms: Terms) -> Statements:
    """One statement for each payer and one for the platform; together they are the fleet's cost."""
    _check(terms)
    tree = TenantTree(terms.tenants, terms.payers)
    hours = [
        one
        for one in books.hour_rows()
        if terms.from_ms <= one.hour_ms < terms.to_ms and one.kind in OF_POOLS
    ]
    rows: dict[str, list[Row]] = defaultdict(list)
    borne: dict[Place, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    used = _Used()
    for place, row in _own_rows(books.jobs_between(terms.from_ms, terms.to_ms), used):
        payer = tree.payer_of(row[QUEUE])
        rows[payer].append(row)
        borne[place][payer] += row[MICRO_USD]
    for payer, place, row in _shared_rows(hours, _Weights(used, borne, tree, terms)):
        rows[payer].append(row)
        borne[place][payer] += row[MICRO_USD]
    for payer, row in _adjustment_rows(hours, borne):
        rows[payer].append(row)
    return _in_cents(rows, terms)


def _check(terms: Terms) -> None:
    if terms.from_ms % DAY_MS or terms.to_ms % DAY_MS or terms.from_ms >= terms.to_ms:
        raise UserError(
            "a statement covers whole days (UTC), at least one.",
            fix="Give a first day and the day after the last, both at midnight UTC.",
            code="bad-period",
        )


class _Used(defaultdict[tuple[str, str], list[int]]):
    """GPU and CPU time by flavor and queue."""

    def __init__(self) -> None:
        super().__init__(lambda: [0, 0])


def _own_rows(jobs: Iterable[JobSum], used: _Used) -> Iterator[tuple[Place, Row]]:
    """What jobs used and wasted: one row for each job, place and kind; ``used`` adds it up."""
    for (account, job_id, pool, flavor), (micro_usd, gpu_milli_ms, cpu_milli_ms, _) in jobs:
        queue = name_of(account)
        held = used[flavor, queue]
        held[0] += gpu_milli_ms
        held[1] += cpu_milli_ms
        if micro_usd or gpu_milli_ms:
            yield (pool, flavor), (kind_of(account), flavor, queue, job_id, micro_usd, gpu_milli_ms)


class _Weights:
    """In which proportion payers bear what nobody used of a place."""

    def __init__(
        self,
        used: _Used,
        borne: dict[Place, dict[str, int]],
        tree: TenantTree,
        terms: Terms,
    ) -> None:
        self._used = used
        self._borne = {place: dict(payers) for place, payers in borne.items()}
        self._tree = tree
        self._terms = terms
        self._of_flavor: dict[str, dict[str, int]] = {}

    def of(self, place: Place) -> dict[str, int]:
        if self._terms.idle is IdlePolicy.PROPORTIONAL:
            there = self._borne.get(place, {})
            return there if any(there.values()) else self._overall()
        if self._terms.idle is IdlePolicy.QUOTA_OWNER:
            return self._unused(place[1])
        return {}

    def _overall(self) -> dict[str, int]:
        found: dict[str, int] = defaultdict(int)
        for payers in self._borne.values():
            for payer, micro_usd in payers.items():
                found[payer] += micro_usd
        return found

    def _unused(self, flavor: str) -> dict[str, int]:
        known = self._of_flavor.get(flavor)
        if known is not None:
            return known
        resource = CPU if model_of(flavor) == CPU_ONLY else GPU
        column = (GPU, CPU).index(resource)
        used = {queue: held[column] for (one, queue), held in self._used.items() if one == flavor}
        duration_ms = self._terms.to_ms - self._terms.from_ms
        found: dict[str, int] = defaultdict(int)
        for name, amount in self._tree.unused((flavor, resource), used, duration_ms).items():
            found[self._tree.payer_of(name)] += amount
        self._of_flavor[flavor] = found
        return found


def _shared_rows(hours: Iterable[HourRow], weights: _Weights) -> list[tuple[str, Place, Row]]:
    """What nobody used, and what others did, on whom it falls."""
    found: dict[tuple[Place, AccountKind], list[int]] = {}
    for row in hours:
        if row.kind is not AccountKind.ADJUSTMENT:
            cell = found.setdefault(((row.pool, row.flavor), row.kind), [0, 0])
            cell[0] += row.micro_usd
            cell[1] += row.volume.gpu_milli_ms
    rows: list[tuple[str, Place, Row]] = []
    for (place, kind), (micro_usd, gpu_milli_ms) in sorted(found.items()):
        payers = dict(sorted(weights.of(place).items())) if kind in SHARED else {}
        if not any(payers.values()):
            payers = {PLATFORM: 1}
        money = largest_remainder(micro_usd, list(payers.values()))
        time = largest_remainder(gpu_milli_ms, list(payers.values()))
        for payer, usd, gpu in zip(payers, money, time, strict=True):
            if usd or gpu:
                rows.append((payer, place, (kind, place[1], "", "", usd, gpu)))
    return rows


def _adjustment_rows(
    hours: Iterable[HourRow], borne: dict[Place, dict[str, int]]
) -> list[tuple[str, Row]]:
    """What a real bill changed, in proportion to what everybody bears of that place."""
    found: dict[Place, int] = defaultdict(int)
    for row in hours:
        if row.kind is AccountKind.ADJUSTMENT:
            found[row.pool, row.flavor] += row.micro_usd
    rows: list[tuple[str, Row]] = []
    for place, micro_usd in sorted(found.items()):
        payers = dict(sorted(borne.get(place, {}).items()))
        if not any(payers.values()):
            payers = {PLATFORM: 1}
        money = largest_remainder(micro_usd, list(payers.values()))
        for payer, usd in zip(payers, money, strict=True):
            if usd:
                rows.append((payer, (AccountKind.ADJUSTMENT, place[1], "", "", usd, 0)))
    return rows


def _in_cents(rows: dict[str, list[Row]], terms: Terms) -> Statements:
    payers = sorted(rows, key=lambda payer: (payer == PLATFORM, payer))
    amounts = [sum(row[MICRO_USD] for row in rows[payer]) for payer in payers]
    total = sum(amounts)
    total_cents = round_to_cents(total)
    found = []
    for payer, micro_usd, cents in zip(
        payers, amounts, cents_of(amounts, total_cents), strict=True
    ):
        theirs = rows[payer]
        found.append(
            Statement(
                payer=payer,
                style=terms.style,
                from_ms=terms.from_ms,
                to_ms=terms.to_ms,
                lines=tuple(
                    map(_line, theirs, cents_of([row[MICRO_USD] for row in theirs], cents))
                ),
                micro_usd=micro_usd,
                cents=cents,
            )
        )
    return Statements(all=tuple(found), micro_usd=total, cents=total_cents)


def _line(row: Row, cents: int) -> Line:
    kind, flavor, queue, job_id, micro_usd, gpu_milli_ms = row
    return Line(
        kind=kind,
        gpu_model=model_of(flavor),
        market=market_of(flavor),
        queue=queue,
        job_id=job_id,
        micro_usd=micro_usd,
        gpu_milli_ms=gpu_milli_ms,
        cents=cents,
    )


def without_jobs(statement: Statement) -> Statement:
    """The same with one line for all jobs of a queue: cents are rounded anew, the sum is the same."""
    found: dict[tuple[AccountKind, str, str, str], list[int]] = {}
    for line in statement.lines:
        cell = found.setdefault((line.kind, line.gpu_model, line.market, line.queue), [0, 0])
        cell[0] += line.micro_usd
        cell[1] += line.gpu_milli_ms
    cents = cents_of([micro_usd for micro_usd, _ in found.values()], statement.cents)
    lines = tuple(
        Line(
            kind=kind,
            gpu_model=gpu_model,
            market=market,
            queue=queue,
            micro_usd=micro_usd,
            gpu_milli_ms=gpu_milli_ms,
            cents=some,
        )
        for ((kind, gpu_model, market, queue), (micro_usd, gpu_milli_ms)), some in zip(
            found.items(), cents, strict=True
        )
    )
    return replace(statement, lines=lines)


def round_to_cents(micro_usd: int) -> int:
    """To the nearest cent, half a cent up."""
    return (micro_usd + CENT_MICRO // 2) // CENT_MICRO


def cents_of(amounts: Sequence[int], total_cents: int) -> list[int]:
    """Each amount in cents; what is left over to the total goes to the largest."""
    cents = [round_to_cents(amount) for amount in amounts]
    if cents:
        largest = max(range(len(amounts)), key=lambda index: (abs(amounts[index]), -index))
        cents[largest] += total_cents - sum(cents)
    return cents
