"""SQLite and PostgreSQL: what differs between the two databases."""
