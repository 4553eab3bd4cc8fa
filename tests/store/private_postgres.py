"""A private PostgreSQL server for a test run: new cluster, Unix socket, unprivileged user."""

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
    """The newest folder with initdb, which Debian does not put on the PATH."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).parent] if on_path else []
    folders += sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda candidate: int(candidate.parent.name)
    )
    return next(
        (candidate for candidate in reversed(folders) if (candidate / "initdb").exists()), None
    )


class PrivatePostgres:
    """One server, which tests may stop and start."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.binaries = binaries
        self.folder = folder
        self._numbers = count(1)
        self._account = _unprivileged()
        if self._account is not None:
            os.chown(folder, self._account.pw_uid, self._account.pw_gid)

    def _run(self, program: str, *arguments: str) -> None:
        account = self._account
        subprocess.run(
            [str(self.binaries / program), *arguments],
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
        """Creates a cluster without passwords: only this user can reach the socket."""
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
        """Address of a new schema, which is cheaper than a new database."""
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
    """Runs a server for the block. The folder name is short, as socket paths are limited."""
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
    """Account for the server if we are root, as PostgreSQL does not run as root."""
    if os.geteuid() != 0:
        return None
    names = {account.pw_name: account for account in pwd.getpwall()}
    return names.get("postgres") or names["daemon"]
