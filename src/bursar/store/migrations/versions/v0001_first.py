"""The first tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None

WORDS = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    _create_the_log()
    _create_jobs()
    _create_attempts_and_counts()
    _create_the_rest()
    op.execute("INSERT INTO meta VALUES (1, 0, '', 0, '', 0, '" + "0" * 64 + "')")


def _create_the_log() -> None:
    op.create_table(
        "meta",
        sa.Column("id", sa.Integer(), nullable=False, primary_key=True, autoincrement=False),
        sa.Column("epoch", NUMBER, nullable=False),
        sa.Column("leader_address", WORDS, nullable=False),
        sa.Column("last_sequence", NUMBER, nullable=False),
        sa.Column("last_batch", sa.String(32), nullable=False),
        sa.Column("audit_number", NUMBER, nullable=False),
        sa.Column("audit_hash", sa.String(64), nullable=False),
        sa.CheckConstraint("id = 1", name="one_row"),
    )
    op.create_table(
        "events",
        sa.Column("sequence", NUMBER, nullable=False, primary_key=True, autoincrement=False),
        sa.Column("at_ms", NUMBER, nullable=False),
        sa.Column("type", sa.String(32), nullable=False),
        sa.Column("job_id", WORDS, nullable=True),
        sa.Column("origin", NUMBER, nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
    )
    op.create_index("events_of_job", "events", ["job_id", "sequence"])
    op.create_table(
        "origins",
        sa.Column("id", NUMBER, nullable=False, primary_key=True, autoincrement=False),
        sa.Column("owner", WORDS, nullable=False),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
    )
    op.create_table(
        "origin_labels",
        sa.Column("key", WORDS, nullable=False, primary_key=True),
        sa.Column("value", WORDS, nullable=False, primary_key=True),
        sa.Column("origin", NUMBER, nullable=False, primary_key=True, autoincrement=False),
    )
    op.create_table(
        "secrets",
        sa.Column("origin", NUMBER, nullable=False, primary_key=True, autoincrement=False),
        sa.Column("jobs_alive", NUMBER, nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
    )


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("sequence", NUMBER, nullable=False, primary_key=True, autoincrement=False),
        sa.Column("id", WORDS, nullable=False),
        sa.Column("name", WORDS, nullable=False),
        sa.Column("queue", WORDS, nullable=False),
        sa.Column("owner", WORDS, nullable=False),
        sa.Column("origin", NUMBER, nullable=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("priority", NUMBER, nullable=False),
        sa.Column("retries", NUMBER, nullable=False),
        sa.Column("attempt", NUMBER, nullable=False),
        sa.Column("failures", NUMBER, nullable=False),
        sa.Column("preemptions", NUMBER, nullable=False),
        sa.Column("submitted_at_ms", NUMBER, nullable=False),
        sa.Column("started_at_ms", NUMBER, nullable=True),
        sa.Column("ended_at_ms", NUMBER, nullable=True),
        sa.Column("exit_code", NUMBER, nullable=True),
        sa.Column("exit_signal", NUMBER, nullable=True),
        sa.Column("exit_detail", WORDS, nullable=False),
    )
    op.create_index("jobs_by_id", "jobs", ["id"], unique=True)
    op.create_index("jobs_by_origin", "jobs", ["origin"])
    op.create_index("jobs_by_owner", "jobs", ["owner", "submitted_at_ms", "id"])
    op.create_index("jobs_by_queue", "jobs", ["queue", "submitted_at_ms", "id"])
    op.create_index("jobs_by_state", "jobs", ["state", "submitted_at_ms", "id"])
    op.create_index("jobs_by_time", "jobs", ["submitted_at_ms", "id"])


def _create_attempts_and_counts() -> None:
    op.create_table(
        "attempts",
        sa.Column("job_id", WORDS, nullable=False, primary_key=True),
        sa.Column("attempt", NUMBER, nullable=False, primary_key=True, autoincrement=False),
        sa.Column("placement", sa.Text(), nullable=False),
        sa.Column("assigned_at_ms", NUMBER, nullable=False),
        sa.Column("started_at_ms", NUMBER, nullable=True),
        sa.Column("ended_at_ms", NUMBER, nullable=True),
        sa.Column("outcome", sa.String(32), nullable=False),
        sa.Column("exit_code", NUMBER, nullable=True),
        sa.Column("exit_signal", NUMBER, nullable=True),
        sa.Column("exit_detail", WORDS, nullable=False),
        sa.Column("saved_at_ms", NUMBER, nullable=True),
        sa.Column("ended_by", NUMBER, nullable=True),
    )
    op.create_index(
        "attempts_alive",
        "attempts",
        ["job_id"],
        sqlite_where=sa.text("outcome = ''"),
        postgresql_where=sa.text("outcome = ''"),
    )
    op.create_table(
        "waits",
        sa.Column("dependency", WORDS, nullable=False, primary_key=True),
        sa.Column("job_id", WORDS, nullable=False, primary_key=True),
    )
    op.create_index("waits_of_job", "waits", ["job_id"])
    op.create_table(
        "job_counts",
        sa.Column("queue", WORDS, nullable=False, primary_key=True),
        sa.Column("state", sa.String(16), nullable=False, primary_key=True),
        sa.Column("jobs", NUMBER, nullable=False),
    )


def _create_the_rest() -> None:
    op.create_table(
        "acknowledgements",
        sa.Column("tenant", WORDS, nullable=False, primary_key=True),
        sa.Column("key", WORDS, nullable=False, primary_key=True),
        sa.Column("request_sha256", WORDS, nullable=False),
        sa.Column("answer", WORDS, nullable=False),
        sa.Column("at_ms", NUMBER, nullable=False),
    )
    op.create_table(
        "tokens",
        sa.Column("id", WORDS, nullable=False, primary_key=True),
        sa.Column("body", sa.Text(), nullable=False),
    )
    op.create_table(
        "audit",
        sa.Column("number", NUMBER, nullable=False, primary_key=True, autoincrement=False),
        sa.Column("at_ms", NUMBER, nullable=False),
        sa.Column("user", WORDS, nullable=False),
        sa.Column("token_id", WORDS, nullable=False),
        sa.Column("action", WORDS, nullable=False),
        sa.Column("subject", WORDS, nullable=False),
        sa.Column("outcome", WORDS, nullable=False),
        sa.Column("detail", WORDS, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
    )
    op.create_table(
        "snapshots",
        sa.Column("sequence", NUMBER, nullable=False, primary_key=True, autoincrement=False),
        sa.Column("body", sa.Text(), nullable=False),
    )
