"""Proves that the tables are what the log says, and makes them so.

The whole log is folded in memory by the same function that every append uses, in one consistent
moment of the database: a leader may go on writing meanwhile.
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
from bursar.store.append import Before, set_secrets_alive
from bursar.store.reader import PAGE
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
    """One row that is not what the log says; None where there is no row."""

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
        unlike = [f"{there!r} should be {said!r}" for there, said in pairs if there != said]
        return f"{self.table} {key}: {'; '.join(unlike)}"


def differences(store: SqlStore) -> list[RebuildDifference]:
    """Where the tables are not what replaying the log gives; empty when all is well."""
    with store.reading() as connection:
        rows = _replayed(connection)
        found: list[RebuildDifference] = []
        for table, said in _expected(rows).items():
            found += _unlike(table, _stored(connection, table), said)
        found += _unlike("secrets", _stored_alive(connection), _alive(connection, rows))
        return found


def rebuild(store: SqlStore, lead: LeaderLease) -> int:
    """Write the tables anew from the log, in one transaction; says how many events were replayed."""

    def rewrite(connection: Connection) -> int:
        rows = _replayed(connection)
        for table in (jobs, attempts, waits, job_counts):
            connection.execute(delete(table))
        Before(Rows()).write_changes(connection, rows)
        set_secrets_alive(
            connection, {key[0]: row[0] for key, row in _alive(connection, rows).items()}
        )
        return store_length(connection)

    return store.write(rewrite, lead)


def store_length(connection: Connection) -> int:
    """How many events there are, by their newest number."""
    newest = select(events.c.sequence).order_by(events.c.sequence.desc()).limit(1)
    return int(connection.scalar(newest) or 0)


# -- what the log says -------------------------------------------------------------------------------


def _replayed(connection: Connection) -> Rows:
    rows = Rows()
    owners = dict(_all(connection, origins.c.id, origins.c.owner))
    log = select(events.c.sequence, events.c.origin, events.c.body).order_by(events.c.sequence)
    with connection.execute(log.execution_options(yield_per=PAGE)) as found:
        for sequence, origin, body in found:
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
    """How many jobs of an origin still need its secrets, for those whose secrets are kept."""
    living = Counter(job.origin for job in rows.jobs.values() if job.state not in OVER)
    kept = connection.scalars(select(secrets.c.origin)).all()
    return {(origin,): (living[origin],) for origin in kept if living[origin]}


# -- what the tables say -----------------------------------------------------------------------------


def _stored(connection: Connection, table: str) -> Keyed:
    match table:
        case "jobs":
            found = map(job_facts, _all(connection, jobs))
            return {(job.id,): job for job in found}
        case "attempts":
            tried = map(AttemptFacts._make, _all(connection, attempts))
            return {(one.job_id, one.attempt): one for one in tried}
        case "waits":
            return {(one.dependency, one.job_id): () for one in _all(connection, waits)}
        case _:
            counted = _all(connection, job_counts)
            return {(one.queue, one.state): (one.jobs,) for one in counted if one.jobs}


def _stored_alive(connection: Connection) -> Keyed:
    found = _all(connection, secrets.c.origin, secrets.c.jobs_alive)
    return {(origin,): (alive,) for origin, alive in found}


def _all(connection: Connection, *columns: Any) -> Iterable[Any]:
    return connection.execute(select(*columns)).all()


def _unlike(table: str, stored: Keyed, said: Keyed) -> Iterator[RebuildDifference]:
    for key in sorted(stored.keys() | said.keys()):
        if stored.get(key) != said.get(key):
            yield RebuildDifference(
                table=table, key=key, in_table=stored.get(key), from_log=said.get(key)
            )
