"""The tables, for both databases.

Primary data: ``events``, ``origins``, ``origin_labels``, ``secrets``, ``acknowledgements``, ``tokens``,
``audit``. Latest values, which may be lost: ``progress``. Projections of the events, which can be
rebuilt: ``jobs``, ``attempts``, ``waits``, ``job_counts``. Enumerations are texts, times are
milliseconds since the epoch.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    Dialect,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    text,
)
from sqlalchemy.types import TypeEngine

from bursar.store.tables.codec import storable

VERSION = 4
"""Version of the tables and of the JSON in them; other versions are rejected."""
VERSION_TABLE = "bursar_schema"

Number = BigInteger().with_variant(Integer(), "sqlite")
"""64 bits in both databases; SQLite requires INTEGER for a row id key."""


class UserText(TypeDecorator[str]):
    """A text from outside, made ``storable``."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[str]:
        """Sorts by code point in both databases, regardless of PostgreSQL's locale."""
        return Text(collation="C" if dialect.name == "postgresql" else None)

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else storable(value)


Json = Text
"""JSON that we write. NUL is escaped in it, so both databases accept any text."""

metadata = MetaData()


def _required(name: str, kind: Any, **options: Any) -> Column[Any]:
    return Column(name, kind, nullable=False, **options)


version = Table(VERSION_TABLE, metadata, Column("version_num", String(32), primary_key=True))

meta = Table(
    "meta",
    metadata,
    _required("id", Integer, primary_key=True, autoincrement=False),
    _required("epoch", Number),
    _required("leader_address", UserText),
    _required("last_sequence", Number),
    _required("last_batch", String(32)),
    _required("audit_number", Number),
    _required("audit_hash", String(64)),
    CheckConstraint("id = 1", name="one_row"),
)
"""One row. Every write updates it on condition that the epoch is unchanged: the fence."""

events = Table(
    "events",
    metadata,
    _required("sequence", Number, primary_key=True, autoincrement=False),
    _required("at_ms", Number),
    _required("type", String(32)),
    Column("job_id", UserText),
    Column("origin", Number),
    _required("body", Json),
)
"""``origin`` is the key of a submitted job's origin."""
Index("events_of_job", events.c.job_id, events.c.sequence)

origins = Table(
    "origins",
    metadata,
    _required("id", Number, primary_key=True, autoincrement=False),
    _required("owner", UserText),
    _required("labels", Json),
    _required("body", Json),
)
"""The id is the sequence of the first job submitted with it; members of an array share one."""

origin_labels = Table(
    "origin_labels",
    metadata,
    _required("key", UserText, primary_key=True),
    _required("value", UserText, primary_key=True),
    _required("origin", Number, primary_key=True, autoincrement=False),
)

secrets = Table(
    "secrets",
    metadata,
    _required("origin", Number, primary_key=True, autoincrement=False),
    _required("jobs_alive", Number),
    _required("body", Json),
)
"""Deleted in the transaction that ends the last job of their origin."""

jobs = Table(
    "jobs",
    metadata,
    _required("sequence", Number, primary_key=True, autoincrement=False),
    _required("id", UserText),
    _required("name", UserText),
    _required("queue", UserText),
    _required("owner", UserText),
    Column("origin", Number),
    _required("state", String(16)),
    _required("priority", Number),
    _required("retries", Number),
    _required("attempt", Number),
    _required("failures", Number),
    _required("preemptions", Number),
    _required("submitted_at_ms", Number),
    Column("started_at_ms", Number),
    Column("ended_at_ms", Number),
    Column("exit_code", Number),
    Column("exit_signal", Number),
    _required("exit_detail", UserText),
)
"""The key is the sequence of the ``JobSubmitted`` event, which has the spec."""
Index("jobs_by_id", jobs.c.id, unique=True)
Index("jobs_by_time", jobs.c.submitted_at_ms, jobs.c.id)
Index("jobs_by_queue", jobs.c.queue, jobs.c.submitted_at_ms, jobs.c.id)
Index("jobs_by_state", jobs.c.state, jobs.c.submitted_at_ms, jobs.c.id)
Index("jobs_by_owner", jobs.c.owner, jobs.c.submitted_at_ms, jobs.c.id)
Index("jobs_by_origin", jobs.c.origin)

attempts = Table(
    "attempts",
    metadata,
    _required("job_id", UserText, primary_key=True),
    _required("attempt", Number, primary_key=True, autoincrement=False),
    _required("placement", Json),
    _required("assigned_at_ms", Number),
    Column("started_at_ms", Number),
    Column("ended_at_ms", Number),
    _required("outcome", String(32)),
    Column("exit_code", Number),
    Column("exit_signal", Number),
    _required("exit_detail", UserText),
    Column("saved_at_ms", Number),
    Column("ended_by", Number),
    Column("saved_step", Number),
    Column("resumed_at_ms", Number),
    Column("resumed_step", Number),
)
"""``ended_by`` is the sequence of the ending event: ``NodeLost`` names no job."""
Index(
    "attempts_alive",
    attempts.c.job_id,
    sqlite_where=text("outcome = ''"),
    postgresql_where=text("outcome = ''"),
)

waits = Table(
    "waits",
    metadata,
    _required("dependency", UserText, primary_key=True),
    _required("job_id", UserText, primary_key=True),
)
"""Unmet dependencies of blocked jobs."""
Index("waits_of_job", waits.c.job_id)

job_counts = Table(
    "job_counts",
    metadata,
    _required("queue", UserText, primary_key=True),
    _required("state", String(16), primary_key=True),
    _required("jobs", Number),
)

progress = Table(
    "progress",
    metadata,
    _required("job_id", UserText, primary_key=True),
    _required("attempt", Number),
    _required("step", Number),
    Column("total", Number),
    _required("at_ms", Number),
    _required("since_step", Number),
    _required("since_ms", Number),
)
"""Latest reported progress. Not in the log: it may be lost until the next report."""

acknowledgements = Table(
    "acknowledgements",
    metadata,
    _required("tenant", UserText, primary_key=True),
    _required("key", UserText, primary_key=True),
    _required("request_sha256", UserText),
    _required("answer", UserText),
    _required("at_ms", Number),
)

tokens = Table(
    "tokens",
    metadata,
    _required("id", UserText, primary_key=True),
    _required("body", Json),
)

audit = Table(
    "audit",
    metadata,
    _required("number", Number, primary_key=True, autoincrement=False),
    _required("at_ms", Number),
    _required("user", UserText),
    _required("token_id", UserText),
    _required("action", UserText),
    _required("subject", UserText),
    _required("outcome", UserText),
    _required("detail", UserText),
    _required("hash", String(64)),
)

snapshots = Table(
    "snapshots",
    metadata,
    _required("sequence", Number, primary_key=True, autoincrement=False),
    _required("body", Json),
)


def create_tables(connection: Connection) -> None:
    """Creates all tables and their initial rows in one transaction."""
    with connection.begin():
        metadata.create_all(connection)
        first = {"id": 1, "epoch": 0, "leader_address": "", "last_sequence": 0}
        first |= {"last_batch": "", "audit_number": 0, "audit_hash": "0" * 64}
        connection.execute(meta.insert().values(first))
        connection.execute(version.insert().values(version_num=str(VERSION)))
