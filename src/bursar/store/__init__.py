"""One durable log with its tables, on SQLite or PostgreSQL, behind ``ports.Store``.

Nothing of SQLAlchemy is imported until a store is opened, so that a command that needs none starts
quickly.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bursar.store.sql_store import SqlStore

POSTGRES_SCHEMES = ("postgresql:", "postgres:", "postgresql+psycopg:")
SQLITE_SCHEME = "sqlite:///"


def open_store(url_or_path: str | Path, read_only: bool = False) -> SqlStore:
    """Open a store, creating or migrating it as needed: a path is SQLite, a URL says what it is.

    With ``read_only`` nothing is created, migrated or led.
    """
    where = str(url_or_path)
    if where.startswith(POSTGRES_SCHEMES):
        from bursar.store.backends.postgres import open_postgres

        return open_postgres(where, read_only=read_only)
    from bursar.store.backends.sqlite import open_sqlite

    return open_sqlite(Path(where.removeprefix(SQLITE_SCHEME)), read_only=read_only)


def sqlite_warning() -> str | None:
    """What the operator should know about this machine's SQLite; None when there is nothing."""
    from bursar.store.backends.sqlite_version import warning

    return warning()
