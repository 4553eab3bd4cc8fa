"""The files of attempts, shared by the control plane and the nodes.

``claim`` is created exactly once, by the job's own script or by an earlier stop: its creator decides whether
the attempt runs, however often Slurm starts the script. The script appends when its tasks began and how
they ended.

As few files as possible are created and removed for each attempt: on a shared folder each costs more than a
line in an existing file, and some file systems (ext4) scan recently removed entries whenever they create a
file.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from bursar.codec import UnreadableValue, from_text, to_text
from bursar.engines.slurm.driven.request import StoredOrder
from bursar.model.errors import BrokenInvariant
from bursar.ports import AttemptRef, LogFile

CLAIM, STOP, SAVED = "claim", "stop", "saved"
ENDED, BEGAN = "ended", "began"
"""Keywords in the claim. ``ended`` is also a file: an end that the engine recorded."""
NEVER = "never"
SECRETS, SUBMISSION = "secrets", "submission.json"
RUNTIME_FILES = frozenset({"run.sh", "setup.sh", "node.sh", SECRETS, "failed", "scratch"})
"""Files that only a running attempt needs; so are the scratch folders of its nodes."""

MOST_MESSAGE_BYTES = 1_000_000
"""A message file is truncated at this size. A message lost then is made up for by polling Slurm."""

Record = TypeVar("Record")
_JOB_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,119}(?:\[\d{1,9}\])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRecord:
    """How an attempt ended. ``stop_signal`` is the signal that the script received, if any."""

    at_ms: int
    code: int | None
    stop_signal: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptRecord:
    """What the folder of an attempt records."""

    began_at_ms: int | None = None
    end: EndRecord | None = None


class _RecordFolder:
    """A folder with records: values of declared types as JSON, written atomically."""

    def __init__(self, path: str) -> None:
        self.path = path

    def file(self, name: str) -> str:
        return f"{self.path}/{name}"

    def write_record(self, name: str, record: object) -> None:
        _write(self.file(f"{name}.new"), to_text(record))
        os.replace(self.file(f"{name}.new"), self.file(name))

    def read_record(self, name: str, kind: type[Record]) -> Record | None:
        try:
            return from_text(kind, _text(self.file(name)) or "")
        except UnreadableValue:
            return None


class AttemptFolders(_RecordFolder):
    """The root of the attempt folders, and the index of attempts whose end is not yet committed.

    Its own records are facts about the cluster, for a start while Slurm does not respond.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(str(root.resolve()))
        self.live = self.file("live")
        self.messages = JobMessages(self.file("messages"))

    def prepare(self) -> str:
        """Create the folders; returns the name of this installation, which identifies its jobs."""
        for path in (self.path, self.live, self.messages.path, self.file("attempts")):
            os.makedirs(path, mode=0o700, exist_ok=True)
        name = self.file("installation")
        if not os.path.exists(name):
            _write(f"{name}.new", secrets.token_hex(6))
            os.replace(f"{name}.new", name)
        with open(name, encoding="ascii") as file:
            return file.read().strip()

    def of(self, ref: AttemptRef) -> SlurmAttemptFolder:
        if not _JOB_ID.fullmatch(ref.job_id):
            raise BrokenInvariant(f"{ref.job_id!r} is not a valid job id")
        return SlurmAttemptFolder(self, ref)

    def unsettled(self) -> list[AttemptRef]:
        """Attempts in the index, in order of name."""
        return [ref for ref in map(ref_of, sorted(os.listdir(self.live))) if ref is not None]

    def take_messages(self) -> list[AttemptRef]:
        """Attempts with messages since the last call. Messages may get lost; the folders do not."""
        return [ref for ref in map(ref_of, self.messages.take()) if ref is not None]


class SlurmAttemptFolder(_RecordFolder):
    """The folder of one attempt."""

    def __init__(self, folders: AttemptFolders, ref: AttemptRef) -> None:
        self.key = key_of(ref)
        self._of_job = f"{folders.path}/attempts/{ref.job_id}"
        super().__init__(f"{self._of_job}/{ref.attempt}")
        self._entry = f"{folders.live}/{self.key}"

    def has(self, name: str) -> bool:
        return os.path.exists(self.file(name))

    def create(self, nodes: int) -> None:
        """Create the folder, with a working directory and a scratch folder for each node."""
        _make_folder(self._of_job)
        _make_folder(self.path)
        for rank in range(nodes):
            _make_folder(self.file(f"work-{rank}"))
            _make_folder(self.file(f"scratch-{rank}"))

    def write(self, name: str, text: str) -> None:
        _write(self.file(name), text)

    def add_to_index(self) -> None:
        """Add to the index, once everything else is written: as a hard link where that is possible."""
        try:
            os.link(self.file(SUBMISSION), self._entry)
        except FileExistsError:
            return
        except OSError:
            _write(self._entry, "")

    def remove_from_index(self) -> None:
        """Remove from the index after the end is committed. The claim stays: it never runs again."""
        try:
            present = os.listdir(self.path)
        except FileNotFoundError:
            present = []
        for name in present:
            if name in RUNTIME_FILES or name.startswith("scratch-"):
                _remove_all(self.file(name))
        Path(self._entry).unlink(missing_ok=True)

    def claim(self) -> bool:
        """Create the claim, so that the script never runs; False if it exists already."""
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        try:
            fd = os.open(self.file(CLAIM), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            return False
        os.write(fd, f"{NEVER}\n".encode())
        os.close(fd)
        return True

    @property
    def is_accepted(self) -> bool:
        """Whether an order was stored completely, or a claim exists."""
        return self.has(SUBMISSION) or self.has(CLAIM)

    @property
    def is_blocked(self) -> bool:
        """Whether the engine created the claim, not the script."""
        return self._claim_owner() == NEVER

    @property
    def claimed_by(self) -> str:
        """The id of the Slurm job whose script created the claim, or ""."""
        owner = self._claim_owner()
        return owner if owner.isdecimal() else ""

    def _claim_owner(self) -> str:
        return (_text(self.file(CLAIM)) or "").partition("\n")[0].strip()

    def write_end(self, record: EndRecord) -> None:
        """Record an end that the script did not record."""
        code = "-" if record.code is None else record.code
        detail = record.detail.replace("\n", " ")
        at = f"{record.at_ms // 1_000}.{record.at_ms % 1_000:03}"
        self.write(f"{ENDED}.new", f"{at} {code} {record.stop_signal or '-'} {detail}\n")
        os.replace(self.file(f"{ENDED}.new"), self.file(ENDED))

    def record(self) -> AttemptRecord:
        """Read the record. An end recorded by the engine takes precedence over the script's."""
        lines = [line.partition(" ") for line in _complete_lines(self.file(CLAIM))]
        values = {keyword: value for keyword, _, value in lines[1:]}
        end = _parse_end(_complete_lines(self.file(ENDED))) or _parse_end([values.get(ENDED, "")])
        began = values.get(BEGAN)
        return AttemptRecord(
            began_at_ms=None if began is None else milliseconds(began.strip()), end=end
        )

    def order(self) -> StoredOrder | None:
        return self.read_record(SUBMISSION, StoredOrder)

    def logs(self) -> list[LogFile]:
        """Two streams for each task that wrote something."""
        order = self.order()
        logs = []
        for task, node in enumerate(order.tasks if order is not None else ()):
            for stream, ending in (("stdout", "out"), ("stderr", "err")):
                path = self.file(f"task-{task}.{ending}")
                if os.path.exists(path):
                    logs.append(LogFile(task=task, node=node, stream=stream, paths=(path,)))
        return logs


class JobMessages:
    """Messages of jobs: keys of attempts whose folder has changed.

    Each node appends to its own file, so no two machines write to the same one, and no file is created or
    removed for a job.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._offsets: dict[str, int] = {}

    def take(self) -> list[str]:
        """Keys since the last call, each once, in order."""
        keys: dict[str, None] = {}
        with os.scandir(self.path) as files:
            for file in files:
                if file.stat().st_size != self._offsets.get(file.name, 0):
                    keys.update(dict.fromkeys(self._new_lines(file.name)))
        return sorted(keys)

    def _new_lines(self, name: str) -> list[str]:
        """New lines of a file, without one that is still being written."""
        path, begin = os.path.join(self.path, name), self._offsets.get(name, 0)
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size < begin:
                begin = 0
            file.seek(begin)
            text, newline, _ = file.read().rpartition(b"\n")
        end = begin + len(text) + len(newline)
        if end > MOST_MESSAGE_BYTES:
            os.truncate(path, 0)
            end = 0
        self._offsets[name] = end
        return text.decode("utf-8", "replace").split("\n") if newline else []


def key_of(ref: AttemptRef) -> str:
    return f"{ref.job_id}@{ref.attempt}"


def ref_of(key: str) -> AttemptRef | None:
    job_id, at, attempt = key.rpartition("@")
    if not at or not attempt.isdecimal() or not _JOB_ID.fullmatch(job_id):
        return None
    return AttemptRef(job_id=job_id, attempt=int(attempt))


def milliseconds(text: str) -> int | None:
    """``1794796638.123456``; some locales use a comma."""
    seconds, _, rest = text.replace(",", ".").partition(".")
    if not seconds.isdecimal():
        return None
    return int(seconds) * 1_000 + int((rest + "000")[:3] or 0)


def _make_folder(path: str) -> None:
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb", buffering=0) as file:
        remaining = memoryview(text.encode("utf-8"))
        while remaining:
            remaining = remaining[file.write(remaining) :]


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def _complete_lines(path: str) -> list[str]:
    """Lines of a file, without one that is still being written."""
    return (_text(path) or "").split("\n")[:-1]


def _parse_end(lines: list[str]) -> EndRecord | None:
    """Parse the first line: time, exit code, received signal, detail."""
    fields = lines[0].split(" ", 3) if lines else []
    if len(fields) < 3:
        return None
    return EndRecord(
        at_ms=milliseconds(fields[0]) or 0,
        code=int(fields[1]) if fields[1].isdecimal() else None,
        stop_signal="" if fields[2] == "-" else fields[2],
        detail=fields[3] if len(fields) > 3 else "",
    )


def _remove_all(path: str) -> None:
    """Remove a file, or a folder with its contents."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
    except (IsADirectoryError, PermissionError):
        _remove_folder(path)


def _remove_folder(path: str) -> None:
    """Most folders contain only empty folders, which are removed faster one by one."""
    try:
        for name in os.listdir(path):
            os.rmdir(os.path.join(path, name))
        os.rmdir(path)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)
