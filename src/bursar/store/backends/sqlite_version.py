"""Versions of SQLite with the WAL-reset bug, which can damage a database."""

from __future__ import annotations

import sqlite3

FIRST_WITH_BUG = (3, 7, 0)
FIRST_WITHOUT_BUG = (3, 51, 3)


def warning(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> str | None:
    """Warning if this version has the bug, or None."""
    if not FIRST_WITH_BUG <= version < FIRST_WITHOUT_BUG:
        return None
    return (
        f"SQLite {_dotted(version)} can damage a database when two connections write or checkpoint "
        f"it at the same time (the WAL-reset bug of {_dotted(FIRST_WITH_BUG)} up to 3.51.2). "
        "Bursar writes and checkpoints from one connection only, so it is not exposed; "
        "do not write to its database with other programs while it runs. "
        f"SQLite {_dotted(FIRST_WITHOUT_BUG)} and newer do not have the bug."
    )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version[:3])
