"""``bursar up`` as a process, and the command line beside it."""

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

PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class Installation:
    """A running server. ``log`` is what it told its operator."""

    state: Path
    server: subprocess.Popen[bytes]
    log: Path

    def bursar(self, *words: str, code: int = 0) -> str:
        """A command and its output."""
        return self._run(words, code).stdout

    def complaint(self, *words: str, code: int) -> str:
        """A command that is refused, and what it says of that, in one line."""
        return " ".join(self._run(words, code).stderr.split())

    def _run(self, words: tuple[str, ...], code: int) -> subprocess.CompletedProcess[str]:
        ran = subprocess.run(
            [sys.executable, "-m", "bursar", *words],
            env={**os.environ, "BURSAR_STATE": str(self.state), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == code, f"{words}: {ran.stdout}\n{ran.stderr}"
        return ran

    def jobs(self, *words: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.bursar("status", *words, "-o", "json"))
        return found

    @property
    def address(self) -> str:
        found: str = json.loads((self.state / "server.json").read_text(encoding="utf-8"))["address"]
        return found


def until(what: Callable[[], bool], told: str, seconds: float = PATIENCE_SECONDS) -> float:
    """Wait for something to become true; how long it took."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() < began + seconds, f"never came true: {told}"
        time.sleep(0.1)
    return time.monotonic() - began


@contextlib.contextmanager
def up(folder: Path, fleet: Path, name: str = "up") -> Iterator[Installation]:
    """A server on the folder's state; SIGTERM must end it well, unless it was killed."""
    state, log = folder / "state", folder / f"{name}.log"
    words = ["up", "--port", "0", "--state", str(state), "--fleet", str(fleet)]
    with log.open("wb") as file:
        server = subprocess.Popen(
            [sys.executable, "-m", "bursar", *words], stdout=file, stderr=file
        )
    try:
        until(
            lambda: "at http" in log.read_text() or server.poll() is not None,
            "the server is up",
        )
        assert server.poll() is None, log.read_text()
        until(lambda: (state / "server.json").exists(), "it can be found")
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
