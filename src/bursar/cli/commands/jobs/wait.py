"""Waiting for a job and following it. The job does not depend on us: Ctrl-C leaves it alone."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Final

from bursar.cli import exit_codes
from bursar.cli.arguments import seconds
from bursar.cli.connection import still_at
from bursar.cli.terminal.messages import print_note
from bursar.cli.terminal.safe_text import log_lines

if TYPE_CHECKING:
    from bursar.client import Client, Job, wire

SIGNALLED: Final = 128
NOT_YET: Final = frozenset({"blocked", "queued"})
BY_STATE: Final = {
    "succeeded": exit_codes.OK,
    "failed": exit_codes.JOB_FAILED,
    "cancelled": exit_codes.JOB_CANCELLED,
}


def add_wait(parser: argparse.ArgumentParser) -> None:
    """Whether to stay until the job is over."""
    group = parser.add_argument_group("staying until it is over")
    group.add_argument(
        "--wait", action="store_true", help="wait; the exit code says what became of the job"
    )
    group.add_argument("--follow", action="store_true", help="show its output as well, and wait")
    group.add_argument(
        "--wait-seconds", type=seconds, metavar="S", help="wait at most so long (exit code 101)"
    )
    group.add_argument(
        "--exit-code",
        action="store_true",
        help="exit with the job's own code, 128 + the signal when a signal ended it",
    )


def stays(parsed: argparse.Namespace) -> bool:
    """Whether any option asks to stay."""
    return bool(parsed.wait or parsed.follow or parsed.exit_code or parsed.wait_seconds is not None)


def wait_or_follow(parsed: argparse.Namespace, client: Client, job: Job) -> int:
    """Wait or follow, and the exit code that says what became of the job."""
    from bursar.client.errors import NotFound, TimedOut

    try:
        if parsed.follow:
            follow(client, job.id, {})
        with still_at(f"waiting for {job.id}"):
            state = job.wait(parsed.wait_seconds)
    except NotFound as gone:
        print_note(f"{gone.problem} {gone.fix}")
        return exit_codes.JOB_NOT_FOUND
    except TimedOut as late:
        if late.code != "still-going":
            raise
        print_note(f"{late.problem} {late.fix}")
        return exit_codes.JOB_NOT_FINISHED
    except KeyboardInterrupt:
        return left_alone(job.id)
    members = job.members
    shown = _decisive(members, state)
    several = f" (one of {len(members):,} jobs)" if len(members) > 1 else ""
    print_note(f"{shown['id']} is {state}{several}.{_how(shown)}")
    if parsed.exit_code and state == "failed":
        return own_code(shown["exit_code"], shown["exit_signal"])
    return BY_STATE[state]


def _decisive(members: tuple[Job, ...], state: str) -> wire.JobDetail:
    """Of an array, the first member that made it what it is."""
    for member in members:
        shown = member.show()
        if shown["state"] == state:
            break
    return shown


def left_alone(job_id: str) -> int:
    """What Ctrl-C means."""
    print_note(
        f"\n{job_id} goes on without you. 'bursar logs -f {job_id}' follows it, "
        f"'bursar cancel {job_id}' ends it."
    )
    return exit_codes.INTERRUPTED


def follow(client: Client, job_id: str, chosen: dict[str, str | int], *, raw: bool = False) -> None:
    """Output as it comes, through every attempt, until the job is over; of an array, job by job."""
    shown = client.show(job_id)
    for member in shown["array"]["members"] if "array" in shown else ():
        print_note(f"==> {member['id']} <==")
        _follow_one(client, member["id"], chosen, raw=raw)
    if "array" not in shown:
        _follow_one(client, shown["id"], chosen, raw=raw)


def _follow_one(
    client: Client, job_id: str, chosen: dict[str, str | int], *, raw: bool = False
) -> None:
    from bursar.client.function_result import ResultFilter

    state = client.show(job_id)["state"]
    if state in NOT_YET:
        print_note(
            f"{job_id} is {state}; 'bursar why {job_id}' says why. Its output will follow here."
        )
    filters: dict[tuple[int, str], ResultFilter] = {}
    for piece in client.follow_logs(job_id, **chosen):
        text = piece["text"]
        if not raw:
            text = filters.setdefault((piece["task"], piece["stream"]), ResultFilter()).feed(text)
        write_output(text, raw=raw)


def write_output(text: str, *, raw: bool = False) -> None:
    """Some of a job's output, without what could fool a terminal."""
    sys.stdout.write(text if raw else log_lines(text))
    sys.stdout.flush()


def own_code(code: int | None, signal: int | None) -> int:
    """The job's own exit code as a shell would give it."""
    if signal:
        return SIGNALLED + signal
    return code or exit_codes.JOB_FAILED


def _how(shown: object) -> str:
    from bursar.cli.terminal.format import how_it_ended

    assert isinstance(shown, dict)
    told = how_it_ended(shown)
    return "" if told in ("-", "0:0") or shown["state"] == "succeeded" else f" Exit {told}."
