"""Whether the database itself is undamaged; ``bursar doctor`` reports it."""

from __future__ import annotations

from sqlalchemy import Connection, func, select, text

from bursar.store.sql_store import SqlStore
from bursar.store.tables.schema import events, meta

MOST_PROBLEMS = 20


def integrity(store: SqlStore) -> list[str]:
    """Everything that is wrong, in words; empty when nothing is."""
    with store.reading() as connection:
        found = _file_problems(connection)
        found += _gaps(connection)
    return [*found, *store.verify_audit()]


def _file_problems(connection: Connection) -> list[str]:
    """SQLite checks every page and index itself; PostgreSQL has tools of its own for that."""
    if connection.dialect.name != "sqlite":
        return []
    said = connection.scalars(text(f"PRAGMA integrity_check({MOST_PROBLEMS})")).all()
    return [f"the database file is damaged: {one}" for one in said if one != "ok"]


def _gaps(connection: Connection) -> list[str]:
    wanted = select(func.count(), func.min(events.c.sequence), func.max(events.c.sequence))
    count, first, last = connection.execute(wanted.select_from(events)).one()
    promised = connection.execute(select(meta.c.last_sequence)).scalar_one()
    problems = []
    if count and (first != 1 or last != count):
        problems.append(f"the log has gaps: {count} events are numbered from {first} to {last}")
    if (last or 0) != promised:
        problems.append(f"the log ends at event {last or 0}, but {promised} were written")
    return problems
