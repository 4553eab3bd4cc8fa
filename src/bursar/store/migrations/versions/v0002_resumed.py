"""What attempts say of their steps. Attempts from before have said nothing, so nothing is filled in."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"

NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    for name in ("saved_step", "resumed_at_ms", "resumed_step"):
        op.add_column("attempts", sa.Column(name, NUMBER, nullable=True))
