"""``bursar up`` as a process, and bursar commands that use it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True)
class Installation:
    """A running server and its log."""

    state: Path
    server: subprocess.Popen[bytes]
    log: Path

    def bursar(self, *arguments: str, code: int = 0) -> str:
        """Runs a command; returns its output."""
        return self._run(arguments, code).stdout

    def error(self, *arguments: str, code: int) -> str:
        """The error output of a command that fails, in one line."""
        return " ".join(self._run(arguments, code).stderr.split())

    def _run(self, arguments: tuple[str, ...], code: int) -> subprocess.CompletedProcess[str]:
        ran = subprocess.run(
            [sys.executable, "-m", "bursar", *arguments],
            env={**os.environ, "BURSAR_STATE": str(self.state), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == code, f"{arguments}: {ran.stdout}\n{ran.stderr}"
        return ran

    def jobs(self, *arguments: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(self.bursar("status", *arguments, "-o", "json"))
        return rows

    @property
    def address(self) -> str:
        text = (self.state / "server.json").read_text(encoding="utf-8")
        address: str = json.loads(text)["address"]
        return address


def until(
    condition: Callable[[], bool], description: str, seconds: float = TIMEOUT_SECONDS
) -> float:
    """Waits for a condition; returns how long it took."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + seconds, f"timed out waiting until {description}"
        time.sleep(0.1)
    return time.monotonic() - began


@contextlib.contextmanager
def up(folder: Path, fleet: Path, name: str = "up") -> Iterator[Installation]:
    """A server on the folder's state. It must exit with 0 on SIGTERM, unless it was killed."""
    state, log = folder / "state", folder / f"{name}.log"
    command = ["up", "--port", "0", "--state", str(state), "--fleet", str(fleet)]
    with log.open("wb") as file:
        server = subprocess.Popen(
            [sys.executable, "-m", "bursar", *command], stdout=file, stderr=file
        )
    try:
        until(
            lambda: "at http" in log.read_text() or server.poll() is not None,
            "the server is up",
        )
        assert server.poll() is None, log.read_text()
        until(lambda: (state / "server.json").exists(), "its address file exists")
        yield Installation(state, server, log)
    finally:
        was_killed = server.poll() is not None
        if not was_killed:
            server.send_signal(signal.SIGCONT)
            server.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(30)
            if server.poll() is None:
                server.kill()
                server.wait(10)
    assert was_killed or server.returncode == 0, log.read_text()
