"""``bursar doctor`` reports a damaged database and how to fix it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from bursar.cli.commands.operations.doctor_checks import store
from bursar.store import open_store
from tests.store import facts


def database(folder: Path) -> Path:
    path = folder / "bursar.db"
    opened = open_store(path)
    lead = opened.try_lead("here")
    assert lead is not None
    opened.append(facts.new_jobs(500), lead)
    opened.close()
    return path


def test_an_intact_database_is_ok(tmp_path: Path) -> None:
    database(tmp_path)
    (check,) = store(str(tmp_path), None)
    assert (check.check, check.result, check.fix) == ("store: integrity", "ok", "")


def test_a_database_path_overrides_the_state_folder(tmp_path: Path) -> None:
    path = database(tmp_path)
    (check,) = store(str(tmp_path / "elsewhere"), str(path))
    assert check.result == "ok"


def test_without_a_database_there_is_no_check(tmp_path: Path) -> None:
    assert list(store(str(tmp_path), None)) == []


def test_a_gap_in_the_log_is_a_failure(tmp_path: Path) -> None:
    path = database(tmp_path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM events WHERE sequence = 7")
    (check,) = store(str(tmp_path), None)
    assert check.result == "fail" and "restore a backup" in check.fix
    assert check.found == ("1 problem; the log has gaps: 499 events are numbered from 1 to 500")


def test_damaged_pages_are_a_failure(tmp_path: Path) -> None:
    path = database(tmp_path)
    with path.open("r+b") as file:
        file.seek(3 * 4_096)
        file.write(b"\xff" * 40 * 4_096)
    (check,) = store(str(tmp_path), None)
    assert check.result == "fail" and "damaged" in check.found
