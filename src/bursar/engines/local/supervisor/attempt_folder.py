"""What is kept on disk about an attempt. Both sides of the warden's socket read it; this is the truth.

``taken``   made once, durably, before anything of the user runs; whoever makes it runs the attempt.
            Its keeper holds a lock on it for as long as it lives, so "is the keeper alive?" has an
            answer that no reused process id can forge.
``keeper``  who runs it: process ids with their start times, to end them if the keeper is killed.
``began``   all tasks run, since when.
``stop``    that it was told to end, and how much grace it has.
``ended``   how it ended, written aside and renamed: whole or absent.
``saved``   touched by the job when its work is safe.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import Any

TAKEN, KEEPER, BEGAN, STOP, ENDED, SAVED = "taken", "keeper", "began", "stop", "ended", "saved"
WORK, SCRATCH = "work", "scratch"
END_ASIDE = ".ended"

JOB_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}(\[[0-9]{1,9}\])?")
"""What may be the name of a folder of ours. Ids are ours too, yet a path is never built on trust."""


class BadJobId(ValueError):
    """A job id that could leave the state folder."""


class AttemptFolder:
    """The folder of one attempt, and the few ways in which anything is written there."""

    __slots__ = ("attempt", "job_id", "path", "state")

    def __init__(self, state: str, job_id: str, attempt: int) -> None:
        if not JOB_ID.fullmatch(job_id):
            raise BadJobId(f"{job_id[:60]!r} cannot be a job's id")
        self.state = state
        self.job_id = job_id
        self.attempt = int(attempt)
        self.path = os.path.join(state, "jobs", job_id, str(self.attempt))

    @property
    def entry(self) -> str:
        """The mark in the index of attempts whose end is not yet committed."""
        return os.path.join(index_of(self.state), f"{self.job_id}@{self.attempt}")

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def has(self, name: str) -> bool:
        return os.path.exists(self.file(name))

    def read(self, name: str) -> dict[str, Any] | None:
        """One of the records above; None when it is not there."""
        try:
            with open(self.file(name), encoding="utf-8") as file:
                record = json.load(file)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except ValueError:
            return {}
        return record if isinstance(record, dict) else {}

    def write(self, name: str, record: dict[str, Any]) -> None:
        """Whole or absent. Without a sync: what it tells of does not outlive the machine's uptime."""
        aside = self.file(f".{name}.{os.getpid()}")
        fd = os.open(aside, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        try:
            os.write(fd, json.dumps(record).encode())
        finally:
            os.close(fd)
        os.rename(aside, self.file(name))

    @property
    def is_taken(self) -> bool:
        """Whether somebody made the mark. The index has it first, the folder keeps it for ever."""
        return os.path.exists(self.entry) or self.has(TAKEN)

    def take(self, record: dict[str, Any]) -> int | None:
        """Make the mark that only one can make, durably. None when it was there already.

        It is made in the index, where two syncs make it durable however deep the folder is, and is
        then known under a second name in the folder, where it stays when the index forgets it.
        """
        if self.has(TAKEN):
            return None
        try:
            fd = os.open(self.entry, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600)
        except FileExistsError:
            return None
        try:
            os.write(fd, json.dumps(record).encode())
            os.fsync(fd)
            sync_folder(index_of(self.state))
            self.settle_in()
        except OSError:
            os.unlink(self.entry)
            os.close(fd)
            raise
        return fd

    def settle_in(self) -> None:
        """Make the folder and give the mark its name there; a crash may have come in between."""
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        try:
            os.link(self.entry, self.file(TAKEN))
        except FileExistsError:
            return

    def reserve_end(self) -> None:
        """Keep a block for the last record, so that a full disk cannot swallow how an attempt ended."""
        fd = os.open(self.file(END_ASIDE), os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        try:
            os.posix_fallocate(fd, 0, 4096)
        except OSError:
            os.ftruncate(fd, 0)
        finally:
            os.close(fd)

    def write_end(self, record: dict[str, Any]) -> None:
        """How it ended, durably: the last thing that is written about an attempt."""
        fd = os.open(self.file(END_ASIDE), os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
        try:
            text = json.dumps(record).encode()
            os.write(fd, text)
            os.ftruncate(fd, len(text))
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(self.file(END_ASIDE), self.file(ENDED))
        sync_folder(self.path)


def engine_folder(state: str) -> str:
    """Where the warden's own files are."""
    return os.path.join(state, "engine")


def index_of(state: str) -> str:
    """One file for each attempt that was taken and whose end is not yet committed: its mark."""
    return os.path.join(state, "engine", "live")


def make_folders(state: str) -> None:
    """Everything that is there before the first attempt; nobody else may look inside."""
    for folder in (state, os.path.join(state, "jobs"), engine_folder(state), index_of(state)):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    os.makedirs(os.path.join(engine_folder(state), "ports"), mode=0o700, exist_ok=True)


def indexed(state: str) -> Iterator[AttemptFolder]:
    """The attempts in the index, in order of name."""
    for name in sorted(os.listdir(index_of(state))):
        job_id, _, attempt = name.rpartition("@")
        if JOB_ID.fullmatch(job_id) and attempt.isdecimal():
            yield AttemptFolder(state, job_id, int(attempt))


def sync_folder(path: str) -> None:
    """Make names in a folder durable."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
