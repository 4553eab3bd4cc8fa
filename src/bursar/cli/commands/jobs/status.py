"""``bursar status``: the newest jobs, or one job in detail."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from bursar.cli.arguments import argument, choice, command, flag, listing
from bursar.cli.commands.jobs.wait import WAIT, should_wait, wait_or_follow
from bursar.cli.connection import ask, connect
from bursar.cli.exit_codes import OK
from bursar.cli.terminal.format import (
    exit_text,
    per_hour,
    run_time,
    since,
    timestamp,
    tone_of_state,
    until,
)
from bursar.cli.terminal.safe_text import one_line
from bursar.cli.terminal.table import Column, Row, TableSpec, print_one, show_list
from bursar.model.units import counted

if TYPE_CHECKING:
    from bursar.client import Client

SHOWN_MEMBERS: Final = 20
LIVE_STATES: Final = ("starting", "running", "stopping", "cancelling", "expiring")
STATES: Final = (
    *("blocked", "queued", "starting", "running", "stopping", "cancelling", "expiring"),
    *("succeeded", "failed", "cancelled"),
)


@command(
    "status",
    argument("job", "JOB", "job id", nargs="?"),
    choice("--state", STATES, "only jobs in this state; repeatable", action="append"),
    argument("--queue", "QUEUE", "only jobs of this queue"),
    argument("--owner", "USER", "only jobs of this user"),
    flag("--mine", "only your own jobs"),
    argument("--name", "NAME", "only jobs of this name"),
    argument("--label", "KEY=VALUE", "only jobs with this label"),
    WAIT,
    *listing(20),
    examples=(
        "bursar status",
        "bursar status --state failed --state cancelled -o csv",
        "bursar status j-abcdefghij --wait --exit-code",
    ),
)
def status(parsed: argparse.Namespace) -> int:
    """List jobs, newest first, or show one in detail.

    Without JOB: list the jobs you may see, also finished ones. With JOB: show its state, its attempts and
    where they ran.
    """
    if parsed.job is None:
        return show_list(parsed, LISTING, lambda client: _rows(parsed, client))
    if should_wait(parsed):
        with connect(parsed) as client:
            return wait_or_follow(parsed, client, client.job(parsed.job))
    job = ask(parsed, lambda client: client.show(parsed.job))
    print_one(parsed, job, lambda: print("\n".join(job_lines(job))))
    return OK


def _rows(parsed: argparse.Namespace, client: Client) -> Iterator[Row]:
    owner = client.whoami()["user"] if parsed.mine else parsed.owner
    filters = {
        "state": parsed.state or "",
        "queue": parsed.queue or "",
        "owner": owner or "",
        "name": parsed.name or "",
        "label": parsed.label or "",
    }
    return client.jobs(limit=parsed.limit, **filters)


def job_lines(job: Any) -> Iterator[str]:
    """One job as lines, its attempts last."""
    yield f"job         {one_line(job['id'])}"
    yield f"name        {one_line(job['name'])}"
    yield f"queue       {one_line(job['queue'])}, priority {job['priority']}"
    yield f"owner       {one_line(job['owner'])}"
    yield f"state       {job['state']}"
    yield f"GPUs        {job['gpus']}"
    yield f"submitted   {timestamp(job['submitted_at_ms'])} ({since(job['submitted_at_ms'])} ago)"
    if job["started_at_ms"] is not None:
        yield f"started     {timestamp(job['started_at_ms'])}, ran {run_time(job)}"
    if job["ended_at_ms"] is not None:
        yield f"ended       {timestamp(job['ended_at_ms'])}, exit {one_line(exit_text(job))}"
    if "array" in job:
        yield from _members(job["array"])
    if job["nodes"]:
        nodes = one_line(", ".join(job["nodes"]))
        yield f"runs on     {one_line(job['pool'])}: {nodes}, {per_hour(job['micro_usd_per_hour'])}"
    if job["failures"] or job["preemptions"]:
        failed = counted(job["failures"], "failure")
        yield f"so far      {failed}, {counted(job['preemptions'], 'preemption')}"
    if job["progress"] is not None:
        yield f"progress    {progress_text(job)}"
    if job["recovered"] is not None:
        yield f"recovered   {recovery(job)}"
    if job["labels"]:
        labels = ", ".join(f"{key}={value}" for key, value in sorted(job["labels"].items()))
        yield f"labels      {one_line(labels)}"
    for attempt in job["attempts"]:
        yield f"attempt {attempt['attempt']:<3} {attempt_line(attempt)}"
    if job["state"] in ("blocked", "queued"):
        yield f"'bursar why {one_line(job['id'])}' prints why it waits."


def progress_text(job: Any) -> str:
    """The last reported progress; of a running job also its age and the expected end."""
    report = job["progress"]
    parts = [short_progress(job)]
    if report["attempt"] != job["attempt"]:
        parts.append(f"reported by attempt {report['attempt']}")
    elif job["state"] in LIVE_STATES:
        parts.append(f"{since(report['at_ms'])} ago")
        if report["expected_end_ms"] is not None and report["step"] != report["total"]:
            parts.append(f"done {until(report['expected_end_ms'])} at this rate")
    return ", ".join(parts)


def short_progress(job: Any) -> str:
    """``step 120 of 1,000 (12 %)``, or only the step."""
    report = job["progress"]
    if report is None:
        return "-"
    if report["permille"] is None:
        return f"step {report['step']:,}"
    return f"step {report['step']:,} of {report['total']:,} ({report['permille'] / 10:g} %)"


def recovery(job: Any) -> str:
    """Whether a restarted job has recovered, and the step it resumed from."""
    steps = [] if job["resumed_step"] is None else [f"resumed from step {job['resumed_step']:,}"]
    if job["saved_step"] is not None:
        steps.append(f"saved step {job['saved_step']:,}")
    if job["recovered"]:
        return "yes: " + (", ".join(steps) or "saved since its restart")
    return "not yet: it runs again, but has neither reported a step nor saved"


def _members(array: Any) -> Iterator[str]:
    counts = ", ".join(f"{count} {state}" for state, count in array["states"].items())
    yield f"array       {array['size']} jobs: {counts}"
    shown = array["members"][:SHOWN_MEMBERS]
    for member in shown:
        yield f"member      {one_line(member['id'])}: {member['state']}"
    if len(shown) < array["size"]:
        yield f"            and {array['size'] - len(shown)} more; -o json lists all"


def attempt_line(attempt: Any) -> str:
    """Where one attempt ran, for how long, and how it ended."""
    nodes = f"{attempt['pool']}: {', '.join(attempt['nodes'])}"
    began = timestamp(attempt["started_at_ms"] or attempt["assigned_at_ms"])
    ended = attempt["outcome"] or "still running"
    return one_line(
        f"{nodes}, from {began}, ran {run_time(attempt)}, {ended}, exit {exit_text(attempt)}"
    )


LISTING: Final = TableSpec(
    columns=(
        Column("JOB", lambda row: row["id"], whole=True),
        Column("NAME", lambda row: row["name"]),
        Column("QUEUE", lambda row: row["queue"]),
        Column("OWNER", lambda row: row["owner"]),
        Column("STATE", lambda row: row["state"], whole=True, tone=tone_of_state),
        Column("GPUS", lambda row: row["gpus"], right=True),
        Column("SUBMITTED", lambda row: f"{since(row['submitted_at_ms'])} ago", right=True),
        Column("RAN", run_time, right=True),
        Column("EXIT", exit_text),
        Column("PROGRESS", short_progress, only_wide=True),
        Column("ATTEMPTS", lambda row: row["attempt"], right=True, only_wide=True),
        Column("PREEMPTED", lambda row: row["preemptions"], right=True, only_wide=True),
        Column("NODES", lambda row: ",".join(row["nodes"]), only_wide=True),
        Column(
            "PRICE", lambda row: per_hour(row["micro_usd_per_hour"]), right=True, only_wide=True
        ),
    ),
    keys=(
        *("id", "name", "queue", "owner", "state", "priority", "attempt", "failures"),
        *("preemptions", "submitted_at_ms", "started_at_ms", "ended_at_ms", "exit_code"),
        *("exit_signal", "exit_detail", "nodes", "gpus", "pool", "micro_usd_per_hour"),
        *("saved_step", "resumed_step", "recovered", "progress", "labels"),
    ),
    nothing="no job matches; 'bursar submit job.yaml' submits one.",
)
