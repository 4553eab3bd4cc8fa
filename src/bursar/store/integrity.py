"""Whether the database itself is undamaged; ``bursar doctor`` reports it."""

from __future__ import annotations

from sqlalchemy import Connection, func, select, text

from bursar.store.sql_store import SqlStore
from bursar.store.tables.schema import events, meta

MAX_PROBLEMS = 20


def integrity(store: SqlStore) -> list[str]:
    """Problems of the database and of the audit log; empty if there are none."""
    with store.reading() as connection:
        problems = [*_file_problems(connection), *_gaps(connection)]
    return [*problems, *store.verify_audit()]


def _file_problems(connection: Connection) -> list[str]:
    """Result of SQLite's check of its pages and indexes; PostgreSQL has its own tools."""
    if connection.dialect.name != "sqlite":
        return []
    lines = connection.scalars(text(f"PRAGMA integrity_check({MAX_PROBLEMS})")).all()
    return [f"the database file is damaged: {line}" for line in lines if line != "ok"]


def _gaps(connection: Connection) -> list[str]:
    query = select(func.count(), func.min(events.c.sequence), func.max(events.c.sequence))
    count, first, last = connection.execute(query.select_from(events)).one()
    expected = connection.execute(select(meta.c.last_sequence)).scalar_one()
    problems = []
    if count and (first != 1 or last != count):
        problems.append(f"the log has gaps: {count} events are numbered from {first} to {last}")
    if (last or 0) != expected:
        problems.append(f"the log ends at event {last or 0}, but {expected} were written")
    return problems
