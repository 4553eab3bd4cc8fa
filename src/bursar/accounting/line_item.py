"""The books as a flat list: one line for each day, job, place and kind, and what nobody used beside them.

What is exported is made of these. Their money is all the money of the days in question.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bursar.accounting.axis import OLDER, Naming
from bursar.accounting.books import Books, market_of, model_of
from bursar.accounting.entry import OF_QUEUES, AccountKind
from bursar.model.units import DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class LineItem:
    """So much money on one day. Empty names where nobody's job is meant."""

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


def line_items(books: Books, naming: Naming) -> Iterator[LineItem]:
    """Give it a copy of the days in question: jobs first, then capacity that they did not use."""
    yield from _of_jobs(books, naming)
    yield from _of_places(books)


def _of_jobs(books: Books, naming: Naming) -> Iterator[LineItem]:
    for row in books.job_rows():
        if not row.micro_usd and not row.gpu_milli_ms and not row.cpu_milli_ms:
            continue
        tag = naming.tag_of(row.job_id)
        yield LineItem(
            day_ms=row.day_ms,
            kind=row.kind,
            pool=row.pool,
            gpu_model=model_of(row.flavor),
            market=market_of(row.flavor),
            team=naming.team_of(row.queue),
            project=naming.project_of(row.queue),
            queue=row.queue,
            user=tag.owner if row.job_id else OLDER,
            job_id=row.job_id,
            job_name=tag.name,
            labels=tag.labels,
            micro_usd=row.micro_usd,
            gpu_milli_ms=row.gpu_milli_ms,
            cpu_milli_ms=row.cpu_milli_ms,
            memory_mib_ms=row.memory_mib_ms,
        )


def _of_places(books: Books) -> Iterator[LineItem]:
    found: dict[tuple[int, AccountKind, str, str], list[int]] = {}
    for row in books.hour_rows():
        if row.kind in OF_QUEUES or row.kind is AccountKind.CAPACITY:
            continue
        key = (row.hour_ms // DAY_MS * DAY_MS, row.kind, row.pool, row.flavor)
        cell = found.setdefault(key, [0] * 4)
        amounts = (row.micro_usd, *row.volume[:3])
        found[key] = [a + b for a, b in zip(cell, amounts, strict=True)]
    for (day_ms, kind, pool, flavor), (micro_usd, gpu, cpu, memory) in sorted(found.items()):
        if not micro_usd and not gpu and not cpu:
            continue
        yield LineItem(
            day_ms=day_ms,
            kind=kind,
            pool=pool,
            gpu_model=model_of(flavor),
            market=market_of(flavor),
            team="",
            project="",
            queue="",
            user="",
            job_id="",
            job_name="",
            labels={},
            micro_usd=micro_usd,
            gpu_milli_ms=gpu,
            cpu_milli_ms=cpu,
            memory_mib_ms=memory,
        )
