"""``bursar cancel`` and ``bursar retry``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from bursar.cli.arguments import add_connection, add_format, add_yes, new_parser
from bursar.cli.commands.jobs.wait import add_wait, should_wait, wait_or_follow
from bursar.cli.connection import connect, show_activity
from bursar.cli.exit_codes import FAILED, OK, WRONG_USAGE, exit_code_of
from bursar.cli.terminal.messages import confirm, is_interactive, print_error, print_note
from bursar.cli.terminal.table import Column, Row, TableSpec, print_rows
from bursar.model.errors import UserError

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers
    from bursar.client import Client

LIVE: Final = ("blocked", "queued", "starting", "running", "stopping", "expiring")
CONFIRM_FROM: Final = 2
"""How many jobs need a confirmation."""


def add_parser(commands: Subparsers) -> None:
    cancel = new_parser(
        commands,
        "cancel",
        (
            "cancel running or waiting jobs",
            "Running jobs get their grace period. Cancelling several jobs asks for confirmation at a "
            "terminal and needs --yes elsewhere.",
        ),
        ("bursar cancel j-abcdefghij", "bursar cancel --queue vision -y"),
    )
    cancel.add_argument("jobs", nargs="*", metavar="JOB", help="job ids")
    cancel.add_argument("--queue", metavar="QUEUE", help="all unfinished jobs of this queue")
    cancel.add_argument("--mine", action="store_true", help="all your own unfinished jobs")
    add_yes(cancel)
    add_format(cancel)
    add_connection(cancel)
    retry = new_parser(
        commands,
        "retry",
        (
            "submit a finished job again, unchanged",
            "The new job gets a new id. Secrets are deleted when a job ends: submit a job with "
            "secrets again from its file.",
        ),
        ("bursar retry j-abcdefghij --follow",),
    )
    retry.add_argument("job", metavar="JOB", help="id of a finished job")
    add_wait(retry)
    add_format(retry)
    add_connection(retry)


def run_cancel(parsed: argparse.Namespace) -> int:
    """Cancel the jobs and print the state of each."""
    with connect(parsed) as client:
        ids = list(dict.fromkeys([*parsed.jobs, *_selected(parsed, client)]))
        if not ids:
            return _no_job(parsed)
        if len(ids) >= CONFIRM_FROM and not parsed.yes:
            if not is_interactive():
                print_error(f"cannot confirm {len(ids)} jobs: not a terminal.", "Pass --yes.")
                return WRONG_USAGE
            if not confirm(f"cancel {len(ids)} jobs ({', '.join(ids[:3])}, ...)?", default=False):
                print_note("cancelled nothing.")
                return FAILED
        with show_activity("cancelling jobs"):
            return _cancel_each(parsed, client, ids)


def _selected(parsed: argparse.Namespace, client: Client) -> list[str]:
    if not (parsed.queue or parsed.mine):
        return []
    owner = client.whoami()["user"] if parsed.mine else ""
    jobs = client.jobs(state=list(LIVE), queue=parsed.queue or "", owner=owner)
    return [job["id"] for job in jobs]


def _no_job(parsed: argparse.Namespace) -> int:
    if parsed.queue or parsed.mine:
        print_note("no unfinished job matches.")
        return OK
    print_error("no job is given.", "Run 'bursar cancel JOB'; 'bursar queue' lists jobs.")
    return WRONG_USAGE


def _cancel_each(parsed: argparse.Namespace, client: Client, ids: list[str]) -> int:
    """Cancel each job; an error in one does not affect the others."""
    cancelled: list[Row] = []
    code = OK
    for job_id in ids:
        try:
            cancelled.append({"id": job_id, "state": client.cancel(job_id)["state"]})
        except UserError as error:
            print_error(f"{job_id}: {error.problem}", error.fix)
            code = exit_code_of(error)
    if cancelled:
        print_rows(parsed, CANCELLED, cancelled)
    return code


def run_retry(parsed: argparse.Namespace) -> int:
    """Submit the job again and print the new id."""
    with connect(parsed) as client:
        with show_activity("submitting the job again"):
            job = client.retry(parsed.job)
        if parsed.output in ("table", "wide"):
            print(job.id, flush=True)
        else:
            submitted = {"id": job.id, "ids": list(job.ids), "retry_of": parsed.job}
            print_rows(parsed, RETRIED, [submitted])
        return wait_or_follow(parsed, client, job) if should_wait(parsed) else OK


CANCELLED: Final = TableSpec(
    columns=(
        Column("JOB", lambda row: row["id"], whole=True),
        Column("STATE", lambda row: row["state"], whole=True),
    ),
    keys=("id", "state"),
)
RETRIED: Final = TableSpec(columns=(), keys=("id", "ids", "retry_of"))
