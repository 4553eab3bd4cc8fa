"""``bursar doctor``: check this installation and print fixes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from bursar.cli.arguments import CONNECTION, FORMAT, argument, command
from bursar.cli.connection import show_activity
from bursar.cli.exit_codes import FAILED, OK
from bursar.cli.terminal.table import Column, Row, TableSpec, print_rows
from bursar.model.errors import UserError
from bursar.model.units import counted, write_usd

if TYPE_CHECKING:
    from bursar.cli.commands.operations.doctor_checks import DoctorCheck
    from bursar.wiring.verify_store import Proof


@command(
    "doctor",
    argument("--state", metavar="DIR", help="state folder (default: that of 'bursar up')"),
    argument(
        "--rebuild", action="store_true", help="replay the event log and compare it with the tables"
    ),
    argument(
        "--database",
        metavar="URL",
        help="postgresql://... instead of the database in the state folder",
    ),
    FORMAT,
    CONNECTION,
    examples=("bursar doctor", "bursar doctor --rebuild --state ./state"),
)
def doctor(parsed: argparse.Namespace) -> int:
    """Check this machine, the state folder and the server; print fixes.

    The exit code is 0 unless a check fails; warnings do not count. --rebuild also verifies that replaying the
    event log of a state folder or database gives its tables and its ledger.
    """
    from bursar.cli.commands.operations.doctor_checks import all_checks

    with show_activity("checking"):
        results: list[Row] = [check.row() for check in all_checks(parsed)]
        if parsed.rebuild:
            results += _rebuild(parsed)
    print_rows(parsed, CHECKS, results)
    return FAILED if any(row["result"] == "fail" for row in results) else OK


def _rebuild(parsed: argparse.Namespace) -> list[Row]:
    from bursar.cli.commands.operations.doctor_checks import DoctorCheck
    from bursar.wiring.verify_store import prove

    try:
        proof = prove(parsed.state, parsed.database)
    except UserError as error:
        return [DoctorCheck("rebuild", "fail", error.problem, error.fix).row()]
    report = "Keep a copy of the database and report this"
    replayed = DoctorCheck(
        "rebuild", "ok", f"replaying {proof.events:,} events gives the tables", ""
    )
    if proof.differences:
        text = (
            f"{counted(len(proof.differences), 'row')} of the tables differ; {proof.differences[0]}"
        )
        replayed = DoctorCheck("rebuild", "fail", text, f"{report}: the log is authoritative.")
    audited = DoctorCheck("audit", "ok", "no row of the audit log was changed or removed", "")
    if proof.audit_breaks:
        text = f"{counted(len(proof.audit_breaks), 'break')}; {proof.audit_breaks[0]}"
        audited = DoctorCheck("audit", "fail", text, f"{report}: the audit log was changed.")
    return [replayed.row(), _ledger_check(proof, report).row(), audited.row()]


def _ledger_check(proof: Proof, report: str) -> DoctorCheck:
    from bursar.cli.commands.operations.doctor_checks import DoctorCheck

    if proof.book_faults:
        text = f"{counted(len(proof.book_faults), 'difference')}; {proof.book_faults[0]}"
        return DoctorCheck("ledger", "fail", text, f"{report}: the log is authoritative.")
    cost = write_usd(proof.micro_usd)
    text = f"replaying the log gives the ledger to the micro-dollar; the fleet cost {cost}"
    return DoctorCheck("ledger", "ok", text, "")


TONES: Final = {"ok": "green", "warn": "yellow", "fail": "red"}
CHECKS: Final = TableSpec(
    columns=(
        Column("CHECK", lambda row: row["check"], whole=True),
        Column(
            "RESULT", lambda row: row["result"], whole=True, tone=lambda row: TONES[row["result"]]
        ),
        Column("DETAIL", lambda row: row["found"]),
        Column("FIX", lambda row: row["fix"]),
    ),
    keys=("check", "result", "found", "fix"),
)
