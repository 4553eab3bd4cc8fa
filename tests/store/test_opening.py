"""Opening a store imports only what it needs, and returns a ``ports.Store``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bursar.ports import LeaderLease, Store
from bursar.store import open_store

LOADED = """
import sys
import bursar.store
print([name for name in ("sqlalchemy", "psycopg") if name in sys.modules])
store = bursar.store.open_store(sys.argv[1])
print([name for name in ("psycopg",) if name in sys.modules])
store.close()
"""


def test_drivers_are_imported_only_when_needed(tmp_path: Path) -> None:
    path = tmp_path / "bursar.db"
    open_store(path).close()
    argv = [sys.executable, "-c", LOADED, str(path)]
    output = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
    assert output.splitlines() == ["[]", "[]"]


def test_it_implements_the_port(tmp_path: Path) -> None:
    store: Store = open_store(tmp_path / "bursar.db")
    lead: LeaderLease | None = store.try_lead("here")
    assert lead is not None and lead.epoch == 1
    store.close()
