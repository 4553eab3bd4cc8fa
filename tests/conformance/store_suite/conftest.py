"""Runs the suite once for each store backend."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bursar.ports import LeaderLease
from bursar.store import open_store
from bursar.store.sql_store import SqlStore
from tests.store.fixtures import fresh_postgres, postgres_server

__all__ = ["fresh_postgres", "postgres_server"]

Open = Callable[..., SqlStore]


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def open_again(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    """Opens one new database repeatedly; closes every store after the test."""
    address = str(tmp_path / "bursar.db")
    if request.param == "postgres":
        address = request.getfixturevalue("fresh_postgres")
    opened: list[SqlStore] = []

    def open_one(read_only: bool = False) -> SqlStore:
        opened.append(open_store(address, read_only))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_again: Open) -> SqlStore:
    return open_again()


@pytest.fixture
def lead(store: SqlStore) -> LeaderLease:
    lead = store.try_lead("http://here")
    assert lead is not None
    return lead
