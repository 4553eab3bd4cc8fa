"""The files of an attempt on disk: the source of truth for the supervisor and the engine.

``claim``      created once, durably, before any user code runs; its creator runs the attempt. The attempt
               process holds a lock on it while it lives, so a reused process id cannot fake liveness.
``processes``  process ids with start times, to kill them if the attempt process is killed.
``began``      when all tasks were running.
``stop``       a stop was requested, with its grace period.
``ended``      how the attempt ended, written to a temporary file and renamed.
``saved``      the status file that the job writes.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

CLAIM, PROCESSES, BEGAN, STOP, ENDED = "claim", "processes", "began", "stop", "ended"
SAVED, WORK, SCRATCH = "saved", "work", "scratch"
END_TEMPORARY = ".ended"

JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}(\[[0-9]{1,9}\])?")
"""Valid names of job folders. We generate the ids, but check them before building a path."""


class BadJobId(ValueError):
    """A job id that could leave the state folder."""


class AttemptFolder:
    """The folder of one attempt: reads and writes its files."""

    __slots__ = ("attempt", "job_id", "path", "state")

    def __init__(self, state: str, job_id: str, attempt: int) -> None:
        if not JOB_ID.fullmatch(job_id):
            raise BadJobId(f"{job_id[:60]!r} is not a valid job id")
        self.state = state
        self.job_id = job_id
        self.attempt = int(attempt)
        self.path = os.path.join(state, "jobs", job_id, str(self.attempt))

    @property
    def entry(self) -> str:
        """The claim in the index of attempts whose end is not yet committed."""
        return os.path.join(index_of(self.state), f"{self.job_id}@{self.attempt}")

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def has(self, name: str) -> bool:
        return os.path.exists(self.file(name))

    def read(self, name: str) -> dict[str, Any] | None:
        """Read one of the records above; None if it does not exist."""
        try:
            with open(self.file(name), encoding="utf-8") as file:
                record = json.load(file)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValueError:
            return {}
        return record if isinstance(record, dict) else {}

    def write(self, name: str, record: dict[str, Any]) -> None:
        """Write a record atomically. Not synced: it means nothing after a reboot."""
        write_atomically(self.path, name, record)

    @property
    def is_claimed(self) -> bool:
        """Whether a claim exists. It is created in the index first and stays in the folder."""
        return os.path.exists(self.entry) or self.has(CLAIM)

    def claim(self, record: dict[str, Any]) -> int | None:
        """Create the claim durably and return its descriptor; None if it already exists.

        It is created in the index, where two syncs make it durable however deep the folder is, and then
        linked into the folder, where it stays after its removal from the index.
        """
        if self.has(CLAIM):
            return None
        try:
            fd = os.open(self.entry, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            return None
        try:
            os.write(fd, json.dumps(record).encode())
            os.fsync(fd)
            sync_folder(index_of(self.state))
            self.link_claim()
        except OSError:
            os.unlink(self.entry)
            os.close(fd)
            raise
        return fd

    def link_claim(self) -> None:
        """Create the folder and link the claim into it; repeated after a crash in between."""
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        try:
            os.link(self.entry, self.file(CLAIM))
        except FileExistsError:
            return

    def reserve_end(self) -> None:
        """Reserve a disk block for the last record, so that it can be written on a full disk."""
        fd = os.open(self.file(END_TEMPORARY), os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        try:
            os.posix_fallocate(fd, 0, 4096)
        except OSError:
            os.ftruncate(fd, 0)
        finally:
            os.close(fd)

    def write_end(self, record: dict[str, Any]) -> None:
        """Write durably how the attempt ended: the last record of an attempt."""
        fd = os.open(self.file(END_TEMPORARY), os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        try:
            text = json.dumps(record).encode()
            os.write(fd, text)
            os.ftruncate(fd, len(text))
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(self.file(END_TEMPORARY), self.file(ENDED))
        sync_folder(self.path)


def engine_folder(state: str) -> str:
    """Folder of the supervisor's own files."""
    return os.path.join(state, "engine")


def index_of(state: str) -> str:
    """Folder of the claims of attempts whose end is not yet committed."""
    return os.path.join(state, "engine", "live")


def make_folders(state: str) -> None:
    """Create the folders that exist before the first attempt, readable only by their owner."""
    for folder in (state, os.path.join(state, "jobs"), engine_folder(state), index_of(state)):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    os.makedirs(os.path.join(engine_folder(state), "ports"), mode=0o700, exist_ok=True)


def indexed(state: str) -> Iterator[AttemptFolder]:
    """Attempts in the index, in order of name."""
    for name in sorted(os.listdir(index_of(state))):
        job_id, _, attempt = name.rpartition("@")
        if JOB_ID.fullmatch(job_id) and attempt.isdecimal():
            yield AttemptFolder(state, job_id, int(attempt))


def write_atomically(folder: str, name: str, value: Any, *, sync: bool = False) -> None:
    """Write a file of JSON; with ``sync`` its contents survive a reboot."""
    temporary = os.path.join(folder, f".{name}.{os.getpid()}")
    fd = os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    try:
        os.write(fd, json.dumps(value).encode())
        if sync:
            os.fsync(fd)
    finally:
        os.close(fd)
    os.rename(temporary, os.path.join(folder, name))


def sync_folder(path: str) -> None:
    """Make file names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
