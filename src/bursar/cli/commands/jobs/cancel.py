"""``bursar cancel`` and ``bursar retry``: the end of jobs, and the same once more."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from bursar.cli.arguments import add_connection, add_format, add_yes, new_parser
from bursar.cli.commands.jobs.wait import add_wait, stays, wait_or_follow
from bursar.cli.connection import connect, still_at
from bursar.cli.exit_codes import FAILED, OK, WRONG_USAGE, exit_code_of
from bursar.cli.terminal.messages import agreed, is_interactive, print_error, print_note
from bursar.cli.terminal.table import Column, Row, TableSpec, print_rows
from bursar.model.errors import UserError

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers
    from bursar.client import Client

LIVE: Final = ("blocked", "queued", "starting", "running", "stopping", "expiring")
ASK_FROM: Final = 2


def add_parser(commands: Subparsers) -> None:
    """Both commands and their options."""
    ends = new_parser(
        commands,
        "cancel",
        (
            "end jobs, or take them out of the queue",
            "Jobs that run get the time of grace that they were promised. Several at once are "
            "confirmed at a terminal; elsewhere -y is needed.",
        ),
        ("bursar cancel j-abcdefghij", "bursar cancel --queue vision -y"),
    )
    ends.add_argument("jobs", nargs="*", metavar="JOB", help="ids of jobs")
    ends.add_argument("--queue", metavar="QUEUE", help="all jobs of this queue that are not over")
    ends.add_argument("--mine", action="store_true", help="all your own jobs that are not over")
    add_yes(ends)
    add_format(ends)
    add_connection(ends)
    again = new_parser(
        commands,
        "retry",
        (
            "submit a job that is over once more, as it was",
            "The new job has an id of its own. Secrets are forgotten when a job is over: a job that "
            "had some must be submitted again from its file.",
        ),
        ("bursar retry j-abcdefghij --follow",),
    )
    again.add_argument("job", metavar="JOB", help="the id of a job that is over")
    add_wait(again)
    add_format(again)
    add_connection(again)


def run_cancel(parsed: argparse.Namespace) -> int:
    """End them, and say in which state each is then."""
    with connect(parsed) as client:
        ids = list(dict.fromkeys([*parsed.jobs, *_found(parsed, client)]))
        if not ids:
            return _nothing_named(parsed)
        if len(ids) >= ASK_FROM and not parsed.yes:
            if not is_interactive():
                print_error(f"{len(ids)} jobs would end, and there is nobody to ask.", "Say -y.")
                return WRONG_USAGE
            if not agreed(f"end {len(ids)} jobs ({', '.join(ids[:3])}, ...)?", default=False):
                print_note("nothing was ended.")
                return FAILED
        with still_at("ending jobs"):
            return _end(parsed, client, ids)


def _found(parsed: argparse.Namespace, client: Client) -> list[str]:
    if not (parsed.queue or parsed.mine):
        return []
    owner = client.whoami()["user"] if parsed.mine else ""
    jobs = client.jobs(state=list(LIVE), queue=parsed.queue or "", owner=owner)
    return [job["id"] for job in jobs]


def _nothing_named(parsed: argparse.Namespace) -> int:
    if parsed.queue or parsed.mine:
        print_note("there is no such job that is not over.")
        return OK
    print_error("no job is named.", "'bursar cancel JOB'; 'bursar queue' lists jobs.")
    return WRONG_USAGE


def _end(parsed: argparse.Namespace, client: Client, ids: list[str]) -> int:
    """Each by itself: one that cannot be ended does not keep the others from it."""
    ended: list[Row] = []
    worst = OK
    for job_id in ids:
        try:
            ended.append({"id": job_id, "state": client.cancel(job_id)["state"]})
        except UserError as error:
            print_error(f"{job_id}: {error.problem}", error.fix)
            worst = exit_code_of(error)
    if ended:
        print_rows(parsed, ENDED, ended)
    return worst


def run_retry(parsed: argparse.Namespace) -> int:
    """Submit it again and say the new id."""
    with connect(parsed) as client:
        with still_at("submitting it again"):
            job = client.retry(parsed.job)
        if parsed.output in ("table", "wide"):
            print(job.id, flush=True)
        else:
            made = {"id": job.id, "ids": list(job.ids), "retry_of": parsed.job}
            print_rows(parsed, RETRIED, [made])
        return wait_or_follow(parsed, client, job) if stays(parsed) else OK


ENDED: Final = TableSpec(
    columns=(
        Column("JOB", lambda row: row["id"], whole=True),
        Column("STATE", lambda row: row["state"], whole=True),
    ),
    keys=("id", "state"),
)
RETRIED: Final = TableSpec(columns=(), keys=("id", "ids", "retry_of"))
