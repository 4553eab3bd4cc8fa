"""How far jobs have come. Jobs from before have said it to nobody, so nothing is filled in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"

WORDS = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "progress",
        sa.Column("job_id", WORDS, nullable=False, primary_key=True),
        sa.Column("attempt", NUMBER, nullable=False),
        sa.Column("step", NUMBER, nullable=False),
        sa.Column("total", NUMBER, nullable=True),
        sa.Column("at_ms", NUMBER, nullable=False),
        sa.Column("since_step", NUMBER, nullable=False),
        sa.Column("since_ms", NUMBER, nullable=False),
    )
