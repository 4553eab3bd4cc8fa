"""``bursar submit``: submit a job; at a terminal its price is shown first."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from bursar.cli.arguments import CONNECTION, FORMAT, YES, argument, command
from bursar.cli.commands.jobs.job_options import JOB, document_of, with_queue
from bursar.cli.commands.jobs.wait import WAIT, should_wait, wait_or_follow
from bursar.cli.connection import connect, show_activity
from bursar.cli.exit_codes import FAILED, OK
from bursar.cli.terminal.messages import confirm, is_interactive, print_note
from bursar.cli.terminal.table import print_one

if TYPE_CHECKING:
    from bursar.client import Client
    from bursar.client.document import Document


@command(
    "submit",
    *JOB,
    argument(
        "--governed",
        "FLEET",
        "submit to the local Slurm, which schedules the job, routed by this fleet file",
    ),
    WAIT,
    YES,
    FORMAT,
    CONNECTION,
    examples=(
        "bursar submit job.yaml",
        "bursar submit job.yaml --queue vision --env EPOCHS=3 --follow",
        "bursar submit --queue vision --gpus 2 -- python train.py",
        "bursar submit --from-slurm train.sbatch --wait --exit-code",
    ),
    aliases=("launch",),
)
def submit(parsed: argparse.Namespace) -> int:
    """Submit a job file, an sbatch script or a command.

    Once its id is printed, the job is stored durably and never runs twice at once. At a terminal the price
    and the expected start are shown first.
    """
    if parsed.governed:
        return _submit_to_slurm(parsed)
    document, changes = document_of(parsed)
    with connect(parsed) as client:
        changes = with_queue(client, document, changes)
        if not parsed.yes and is_interactive() and not _confirm_price(client, document, changes):
            print_note("not submitted.")
            return FAILED
        with show_activity("submitting the job"):
            job = client.submit_document(client.prepare(document, changes))
        submitted = {"id": job.id, "ids": list(job.ids)}
        print_one(parsed, submitted, lambda: print(job.id))
        sys.stdout.flush()
        if len(job.ids) > 1:
            print_note(f"an array of {len(job.ids):,} jobs: {job.ids[0]} to {job.ids[-1]}.")
        for one in job.findings:
            print_note(
                f"rule {one['rule']}, {one['mode']} ({one['owner']}): {one['text']}. {one['fix']}"
            )
        if should_wait(parsed):
            return wait_or_follow(parsed, client, job)
    print_note(
        f"'bursar logs -f {job.id}' follows its output, 'bursar why {job.id}' prints why it waits."
    )
    return OK


def _submit_to_slurm(parsed: argparse.Namespace) -> int:
    """Submit to Slurm without the server."""
    from bursar.cli.commands.fleet.slurm import submit_job
    from bursar.wiring.slurm.governed import SlurmOptions
    from bursar.wiring.slurm.submit import SubmitOptions

    return submit_job(parsed, SlurmOptions(fleet=parsed.governed), SubmitOptions())


def _confirm_price(client: Client, document: Document, changes: dict[str, object]) -> bool:
    """Print the plan and ask for confirmation."""
    from bursar.cli.commands.jobs.plan import short_lines

    with show_activity("estimating the cost"):
        plan = client.plan(document, **changes)
    for line in short_lines(plan):
        print_note(line)
    return confirm("submit the job?", default=plan["feasible"])
