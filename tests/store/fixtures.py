"""Where the tests of stores get their databases from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store.private_postgres import ABSENT, PrivatePostgres, find_binaries, private_postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PrivatePostgres]:
    """One server for the run; tests that stop it start it again."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip(ABSENT)
    with private_postgres(binaries) as server:
        yield server


@pytest.fixture
def fresh_postgres(postgres_server: PrivatePostgres) -> str:
    """The address of an empty database."""
    return postgres_server.new_database()
