"""The event log and its tables on SQLite or PostgreSQL (``ports.Store``).

SQLAlchemy is imported only when a store is opened: other commands start faster without it.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bursar.store.sql_store import SqlStore

POSTGRES_SCHEMES = ("postgresql:", "postgres:", "postgresql+psycopg:")
SQLITE_SCHEME = "sqlite:///"
FIRST_WITH_WAL_RESET_BUG = (3, 7, 0)
FIRST_WITHOUT_BUG = (3, 51, 3)


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


def sqlite_warning(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> str | None:
    """Warning if a version of SQLite has the WAL-reset bug, which can damage a database."""
    if not FIRST_WITH_WAL_RESET_BUG <= version < FIRST_WITHOUT_BUG:
        return None
    first, fixed = (
        ".".join(map(str, one)) for one in (FIRST_WITH_WAL_RESET_BUG, FIRST_WITHOUT_BUG)
    )
    return (
        f"SQLite {'.'.join(map(str, version[:3]))} can damage a database when two connections write or "
        f"checkpoint it at the same time (the WAL-reset bug of {first} up to 3.51.2). "
        "Bursar writes and checkpoints from one connection only, so it is not exposed; "
        "do not write to its database with other programs while it runs. "
        f"SQLite {fixed} and newer do not have the bug."
    )
