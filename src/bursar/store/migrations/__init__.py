"""The steps by which a database of any older version becomes today's. Alembic runs them."""
