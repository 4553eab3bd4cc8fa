"""How jobs get into Slurm: by slurmrestd's socket, and by sbatch when that does not answer.

A submission of which nobody knows whether it arrived is ``InDoubt``. Its comment is looked up before it is
sent again; and if it is there twice all the same, the mark in its folder lets it run once.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bursar.engines.slurm.commands import UNREACHABLE, Commands, Refused
from bursar.engines.slurm.request import JobRequest, Part
from bursar.model.errors import EngineFault

VERSION = "v0.0.38"
REST_PATIENCE_SECONDS = 10.0
REST_AGAIN_SECONDS = 2.0
"""After a failure slurmrestd is left alone for so long."""


class InDoubt(EngineFault):
    """The request may or may not have arrived."""


class NotThere(EngineFault):
    """The request certainly did not arrive."""


class Submitter:
    """One connection, used by one thread at a time."""

    def __init__(self, commands: Commands, rest_socket: Path | None) -> None:
        self._commands = commands
        self._socket = rest_socket
        self._connection: http.client.HTTPConnection | None = None
        self._lock = threading.Lock()
        self._rest_at = 0.0
        self.by_rest = 0
        self.by_sbatch = 0

    def submit(self, request: JobRequest, script: str) -> str:
        """The id of the new job. ``Refused`` when Slurm will not have it."""
        if self._socket is not None and time.monotonic() >= self._rest_at:
            try:
                return self._by_rest(request, script)
            except (NotThere, Refused):
                self._rest_at = time.monotonic() + REST_AGAIN_SECONDS
        return self._by_sbatch(request, script)

    def close(self) -> None:
        with self._lock:
            self._drop()

    # -- slurmrestd --------------------------------------------------------------------------------

    def _by_rest(self, request: JobRequest, script: str) -> str:
        properties = [rest_properties(request, part) for part in request.parts]
        body: dict[str, Any] = {"script": script}
        body |= {"job": properties[0]} if len(properties) == 1 else {"jobs": properties}
        with self._lock:
            answer = self._post(f"/slurm/{VERSION}/job/submit", json.dumps(body).encode())
        job_id = answer.get("job_id")
        errors = answer.get("errors") or []
        if job_id:
            self.by_rest += 1
            return str(job_id)
        said = "; ".join(_error_text(one) for one in errors) or "no job id came back"
        if any(words in said.lower() for words in UNREACHABLE):
            raise InDoubt(f"slurmrestd: {said}", retry_after_seconds=1)
        raise Refused(f"slurmrestd: {said}", retry_after_seconds=1)

    def _post(self, path: str, body: bytes) -> dict[str, Any]:
        fresh = self._connection is None
        try:
            return self._exchange(path, body)
        except NotThere:
            if fresh:
                raise
        return self._exchange(path, body)

    def _exchange(self, path: str, body: bytes) -> dict[str, Any]:
        """A connection that breaks before an answer leaves us in doubt; one that cannot be made does not."""
        if self._connection is None:
            self._connection = _UnixConnection(str(self._socket))
            try:
                self._connection.connect()
            except OSError as problem:
                self._drop()
                raise NotThere(f"slurmrestd: {problem}", retry_after_seconds=1) from problem
        try:
            self._connection.request("POST", path, body, {"Content-Type": "application/json"})
        except OSError as problem:
            # What is not wholly sent is not read: slurmrestd needs the body to its last byte.
            self._drop()
            raise NotThere(f"slurmrestd: {problem}", retry_after_seconds=1) from problem
        try:
            response = self._connection.getresponse()
            answer = json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as problem:
            self._drop()
            self._rest_at = time.monotonic() + REST_AGAIN_SECONDS
            raise InDoubt(f"slurmrestd: {problem!r}", retry_after_seconds=0.5) from problem
        if response.will_close:
            self._drop()
        return answer if isinstance(answer, dict) else {}

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # -- sbatch ------------------------------------------------------------------------------------

    def _by_sbatch(self, request: JobRequest, script: str) -> str:
        words: list[str] = []
        for number, part in enumerate(request.parts):
            words += [":"] if number else []
            words += sbatch_words(request, part)
        try:
            said = self._commands.run("sbatch", "--parsable", *words, text=script)
        except Refused:
            raise
        except EngineFault as fault:
            raise InDoubt(str(fault), retry_after_seconds=fault.retry_after_seconds) from fault
        self.by_sbatch += 1
        return said.strip().split(";")[0]


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=REST_PATIENCE_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _error_text(error: Any) -> str:
    if not isinstance(error, dict):
        return str(error)
    return str(error.get("description") or error.get("error") or error)


def rest_properties(request: JobRequest, part: Part) -> dict[str, Any]:
    """As ``openapi/v0.0.38`` spells them."""
    count = len(part.nodes)
    found: dict[str, Any] = {
        "name": request.name,
        "comment": request.comment,
        "nodelist": ",".join(part.nodes),
        "nodes": [count, count],
        "tasks": count,
        "tasks_per_node": 1,
        "cpus_per_task": part.cpus,
        "requeue": False,
        "environment": dict(request.environment),
        "current_working_directory": request.folder,
        "standard_input": "/dev/null",
        "standard_output": request.output,
        "standard_error": request.output,
    }
    for key in ("partition", "account", "qos"):
        if getattr(request, key):
            found[key] = getattr(request, key)
    if part.memory_mib:
        found["memory_per_node"] = part.memory_mib
    if part.gres:
        found["gres"] = part.gres
    if request.minutes:
        found["time_limit"] = request.minutes
    return found


def sbatch_words(request: JobRequest, part: Part) -> Iterator[str]:
    """The same for sbatch. Nothing here is read by a shell."""
    count = len(part.nodes)
    yield f"--job-name={request.name}"
    yield f"--comment={request.comment}"
    yield f"--nodelist={','.join(part.nodes)}"
    yield from (f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1")
    yield f"--cpus-per-task={part.cpus}"
    yield from ("--no-requeue", "--input=/dev/null", f"--chdir={request.folder}")
    yield from (f"--output={request.output}", f"--error={request.output}")
    yield f"--export={','.join(f'{name}={value}' for name, value in request.environment.items())}"
    for key in ("partition", "account", "qos"):
        if getattr(request, key):
            yield f"--{key}={getattr(request, key)}"
    if part.memory_mib:
        yield f"--mem={part.memory_mib}"
    if part.gres:
        yield f"--gres={part.gres}"
    if request.minutes:
        yield f"--time={request.minutes}"
