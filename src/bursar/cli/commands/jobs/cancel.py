"""``bursar cancel`` and ``bursar retry``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from bursar.cli.arguments import CONNECTION, FORMAT, YES, argument, command, flag
from bursar.cli.commands.jobs.wait import WAIT, should_wait, wait_or_follow
from bursar.cli.connection import connect, show_activity
from bursar.cli.exit_codes import OK, WRONG_USAGE, exit_code_of
from bursar.cli.terminal.messages import print_error, print_note, refused
from bursar.cli.terminal.table import Column, Row, TableSpec, print_rows
from bursar.model.errors import UserError

if TYPE_CHECKING:
    from bursar.client import Client

LIVE: Final = ("blocked", "queued", "starting", "running", "stopping", "expiring")
CONFIRM_FROM: Final = 2
"""How many jobs need a confirmation."""


@command(
    "cancel",
    argument("jobs", "JOB", "job ids", nargs="*"),
    argument("--queue", "QUEUE", "all unfinished jobs of this queue"),
    flag("--mine", "all your own unfinished jobs"),
    YES,
    FORMAT,
    CONNECTION,
    examples=("bursar cancel j-abcdefghij", "bursar cancel --queue vision -y"),
)
def cancel(parsed: argparse.Namespace) -> int:
    """Cancel running or waiting jobs.

    Running jobs get their grace period. Cancelling several jobs asks for confirmation at a terminal and
    needs --yes elsewhere.
    """
    with connect(parsed) as client:
        ids = list(dict.fromkeys([*parsed.jobs, *_selected(parsed, client)]))
        if not ids:
            return _no_job(parsed)
        if len(ids) >= CONFIRM_FROM and not parsed.yes:
            jobs = f"{len(ids)} jobs"
            question = f"cancel {jobs} ({', '.join(ids[:3])}, ...)?"
            if code := refused(question, subject=jobs, otherwise="cancelled nothing."):
                return code
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


@command(
    "retry",
    argument("job", "JOB", "id of a finished job"),
    WAIT,
    FORMAT,
    CONNECTION,
    examples=("bursar retry j-abcdefghij --follow",),
)
def retry(parsed: argparse.Namespace) -> int:
    """Submit a finished job again, unchanged.

    The new job gets a new id. Secrets are deleted when a job ends: submit a job with secrets again from its
    file.
    """
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
