"""Tables are created automatically; foreign databases and other versions are rejected."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import pytest
from sqlalchemy import Connection, inspect

from bursar.model.errors import EngineFault, UserError
from bursar.store import open_store, sql_store
from bursar.store.backends.sqlite import SqliteDatabase
from bursar.store.tables import schema
from tests.store import facts


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.real)])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("fresh_postgres"))
    return str(tmp_path / "deep" / "bursar.db")


def execute(address: str, statement: str) -> None:
    store = open_store(address)
    lead = store.try_lead("test")
    assert lead is not None
    store.write(lambda connection: connection.exec_driver_sql(statement), lead)
    store.close()


def test_a_new_database_has_the_tables_of_the_schema(address: str) -> None:
    store = open_store(address)
    with store.reading() as connection:
        inspector = inspect(connection)
        assert set(inspector.get_table_names()) == set(schema.metadata.tables)
        for name, table in schema.metadata.tables.items():
            assert {one["name"] for one in inspector.get_columns(name)} == set(table.c.keys())
            assert {one["name"] for one in inspector.get_indexes(name)} == {
                one.name for one in table.indexes
            }
    store.close()


def test_a_newer_version_is_rejected(address: str) -> None:
    execute(address, f"UPDATE {schema.VERSION_TABLE} SET version_num = '9'")
    for read_only in (False, True):
        with pytest.raises(UserError, match=rf"version 9; .* up to {schema.VERSION}\.") as refusal:
            open_store(address, read_only)
        assert refusal.value.code == "store-too-new"
        assert "newer Bursar" in refusal.value.fix


def test_a_version_before_the_first_release_is_rejected(address: str) -> None:
    execute(address, f"UPDATE {schema.VERSION_TABLE} SET version_num = '3'")
    for read_only in (False, True):
        with pytest.raises(
            UserError, match=rf"version 3, .* first release; .* reads version {schema.VERSION}\."
        ) as refusal:
            open_store(address, read_only)
        assert refusal.value.code == "store-too-old"
        assert "new state folder" in refusal.value.fix


def test_a_killed_creation_is_repeated(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = schema.metadata.create_all

    def killed(connection: Connection) -> None:
        real(connection)
        raise KeyboardInterrupt

    monkeypatch.setattr(schema.metadata, "create_all", killed)
    with pytest.raises(KeyboardInterrupt):
        open_store(address)
    monkeypatch.undo()
    with pytest.raises(UserError, match="no tables yet") as refusal:
        open_store(address, read_only=True)
    assert refusal.value.code == "store-is-empty"
    store = open_store(address)
    assert store.last_sequence() == 0
    store.close()


def test_a_new_database_can_be_opened_concurrently(address: str) -> None:
    stores: list[sql_store.SqlStore] = []
    threads = [
        threading.Thread(target=lambda: stores.append(open_store(address))) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores) == 6
    for store in stores:
        store.close()


def test_a_failed_creation_is_rolled_back(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(connection: Connection) -> None:
        connection.exec_driver_sql("CREATE TABLE half (a INTEGER)")
        connection.exec_driver_sql("INSERT INTO nowhere VALUES (1)")

    monkeypatch.setattr(schema.metadata, "create_all", fails)
    with pytest.raises(Exception, match="nowhere"):
        open_store(address)
    monkeypatch.undo()
    store = open_store(address)
    with store.reading() as connection, pytest.raises(Exception, match="half"):
        connection.exec_driver_sql("SELECT * FROM half")
    store.close()


# -- other files -------------------------------------------------------------------------------------


def test_a_text_file_is_rejected_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, and there are enough of them to fill a page\n" * 100)
    with pytest.raises(UserError, match="is not an SQLite database") as refusal:
        open_store(path)
    assert refusal.value.code == "not-our-store"
    assert path.read_text().startswith("these are my notes")
    assert not (tmp_path / "notes.txt.lead").exists()


def test_another_programs_database_is_rejected_and_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE jobs (a)")
    other.commit()
    other.close()
    before = path.read_bytes()
    with pytest.raises(UserError, match="of another program"):
        open_store(path)
    assert path.read_bytes() == before


def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    path.touch()
    store = open_store(f"sqlite:///{path}")
    assert store.last_sequence() == 0
    store.close()


def test_a_reader_does_not_create_a_database(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no database at"):
        open_store(tmp_path / "none.db", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_an_impossible_path_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be opened"):
        open_store(tmp_path / "file" / "bursar.db")
    with pytest.raises((UserError, EngineFault)):
        open_store(tmp_path)


def test_only_the_owner_may_read_the_file(tmp_path: Path) -> None:
    path = tmp_path / "bursar.db"
    store = open_store(path)
    lead = store.try_lead("a")
    assert lead is not None
    store.append(facts.new_jobs(1), lead)
    for file in tmp_path.iterdir():
        assert file.stat().st_mode & 0o077 == 0, file
    store.close()


def test_a_path_may_have_special_characters(tmp_path: Path) -> None:
    path = tmp_path / "a b?c#d%25é.db"
    store = open_store(path)
    database = SqliteDatabase(path)
    assert database.version() == schema.VERSION
    database.engine.dispose()
    store.close()


@pytest.mark.real
def test_another_programs_tables_are_rejected(fresh_postgres: str) -> None:
    import psycopg

    with psycopg.connect(fresh_postgres) as connection:
        connection.execute("CREATE TABLE jobs (a integer)")
    with pytest.raises(UserError, match="a table 'jobs' that is not Bursar's"):
        open_store(fresh_postgres)


def test_the_error_for_an_invalid_address_hides_the_password() -> None:
    with pytest.raises(UserError) as refusal:
        open_store("postgresql://ann:s3cret@host:port/x")
    assert "s3cret" not in str(refusal.value)


def test_the_fault_for_an_unreachable_server_hides_the_password(tmp_path: Path) -> None:
    with pytest.raises(EngineFault) as fault:
        open_store(f"postgresql://ann:s3cret@/x?host={tmp_path}")
    assert "s3cret" not in str(fault.value)
