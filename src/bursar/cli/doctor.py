"""``bursar doctor``: what could keep Bursar from working here, and what to do about each."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from bursar.cli.exit_codes import FAILED, OK
from bursar.cli.listing import Column, Listing, Row, print_rows
from bursar.cli.parsers import add_connection, add_format, new_parser
from bursar.cli.session import still_at
from bursar.model.errors import UserError
from bursar.model.units import write_usd

if TYPE_CHECKING:
    from bursar.cli.checks import Check
    from bursar.cli.parsers import Subparsers
    from bursar.wiring.proof import Proof


def add_parser(commands: Subparsers) -> None:
    """The command and its options."""
    parser = new_parser(
        commands,
        "doctor",
        (
            "check this machine, the state folder and the server; say what to do",
            "Exit code 0 when nothing failed; warnings do not count. --rebuild also proves, on the state "
            "folder or database of a server, that replaying the log of events gives its tables and its "
            "ledger.",
        ),
        ("bursar doctor", "bursar doctor --rebuild --state ./state"),
    )
    parser.add_argument("--state", metavar="DIR", help="the state folder (default: as 'bursar up')")
    parser.add_argument(
        "--rebuild", action="store_true", help="replay the log and compare it with the tables"
    )
    parser.add_argument(
        "--database", metavar="URL", help="with --rebuild: postgresql://... instead of the folder's"
    )
    add_format(parser)
    add_connection(parser)


def run(parsed: argparse.Namespace) -> int:
    """Check everything; one failure is a failure."""
    from bursar.cli.checks import all_checks

    with still_at("checking"):
        found: list[Row] = [check.row() for check in all_checks(parsed)]
        if parsed.rebuild:
            found += _rebuild(parsed)
    print_rows(parsed, CHECKS, found)
    return FAILED if any(row["result"] == "fail" for row in found) else OK


def _rebuild(parsed: argparse.Namespace) -> list[Row]:
    from bursar.cli.checks import Check
    from bursar.wiring.proof import prove

    try:
        proof = prove(parsed.state, parsed.database)
    except UserError as error:
        return [Check("rebuild", "fail", error.problem, error.fix).row()]
    keep = "Keep a copy of the database and report this"
    replayed = Check("rebuild", "ok", f"replaying {proof.events:,} events gives the tables", "")
    if proof.differences:
        told = f"{len(proof.differences):,} rows differ from the log; {proof.differences[0]}"
        replayed = Check("rebuild", "fail", told, f"{keep}: the log is the truth.")
    audited = Check("audit", "ok", "no row of the audit log was changed or taken out", "")
    if proof.audit_breaks:
        told = f"{len(proof.audit_breaks):,} breaks; {proof.audit_breaks[0]}"
        audited = Check("audit", "fail", told, f"{keep}: somebody changed the audit log.")
    return [replayed.row(), _books(proof, keep).row(), audited.row()]


def _books(proof: Proof, keep: str) -> Check:
    from bursar.cli.checks import Check

    if proof.book_faults:
        told = f"{len(proof.book_faults):,} differences; {proof.book_faults[0]}"
        return Check("books", "fail", told, f"{keep}: the log is the truth.")
    cost = write_usd(proof.micro_usd)
    told = f"replaying the log gives the ledger to the micro-dollar; the fleet cost {cost}"
    return Check("books", "ok", told, "")


TONES: Final = {"ok": "green", "warn": "yellow", "fail": "red"}
CHECKS: Final = Listing(
    columns=(
        Column("CHECK", lambda row: row["check"], whole=True),
        Column(
            "RESULT", lambda row: row["result"], whole=True, tone=lambda row: TONES[row["result"]]
        ),
        Column("FOUND", lambda row: row["found"]),
        Column("WHAT TO DO", lambda row: row["fix"]),
    ),
    keys=("check", "result", "found", "fix"),
)
