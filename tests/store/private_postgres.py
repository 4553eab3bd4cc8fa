"""A PostgreSQL of one's own for a test run: a fresh cluster, a Unix socket, an unprivileged user."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

ABSENT = (
    "no PostgreSQL binaries (initdb, pg_ctl) were found: 'tools/install-postgres' installs them"
)
SETTINGS = "-c listen_addresses='' -c unix_socket_directories='{folder}' -c max_connections=60"


def find_binaries() -> Path | None:
    """The newest folder with initdb: Debian keeps them off the PATH."""
    on_path = shutil.which("initdb")
    places = [Path(on_path).parent] if on_path else []
    places += sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda place: int(place.parent.name)
    )
    return next((place for place in reversed(places) if (place / "initdb").exists()), None)


class PrivatePostgres:
    """One server; it may be stopped as rudely as one likes."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.binaries = binaries
        self.folder = folder
        self._numbers = count(1)
        self._account = _unprivileged()
        if self._account is not None:
            os.chown(folder, self._account.pw_uid, self._account.pw_gid)

    def _run(self, program: str, *words: str) -> None:
        account = self._account
        subprocess.run(
            [str(self.binaries / program), *words],
            check=True,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
        )

    def create(self) -> None:
        """An empty cluster whose only user needs no password: the socket is in our own folder."""
        self._run(
            "initdb", "-D", str(self._files), "-U", "bursar", "-A", "trust", "-E", "UTF8", "-N"
        )

    def start(self) -> None:
        settings = SETTINGS.format(folder=self.folder)
        log = str(self.folder / "log")
        self._run("pg_ctl", "-D", str(self._files), "-w", "-l", log, "-o", settings, "start")

    def stop(self, mode: str = "immediate") -> None:
        self._run("pg_ctl", "-D", str(self._files), "-w", "-m", mode, "stop")

    def new_database(self) -> str:
        """The address of a fresh, empty schema: to us it is a database, and it costs no files."""
        import psycopg

        address = f"postgresql://bursar@/postgres?host={self.folder}"
        name = f"fresh_{next(self._numbers)}"
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{address}&options=-csearch_path%3D{name}"

    @property
    def _files(self) -> Path:
        return self.folder / "files"


@contextmanager
def private_postgres(binaries: Path) -> Iterator[PrivatePostgres]:
    """Runs for as long as the block does. The folder's name is short: a socket's path must be."""
    folder = Path(tempfile.mkdtemp(prefix="bursar-pg-"))
    server = PrivatePostgres(binaries, folder)
    try:
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged() -> pwd.struct_passwd | None:
    """PostgreSQL refuses to run as root; None when we are not."""
    if os.geteuid() != 0:
        return None
    names = {account.pw_name: account for account in pwd.getpwall()}
    return names.get("postgres") or names["nobody"]
