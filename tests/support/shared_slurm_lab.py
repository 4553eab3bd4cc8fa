"""Slurm clusters for tests: one is shared by all workers of a run; destructive tests start their own."""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.slurm_lab import Lab, LabNode, LabPlan
from tests.support.slurm_lab.lab import missing_programs
from tests.support.slurm_lab.lab_spec import every_kind

needs_slurm = pytest.mark.skipif(
    bool(missing_programs()),
    reason="Slurm is not installed; 'make test-full' as root installs it and runs this",
)

SHARED = LabPlan(
    nodes=(*(LabNode(name=name) for name in ("node-0", "a", "b", "c")), *every_kind()),
)


@contextlib.contextmanager
def own_lab(plan: LabPlan) -> Iterator[Lab]:
    """A private cluster, removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="bursar-slurm-"))
    lab = Lab(folder, plan)
    try:
        lab.start()
        yield lab
    finally:
        lab.stop()


class SharedLab:
    """The cluster of a run: the first worker that needs it starts it, the last one stops it."""

    def __init__(self) -> None:
        run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or str(os.getpid())
        folder = Path(tempfile.gettempdir()) / f"bursar-slurm-tests-{run[:12]}"
        self._users = Path(f"{folder}.users")
        self._own = self._users / str(os.getpid())
        self._is_held = False
        self._lab = Lab(folder, SHARED)

    def hold(self) -> Lab:
        """Holds the cluster until the end of the run."""
        if not self._is_held:
            with _locked(self._users):
                self._users.mkdir(exist_ok=True)
                if not os.listdir(self._users):
                    self._lab.start()
                self._own.touch()
            self._is_held = True
        return self._lab

    def release(self) -> None:
        if not self._is_held:
            return
        self._is_held = False
        with _locked(self._users):
            self._own.unlink()
            if not os.listdir(self._users):
                self._lab.stop()
                self._users.rmdir()
                Path(f"{self._users}.lock").unlink()


SHARED_LAB = SharedLab()


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Repeats if the previous holder has removed the file of the lock."""
    name = f"{path}.lock"
    while True:
        fd = os.open(name, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.stat(name).st_ino == os.fstat(fd).st_ino:
                break
        os.close(fd)
        time.sleep(0.01)
    try:
        yield
    finally:
        os.close(fd)
