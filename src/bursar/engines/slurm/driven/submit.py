"""Submits jobs to Slurm through slurmrestd's socket, or sbatch when that does not answer.

When it is unknown whether a submission arrived, the outcome is ``UnknownOutcome``: its comment is looked
up before it is sent again, and the mark in its folder lets a duplicate run only once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bursar.engines.slurm.commands.commands import UNREACHABLE, Commands, SlurmRefused
from bursar.engines.slurm.commands.rest_connection import (
    NotReachable,
    RestConnections,
    UnknownOutcome,
)
from bursar.engines.slurm.driven.request import HetComponent, JobRequest
from bursar.model.errors import EngineFault

VERSION = "v0.0.38"
REST_AGAIN_SECONDS = 2.0
"""After a failure slurmrestd is left alone for so long."""


class Submitter:
    """May be used by several threads at the same time."""

    def __init__(self, commands: Commands, rest_socket: Path | None) -> None:
        self._commands = commands
        self._lines = RestConnections(str(rest_socket)) if rest_socket is not None else None
        self._rest_at = 0.0

    def submit(self, request: JobRequest, script: str) -> str:
        """The id of the new job. ``SlurmRefused`` when Slurm will not have it."""
        if self._lines is not None and time.monotonic() >= self._rest_at:
            try:
                return self._by_rest(self._lines, request, script)
            except (NotReachable, SlurmRefused):
                self._rest_at = time.monotonic() + REST_AGAIN_SECONDS
        return self._by_sbatch(request, script)

    def close(self) -> None:
        if self._lines is not None:
            self._lines.close()

    # -- slurmrestd --------------------------------------------------------------------------------

    def _by_rest(self, lines: RestConnections, request: JobRequest, script: str) -> str:
        properties = [rest_properties(request, part) for part in request.parts]
        body: dict[str, Any] = {"script": script}
        body |= {"job": properties[0]} if len(properties) == 1 else {"jobs": properties}
        answer = self._post(lines, body)
        if job_id := answer.get("job_id"):
            return str(job_id)
        errors = answer.get("errors") or []
        said = "; ".join(_error_text(one) for one in errors) or "no job id came back"
        if any(words in said.lower() for words in UNREACHABLE):
            raise UnknownOutcome(f"slurmrestd: {said}", retry_after_seconds=1)
        raise SlurmRefused(f"slurmrestd: {said}", retry_after_seconds=1)

    def _post(self, lines: RestConnections, body: dict[str, Any]) -> dict[str, Any]:
        try:
            said = lines.post(f"/slurm/{VERSION}/job/submit", json.dumps(body).encode())
            answer = json.loads(said)
        except ValueError as problem:
            self._rest_at = time.monotonic() + REST_AGAIN_SECONDS
            raise UnknownOutcome(f"slurmrestd: {problem!r}", retry_after_seconds=0.5) from problem
        except UnknownOutcome:
            self._rest_at = time.monotonic() + REST_AGAIN_SECONDS
            raise
        return answer if isinstance(answer, dict) else {}

    # -- sbatch ------------------------------------------------------------------------------------

    def _by_sbatch(self, request: JobRequest, script: str) -> str:
        words: list[str] = []
        for number, part in enumerate(request.parts):
            words += [":"] if number else []
            words += sbatch_words(request, part)
        try:
            said = self._commands.run(
                *("sbatch", "--parsable", *words), text=script, around=request.environment
            )
        except SlurmRefused:
            raise
        except EngineFault as fault:
            raise UnknownOutcome(
                str(fault), retry_after_seconds=fault.retry_after_seconds
            ) from fault
        return said.strip().split(";")[0]


def _error_text(error: Any) -> str:
    if not isinstance(error, dict):
        return str(error)
    return str(error.get("description") or error.get("error") or error)


def rest_properties(request: JobRequest, part: HetComponent) -> dict[str, Any]:
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
        # ``requeue: false`` is taken and passed over: then Slurm's own default counts.
        "no_requeue": True,
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


def sbatch_words(request: JobRequest, part: HetComponent) -> Iterator[str]:
    """The same for sbatch. Nothing here is read by a shell."""
    count = len(part.nodes)
    yield f"--job-name={request.name}"
    yield f"--comment={request.comment}"
    yield f"--nodelist={','.join(part.nodes)}"
    yield from (f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1")
    yield f"--cpus-per-task={part.cpus}"
    yield from ("--no-requeue", "--input=/dev/null", f"--chdir={request.folder}")
    yield from (f"--output={request.output}", f"--error={request.output}")
    # All that sbatch is given, which is what we choose. With a list of names Slurm would first start a login
    # shell of the user for each job, which takes longer than most things do.
    yield "--export=ALL"
    for key in ("partition", "account", "qos"):
        if getattr(request, key):
            yield f"--{key}={getattr(request, key)}"
    if part.memory_mib:
        yield f"--mem={part.memory_mib}"
    if part.gres:
        yield f"--gres={part.gres}"
    if request.minutes:
        yield f"--time={request.minutes}"
