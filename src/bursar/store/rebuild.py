"""Replays the log to verify the projected tables, or to rebuild them.

The log is folded in memory by the function that every append uses, on one consistent snapshot of the
database: a leader may write at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, select

from bursar.codec import event_of
from bursar.model.jobs.job import OVER
from bursar.ports import LeaderLease
from bursar.store.append import StoredRows, set_secrets_alive
from bursar.store.reader import PAGE_ROWS
from bursar.store.sql_store import SqlStore
from bursar.store.tables.projection import NO_ORIGIN, AttemptFacts, OriginRef, Rows, fold
from bursar.store.tables.schema import (
    attempts,
    events,
    job_counts,
    jobs,
    origins,
    secrets,
    waits,
)
from bursar.store.tables.touched_rows import job_facts

Keyed = Mapping[tuple[Any, ...], tuple[Any, ...]]
"""The rows of a table by their keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildDifference:
    """A row that differs from the replayed log; None where there is no row."""

    table: str
    key: tuple[Any, ...]
    in_table: tuple[Any, ...] | None
    from_log: tuple[Any, ...] | None

    def __str__(self) -> str:
        key = ", ".join(str(part) for part in self.key)
        if self.in_table is None:
            return f"{self.table} {key}: the row is missing"
        if self.from_log is None:
            return f"{self.table} {key}: no event led to this row"
        pairs = zip(self.in_table, self.from_log, strict=True)
        wrong = [
            f"{stored!r} should be {replayed!r}" for stored, replayed in pairs if stored != replayed
        ]
        return f"{self.table} {key}: {'; '.join(wrong)}"


def differences(store: SqlStore) -> list[RebuildDifference]:
    """Rows that differ from the replayed log; empty if there are none."""
    with store.reading() as connection:
        rows = _replayed(connection)
        result: list[RebuildDifference] = []
        for table, replayed in _expected(rows).items():
            result += _compare(table, _stored(connection, table), replayed)
        result += _compare("secrets", _stored_alive(connection), _alive(connection, rows))
        return result


def rebuild(store: SqlStore, lead: LeaderLease) -> int:
    """Rewrites the tables from the log in one transaction; returns the number of events."""

    def rewrite(connection: Connection) -> int:
        rows = _replayed(connection)
        for table in (jobs, attempts, waits, job_counts):
            connection.execute(delete(table))
        StoredRows(Rows()).write_changes(connection, rows)
        set_secrets_alive(
            connection, {key[0]: row[0] for key, row in _alive(connection, rows).items()}
        )
        return _log_length(connection)

    return store.write(rewrite, lead)


def _log_length(connection: Connection) -> int:
    newest = select(events.c.sequence).order_by(events.c.sequence.desc()).limit(1)
    return int(connection.scalar(newest) or 0)


# -- rows of the replayed log ----------------------------------------------------------------------


def _replayed(connection: Connection) -> Rows:
    rows = Rows()
    owners = dict(_all(connection, origins.c.id, origins.c.owner))
    log = select(events.c.sequence, events.c.origin, events.c.body).order_by(events.c.sequence)
    with connection.execute(log.execution_options(yield_per=PAGE_ROWS)) as recorded:
        for sequence, origin, body in recorded:
            ref = NO_ORIGIN if origin is None else OriginRef(origin, owners.get(origin, ""))
            fold(rows, sequence, event_of(body), ref)
    return rows


def _expected(rows: Rows) -> dict[str, Keyed]:
    counts = Counter((job.queue, job.state) for job in rows.jobs.values())
    return {
        "jobs": {(job.id,): job for job in rows.jobs.values()},
        "attempts": dict(rows.attempts),
        "waits": dict.fromkeys(rows.waits(), ()),
        "job_counts": {key: (count,) for key, count in counts.items()},
    }


def _alive(connection: Connection, rows: Rows) -> Keyed:
    """Number of jobs that still need the secrets of each origin that has some."""
    living = Counter(job.origin for job in rows.jobs.values() if job.state not in OVER)
    stored = connection.scalars(select(secrets.c.origin)).all()
    return {(origin,): (living[origin],) for origin in stored if living[origin]}


# -- rows in the tables ----------------------------------------------------------------------------


def _stored(connection: Connection, table: str) -> Keyed:
    match table:
        case "jobs":
            return {(job.id,): job for job in map(job_facts, _all(connection, jobs))}
        case "attempts":
            facts = map(AttemptFacts._make, _all(connection, attempts))
            return {(one.job_id, one.attempt): one for one in facts}
        case "waits":
            return {(one.dependency, one.job_id): () for one in _all(connection, waits)}
        case _:
            counts = _all(connection, job_counts)
            return {(one.queue, one.state): (one.jobs,) for one in counts if one.jobs}


def _stored_alive(connection: Connection) -> Keyed:
    rows = _all(connection, secrets.c.origin, secrets.c.jobs_alive)
    return {(origin,): (alive,) for origin, alive in rows}


def _all(connection: Connection, *columns: Any) -> Iterable[Any]:
    return connection.execute(select(*columns)).all()


def _compare(table: str, stored: Keyed, replayed: Keyed) -> Iterator[RebuildDifference]:
    for key in sorted(stored.keys() | replayed.keys()):
        if stored.get(key) != replayed.get(key):
            yield RebuildDifference(
                table=table, key=key, in_table=stored.get(key), from_log=replayed.get(key)
            )
