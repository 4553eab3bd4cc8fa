"""The files of attempts, which the control plane and the nodes share.

``taken`` is made once and only once, by the job's own script or by a stop that came before it: whoever
makes it decides whether the attempt ever runs, however often Slurm starts the script. The script goes on
writing there when its tasks began and how they ended.

As few files as possible are made for an attempt, and fewer still removed: every one of them costs a shared
folder more than a line in a file that is there, and some file systems (ext4) pass over what was removed in
the last minutes one by one whenever they make a file.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bursar.engines.slurm.driven.job_messages import JobMessages
from bursar.model.errors import BrokenInvariant
from bursar.ports import AttemptRef, LogFile

TAKEN, STOP, SAVED = "taken", "stop", "saved"
ENDED, BEGAN = "ended", "began"
"""Words in the mark. Also files of their own: an end that no script told, and what scripts of before told."""
NEVER = "never"
SECRETS, SUBMISSION = "secrets", "submission.json"
PASSING = frozenset({"run.sh", "setup.sh", "node.sh", SECRETS, "failed", "scratch"})
"""What only a running attempt needs; so are the scratch folders of its nodes."""

_JOB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,119}(?:\[\d{1,9}\])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRecord:
    """What the script wrote last. ``told`` is the signal it was asked to end with, if any."""

    at_ms: int
    code: int | None
    told: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """What is known of one attempt from its folder, by one look."""

    began_at_ms: int | None = None
    end: EndRecord | None = None


class AttemptFolders:
    """The root of it all, and the index of attempts whose end is not yet committed."""

    def __init__(self, root: Path) -> None:
        self.root = str(root.resolve())
        self.live = os.path.join(self.root, "live")
        self.news = JobMessages(os.path.join(self.root, "news"))

    def prepare(self) -> str:
        """Make what must be there; the name of this installation, by which its jobs are told apart."""
        for path in (self.root, self.live, self.news.path, os.path.join(self.root, "attempts")):
            os.makedirs(path, mode=0o700, exist_ok=True)
        name = os.path.join(self.root, "installation")
        if not os.path.exists(name):
            _write(f"{name}.new", secrets.token_hex(6))
            os.replace(f"{name}.new", name)
        with open(name, encoding="ascii") as file:
            return file.read().strip()

    def of(self, ref: AttemptRef) -> SlurmAttemptFolder:
        if not _JOB_ID.fullmatch(ref.job_id):
            raise BrokenInvariant(f"{ref.job_id!r} is no name for a job's folder")
        return SlurmAttemptFolder(self, ref)

    def unsettled(self) -> list[AttemptRef]:
        """In order of name."""
        return [ref for ref in map(ref_of, sorted(os.listdir(self.live))) if ref is not None]

    def take_news(self) -> list[AttemptRef]:
        """Attempts that left word since the last look. They are hints: the folders are the truth."""
        return [ref for ref in map(ref_of, self.news.take()) if ref is not None]

    def keep_facts(self, name: str, facts: Mapping[str, Any]) -> None:
        """For a start while Slurm does not answer."""
        _write_json(os.path.join(self.root, name), facts)

    def facts(self, name: str) -> dict[str, Any] | None:
        return _read_json(os.path.join(self.root, name))


class SlurmAttemptFolder:
    """One attempt's."""

    def __init__(self, folders: AttemptFolders, ref: AttemptRef) -> None:
        self.key = key_of(ref)
        self._of_job = f"{folders.root}/attempts/{ref.job_id}"
        self.path = f"{self._of_job}/{ref.attempt}"
        self._entry = f"{folders.live}/{self.key}"

    def file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def has(self, name: str) -> bool:
        return os.path.exists(self.file(name))

    def make(self, ranks: int) -> None:
        """With a working directory and a scratch folder for each of so many nodes."""
        _make(self._of_job)
        _make(self.path)
        for rank in range(ranks):
            _make(self.file(f"work-{rank}"))
            _make(self.file(f"scratch-{rank}"))

    def write(self, name: str, text: str) -> None:
        _write(self.file(name), text)

    def keep(self, name: str, record: Mapping[str, Any]) -> None:
        """Whole or not at all."""
        _write_json(self.file(name), record)

    def enter(self) -> None:
        """Into the index, once everything else is written: a second name of what was written, where there
        can be one."""
        try:
            os.link(self.file(SUBMISSION), self._entry)
        except FileExistsError:
            return
        except OSError:
            _write(self._entry, "")

    def leave(self) -> None:
        """Out of the index: its end is committed. The mark stays, so that it never runs again."""
        try:
            present = os.listdir(self.path)
        except FileNotFoundError:
            present = []
        for name in present:
            if name in PASSING or name.startswith("scratch-"):
                _remove_all(self.file(name))
        _remove(self._entry)

    @property
    def is_entered(self) -> bool:
        return os.path.exists(self._entry)

    def take(self) -> bool:
        """Make the mark, so that the script never runs; whether nobody had made it."""
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        try:
            fd = os.open(self.file(TAKEN), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            return False
        os.write(fd, f"{NEVER}\n".encode())
        os.close(fd)
        return True

    @property
    def is_known(self) -> bool:
        """Whether an order for it was taken whole, or its mark is made."""
        return self.has(SUBMISSION) or self.has(TAKEN)

    @property
    def was_never_run(self) -> bool:
        """Whether the mark is ours and not the script's."""
        return self._mark() == NEVER

    @property
    def taken_by(self) -> str:
        """The id of the Slurm job whose script made the mark; nothing when none did."""
        mark = self._mark()
        return mark if mark.isdecimal() else ""

    def _mark(self) -> str:
        return (_text(self.file(TAKEN)) or "").partition("\n")[0].strip()

    def write_end(self, record: EndRecord) -> None:
        """For what ended without its script telling."""
        code = "-" if record.code is None else record.code
        detail = record.detail.replace("\n", " ")
        at = f"{record.at_ms // 1_000}.{record.at_ms % 1_000:03}"
        self.write(f"{ENDED}.new", f"{at} {code} {record.told or '-'} {detail}\n")
        os.replace(self.file(f"{ENDED}.new"), self.file(ENDED))

    def tale(self) -> AttemptRecord:
        """An end that we wrote down is told the same again, whatever a script tells later."""
        lines = [line.partition(" ") for line in _whole_lines(self.file(TAKEN))]
        told = {word: rest for word, _, rest in lines[1:]}
        end = _end_from(_whole_lines(self.file(ENDED))) or _end_from([told.get(ENDED, "")])
        began = told.get(BEGAN)
        if began is None:
            began = _text(self.file(BEGAN))
        return AttemptRecord(
            began_at_ms=None if began is None else milliseconds(began.strip()), end=end
        )

    def read(self, name: str) -> dict[str, Any] | None:
        return _read_json(self.file(name))

    def logs(self) -> list[LogFile]:
        """Two streams for each task that wrote something."""
        record = self.read(SUBMISSION) or {}
        found = []
        for task, node in enumerate(record.get("tasks", ())):
            for stream, ending in (("stdout", "out"), ("stderr", "err")):
                path = self.file(f"task-{task}.{ending}")
                if os.path.exists(path):
                    found.append(LogFile(task=task, node=node, stream=stream, paths=(path,)))
        return found


def key_of(ref: AttemptRef) -> str:
    return f"{ref.job_id}@{ref.attempt}"


def ref_of(key: str) -> AttemptRef | None:
    job_id, at, attempt = key.rpartition("@")
    if not at or not attempt.isdecimal() or not _JOB_ID.fullmatch(job_id):
        return None
    return AttemptRef(job_id=job_id, attempt=int(attempt))


def milliseconds(text: str) -> int | None:
    """``1794796638.123456``; some languages write a comma."""
    seconds, _, rest = text.replace(",", ".").partition(".")
    if not seconds.isdecimal():
        return None
    return int(seconds) * 1_000 + int((rest + "000")[:3] or 0)


def _make(path: str) -> None:
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb", buffering=0) as file:
        left = memoryview(text.encode("utf-8"))
        while left:
            left = left[file.write(left) :]


def _write_json(path: str, record: Mapping[str, Any]) -> None:
    _write(f"{path}.new", json.dumps(record))
    os.replace(f"{path}.new", path)


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def _whole_lines(path: str) -> list[str]:
    """Without one that is still being written."""
    return (_text(path) or "").split("\n")[:-1]


def _end_from(lines: list[str]) -> EndRecord | None:
    """Of the first line: when, the exit code, the signal it was told, and why."""
    words = lines[0].split(" ", 3) if lines else []
    if len(words) < 3:
        return None
    return EndRecord(
        at_ms=milliseconds(words[0]) or 0,
        code=int(words[1]) if words[1].isdecimal() else None,
        told="" if words[2] == "-" else words[2],
        detail=words[3] if len(words) > 3 else "",
    )


def _read_json(path: str) -> dict[str, Any] | None:
    try:
        found = json.loads(_text(path) or "")
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return


def _remove_all(path: str) -> None:
    """A file, or a folder with all that is in it."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        _remove_folder(path)


def _remove_folder(path: str) -> None:
    """Most hold nothing but empty folders, which go more quickly than any others."""
    try:
        for name in os.listdir(path):
            os.rmdir(os.path.join(path, name))
        os.rmdir(path)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)
