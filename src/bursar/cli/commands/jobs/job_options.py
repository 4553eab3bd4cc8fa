"""How a job is given on the command line: a file, an sbatch script, or words; and changes to it."""

from __future__ import annotations

import argparse
import os
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bursar.cli.arguments import one_or_more
from bursar.cli.terminal.messages import warn
from bursar.model.errors import UserError

if TYPE_CHECKING:
    from bursar.client import Client
    from bursar.client.document import Document

QUEUE: Final = re.compile(r"""^\s*[{"']*queue["']?\s*:""", re.MULTILINE)


def add_job(parser: argparse.ArgumentParser) -> None:
    """What to run, and what of it to change."""
    parser.add_argument("file", nargs="?", metavar="FILE", help="a job file (YAML)")
    parser.add_argument(
        "--from-slurm", metavar="SCRIPT", help="an sbatch script instead of a job file"
    )
    changes = parser.add_argument_group("changes to the file, or the job itself")
    changes.add_argument("--name", metavar="NAME", help="what the job is called")
    changes.add_argument("--queue", metavar="QUEUE", help="where it waits")
    changes.add_argument("--priority", metavar="CLASS", help="its priority class")
    changes.add_argument(
        "--gpus", metavar="N|MODEL:N", help="GPUs on each node: 2 of any model, or T4:2"
    )
    changes.add_argument("--nodes", type=one_or_more, metavar="N", help="on so many nodes at once")
    changes.add_argument("--max-hours", type=float, metavar="H", help="stop it after so many hours")
    changes.add_argument(
        "--max-cost", metavar="USD", help="stop it when it has cost so many dollars"
    )
    changes.add_argument("--workdir", metavar="DIR", help="a folder whose files go with the job")
    changes.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="KEY[=VALUE]",
        help="a variable; without a value the one it has here; may be given several times",
    )
    changes.add_argument(
        "--secret",
        action="append",
        default=[],
        metavar="KEY[=VALUE]",
        help="a variable that is never shown; write KEY alone to take the value it has here",
    )
    changes.description = "words after -- are the command to run: '-- python train.py --epochs 3'"
    parser.set_defaults(takes_words=True)


def document_of(parsed: argparse.Namespace) -> tuple[Document, dict[str, object]]:
    """The job as written, and the changes that the options make to it."""
    from bursar.client.document import Document, read_document

    changes = changes_of(parsed)
    command = list(parsed.words)
    _refuse_two_sources(parsed, command)
    if parsed.from_slurm:
        from bursar.wiring.slurm.script import import_sbatch

        text, notes = import_sbatch(parsed.from_slurm)
        for note in notes:
            warn(note)
        return Document(text=text, folder=Path(parsed.from_slurm).parent), changes
    if command:
        changes = {**_of_words(command), **changes}
    if parsed.file:
        return read_document(Path(parsed.file)), changes
    return read_document({}), changes


def with_queue(client: Client, document: Document, changes: dict[str, object]) -> dict[str, object]:
    """Whoever may use one queue alone need not name it."""
    if "queue" in changes or QUEUE.search(document.text):
        return changes
    queues = client.whoami()["queues"]
    return {**changes, "queue": queues[0]} if len(queues) == 1 else changes


def changes_of(parsed: argparse.Namespace) -> dict[str, object]:
    """Options as keys of a job document."""
    said: dict[str, object] = {
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
    return {key: value for key, value in said.items() if value is not None}


def _of_words(command: list[str]) -> dict[str, object]:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", os.path.basename(command[0])).lstrip("._-") or "job"
    return {"name": name, "run": shlex.join(command)}


def _gpus(text: str | None) -> object:
    if text is None:
        return None
    return int(text) if text.isascii() and text.isdigit() else text


def _variables(pairs: list[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            if key not in os.environ:
                raise UserError(
                    f"{key} has no value here.",
                    fix=f"Write {key}=VALUE, or 'export {key}=...' first.",
                    code="no-such-variable",
                )
            value = os.environ[key]
        found[key] = value
    return found


def _refuse_two_sources(parsed: argparse.Namespace, command: list[str]) -> None:
    if not (parsed.file or parsed.from_slurm or command):
        raise UserError(
            "there is no job: neither a file nor a command is given.",
            fix="'bursar submit job.yaml', or 'bursar submit --queue QUEUE --gpus 1 -- python train.py'.",
            code="no-job-given",
        )
    if parsed.file and parsed.from_slurm:
        raise UserError(
            f"{parsed.file} and --from-slurm {parsed.from_slurm} are two jobs.",
            fix="Submit them one after the other.",
            code="two-jobs-given",
        )
