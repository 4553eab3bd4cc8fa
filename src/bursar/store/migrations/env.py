"""What Alembic runs for each migration: on the connection, and in the transaction, that it is given."""

from __future__ import annotations

from alembic import context

from bursar.store.schema import VERSION_TABLE, metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
)
context.run_migrations()
