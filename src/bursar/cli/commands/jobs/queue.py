"""``bursar queue``: what runs, and what waits, in the order in which it comes, each with its reason."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from bursar.cli.arguments import add_list, new_parser
from bursar.cli.connection import ask
from bursar.cli.terminal.format import per_hour, since, tone_of_state
from bursar.cli.terminal.table import Column, Row, TableSpec, show_list

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers
    from bursar.client import Client

ACTIVE: Final = ("starting", "running", "stopping", "cancelling", "expiring")


def add_parser(commands: Subparsers) -> None:
    """The command and its options."""
    parser = new_parser(
        commands,
        "queue",
        (
            "list what runs and what waits, with places, reasons and positions",
            "Lists jobs that run, then jobs that wait in the order in which they come. The last column "
            "is where a job runs, or why it does not.",
        ),
        ("bursar queue", "bursar queue --queue vision --watch", "bursar queue --waiting -o json"),
        aliases=("ps",),
    )
    parser.add_argument("--queue", metavar="QUEUE", help="only jobs of this queue")
    parser.add_argument("--owner", metavar="USER", help="only jobs of this user")
    parser.add_argument("--waiting", action="store_true", help="only jobs that wait")
    add_list(parser)


def run(parsed: argparse.Namespace) -> int:
    """Ask and show."""
    return show_list(parsed, LISTING, lambda: ask(parsed, lambda client: rows(parsed, client)))


def rows(parsed: argparse.Namespace, client: Client) -> list[Row]:
    """Running jobs, then waiting ones, as far as they were asked for."""
    found: list[Row] = []
    if not parsed.waiting:
        chosen = {"queue": parsed.queue or "", "owner": parsed.owner or ""}
        active = client.jobs(state=list(ACTIVE), limit=parsed.limit, **chosen)
        found += [one_shape(job) for job in active]
    for waiting in client.queue():
        if len(found) >= parsed.limit:
            break
        if parsed.queue in (None, waiting["queue"]) and parsed.owner in (None, waiting["owner"]):
            found.append(one_shape(waiting))
    return found


def one_shape(job: Mapping[str, Any]) -> Row:
    """One shape for what runs and what waits."""
    empty: dict[str, object] = {
        "position": None,
        "reason": "",
        "reasons": [],
        "started_at_ms": None,
        "nodes": [],
    }
    return {**empty, "pool": None, "micro_usd_per_hour": None, **job}


def _where_or_why(row: Row) -> str:
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
        Column("WHERE (WHY NOT)", _where_or_why),
    ),
    keys=(
        *("id", "name", "queue", "owner", "state", "priority", "position", "gpus"),
        *("submitted_at_ms", "started_at_ms", "pool", "nodes", "micro_usd_per_hour", "reason"),
        "reasons",
    ),
    nothing="nothing runs and nothing waits; 'bursar submit job.yaml' changes that.",
)
