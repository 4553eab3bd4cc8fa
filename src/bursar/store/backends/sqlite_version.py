"""Which versions of SQLite have the fault that can damage a database in WAL mode."""

from __future__ import annotations

import sqlite3

FIRST_WITH_FAULT = (3, 7, 0)
FIRST_WITHOUT_FAULT = (3, 51, 3)


def warning(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> str | None:
    """The WAL-reset fault, if this version has it, and why Bursar can live with it."""
    if not FIRST_WITH_FAULT <= version < FIRST_WITHOUT_FAULT:
        return None
    return (
        f"SQLite {_dotted(version)} can damage a database when two connections write or checkpoint "
        f"it at the same time (the WAL-reset fault of {_dotted(FIRST_WITH_FAULT)} up to 3.51.2). "
        "Bursar writes and checkpoints from one connection only, so it is not exposed; "
        "do not write to its database with other programs while it runs. "
        f"SQLite {_dotted(FIRST_WITHOUT_FAULT)} and newer do not have the fault."
    )


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(str(part) for part in version[:3])
