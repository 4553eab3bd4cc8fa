"""Databases for the tests of stores."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.store.private_postgres import ABSENT, PrivatePostgres, find_binaries, private_postgres


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PrivatePostgres]:
    """One server for the test run; tests that stop it must restart it."""
    binaries = find_binaries()
    if binaries is None:
        pytest.skip(ABSENT)
    with private_postgres(binaries) as server:
        yield server


@pytest.fixture
def fresh_postgres(postgres_server: PrivatePostgres) -> str:
    """The address of an empty database."""
    return postgres_server.new_database()
