"""Submits jobs through slurmrestd's socket, or by sbatch if slurmrestd does not respond.

``UnknownOutcome`` means that a submission may have arrived: its comment is looked up in the queue before it
is sent again, and the claim in its folder lets a duplicate run only once.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bursar.engines.slurm.commands.commands import Commands, SlurmRefused, is_unreachable
from bursar.engines.slurm.commands.rest_connection import (
    NotReachable,
    RestConnections,
    UnknownOutcome,
)
from bursar.engines.slurm.driven.request import HetComponent, JobRequest
from bursar.model.errors import EngineFault

VERSION = "v0.0.38"
REST_AGAIN_SECONDS = 2.0
"""After a failure slurmrestd is not used for this long."""


class Submitter:
    """Submits jobs. Safe for use by several threads."""

    def __init__(self, commands: Commands, rest_socket: Path | None) -> None:
        self._commands = commands
        self._connections = RestConnections(str(rest_socket)) if rest_socket is not None else None
        self._rest_at = 0.0

    def submit(self, request: JobRequest, script: str) -> str:
        """The id of the new job. ``SlurmRefused`` if Slurm rejects it."""
        if self._connections is not None and time.monotonic() >= self._rest_at:
            try:
                return self._by_rest(self._connections, request, script)
            except (NotReachable, SlurmRefused):
                self._rest_at = time.monotonic() + REST_AGAIN_SECONDS
        return self._by_sbatch(request, script)

    def close(self) -> None:
        if self._connections is not None:
            self._connections.close()

    # -- slurmrestd --------------------------------------------------------------------------------

    def _by_rest(self, connections: RestConnections, request: JobRequest, script: str) -> str:
        properties = [rest_properties(request, one) for one in request.components]
        body: dict[str, Any] = {"script": script}
        body |= {"job": properties[0]} if len(properties) == 1 else {"jobs": properties}
        response = self._post(connections, body)
        if job_id := response.get("job_id"):
            return str(job_id)
        errors = response.get("errors") or []
        problem = "; ".join(map(_error_text, errors)) or "the response has no job id"
        if is_unreachable(problem):
            raise UnknownOutcome(f"slurmrestd: {problem}", retry_after_seconds=1)
        raise SlurmRefused(f"slurmrestd: {problem}", retry_after_seconds=1)

    def _post(self, connections: RestConnections, body: dict[str, Any]) -> dict[str, Any]:
        try:
            text = connections.post(f"/slurm/{VERSION}/job/submit", json.dumps(body).encode())
            response = json.loads(text)
        except ValueError as problem:
            self._rest_at = time.monotonic() + REST_AGAIN_SECONDS
            raise UnknownOutcome(f"slurmrestd: {problem!r}", retry_after_seconds=0.5) from problem
        except UnknownOutcome:
            self._rest_at = time.monotonic() + REST_AGAIN_SECONDS
            raise
        return response if isinstance(response, dict) else {}

    # -- sbatch ------------------------------------------------------------------------------------

    def _by_sbatch(self, request: JobRequest, script: str) -> str:
        options: list[str] = []
        for number, component in enumerate(request.components):
            options += [":"] if number else []
            options += sbatch_options(request, component)
        try:
            output = self._commands.run(
                *("sbatch", "--parsable", *options),
                text=script,
                job_environment=request.environment,
            )
        except SlurmRefused:
            raise
        except EngineFault as fault:
            raise UnknownOutcome(
                str(fault), retry_after_seconds=fault.retry_after_seconds
            ) from fault
        return output.strip().split(";")[0]


def _error_text(error: Any) -> str:
    if not isinstance(error, dict):
        return str(error)
    return str(error.get("description") or error.get("error") or error)


def _settings(
    request: JobRequest, component: HetComponent
) -> tuple[tuple[str, str, str | int], ...]:
    """Each setting: its property of ``openapi/v0.0.38``, its option of sbatch, and its value.

    Empty values and zeros are left out.
    """
    settings = (
        ("name", "job-name", request.name),
        ("comment", "comment", request.comment),
        ("nodelist", "nodelist", ",".join(component.nodes)),
        ("tasks", "ntasks", len(component.nodes)),
        ("tasks_per_node", "ntasks-per-node", 1),
        ("cpus_per_task", "cpus-per-task", component.cpus),
        ("current_working_directory", "chdir", request.folder),
        ("standard_input", "input", "/dev/null"),
        ("standard_output", "output", request.output),
        ("standard_error", "error", request.output),
        ("partition", "partition", request.partition),
        ("account", "account", request.account),
        ("qos", "qos", request.qos),
        ("memory_per_node", "mem", component.memory_mib),
        ("gres", "gres", component.gres),
        ("time_limit", "time", request.minutes),
    )
    return tuple(one for one in settings if one[2])


def rest_properties(request: JobRequest, component: HetComponent) -> dict[str, Any]:
    """The properties of a job for slurmrestd."""
    count = len(component.nodes)
    return {
        **{name: value for name, _, value in _settings(request, component)},
        "nodes": [count, count],
        # ``requeue: false`` is accepted but ignored; Slurm's default would apply.
        "no_requeue": True,
        "environment": dict(request.environment),
    }


def sbatch_options(request: JobRequest, component: HetComponent) -> Iterator[str]:
    """The same as options of sbatch; no shell interprets them."""
    yield from (f"--{option}={value}" for _, option, value in _settings(request, component))
    yield from (f"--nodes={len(component.nodes)}", "--no-requeue")
    # The whole environment of sbatch, which we choose. With a list of names Slurm would first start a login
    # shell of the user for each job, which is slow.
    yield "--export=ALL"
