"""``bursar fleet``: list nodes; plan and apply changes of the fleet."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bursar.cli.arguments import add_connection, add_format, add_list, add_yes, new_parser
from bursar.cli.connection import ask, connect, show_activity
from bursar.cli.exit_codes import FAILED, OK, WRONG_USAGE
from bursar.cli.terminal.format import until
from bursar.cli.terminal.messages import confirm, is_interactive, print_error, print_note
from bursar.cli.terminal.safe_text import one_line
from bursar.cli.terminal.table import Column, Row, TableSpec, print_rows, show_list
from bursar.model.errors import UserError
from bursar.model.units import GIB_MIB, MILLI, counted

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers

SUFFIXES: Final = (".yaml", ".yml")


def add_parser(commands: Subparsers) -> None:
    parser = new_parser(
        commands,
        "fleet",
        ("list nodes; plan and apply changes of fleet, tenants and policies", ""),
        ("bursar fleet show", "bursar fleet plan fleet.yaml", "bursar fleet apply fleet.yaml -y"),
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs", required=True)
    show = new_parser(
        verbs,
        "show",
        ("list nodes and their free capacity", ""),
        ("bursar fleet show -o wide",),
    )
    show.add_argument("--pool", metavar="POOL", help="only this pool")
    add_list(show, limit=500)
    plan = new_parser(
        verbs,
        "plan",
        ("print what a fleet file would change, and the effect on jobs", ""),
        ("bursar fleet plan fleet.yaml",),
    )
    apply = new_parser(
        verbs,
        "apply",
        (
            "apply a fleet file",
            "The changes are printed and confirmed first. They are applied atomically, and not at all if "
            "the fleet has changed in the meantime.",
        ),
        ("bursar fleet apply fleet.yaml", "bursar fleet apply fleet/ -y"),
    )
    for verb in (plan, apply):
        verb.add_argument("file", metavar="FILE", help="fleet file, or folder of fleet files")
        add_format(verb)
        add_connection(verb)
    add_yes(apply)
    for name, summary in (
        ("drain", "start no new jobs on a node"),
        ("restore", "start jobs on a drained node again"),
    ):
        verb = new_parser(verbs, name, (summary, ""), (f"bursar fleet {name} n1",))
        verb.add_argument("node", metavar="NODE", help="node name")
        add_connection(verb)


def run(parsed: argparse.Namespace) -> int:
    match parsed.verb:
        case "show":
            return show_list(parsed, NODES, lambda: _nodes(parsed))
        case "plan":
            return _plan(parsed)
        case "apply":
            return _apply(parsed)
        case "drain":
            ask(parsed, lambda client: client.drain(parsed.node))
            print_note(f"{parsed.node} is drained: running jobs continue, no new jobs start.")
        case "restore":
            ask(parsed, lambda client: client.restore(parsed.node))
            print_note(f"{parsed.node} accepts jobs again.")
    return OK


def _nodes(parsed: argparse.Namespace) -> Sequence[Row]:
    fleet = ask(parsed, lambda client: client.fleet())
    return [
        {**node, "pool": pool["name"], "gpu_model": pool["gpu_model"], "gpus": len(node["devices"])}
        for pool in fleet["pools"]
        if parsed.pool in (None, pool["name"])
        for node in pool["nodes"]
    ][: parsed.limit]


def _plan(parsed: argparse.Namespace) -> int:
    files = read_files(parsed.file)
    planned = ask(parsed, lambda client: client.plan_fleet(files))
    print_rows(parsed, CHANGES, [*planned["changes"]])
    return OK


def _apply(parsed: argparse.Namespace) -> int:
    files = read_files(parsed.file)
    with connect(parsed) as client:
        with show_activity("planning the changes"):
            planned = client.plan_fleet(files)
        print_rows(parsed, CHANGES, [*planned["changes"]])
        if not planned["changes"]:
            return OK
        if not parsed.yes:
            if not is_interactive():
                print_error("cannot confirm the changes: not a terminal.", "Pass --yes.")
                return WRONG_USAGE
            if not confirm(f"apply {counted(len(planned['changes']), 'change')}?", default=False):
                print_note("changed nothing.")
                return FAILED
        with show_activity("applying the changes"):
            client.apply_fleet(files, planned["sequence"])
    print_note(f"applied {parsed.file}.")
    return OK


def read_files(path: str) -> dict[str, str]:
    """A file, or all YAML files of a folder, by name."""
    source = Path(path)
    try:
        files = [source]
        if source.is_dir():
            files = sorted(one for one in source.iterdir() if one.suffix in SUFFIXES)
        texts = {str(one): one.read_text(encoding="utf-8") for one in files}
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise UserError(
            f"{path} cannot be read: {reason}.",
            fix="Check the path and its permissions.",
            code="no-fleet-file",
        ) from error
    if not texts:
        raise UserError(
            f"{path} contains no YAML file.",
            fix="Put fleet.yaml there, or name a file.",
            code="no-fleet-file",
        )
    return texts


def node_state(row: Row) -> str:
    """Whether jobs may start there; with a notice, its source and when the node leaves."""
    notice = row["notice"]
    if notice is not None:
        leaves = "leaves" if notice["kind"] == "terminate" else "may leave"
        when = "" if notice["ends_at_ms"] is None else f" {until(notice['ends_at_ms'])}"
        return f"{leaves}{when} ({one_line(notice['source'])})"
    if not row["is_up"]:
        return "lost"
    return "up" if row["is_open"] else "drained"


NODES: Final = TableSpec(
    columns=(
        Column("NODE", lambda row: row["id"], whole=True),
        Column("POOL", lambda row: row["pool"]),
        Column("STATE", node_state),
        Column("GPU", lambda row: row["gpu_model"]),
        Column("GPUS", lambda row: row["gpus"], right=True),
        Column("FREE", lambda row: row["free_gpus"], right=True),
        Column("CPUS FREE", lambda row: f"{row['free_cpu_milli'] / MILLI:g}", right=True),
        Column("MEMORY FREE", lambda row: f"{row['free_memory_mib'] / GIB_MIB:g} GiB", right=True),
    ),
    keys=(
        *("id", "pool", "gpu_model", "is_up", "is_open", "notice", "gpus", "free_gpus"),
        *("free_cpu_milli", "free_memory_mib", "devices"),
    ),
    nothing="the fleet has no nodes; 'bursar fleet apply FILE' adds some.",
)
CHANGES: Final = TableSpec(
    columns=(
        Column("CHANGE", lambda row: row["kind"], whole=True),
        Column("SUBJECT", lambda row: row["subject"], whole=True),
        Column("BEFORE", lambda row: row["before"]),
        Column("AFTER", lambda row: row["after"]),
        Column("EFFECT", lambda row: row["effect"]),
    ),
    keys=("kind", "subject", "before", "after", "effect"),
    nothing="no changes: the fleet equals the file.",
)
