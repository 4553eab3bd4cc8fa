"""Options that specify a job: a file, an sbatch script or a command, and changes to it."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bursar.cli.arguments import Option, argument, group, one_or_more, repeatable
from bursar.cli.terminal.messages import warn
from bursar.model.errors import UserError

if TYPE_CHECKING:
    from bursar.client import Client
    from bursar.client.document import Document

QUEUE: Final = re.compile(r"""^\s*[{"']*queue["']?\s*:""", re.MULTILINE)


CHANGES: Final = group(
    "job",
    argument("--name", "NAME", "name of the job"),
    argument("--queue", "QUEUE", "queue of the job"),
    argument("--priority", "CLASS", "priority class"),
    argument("--gpus", "N|MODEL:N", "GPUs for each task: 2 of any model, or T4:2"),
    argument("--nodes", "N", "number of tasks, started together", type=one_or_more),
    argument("--max-hours", "H", "stop the job after H hours", type=float),
    argument("--max-cost", "USD", "stop the job before it costs more than USD dollars"),
    argument("--workdir", "DIR", "folder to upload as the working directory"),
    repeatable(
        "--env",
        "KEY[=VALUE]",
        "environment variable; KEY alone takes its value from your environment; repeatable",
    ),
    repeatable(
        "--secret",
        "KEY[=VALUE]",
        "environment variable that is never shown; KEY alone takes its value from your environment",
    ),
    description="options override the file; the command may follow '--': -- python train.py",
)


JOB: Final[tuple[Option, ...]] = (
    argument("file", "FILE", "a job file (YAML)", nargs="?"),
    argument("--from-slurm", "SCRIPT", "convert an sbatch script instead of a job file"),
    CHANGES,
    lambda parser: parser.set_defaults(takes_words=True),
)
"""The options that specify a job."""


def document_of(parsed: argparse.Namespace) -> tuple[Document, dict[str, object]]:
    """The job document, and the changes that the options make to it."""
    from bursar.client.document import Document, read_document

    changes = changes_of(parsed)
    command = list(parsed.words)
    _require_one_source(parsed, command)
    if parsed.from_slurm:
        from bursar.wiring.slurm.script import import_sbatch

        text, notes = import_sbatch(parsed.from_slurm)
        for note in notes:
            warn(note)
        return Document(text=text, folder=Path(parsed.from_slurm).parent), changes
    if command:
        changes = {**_from_command(command), **changes}
    if parsed.file:
        return read_document(Path(parsed.file)), changes
    return read_document({}), changes


def with_queue(client: Client, document: Document, changes: dict[str, object]) -> dict[str, object]:
    """Add the queue of a user who may use only one."""
    if "queue" in changes or QUEUE.search(document.text):
        return changes
    queues = client.whoami()["queues"]
    return {**changes, "queue": queues[0]} if len(queues) == 1 else changes


def changes_of(parsed: argparse.Namespace) -> dict[str, object]:
    """Options as keys of a job document."""
    options: dict[str, object] = {
        "name": parsed.name,
        "queue": parsed.queue,
        "priority": parsed.priority,
        "gpus": _gpus(parsed.gpus),
        "num_nodes": parsed.nodes,
        "max_hours": parsed.max_hours,
        "max_cost": parsed.max_cost,
        "workdir": os.path.abspath(parsed.workdir) if parsed.workdir else None,
        "envs": _variables(parsed.env) or None,
        "secrets": _variables(parsed.secret) or None,
    }
    return {key: value for key, value in options.items() if value is not None}


def _from_command(command: list[str]) -> dict[str, object]:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", os.path.basename(command[0])).lstrip("._-") or "job"
    return {"name": name, "run": shlex.join(command)}


def _gpus(text: str | None) -> object:
    if text is None:
        return None
    return int(text) if text.isascii() and text.isdigit() else text


def _variables(pairs: list[str]) -> dict[str, str]:
    variables = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            if key not in os.environ:
                raise UserError(
                    f"{key} is not set in your environment.",
                    fix=f"Write {key}=VALUE, or 'export {key}=...' first.",
                    code="no-such-variable",
                )
            value = os.environ[key]
        variables[key] = value
    return variables


def _require_one_source(parsed: argparse.Namespace, command: list[str]) -> None:
    if not (parsed.file or parsed.from_slurm or command):
        raise UserError(
            "no job is given: neither a file nor a command.",
            fix="Run 'bursar submit job.yaml' or 'bursar submit --gpus 1 -- python train.py'.",
            code="no-job-given",
        )
    if parsed.file and parsed.from_slurm:
        raise UserError(
            f"{parsed.file} and --from-slurm {parsed.from_slurm} are two jobs.",
            fix="Submit them separately.",
            code="two-jobs-given",
        )
