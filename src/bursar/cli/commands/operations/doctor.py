"""``bursar doctor``: check this installation and print fixes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from bursar.cli.arguments import CONNECTION, FORMAT, argument, command, flag
from bursar.cli.connection import show_activity
from bursar.cli.exit_codes import FAILED, OK
from bursar.cli.terminal.table import Column, TableSpec, print_rows
from bursar.model.errors import UserError
from bursar.model.units import counted, write_usd

if TYPE_CHECKING:
    from bursar.cli.commands.operations.doctor_checks import DoctorCheck


@command(
    "doctor",
    argument("--state", "DIR", "state folder (default: that of 'bursar up')"),
    flag("--rebuild", "replay the event log and compare it with the tables"),
    argument("--database", "URL", "postgresql://... instead of the database in the state folder"),
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
        results = [*all_checks(parsed), *(_rebuild(parsed) if parsed.rebuild else ())]
    print_rows(parsed, CHECKS, [asdict(check) for check in results])
    return FAILED if any(check.result == "fail" for check in results) else OK


def _rebuild(parsed: argparse.Namespace) -> Iterator[DoctorCheck]:
    from bursar.cli.commands.operations.doctor_checks import DoctorCheck
    from bursar.wiring.verify_store import prove

    try:
        proof = prove(parsed.state, parsed.database)
    except UserError as error:
        yield DoctorCheck("rebuild", "fail", error.problem, error.fix)
        return
    replayed = f"replaying {proof.events:,} events gives the tables"
    cost = write_usd(proof.micro_usd)
    billed = f"replaying the log gives the ledger to the micro-dollar; the fleet cost {cost}"
    audited = "no row of the audit log was changed or removed"
    rows = f"{counted(len(proof.differences), 'row')} of the tables differ"
    differences = counted(len(proof.book_faults), "difference")
    breaks = counted(len(proof.audit_breaks), "break")
    for check, faults, sound, broken, reason in (
        ("rebuild", proof.differences, replayed, rows, "the log is authoritative"),
        ("ledger", proof.book_faults, billed, differences, "the log is authoritative"),
        ("audit", proof.audit_breaks, audited, breaks, "the audit log was changed"),
    ):
        if faults:
            fix = f"Keep a copy of the database and report this: {reason}."
            yield DoctorCheck(check, "fail", f"{broken}; {faults[0]}", fix)
        else:
            yield DoctorCheck(check, "ok", sound)


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
