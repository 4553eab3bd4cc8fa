"""Runs the steps of ``migrations/``. All of them in one transaction: killed half-way, nothing changed."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection

STEPS = Path(__file__).parent / "migrations"


def upgrade(connection: Connection, version: str = "head") -> None:
    """Bring the tables to a version; the connection must be the only one that writes."""
    with connection.begin():
        command.upgrade(settings(connection), version)


def settings(connection: Connection | None = None) -> Config:
    """How Alembic finds the steps and the connection; nothing is read from a file."""
    config = Config()
    config.set_main_option("script_location", str(STEPS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config
