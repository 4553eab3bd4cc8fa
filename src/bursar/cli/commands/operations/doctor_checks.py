"""The single checks of ``bursar doctor``. Each looks at one thing and never fails itself."""

from __future__ import annotations

import argparse
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bursar import __version__
from bursar.cli.connection import connect
from bursar.cli.terminal.format import now_ms
from bursar.model.errors import EngineFault, UserError
from bursar.model.units import counted

if TYPE_CHECKING:
    from bursar.client import Client

OLDEST_PYTHON: Final = (3, 11)
OLDEST_SQLITE: Final = (3, 35, 0)
WAL_RESET_FIXED: Final = (3, 51, 3)
LEAST_FREE_BYTES: Final = 1 << 30
MOST_SKEW_MS: Final = 5_000
SLOW_CYCLE_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One row: ``result`` is ok, warn or fail."""

    check: str
    result: str
    found: str
    fix: str

    def row(self) -> dict[str, str]:
        return {"check": self.check, "result": self.result, "found": self.found, "fix": self.fix}


def all_checks(parsed: argparse.Namespace) -> Iterator[DoctorCheck]:
    """From the inside out: this interpreter, this machine, the server."""
    yield python()
    yield sqlite()
    yield from state(parsed.state)
    yield from store(parsed.state, parsed.database)
    yield nvml()
    yield from slurm()
    yield from server(parsed)


def python() -> DoctorCheck:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < OLDEST_PYTHON:
        return DoctorCheck("python", "fail", version, "Install Python 3.11 or newer.")
    return DoctorCheck("python", "ok", version, "")


def sqlite() -> DoctorCheck:
    """Versions before 3.51.3 can damage a database that two connections write to at once.

    Bursar writes through one connection that is also the only one to checkpoint, so this is a warning.
    """
    import sqlite3

    version = sqlite3.sqlite_version
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        return DoctorCheck("sqlite", "fail", version, "Use a Python with SQLite 3.35 or newer.")
    if sqlite3.sqlite_version_info < WAL_RESET_FIXED:
        return DoctorCheck(
            "sqlite",
            "warn",
            f"{version}: has the WAL-reset fault, which Bursar's single writer avoids",
            "Open the database with other programs only to read; 3.51.3 has the fault mended.",
        )
    return DoctorCheck("sqlite", "ok", version, "")


def state(named: str | None) -> Iterator[DoctorCheck]:
    """Where a server on this machine keeps everything. None is no fault: the server may be elsewhere."""
    from bursar.client.address import state_folder

    folder = Path(named) if named else state_folder()
    if not folder.is_dir():
        told = f"{folder} is not there: no server was started here"
        yield DoctorCheck(
            "state folder", "warn", told, "'bursar up' makes it; ignore this on a client."
        )
        return
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o077:
        told = f"{folder} may be entered by others (mode {mode:03o})"
        yield DoctorCheck("state folder", "fail", told, f"chmod 700 {folder}")
    elif not os.access(folder, os.W_OK):
        yield DoctorCheck(
            "state folder", "fail", f"{folder} cannot be written", "Run as its owner."
        )
    else:
        yield DoctorCheck("state folder", "ok", str(folder), "")
    free = shutil.disk_usage(folder).free
    told = f"{free / (1 << 30):.1f} GiB free"
    if free < LEAST_FREE_BYTES:
        yield DoctorCheck(
            "disk", "warn", told, "Make room: a full disk stops submissions, not jobs."
        )
    else:
        yield DoctorCheck("disk", "ok", told, "")


def store(named: str | None, database: str | None) -> Iterator[DoctorCheck]:
    """Whether the database file, the event log and the audit log are undamaged."""
    from bursar.wiring.verify_store import integrity_problems

    check, restore = "store: integrity", "Stop the server, keep a copy, and restore a backup."
    try:
        problems = integrity_problems(named, database)
    except UserError as error:
        yield DoctorCheck(check, "fail", error.problem, error.fix)
    except EngineFault as error:
        yield DoctorCheck(check, "fail", str(error), restore)
    else:
        if problems:
            found = f"{counted(len(problems), 'problem')}; {problems[0]}"
            yield DoctorCheck(check, "fail", found, restore)
        elif problems is not None:
            yield DoctorCheck(check, "ok", "file, event log and audit log are undamaged", "")


def nvml() -> DoctorCheck:
    """Whether real GPUs can be found on this machine."""
    try:
        library: Any = import_module("pynvml")
    except ImportError:
        told, fix = "nvidia-ml-py is not installed", "'pip install nvidia-ml-py' to find real GPUs."
        return DoctorCheck("nvml", "warn", told, fix)
    try:
        library.nvmlInit()
        count = library.nvmlDeviceGetCount()
        driver = library.nvmlSystemGetDriverVersion()
        library.nvmlShutdown()
    except library.NVMLError as error:
        told = f"no GPU of NVIDIA here ({error})"
        return DoctorCheck(
            "nvml", "warn", told, "Fine for clients and virtual GPUs; else see nvidia-smi."
        )
    return DoctorCheck("nvml", "ok", f"{count} GPUs, driver {driver}", "")


def slurm() -> Iterator[DoctorCheck]:
    """The Slurm that this machine's commands reach, where they are installed."""
    from bursar.wiring.slurm.engine import check_slurm

    status = check_slurm()
    if status is None:
        return
    if not status.is_reachable:
        fix = "See 'scontrol ping' and SLURM_CONF; ignore this where Bursar uses no Slurm."
        yield DoctorCheck("slurm", "warn", status.text, fix)
    elif status.advice is not None:
        text = f"{status.text}. {status.advice.problem}"
        yield DoctorCheck("slurm", "warn", text, status.advice.fix)
    else:
        yield DoctorCheck("slurm", "ok", status.text, "")


def server(parsed: argparse.Namespace) -> Iterator[DoctorCheck]:
    """The server, as far as the token lets us see it."""
    try:
        client = connect(parsed)
        with client:
            alive, at_ms = client.alive_at()
            yield _answers(client, alive)
            yield _clock(at_ms)
            yield _leader(alive)
            yield from _rights(client)
    except UserError as error:
        yield DoctorCheck("server", "fail", error.problem, error.fix)


def _answers(client: Client, alive: Any) -> DoctorCheck:
    told = f"{client.server}, version {alive['version']}"
    if alive["version"] != __version__:
        fix = f"This program is {__version__}: install the same version as the server."
        return DoctorCheck("server", "warn", told, fix)
    return DoctorCheck("server", "ok", told, "")


def _clock(at_ms: int | None) -> DoctorCheck:
    if at_ms is None:
        return DoctorCheck("clock", "warn", "the server does not say what time it is", "")
    off_ms = abs(now_ms() - at_ms)
    told = f"{off_ms / 1000:.0f} s from the server's"
    if off_ms > MOST_SKEW_MS:
        return DoctorCheck(
            "clock", "warn", told, "Set both clocks by NTP: shown times and ETAs are off."
        )
    return DoctorCheck("clock", "ok", told, "")


def _leader(alive: Any) -> DoctorCheck:
    if alive["leader"]:
        return DoctorCheck("leader", "ok", "this server leads", "")
    told = "this server only reads: another leads, or takes over within 15 s"
    return DoctorCheck(
        "leader", "warn", told, "Nothing, if another server leads; else look at its log."
    )


def _rights(client: Client) -> Iterator[DoctorCheck]:
    who = client.whoami()
    told = f"{who['user']}, {who['role']} of {who['tenant'] or 'the whole installation'}"
    yield DoctorCheck("token", "ok", told, "")
    if "operate" in who["permissions"]:
        yield from _health(client.health())


def _health(health: dict[str, Any]) -> Iterator[DoctorCheck]:
    for name, key in (("scheduler", "halted"), ("store", "store_fault")):
        if health.get(key):
            yield DoctorCheck(name, "fail", str(health[key]), "The server's log says more.")
    for engine, fault in sorted((health.get("engine_faults") or {}).items()):
        yield DoctorCheck(f"engine {engine}", "fail", str(fault), "The server's log says more.")
    cycle_ms = float(health.get("last_cycle_ms") or 0)
    told = (
        f"{health.get('waiting', 0):,} jobs wait, {health.get('live_attempts', 0):,} run; "
        f"the last cycle took {cycle_ms:.0f} ms; {health.get('stale_reports', 0):,} stale reports refused"
    )
    result = "warn" if cycle_ms > SLOW_CYCLE_MS else "ok"
    yield DoctorCheck(
        "cycle", result, told, "" if result == "ok" else "Report this with the fleet's size."
    )
