from tests.store.fixtures import fresh_postgres, postgres_server

__all__ = ["fresh_postgres", "postgres_server"]
