"""A control plane started by ``bursar up``, and the command lines of several users."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bursar.cli import main as cli
from tests.cli.commands import BURSAR, environment

OVER = ("succeeded", "failed", "cancelled")
FLEET = """
clusters:
  here: {engine: local}
pools:
  t4:
    cluster: here
    market: owned
    gpu_model: t4
    gpus_per_node: 4
    cpus: 16
    memory_gib: 64
    usd_per_node_hour: 1.40
    nodes: [n1, n2]
tenants:
  company:
    children:
      vision: {weight: 2}
      language: {}
"""


@dataclass(frozen=True)
class Ran:
    """The result of a command."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


class Screen(io.StringIO):
    """A terminal for programs that check for one."""

    def isatty(self) -> bool:
        return True


@dataclass
class Person:
    """A user at a command line. With ``types`` it is a terminal, and these are the replies."""

    server: str
    token: str
    state: Path
    folder: Path
    variables: dict[str, str] = field(default_factory=dict)

    def run(self, *words: str | Path, types: str | None = None) -> Ran:
        """Run a command in this process, which is faster than a new one."""
        out, err = (Screen(), Screen()) if types is not None else (io.StringIO(), io.StringIO())
        stdin = Screen(types) if types is not None else io.StringIO()
        before = dict(os.environ), os.getcwd(), sys.stdin
        os.environ.update(
            BURSAR_SERVER=self.server, BURSAR_TOKEN=self.token, BURSAR_STATE=str(self.state)
        )
        os.environ.update({"COLUMNS": "200", "TERM": "xterm-256color", **self.variables})
        os.chdir(self.folder)
        sys.stdin = stdin
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    code = cli.main([str(word) for word in words])
                except SystemExit as left:
                    code = int(left.code or 0)
        finally:
            os.environ.clear()
            os.environ.update(before[0])
            os.chdir(before[1])
            sys.stdin = before[2]
        return Ran(code, out.getvalue(), err.getvalue())

    def submit(self, *words: str) -> str:
        """Submit a job and return its id."""
        ran = self.run("submit", *words)
        assert ran.code == 0, ran.err
        return ran.out.strip()


@dataclass
class Live:
    """The server, its operator, and members of two tenants."""

    server: str
    state: Path
    admin: Person
    ada: Person
    bob: Person


@contextlib.contextmanager
def live(folder: Path) -> Iterator[Live]:
    """Start the server, create tokens, and stop it at the end."""
    state = folder / "state"
    fleet = folder / "fleet.yaml"
    fleet.write_text(FLEET, encoding="utf-8")
    words = [*BURSAR, "up", "--state", str(state), "--fleet", str(fleet), "--port", "0"]
    with (folder / "up.log").open("wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log, env=environment(), cwd=folder)
    try:
        server = _address(process, state, folder / "up.log")
        token = (state / "admin-token").read_text().strip()
        admin = Person(server, token, state, folder)
        yield Live(
            server, state, admin, _member(admin, "ada", "vision"), _member(admin, "bob", "language")
        )
    finally:
        if process.poll() is None and (state / "admin-token").exists():
            _end_all_jobs(state)
        process.terminate()
        process.wait(timeout=30)


def _end_all_jobs(state: Path) -> None:
    """Jobs outlive their server, so cancel those of failed tests."""
    from bursar.client import Client

    server = str(json.loads((state / "server.json").read_text())["address"])
    with Client(server, (state / "admin-token").read_text().strip()) as client:
        unfinished = [job["id"] for job in client.jobs() if job["state"] not in OVER]
        for job in unfinished:
            client.cancel(job)
        for job in unfinished:
            client.job(job).wait(60)


def _address(process: subprocess.Popen[bytes], state: Path, log: Path) -> str:
    give_up_at = time.monotonic() + 60
    while time.monotonic() < give_up_at and process.poll() is None:
        with contextlib.suppress(OSError, ValueError, KeyError):
            address = str(json.loads((state / "server.json").read_text())["address"])
            if _answers(address):
                return address
        time.sleep(0.05)
    raise AssertionError(f"the server did not start:\n{log.read_text()}")


def _answers(address: str) -> bool:
    from bursar.client import Client
    from bursar.client.errors import Refused

    try:
        return Client(address, "none", retry_seconds=0.0).alive()["leader"]
    except Refused:
        return False


def _member(admin: Person, user: str, tenant: str) -> Person:
    ran = admin.run("token", "create", "--user", user, "--role", "member", "--tenant", tenant)
    assert ran.code == 0, ran.err
    return Person(admin.server, ran.out.strip(), admin.state, admin.folder)
