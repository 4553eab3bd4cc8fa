"""The event log and its tables on SQLite or PostgreSQL (``ports.Store``).

SQLAlchemy is imported only when a store is opened: other commands start faster without it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bursar.store.sql_store import SqlStore

POSTGRES_SCHEMES = ("postgresql:", "postgres:", "postgresql+psycopg:")
SQLITE_SCHEME = "sqlite:///"


def open_store(url_or_path: str | Path, read_only: bool = False) -> SqlStore:
    """Opens a store and creates its tables if it is new. A path means SQLite.

    With ``read_only`` nothing is created and the store cannot lead.
    """
    address = str(url_or_path)
    if address.startswith(POSTGRES_SCHEMES):
        from bursar.store.backends.postgres import open_postgres

        return open_postgres(address, read_only=read_only)
    from bursar.store.backends.sqlite import open_sqlite

    return open_sqlite(Path(address.removeprefix(SQLITE_SCHEME)), read_only=read_only)


def sqlite_warning() -> str | None:
    """Warning about this machine's SQLite version, or None."""
    from bursar.store.backends.sqlite_version import warning

    return warning()
