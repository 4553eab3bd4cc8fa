"""The tables, for both databases. ``migrations/`` builds the same ones step by step.

What is kept for good: ``events``, ``origins``, ``origin_labels``, ``secrets``, ``acknowledgements``,
``tokens``, ``audit``. What is kept while it is news: ``progress``. What follows from the events and can be
rebuilt: ``jobs``, ``attempts``, ``waits``, ``job_counts``. Enumerations are texts, moments are
milliseconds since the epoch.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
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

from bursar.store.encoding import storable

VERSION = 3
"""The newest step of ``migrations/`` that this program knows."""
VERSION_TABLE = "bursar_schema"

Number = BigInteger().with_variant(Integer(), "sqlite")
"""64 bits on both; SQLite wants this spelling for a key that is the row's own number."""


class Words(TypeDecorator[str]):
    """A text that somebody outside wrote, in a column of its own."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[str]:
        """Sorted by code point in both, whatever the language of the PostgreSQL server is."""
        return Text(collation="C" if dialect.name == "postgresql" else None)

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        return None if value is None else storable(value)


Json = Text
"""Our own JSON: ASCII only, so that any text fits into either database."""

metadata = MetaData()


def _required(name: str, kind: Any, **options: Any) -> Column[Any]:
    return Column(name, kind, nullable=False, **options)


meta = Table(
    "meta",
    metadata,
    _required("id", Integer, primary_key=True, autoincrement=False),
    _required("epoch", Number),
    _required("leader_address", Words),
    _required("last_sequence", Number),
    _required("last_batch", String(32)),
    _required("audit_number", Number),
    _required("audit_hash", String(64)),
    CheckConstraint("id = 1", name="one_row"),
)
"""One row. Every write changes it, and only if the epoch is still the writer's: that is the fence."""

events = Table(
    "events",
    metadata,
    _required("sequence", Number, primary_key=True, autoincrement=False),
    _required("at_ms", Number),
    _required("type", String(32)),
    Column("job_id", Words),
    Column("origin", Number),
    _required("body", Json),
)
"""``origin`` says under which number the origin of a submitted job is kept."""
Index("events_of_job", events.c.job_id, events.c.sequence)

origins = Table(
    "origins",
    metadata,
    _required("id", Number, primary_key=True, autoincrement=False),
    _required("owner", Words),
    _required("labels", Json),
    _required("body", Json),
)
"""The id is the sequence of the first job submitted with it; members of an array share one."""

origin_labels = Table(
    "origin_labels",
    metadata,
    _required("key", Words, primary_key=True),
    _required("value", Words, primary_key=True),
    _required("origin", Number, primary_key=True, autoincrement=False),
)

secrets = Table(
    "secrets",
    metadata,
    _required("origin", Number, primary_key=True, autoincrement=False),
    _required("jobs_alive", Number),
    _required("body", Json),
)
"""Gone with the last job of their origin, in the transaction in which it is over."""

jobs = Table(
    "jobs",
    metadata,
    _required("sequence", Number, primary_key=True, autoincrement=False),
    _required("id", Words),
    _required("name", Words),
    _required("queue", Words),
    _required("owner", Words),
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
    _required("exit_detail", Words),
)
"""The key is the sequence of the job's submission, where its spec is read."""
Index("jobs_by_id", jobs.c.id, unique=True)
Index("jobs_by_time", jobs.c.submitted_at_ms, jobs.c.id)
Index("jobs_by_queue", jobs.c.queue, jobs.c.submitted_at_ms, jobs.c.id)
Index("jobs_by_state", jobs.c.state, jobs.c.submitted_at_ms, jobs.c.id)
Index("jobs_by_owner", jobs.c.owner, jobs.c.submitted_at_ms, jobs.c.id)
Index("jobs_by_origin", jobs.c.origin)

attempts = Table(
    "attempts",
    metadata,
    _required("job_id", Words, primary_key=True),
    _required("attempt", Number, primary_key=True, autoincrement=False),
    _required("placement", Json),
    _required("assigned_at_ms", Number),
    Column("started_at_ms", Number),
    Column("ended_at_ms", Number),
    _required("outcome", String(32)),
    Column("exit_code", Number),
    Column("exit_signal", Number),
    _required("exit_detail", Words),
    Column("saved_at_ms", Number),
    Column("ended_by", Number),
    Column("saved_step", Number),
    Column("resumed_at_ms", Number),
    Column("resumed_step", Number),
)
"""``ended_by`` is the sequence of the event that ended it: the loss of a node names no job."""
Index(
    "attempts_alive",
    attempts.c.job_id,
    sqlite_where=text("outcome = ''"),
    postgresql_where=text("outcome = ''"),
)

waits = Table(
    "waits",
    metadata,
    _required("dependency", Words, primary_key=True),
    _required("job_id", Words, primary_key=True),
)
"""Which blocked job still waits for the success of which other."""
Index("waits_of_job", waits.c.job_id)

job_counts = Table(
    "job_counts",
    metadata,
    _required("queue", Words, primary_key=True),
    _required("state", String(16), primary_key=True),
    _required("jobs", Number),
)

progress = Table(
    "progress",
    metadata,
    _required("job_id", Words, primary_key=True),
    _required("attempt", Number),
    _required("step", Number),
    Column("total", Number),
    _required("at_ms", Number),
    _required("since_step", Number),
    _required("since_ms", Number),
)
"""How far jobs said last that they have come. In no event: it may be lost, and the next word renews it."""

acknowledgements = Table(
    "acknowledgements",
    metadata,
    _required("tenant", Words, primary_key=True),
    _required("key", Words, primary_key=True),
    _required("request_sha256", Words),
    _required("answer", Words),
    _required("at_ms", Number),
)

tokens = Table(
    "tokens",
    metadata,
    _required("id", Words, primary_key=True),
    _required("body", Json),
)

audit = Table(
    "audit",
    metadata,
    _required("number", Number, primary_key=True, autoincrement=False),
    _required("at_ms", Number),
    _required("user", Words),
    _required("token_id", Words),
    _required("action", Words),
    _required("subject", Words),
    _required("outcome", Words),
    _required("detail", Words),
    _required("hash", String(64)),
)

snapshots = Table(
    "snapshots",
    metadata,
    _required("sequence", Number, primary_key=True, autoincrement=False),
    _required("body", Json),
)
