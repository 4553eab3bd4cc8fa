"""The checks of ``bursar doctor``. A check reports errors and never raises."""

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
    fix: str = ""


def all_checks(parsed: argparse.Namespace) -> Iterator[DoctorCheck]:
    """All checks: the interpreter, the machine, then the server."""
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
    return DoctorCheck("python", "ok", version)


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
            f"{version}: has the WAL-reset bug, which Bursar's single writer avoids",
            "Open the database with other programs only to read; 3.51.3 fixes the bug.",
        )
    return DoctorCheck("sqlite", "ok", version)


def state(named: str | None) -> Iterator[DoctorCheck]:
    """The state folder and its disk. No folder is no error: the server may be elsewhere."""
    from bursar.client.address import state_folder

    folder = Path(named) if named else state_folder()
    if not folder.is_dir():
        text = f"{folder} does not exist: no server was started here"
        yield DoctorCheck(
            "state folder", "warn", text, "'bursar up' creates it; ignore this on a client."
        )
        return
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & 0o077:
        text = f"other users can access {folder} (mode {mode:03o})"
        yield DoctorCheck("state folder", "fail", text, f"Run 'chmod 700 {folder}'.")
    elif not os.access(folder, os.W_OK):
        yield DoctorCheck(
            "state folder", "fail", f"{folder} cannot be written", "Run as its owner."
        )
    else:
        yield DoctorCheck("state folder", "ok", str(folder))
    free_bytes = shutil.disk_usage(folder).free
    text = f"{free_bytes / (1 << 30):.1f} GiB free"
    if free_bytes < LEAST_FREE_BYTES:
        yield DoctorCheck(
            "disk", "warn", text, "Free disk space: a full disk stops submissions, not jobs."
        )
    else:
        yield DoctorCheck("disk", "ok", text)


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
            text = f"{counted(len(problems), 'problem')}; {problems[0]}"
            yield DoctorCheck(check, "fail", text, restore)
        elif problems is not None:
            yield DoctorCheck(check, "ok", "file, event log and audit log are undamaged")


def nvml() -> DoctorCheck:
    """Whether GPUs of this machine can be detected."""
    try:
        library: Any = import_module("pynvml")
    except ImportError:
        fix = "Run 'pip install nvidia-ml-py' to detect GPUs."
        return DoctorCheck("nvml", "warn", "nvidia-ml-py is not installed", fix)
    try:
        library.nvmlInit()
        count = library.nvmlDeviceGetCount()
        driver = library.nvmlSystemGetDriverVersion()
        library.nvmlShutdown()
    except library.NVMLError as error:
        text = f"no NVIDIA GPU ({error})"
        return DoctorCheck(
            "nvml",
            "warn",
            text,
            "Ignore this for clients and virtual GPUs; otherwise run nvidia-smi.",
        )
    return DoctorCheck("nvml", "ok", f"{counted(count, 'GPU')}, driver {driver}")


def slurm() -> Iterator[DoctorCheck]:
    """The Slurm that this machine's commands reach, where they are installed."""
    from bursar.wiring.slurm.engine import check_slurm

    status = check_slurm()
    if status is None:
        return
    if not status.is_reachable:
        fix = "Check 'scontrol ping' and SLURM_CONF; ignore this if Bursar uses no Slurm."
        yield DoctorCheck("slurm", "warn", status.text, fix)
    elif status.advice is not None:
        text = f"{status.text}. {status.advice.problem}"
        yield DoctorCheck("slurm", "warn", text, status.advice.fix)
    else:
        yield DoctorCheck("slurm", "ok", status.text)


def server(parsed: argparse.Namespace) -> Iterator[DoctorCheck]:
    """The server, as far as the token permits."""
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
    text = f"{client.server}, version {alive['version']}"
    if alive["version"] != __version__:
        fix = f"This client is {__version__}: install the version of the server."
        return DoctorCheck("server", "warn", text, fix)
    return DoctorCheck("server", "ok", text)


def _clock(at_ms: int | None) -> DoctorCheck:
    if at_ms is None:
        return DoctorCheck("clock", "warn", "the server sends no time")
    skew_ms = abs(now_ms() - at_ms)
    text = f"differs from the server's by {skew_ms / 1000:.0f} s"
    if skew_ms > MOST_SKEW_MS:
        fix = "Synchronise both clocks by NTP: displayed times are wrong."
        return DoctorCheck("clock", "warn", text, fix)
    return DoctorCheck("clock", "ok", text)


def _leader(alive: Any) -> DoctorCheck:
    if alive["leader"]:
        return DoctorCheck("leader", "ok", "this server is the leader")
    text = "this server is a follower: another leads, or takes over within 15 s"
    fix = "Nothing, if another server leads; otherwise check its log."
    return DoctorCheck("leader", "warn", text, fix)


def _rights(client: Client) -> Iterator[DoctorCheck]:
    identity = client.whoami()
    scope = identity["tenant"] or "the whole installation"
    text = f"{identity['user']}, {identity['role']} of {scope}"
    yield DoctorCheck("token", "ok", text)
    if "operate" in identity["permissions"]:
        yield from _health(client.health())


def _health(health: dict[str, Any]) -> Iterator[DoctorCheck]:
    for name, key in (("scheduler", "halted"), ("store", "store_fault")):
        if health.get(key):
            yield DoctorCheck(name, "fail", str(health[key]), "Check the log of the server.")
    for engine, fault in sorted((health.get("engine_faults") or {}).items()):
        yield DoctorCheck(f"engine {engine}", "fail", str(fault), "Check the log of the server.")
    cycle_ms = float(health.get("last_cycle_ms") or 0)
    text = (
        f"{health.get('waiting', 0):,} jobs waiting, {health.get('live_attempts', 0):,} running; "
        f"last cycle {cycle_ms:.0f} ms; {health.get('stale_reports', 0):,} stale reports rejected"
    )
    result = "warn" if cycle_ms > SLOW_CYCLE_MS else "ok"
    yield DoctorCheck(
        "cycle", result, text, "" if result == "ok" else "Report this with the size of the fleet."
    )
