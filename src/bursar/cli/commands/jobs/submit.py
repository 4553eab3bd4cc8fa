"""``bursar submit``: hand in a job; at a terminal its price is shown before."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from bursar.cli.arguments import add_connection, add_format, add_yes, new_parser
from bursar.cli.commands.jobs.job_options import add_job, document_of, with_queue
from bursar.cli.commands.jobs.wait import add_wait, stays, wait_or_follow
from bursar.cli.connection import connect, still_at
from bursar.cli.exit_codes import FAILED, OK
from bursar.cli.terminal.messages import agreed, is_interactive, print_note
from bursar.cli.terminal.table import print_one

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers
    from bursar.client import Client
    from bursar.client.document import Document

EXAMPLES = (
    "bursar submit job.yaml",
    "bursar submit job.yaml --queue vision --env EPOCHS=3 --follow",
    "bursar submit --queue vision --gpus 2 -- python train.py",
    "bursar submit --from-slurm train.sbatch --wait --exit-code",
)


def add_parser(commands: Subparsers) -> None:
    """The command and its options."""
    parser = new_parser(
        commands,
        "submit",
        (
            "submit a job: a file, an sbatch script, or a command",
            "Submits a job. Once the id is printed the job is safe: it is never lost and never run "
            "twice at once. At a terminal the price and the expected start are shown first.",
        ),
        EXAMPLES,
        aliases=("launch",),
    )
    add_job(parser)
    parser.add_argument(
        "--governed",
        metavar="FLEET",
        help="hand it to the Slurm that is here, which decides when; this fleet file says where",
    )
    add_wait(parser)
    add_yes(parser)
    add_format(parser)
    add_connection(parser)


def run(parsed: argparse.Namespace) -> int:
    """Submit, say the id, and stay if asked to."""
    if parsed.governed:
        return _to_slurm(parsed)
    document, changes = document_of(parsed)
    with connect(parsed) as client:
        changes = with_queue(client, document, changes)
        if not parsed.yes and is_interactive() and not _wanted(client, document, changes):
            print_note("not submitted.")
            return FAILED
        with still_at("sending the job"):
            job = client.submit_document(client.prepare(document, changes))
        made = {"id": job.id, "ids": list(job.ids)}
        print_one(parsed, made, lambda: print(job.id))
        sys.stdout.flush()
        if len(job.ids) > 1:
            print_note(f"an array of {len(job.ids):,} jobs: {job.ids[0]} to {job.ids[-1]}.")
        for one in job.findings:
            print_note(
                f"{one['mode']} of rule {one['rule']} ({one['owner']}): {one['text']}. {one['fix']}"
            )
        if stays(parsed):
            return wait_or_follow(parsed, client, job)
    print_note(
        f"'bursar logs -f {job.id}' follows it, 'bursar why {job.id}' says what it waits for."
    )
    return OK


def _to_slurm(parsed: argparse.Namespace) -> int:
    """Past the server: what decides there is Slurm."""
    from bursar.cli.commands.fleet.slurm import hand_over
    from bursar.wiring.slurm.governed import SlurmOptions
    from bursar.wiring.slurm.submit import SubmitOptions

    return hand_over(parsed, SlurmOptions(fleet=parsed.governed), SubmitOptions())


def _wanted(client: Client, document: Document, changes: dict[str, object]) -> bool:
    """The price before the question."""
    from bursar.cli.commands.jobs.plan import short_lines

    with still_at("asking what it would cost"):
        found = client.plan(document, **changes)
    for line in short_lines(found):
        print_note(line)
    return agreed("submit it?", default=found["feasible"])
