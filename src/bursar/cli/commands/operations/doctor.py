"""``bursar doctor``: what could keep Bursar from working here, and what to do about each."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from bursar.cli.arguments import add_connection, add_format, new_parser
from bursar.cli.connection import still_at
from bursar.cli.exit_codes import FAILED, OK
from bursar.cli.terminal.table import Column, Row, TableSpec, print_rows
from bursar.model.errors import UserError
from bursar.model.units import write_usd

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers
    from bursar.cli.commands.operations.doctor_checks import DoctorCheck
    from bursar.wiring.verify_store import Proof


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
        "--database", metavar="URL", help="postgresql://... instead of the database in the folder"
    )
    add_format(parser)
    add_connection(parser)


def run(parsed: argparse.Namespace) -> int:
    """Check everything; one failure is a failure."""
    from bursar.cli.commands.operations.doctor_checks import all_checks

    with still_at("checking"):
        found: list[Row] = [check.row() for check in all_checks(parsed)]
        if parsed.rebuild:
            found += _rebuild(parsed)
    print_rows(parsed, CHECKS, found)
    return FAILED if any(row["result"] == "fail" for row in found) else OK


def _rebuild(parsed: argparse.Namespace) -> list[Row]:
    from bursar.cli.commands.operations.doctor_checks import DoctorCheck
    from bursar.wiring.verify_store import prove

    try:
        proof = prove(parsed.state, parsed.database)
    except UserError as error:
        return [DoctorCheck("rebuild", "fail", error.problem, error.fix).row()]
    keep = "Keep a copy of the database and report this"
    replayed = DoctorCheck(
        "rebuild", "ok", f"replaying {proof.events:,} events gives the tables", ""
    )
    if proof.differences:
        told = f"{len(proof.differences):,} rows differ from the log; {proof.differences[0]}"
        replayed = DoctorCheck("rebuild", "fail", told, f"{keep}: the log is the truth.")
    audited = DoctorCheck("audit", "ok", "no row of the audit log was changed or taken out", "")
    if proof.audit_breaks:
        told = f"{len(proof.audit_breaks):,} breaks; {proof.audit_breaks[0]}"
        audited = DoctorCheck("audit", "fail", told, f"{keep}: somebody changed the audit log.")
    return [replayed.row(), _books(proof, keep).row(), audited.row()]


def _books(proof: Proof, keep: str) -> DoctorCheck:
    from bursar.cli.commands.operations.doctor_checks import DoctorCheck

    if proof.book_faults:
        told = f"{len(proof.book_faults):,} differences; {proof.book_faults[0]}"
        return DoctorCheck("books", "fail", told, f"{keep}: the log is the truth.")
    cost = write_usd(proof.micro_usd)
    told = f"replaying the log gives the ledger to the micro-dollar; the fleet cost {cost}"
    return DoctorCheck("books", "ok", told, "")


TONES: Final = {"ok": "green", "warn": "yellow", "fail": "red"}
CHECKS: Final = TableSpec(
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
