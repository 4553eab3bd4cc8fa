"""Tables are created by themselves; what is not ours or of another version is refused."""

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
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("fresh_postgres"))
    return str(tmp_path / "deep" / "bursar.db")


def spoil(where: str, statement: str) -> None:
    store = open_store(where)
    lead = store.try_lead("spoiler")
    assert lead is not None
    store.write(lambda connection: connection.exec_driver_sql(statement), lead)
    store.close()


def test_a_new_database_has_the_tables_of_the_schema(where: str) -> None:
    store = open_store(where)
    with store.reading() as connection:
        found = inspect(connection)
        assert set(found.get_table_names()) == set(schema.metadata.tables)
        for name, table in schema.metadata.tables.items():
            assert {one["name"] for one in found.get_columns(name)} == set(table.c.keys())
            assert {one["name"] for one in found.get_indexes(name)} == {
                one.name for one in table.indexes
            }
    store.close()


def test_a_database_from_the_future_is_refused(where: str) -> None:
    spoil(where, f"UPDATE {schema.VERSION_TABLE} SET version_num = '9'")
    for read_only in (False, True):
        with pytest.raises(UserError, match=rf"version 9; .* up to {schema.VERSION}\.") as refusal:
            open_store(where, read_only)
        assert refusal.value.code == "store-too-new"
        assert "newer Bursar" in refusal.value.fix


def test_a_database_from_before_the_first_release_is_refused(where: str) -> None:
    spoil(where, f"UPDATE {schema.VERSION_TABLE} SET version_num = '3'")
    for read_only in (False, True):
        with pytest.raises(
            UserError, match=rf"version 3, .* first release; .* reads version {schema.VERSION}\."
        ) as refusal:
            open_store(where, read_only)
        assert refusal.value.code == "store-too-old"
        assert "new state folder" in refusal.value.fix


def test_a_creation_that_was_killed_is_begun_again(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = schema.metadata.create_all

    def killed(connection: Connection) -> None:
        real(connection)
        raise KeyboardInterrupt

    monkeypatch.setattr(schema.metadata, "create_all", killed)
    with pytest.raises(KeyboardInterrupt):
        open_store(where)
    monkeypatch.undo()
    with pytest.raises(UserError, match="no tables yet") as refusal:
        open_store(where, read_only=True)
    assert refusal.value.code == "store-is-empty"
    store = open_store(where)
    assert store.last_sequence() == 0
    store.close()


def test_many_may_open_a_new_database_at_once(where: str) -> None:
    stores: list[sql_store.SqlStore] = []
    threads = [threading.Thread(target=lambda: stores.append(open_store(where))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores) == 6
    for store in stores:
        store.close()


def test_a_creation_that_fails_leaves_nothing(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(connection: Connection) -> None:
        connection.exec_driver_sql("CREATE TABLE half (a INTEGER)")
        connection.exec_driver_sql("INSERT INTO nowhere VALUES (1)")

    monkeypatch.setattr(schema.metadata, "create_all", fails)
    with pytest.raises(Exception, match="nowhere"):
        open_store(where)
    monkeypatch.undo()
    store = open_store(where)
    with store.reading() as connection, pytest.raises(Exception, match="half"):
        connection.exec_driver_sql("SELECT * FROM half")
    store.close()


# -- files that are something else -------------------------------------------------------------------


def test_a_text_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, and there are enough of them to fill a page\n" * 100)
    with pytest.raises(UserError, match="is not an SQLite database") as refusal:
        open_store(path)
    assert refusal.value.code == "not-our-store"
    assert path.read_text().startswith("these are my notes")
    assert not (tmp_path / "notes.txt.lead").exists()


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
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


def test_what_is_not_there_is_not_created_for_a_reader(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no database at"):
        open_store(tmp_path / "none.db", read_only=True)
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_cannot_be_is_refused(tmp_path: Path) -> None:
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


def test_odd_characters_in_a_path_are_no_trouble(tmp_path: Path) -> None:
    path = tmp_path / "a b?c#d%25é.db"
    store = open_store(path)
    found = SqliteDatabase(path)
    assert found.version() == schema.VERSION
    found.engine.dispose()
    store.close()


@pytest.mark.real
def test_another_programs_tables_are_refused(fresh_postgres: str) -> None:
    import psycopg

    with psycopg.connect(fresh_postgres) as connection:
        connection.execute("CREATE TABLE jobs (a integer)")
    with pytest.raises(UserError, match="a table 'jobs' that is not Bursar's"):
        open_store(fresh_postgres)


def test_an_address_that_makes_no_sense_is_refused_without_its_password() -> None:
    with pytest.raises(UserError) as refusal:
        open_store("postgresql://ann:s3cret@host:port/x")
    assert "s3cret" not in str(refusal.value)


def test_a_server_that_is_not_there_is_a_fault_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(EngineFault) as fault:
        open_store(f"postgresql://ann:s3cret@/x?host={tmp_path}")
    assert "s3cret" not in str(fault.value)
