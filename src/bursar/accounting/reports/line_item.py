"""The books as a flat list for exports: one line per day, job, pool and kind of account.

Unused capacity has lines of its own, so the lines sum to the cost of the days.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bursar.accounting.ledger.books import Books, market_of, model_of
from bursar.accounting.ledger.entry import AccountKind, fast_tuple, kind_of, name_of
from bursar.accounting.reports.group_by import OLDER, Naming
from bursar.accounting.reports.statement import POOL_KINDS
from bursar.model.units import DAY_MS


class LineItem(NamedTuple):
    """A cost on one day. Names are empty if the line is about no job."""

    day_ms: int
    kind: AccountKind
    pool: str
    gpu_model: str
    market: str
    team: str
    project: str
    queue: str
    user: str
    job_id: str
    job_name: str
    labels: Mapping[str, str]
    micro_usd: int
    gpu_milli_ms: int
    cpu_milli_ms: int
    memory_mib_ms: int


NO_JOB: tuple[object, ...] = ("", "", "", "", "", "", {})
"""Team, project, queue, user, job id, job name and labels of a line that is about no job."""


def line_items(books: Books, naming: Naming) -> Iterator[LineItem]:
    """Lines of jobs, then lines of unused capacity; pass a copy of the wanted days."""
    yield from _of_jobs(books, naming)
    yield from _of_pools(books)


def _of_jobs(books: Books, naming: Naming) -> Iterator[LineItem]:
    """Fields are positional for speed: a month has hundreds of thousands of lines."""
    tenants: dict[str, tuple[AccountKind, str, str, str]] = {}
    for day_ms, job_id, account, pool, flavor, micro_usd, gpu, cpu, memory in books.job_rows():
        if not micro_usd and not gpu and not cpu:
            continue
        tag = naming.tag_of(job_id)
        if account not in tenants:
            name = name_of(account)
            names = (naming.team_of(name), naming.project_of(name), name)
            tenants[account] = (kind_of(account), *names)
        kind, team, project, queue = tenants[account]
        fields = (
            day_ms,
            kind,
            pool,
            model_of(flavor),
            market_of(flavor),
            team,
            project,
            queue,
            tag.owner if job_id else OLDER,
            job_id,
            tag.name,
            tag.labels,
            micro_usd,
            gpu,
            cpu,
            memory,
        )
        yield fast_tuple(LineItem, fields)


def _of_pools(books: Books) -> Iterator[LineItem]:
    sums: dict[tuple[int, AccountKind, str, str], list[int]] = {}
    for row in books.hour_rows(POOL_KINDS):
        key = (row.hour_ms // DAY_MS * DAY_MS, row.kind, row.pool, row.flavor)
        cell = sums.setdefault(key, [0] * 4)
        amounts = (row.micro_usd, *row.volume[:3])
        sums[key] = [a + b for a, b in zip(cell, amounts, strict=True)]
    for (day_ms, kind, pool, flavor), (micro_usd, gpu, cpu, memory) in sorted(sums.items()):
        if not micro_usd and not gpu and not cpu:
            continue
        names = (kind, pool, model_of(flavor), market_of(flavor))
        yield fast_tuple(LineItem, (day_ms, *names, *NO_JOB, micro_usd, gpu, cpu, memory))
