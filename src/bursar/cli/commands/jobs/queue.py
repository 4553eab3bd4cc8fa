"""``bursar queue``: running jobs, then waiting jobs in queue order with their reasons."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from bursar.cli.arguments import argument, command, flag, listing
from bursar.cli.terminal.format import per_hour, since, tone_of_state
from bursar.cli.terminal.table import Column, Row, TableSpec, show_list

if TYPE_CHECKING:
    from bursar.client import Client

ACTIVE: Final = ("starting", "running", "stopping", "cancelling", "expiring")


@command(
    "queue",
    argument("--queue", "QUEUE", "only jobs of this queue"),
    argument("--owner", "USER", "only jobs of this user"),
    flag("--waiting", "only waiting jobs"),
    *listing(),
    examples=(
        "bursar queue",
        "bursar queue --queue vision --watch",
        "bursar queue --waiting -o json",
    ),
    aliases=("ps",),
)
def queue(parsed: argparse.Namespace) -> int:
    """List running and waiting jobs, with nodes, positions and reasons.

    Running jobs come first, then waiting jobs in queue order. The last column shows where a job runs, or why
    it waits.
    """
    return show_list(parsed, LISTING, lambda client: _rows(parsed, client))


def _rows(parsed: argparse.Namespace, client: Client) -> list[Row]:
    """The selected running jobs, then the selected waiting jobs."""
    selected: list[Row] = []
    if not parsed.waiting:
        filters = {"queue": parsed.queue or "", "owner": parsed.owner or ""}
        active = client.jobs(state=list(ACTIVE), limit=parsed.limit, **filters)
        selected += [with_defaults(job) for job in active]
    for waiting in client.queue():
        if len(selected) >= parsed.limit:
            break
        if parsed.queue in (None, waiting["queue"]) and parsed.owner in (None, waiting["owner"]):
            selected.append(with_defaults(waiting))
    return selected


def with_defaults(job: Mapping[str, Any]) -> Row:
    """A job with the keys of both running and waiting jobs."""
    empty: dict[str, object] = {
        "position": None,
        "reason": "",
        "reasons": [],
        "started_at_ms": None,
        "nodes": [],
    }
    return {**empty, "pool": None, "micro_usd_per_hour": None, **job}


def _nodes_or_reason(row: Row) -> str:
    if row["nodes"]:
        return f"{row['pool']}: {','.join(row['nodes'])}"
    return f"({row['reason']})" if row["reason"] else ""


def _time(row: Row) -> str:
    return since(row["started_at_ms"] or row["submitted_at_ms"])


LISTING: Final = TableSpec(
    columns=(
        Column("JOB", lambda row: row["id"], whole=True),
        Column("QUEUE", lambda row: row["queue"]),
        Column("NAME", lambda row: row["name"]),
        Column("OWNER", lambda row: row["owner"]),
        Column("STATE", lambda row: row["state"], whole=True, tone=tone_of_state),
        Column("POS", lambda row: row["position"], right=True),
        Column("PRIORITY", lambda row: row["priority"], right=True, only_wide=True),
        Column("GPUS", lambda row: row["gpus"], right=True),
        Column("PRICE", lambda row: per_hour(row["micro_usd_per_hour"]), right=True),
        Column("TIME", _time, right=True),
        Column("NODES (REASON)", _nodes_or_reason),
    ),
    keys=(
        *("id", "name", "queue", "owner", "state", "priority", "position", "gpus"),
        *("submitted_at_ms", "started_at_ms", "pool", "nodes", "micro_usd_per_hour", "reason"),
        "reasons",
    ),
    nothing="no jobs are running or waiting; 'bursar submit job.yaml' submits one.",
)
