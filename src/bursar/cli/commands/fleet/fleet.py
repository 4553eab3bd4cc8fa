"""``bursar fleet``: list nodes; plan and apply changes of the fleet."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bursar.cli.arguments import (
    CONNECTION,
    FORMAT,
    YES,
    argument,
    command,
    command_of_verbs,
    listing,
)
from bursar.cli.connection import ask, connect, show_activity
from bursar.cli.exit_codes import OK
from bursar.cli.terminal.format import until
from bursar.cli.terminal.messages import print_note, refused
from bursar.cli.terminal.safe_text import one_line
from bursar.cli.terminal.table import Column, Row, TableSpec, print_rows, show_list
from bursar.model.errors import UserError
from bursar.model.units import GIB_MIB, MILLI, counted

if TYPE_CHECKING:
    from bursar.client import Client

SUFFIXES: Final = (".yaml", ".yml")


FILE: Final = argument("file", "FILE", "fleet file, or folder of fleet files")
NODE: Final = argument("node", "NODE", "node name")


@command(
    "show",
    argument("--pool", "POOL", "only this pool"),
    *listing(500),
    examples=("bursar fleet show -o wide",),
)
def show(parsed: argparse.Namespace) -> int:
    """List nodes and their free capacity."""
    return show_list(parsed, NODES, lambda client: _nodes(client, parsed.pool))


def _nodes(client: Client, name: str | None) -> list[Row]:
    return [
        {**node, "pool": pool["name"], "gpu_model": pool["gpu_model"], "gpus": len(node["devices"])}
        for pool in client.fleet()["pools"]
        if name in (None, pool["name"])
        for node in pool["nodes"]
    ]


@command("plan", FILE, FORMAT, CONNECTION, examples=("bursar fleet plan fleet.yaml",))
def plan(parsed: argparse.Namespace) -> int:
    """Print what a fleet file would change, and the effect on jobs."""
    files = read_files(parsed.file)
    planned = ask(parsed, lambda client: client.plan_fleet(files))
    print_rows(parsed, CHANGES, [*planned["changes"]])
    return OK


@command(
    "apply",
    FILE,
    FORMAT,
    CONNECTION,
    YES,
    examples=("bursar fleet apply fleet.yaml", "bursar fleet apply fleet/ -y"),
)
def apply(parsed: argparse.Namespace) -> int:
    """Apply a fleet file.

    The changes are printed and confirmed first. They are applied atomically, and not at all if the fleet has
    changed in the meantime.
    """
    files = read_files(parsed.file)
    with connect(parsed) as client:
        with show_activity("planning the changes"):
            planned = client.plan_fleet(files)
        print_rows(parsed, CHANGES, [*planned["changes"]])
        if not planned["changes"]:
            return OK
        question = f"apply {counted(len(planned['changes']), 'change')}?"
        if not parsed.yes and (
            code := refused(question, subject="the changes", otherwise="changed nothing.")
        ):
            return code
        with show_activity("applying the changes"):
            client.apply_fleet(files, planned["sequence"])
    print_note(f"applied {parsed.file}.")
    return OK


@command("drain", NODE, CONNECTION, examples=("bursar fleet drain n1",))
def drain(parsed: argparse.Namespace) -> int:
    """Start no new jobs on a node."""
    ask(parsed, lambda client: client.drain(parsed.node))
    print_note(f"{parsed.node} is drained: running jobs continue, no new jobs start.")
    return OK


@command("restore", NODE, CONNECTION, examples=("bursar fleet restore n1",))
def restore(parsed: argparse.Namespace) -> int:
    """Start jobs on a drained node again."""
    ask(parsed, lambda client: client.restore(parsed.node))
    print_note(f"{parsed.node} accepts jobs again.")
    return OK


fleet = command_of_verbs(
    "fleet",
    "List nodes; plan and apply changes of fleet, tenants and policies.",
    *(show, plan, apply, drain, restore),
    examples=(
        "bursar fleet show",
        "bursar fleet plan fleet.yaml",
        "bursar fleet apply fleet.yaml -y",
    ),
)


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
    keys="FleetChangeView",
    nothing="no changes: the fleet equals the file.",
)
