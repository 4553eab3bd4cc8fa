"""Statements: what each payer is shown or charged for a period. They sum to the cost of the fleet.

A payer's own lines are what its jobs used and wasted. Unused capacity is paid by the platform, by all payers
in proportion, or by those who left quota unused. Amounts are rounded to cents twice, first statements, then
their lines; each time the rounding difference goes to the largest, so every sum can be checked by hand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import NamedTuple

from bursar.accounting.ledger.books import CPU as CPU_TIME
from bursar.accounting.ledger.books import GPU as GPU_TIME
from bursar.accounting.ledger.books import USD, Books, HourRow, market_of, model_of
from bursar.accounting.ledger.entry import AccountKind, fast_tuple, kind_of, name_of
from bursar.accounting.ledger.node_fraction import largest_remainder
from bursar.accounting.ledger.sums import Cells
from bursar.accounting.reports.payer import PayerTree
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import CPU_ONLY
from bursar.model.tenants.tenant import CPU, GPU, Tenant
from bursar.model.units import DAY_MS, USD_MICRO

PLATFORM = "(platform)"
"""The payer of what no tenant pays."""

CENT_MICRO = USD_MICRO // 100
HALF_A_CENT = CENT_MICRO // 2
SHARED_KINDS = frozenset({AccountKind.IDLE, AccountKind.RESERVED})
POOL_KINDS = SHARED_KINDS | {AccountKind.FOREIGN, AccountKind.ADJUSTMENT}

PoolFlavor = tuple[str, str]
"""A pool and its flavor at the time."""
PoolSum = tuple[tuple[PoolFlavor, AccountKind], list[int]]
"""Micro-dollars and GPU time of one kind of account of a pool."""
Used = dict[tuple[str, str], list[int]]
"""GPU and CPU time by flavor and queue."""
JobGroup = tuple[str, str, str]
"""Account, pool and flavor of a group of jobs."""


class StatementBlock(NamedTuple):
    """Lines of several jobs, as columns: job ids, micro-dollars and GPU time.

    A month has hundreds of thousands of lines, so a line becomes an object only at the end.
    """

    kind: AccountKind
    flavor: str
    queue: str
    job_ids: Sequence[str]
    micro_usd: Sequence[int]
    gpu_milli_ms: Sequence[int]


class IdlePolicy(StrEnum):
    """Who pays for unused capacity of a pool."""

    ABSORBED = "absorbed"
    """The platform."""
    PROPORTIONAL = "proportional"
    """The users of the pool, in proportion to their usage; if it had none, the users of any pool."""
    QUOTA_OWNER = "quota-owner"
    """The tenants with unused quota of the flavor; if there are none, the platform."""


class StatementStyle(StrEnum):
    """Whether a statement is only shown or has to be paid."""

    SHOWBACK = "showback"
    CHARGEBACK = "chargeback"


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementRequest:
    """A period of whole days (UTC), and who gets a statement: ``payers``, or the roots if empty."""

    tenants: tuple[Tenant, ...]
    from_ms: int
    to_ms: int
    idle: IdlePolicy = IdlePolicy.ABSORBED
    style: StatementStyle = StatementStyle.SHOWBACK
    payers: tuple[str, ...] = ()


class StatementLine(NamedTuple):
    """One line of a statement. ``job_id`` and ``queue`` are empty if the line is about no job."""

    kind: AccountKind
    gpu_model: str
    market: str
    queue: str
    job_id: str
    micro_usd: int
    gpu_milli_ms: int
    cents: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What one payer is shown or owes; ``cents`` is the sum of its lines."""

    payer: str
    style: StatementStyle
    from_ms: int
    to_ms: int
    lines: tuple[StatementLine, ...]
    micro_usd: int
    cents: int

    @property
    def owed_cents(self) -> int:
        """Zero for a showback and for the platform."""
        return (
            self.cents if self.style is StatementStyle.CHARGEBACK and self.payer != PLATFORM else 0
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Statements:
    """All statements of a period, the platform's last; ``micro_usd`` is what the fleet cost."""

    all: tuple[Statement, ...]
    micro_usd: int
    cents: int

    def of(self, payer: str) -> Statement | None:
        return next((one for one in self.all if one.payer == payer), None)


def statements(books: Books, terms: StatementRequest) -> Statements:
    """One statement for each payer and one for the platform; they sum to the fleet's cost."""
    _check(terms)
    tree = PayerTree(terms.tenants, terms.payers)
    hours = [
        one for one in books.hour_rows(POOL_KINDS) if terms.from_ms <= one.hour_ms < terms.to_ms
    ]
    blocks: dict[str, list[StatementBlock]] = defaultdict(list)
    paid: dict[PoolFlavor, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    used: Used = defaultdict(lambda: [0, 0])
    for pool, block in _own_blocks(books.jobs_between(terms.from_ms, terms.to_ms), used):
        payer = tree.payer_of(block.queue)
        blocks[payer].append(block)
        paid[pool][payer] += sum(block.micro_usd)
    weights = _Weights(used, paid, tree, terms)
    for (pool, kind), amounts in _pool_sums(hours):
        payers = paid[pool] if kind is AccountKind.ADJUSTMENT else {}
        if kind in SHARED_KINDS:
            payers = weights.of(pool)
        for payer, block in _divided(amounts, payers, kind, pool):
            blocks[payer].append(block)
            paid[pool][payer] += sum(block.micro_usd)
    return _in_cents(blocks, terms)


def _check(terms: StatementRequest) -> None:
    if terms.from_ms % DAY_MS or terms.to_ms % DAY_MS or terms.from_ms >= terms.to_ms:
        raise UserError(
            "a statement covers whole days (UTC), at least one.",
            fix="Give a first day and the day after the last, both at midnight UTC.",
            code="bad-period",
        )


def _own_blocks(
    jobs: Iterable[tuple[JobGroup, Cells]], used: Used
) -> Iterator[tuple[PoolFlavor, StatementBlock]]:
    """Lines of what jobs used and wasted; adds their GPU and CPU time to ``used``."""
    for (account, pool, flavor), cells in jobs:
        queue = name_of(account)
        held = used[flavor, queue]
        held[0] += sum([cell[GPU_TIME] for cell in cells.values()])
        held[1] += sum([cell[CPU_TIME] for cell in cells.values()])
        job_ids = sorted([one for one, cell in cells.items() if cell[USD] or cell[GPU_TIME]])
        if job_ids:
            micro_usd = [cells[job_id][USD] for job_id in job_ids]
            gpu_milli_ms = [cells[job_id][GPU_TIME] for job_id in job_ids]
            block = StatementBlock(
                kind_of(account), flavor, queue, job_ids, micro_usd, gpu_milli_ms
            )
            yield (pool, flavor), block


class _Weights:
    """The proportion in which payers pay for unused capacity of a pool."""

    def __init__(
        self,
        used: Used,
        paid: dict[PoolFlavor, dict[str, int]],
        tree: PayerTree,
        terms: StatementRequest,
    ) -> None:
        self._used = used
        self._paid = {pool: dict(payers) for pool, payers in paid.items()}
        self._tree = tree
        self._terms = terms
        self._of_flavor: dict[str, dict[str, int]] = {}

    def of(self, pool: PoolFlavor) -> dict[str, int]:
        if self._terms.idle is IdlePolicy.PROPORTIONAL:
            users = self._paid.get(pool, {})
            return users if any(users.values()) else self._overall()
        if self._terms.idle is IdlePolicy.QUOTA_OWNER:
            return self._unused(pool[1])
        return {}

    def _overall(self) -> dict[str, int]:
        sums: dict[str, int] = defaultdict(int)
        for payers in self._paid.values():
            for payer, micro_usd in payers.items():
                sums[payer] += micro_usd
        return sums

    def _unused(self, flavor: str) -> dict[str, int]:
        cached = self._of_flavor.get(flavor)
        if cached is not None:
            return cached
        resource = CPU if model_of(flavor) == CPU_ONLY else GPU
        column = (GPU, CPU).index(resource)
        used = {queue: held[column] for (one, queue), held in self._used.items() if one == flavor}
        duration_ms = self._terms.to_ms - self._terms.from_ms
        weights: dict[str, int] = defaultdict(int)
        for name, amount in self._tree.unused((flavor, resource), used, duration_ms).items():
            weights[self._tree.payer_of(name)] += amount
        self._of_flavor[flavor] = weights
        return weights


def _pool_sums(hours: Iterable[HourRow]) -> list[PoolSum]:
    """Unused and foreign capacity by pool, then adjustments: they follow what is paid for a pool."""
    sums: dict[tuple[PoolFlavor, AccountKind], list[int]] = defaultdict(lambda: [0, 0])
    for row in hours:
        cell = sums[(row.pool, row.flavor), row.kind]
        cell[0] += row.micro_usd
        cell[1] += row.volume.gpu_milli_ms
    return sorted(sums.items(), key=lambda one: (one[0][1] is AccountKind.ADJUSTMENT, one))


def _divided(
    amounts: Sequence[int], payers: Mapping[str, int], kind: AccountKind, pool: PoolFlavor
) -> Iterator[tuple[str, StatementBlock]]:
    """Lines of an amount and its GPU time, divided by weight; without any the platform pays."""
    weights = dict(sorted(payers.items())) if any(payers.values()) else {PLATFORM: 1}
    money, time = (largest_remainder(amount, list(weights.values())) for amount in amounts)
    for payer, usd, gpu in zip(weights, money, time, strict=True):
        if usd or gpu:
            yield payer, StatementBlock(kind, pool[1], "", ("",), (usd,), (gpu,))


def _in_cents(blocks: dict[str, list[StatementBlock]], terms: StatementRequest) -> Statements:
    payers = sorted(blocks, key=lambda payer: (payer == PLATFORM, payer))
    amounts = [sum([sum(block.micro_usd) for block in blocks[payer]]) for payer in payers]
    total = sum(amounts)
    total_cents = round_to_cents(total)
    rounded = tuple(
        Statement(
            payer=payer,
            style=terms.style,
            from_ms=terms.from_ms,
            to_ms=terms.to_ms,
            lines=tuple(_lines(blocks[payer], cents)),
            micro_usd=micro_usd,
            cents=cents,
        )
        for payer, micro_usd, cents in zip(
            payers, amounts, cents_of(amounts, total_cents), strict=True
        )
    )
    return Statements(all=rounded, micro_usd=total, cents=total_cents)


def _lines(blocks: Sequence[StatementBlock], total_cents: int) -> list[StatementLine]:
    cents = iter(cents_of([usd for block in blocks for usd in block.micro_usd], total_cents))
    lines: list[StatementLine] = []
    for kind, flavor, queue, job_ids, micro_usd, gpu_milli_ms in blocks:
        model, market = model_of(flavor), market_of(flavor)
        each = zip(job_ids, micro_usd, gpu_milli_ms, islice(cents, len(job_ids)), strict=True)
        lines += [
            fast_tuple(StatementLine, (kind, model, market, queue, job_id, usd, gpu, line_cents))
            for job_id, usd, gpu, line_cents in each
        ]
    return lines


def without_jobs(statement: Statement) -> Statement:
    """The statement with one line per queue instead of per job; its sum in cents does not change."""
    sums: dict[tuple[AccountKind, str, str, str], list[int]] = {}
    for line in statement.lines:
        cell = sums.setdefault((line.kind, line.gpu_model, line.market, line.queue), [0, 0])
        cell[0] += line.micro_usd
        cell[1] += line.gpu_milli_ms
    cents = cents_of([micro_usd for micro_usd, _ in sums.values()], statement.cents)
    lines = [
        StatementLine(*group, "", micro_usd, gpu_milli_ms, line_cents)
        for (group, (micro_usd, gpu_milli_ms)), line_cents in zip(sums.items(), cents, strict=True)
    ]
    return replace(statement, lines=tuple(lines))


def round_to_cents(micro_usd: int) -> int:
    """Rounds to the nearest cent, half a cent up."""
    return (micro_usd + HALF_A_CENT) // CENT_MICRO


def cents_of(amounts: Sequence[int], total_cents: int) -> list[int]:
    """Rounds each amount to cents; the difference from the total goes to the largest."""
    cents = [(amount + HALF_A_CENT) // CENT_MICRO for amount in amounts]
    if cents:
        sizes = [abs(amount) for amount in amounts]
        cents[sizes.index(max(sizes))] += total_cents - sum(cents)
    return cents
