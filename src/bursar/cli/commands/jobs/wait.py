"""Waits for a job or follows its output. Ctrl-C does not affect the job."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from bursar.cli import exit_codes
from bursar.cli.arguments import argument, flag, group, seconds
from bursar.cli.connection import show_activity
from bursar.cli.terminal.messages import print_note
from bursar.cli.terminal.safe_text import log_lines

if TYPE_CHECKING:
    from bursar.client import Client, Job, wire

SIGNALLED: Final = 128
WAITING: Final = frozenset({"blocked", "queued"})
BY_STATE: Final = {
    "succeeded": exit_codes.OK,
    "failed": exit_codes.JOB_FAILED,
    "cancelled": exit_codes.JOB_CANCELLED,
}


WAIT: Final = group(
    "waiting",
    flag("--wait", "wait for the job to end; the exit code is its outcome"),
    flag("--follow", "wait and print the output of the job"),
    argument("--wait-seconds", "S", "wait at most S seconds (then exit code 101)", type=seconds),
    flag("--exit-code", "exit with the job's own exit code, or 128 + the signal that ended it"),
)
"""The options to wait for the end of the job."""


def should_wait(parsed: argparse.Namespace) -> bool:
    """Whether any option requests waiting."""
    return bool(parsed.wait or parsed.follow or parsed.exit_code or parsed.wait_seconds is not None)


def wait_or_follow(parsed: argparse.Namespace, client: Client, job: Job) -> int:
    """Wait for a job or follow it; returns the exit code for its outcome."""
    from bursar.client.errors import NotFound, TimedOut

    try:
        if parsed.follow:
            follow(client, job.id, {})
        with show_activity(f"waiting for {job.id}"):
            state = job.wait(parsed.wait_seconds)
    except NotFound as error:
        print_note(f"{error.problem} {error.fix}")
        return exit_codes.JOB_NOT_FOUND
    except TimedOut as error:
        if error.code != "still-going":
            raise
        print_note(f"{error.problem} {error.fix}")
        return exit_codes.JOB_NOT_FINISHED
    except KeyboardInterrupt:
        return detach(job.id)
    members = job.members
    detail = _decisive(members, state)
    several = f" (one of {len(members):,} jobs)" if len(members) > 1 else ""
    verb = "was cancelled" if state == "cancelled" else state
    print_note(f"{detail['id']} {verb}{several}.{_exit_sentence(detail)}")
    if parsed.exit_code and state == "failed":
        return own_code(detail["exit_code"], detail["exit_signal"])
    return BY_STATE[state]


def _decisive(members: tuple[Job, ...], state: str) -> wire.JobDetail:
    """The first member of an array that is in the array's final state."""
    for member in members:
        detail = member.show()
        if detail["state"] == state:
            break
    return detail


def detach(job_id: str) -> int:
    """Handle Ctrl-C: stop following and leave the job running."""
    print_note(
        f"\n{job_id} continues. 'bursar logs -f {job_id}' follows it, "
        f"'bursar cancel {job_id}' cancels it."
    )
    return exit_codes.INTERRUPTED


def follow(
    client: Client, job_id: str, filters: dict[str, str | int], *, raw: bool = False
) -> None:
    """Print output of every attempt until the job ends; the members of an array in order."""
    detail = client.show(job_id)
    for member in detail["array"]["members"] if "array" in detail else ():
        print_note(f"==> {member['id']} <==")
        _follow_one(client, member["id"], filters, raw=raw)
    if "array" not in detail:
        _follow_one(client, detail["id"], filters, raw=raw)


def _follow_one(
    client: Client, job_id: str, filters: dict[str, str | int], *, raw: bool = False
) -> None:
    from bursar.client.function_result import ResultFilter

    state = client.show(job_id)["state"]
    if state in WAITING:
        print_note(
            f"{job_id} is {state}; 'bursar why {job_id}' prints why. Its output will follow here."
        )
    result_filters: dict[tuple[int, str], ResultFilter] = {}
    for piece in client.follow_logs(job_id, **filters):
        text = piece["text"]
        if not raw:
            stream = (piece["task"], piece["stream"])
            text = result_filters.setdefault(stream, ResultFilter()).feed(text)
        write_output(text, raw=raw)


def write_output(text: str, *, raw: bool = False) -> None:
    """Print output of a job, safe for a terminal unless ``raw``."""
    sys.stdout.write(text if raw else log_lines(text))
    sys.stdout.flush()


def own_code(code: int | None, signal: int | None) -> int:
    """The job's own exit code as a shell reports it."""
    if signal:
        return SIGNALLED + signal
    return code or exit_codes.JOB_FAILED


def _exit_sentence(detail: object) -> str:
    from bursar.cli.terminal.format import exit_text

    assert isinstance(detail, dict)
    text = exit_text(detail)
    return "" if text in ("-", "0:0") or detail["state"] == "succeeded" else f" Exit {text}."
