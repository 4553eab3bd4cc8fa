"""Builds and runs a control plane: store, engines, API, and the first token."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bursar.model.errors import UserError

if TYPE_CHECKING:
    from bursar.config import FleetFile
    from bursar.control.control_plane import ControlPlane
    from bursar.model.fleet.fleet import EngineKind
    from bursar.ports import Engine
    from bursar.store.sql_store import SqlStore

STATE_VARIABLE = "BURSAR_STATE"
DATABASE_FILE = "bursar.db"
ADMIN_TOKEN_FILE = "admin-token"


@dataclass(frozen=True, slots=True, kw_only=True)
class UpOptions:
    """Options of ``bursar up``."""

    state: Path
    fleet: Path | None = None
    database: str | None = None
    host: str = "127.0.0.1"
    port: int = 7171
    allow_remote: bool = False
    allowed_hosts: tuple[str, ...] = ()
    notify: Path | None = None
    """The file of notification channels."""
    submit: Path | None = None
    """A folder of jobs to submit if the installation has had none."""
    spot_notices: tuple[str, ...] = ()
    """Sources of interruption notices: see ``spot_notices.py``."""


def default_state() -> Path:
    """The default state folder."""
    folder = os.environ.get(STATE_VARIABLE)
    return Path(folder) if folder else Path.home() / ".local" / "share" / "bursar"


def run_up(options: UpOptions, log: Callable[[str], None]) -> int:
    """Serve until a signal; returns the exit code. Jobs keep running."""
    from bursar.api.http.authentication import is_loopback
    from bursar.api.http.request import ApiSettings
    from bursar.api.server import address_of, open_socket, serve
    from bursar.store import sqlite_warning
    from bursar.wiring.job_log import narrate
    from bursar.wiring.notifications import channels_of, notifying
    from bursar.wiring.price_refresh import packaged_prices, refreshing_prices
    from bursar.wiring.sample_jobs import submitting

    channels = channels_of(options.notify)
    state = prepared_state(options.state)
    own_name = () if is_loopback(options.host) else (options.host,)
    settings = ApiSettings(
        state_folder=state,
        allowed_hosts=options.allowed_hosts + own_name,
        price_book=packaged_prices(),
    )
    listening = open_socket(options.host, options.port, options.allow_remote)
    store = open_database(options)
    try:
        if options.database is None and (warning := sqlite_warning()):
            log(f"note: {warning}")
        plane = build_plane(store, options, address_of(listening), log)
        plane.start()
        try:
            first_token(plane, state, log)
            role = "leads" if plane.is_leader else f"follows {plane.leader_address}"
            log(f"bursar {role} at {address_of(listening)}, state in {options.state}")
            with (
                narrate(plane, log),
                refreshing_prices(plane, log),
                notifying(plane, channels, state, log),
                submitting(plane, options.submit, log),
            ):
                serve(plane, settings, listening)
        finally:
            plane.close()
            log("stopped; jobs keep running, and the next 'bursar up' recovers them")
    finally:
        store.close()
    return 1 if plane.is_broken else 0


# -- components --------------------------------------------------------------------------------------


def prepared_state(folder: Path) -> Path:
    """Create the state folder, readable by its owner only."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise UserError(
            f"{folder} cannot be used as the state folder: {error.strerror or error}.",
            fix="Name a folder that you may write to with --state or BURSAR_STATE.",
            code="no-state-folder",
        ) from error
    return folder.resolve()


def open_database(options: UpOptions) -> SqlStore:
    """Open the store: by default a file in the state folder."""
    from bursar.store import open_store

    return open_store(options.database or options.state.resolve() / DATABASE_FILE)


def build_plane(
    store: SqlStore, options: UpOptions, address: str, log: Callable[[str], None]
) -> ControlPlane:
    """Build a control plane; the caller starts it."""
    from bursar.api.server import SERVER_FILE, write_server_file
    from bursar.catalog.gpu_models import GPU_MODELS
    from bursar.control.control_plane import ControlPlane, PlaneOptions
    from bursar.core.state.notices import is_empty
    from bursar.model.fleet.fleet import EngineKind
    from bursar.wiring.slurm.engine import pacing_note
    from bursar.wiring.spot_notices import sources_for

    initial = initial_fleet(options.fleet)
    engines = engines_for(initial, options.state.resolve())
    if EngineKind.SLURM in engines and (note := pacing_note()):
        log(f"note: {note}")
    made: list[ControlPlane] = []

    def is_clear(node: str) -> bool:
        return made[0].query_state(lambda state, _: is_empty(state, node)).result(30)

    plane = ControlPlane(
        store,
        engines,
        PlaneOptions(
            address=address,
            known_models=frozenset(model.name for model in GPU_MODELS),
            initial_fleet=initial,
            notify=log,
            save_fault=lambda text: save_fault(options.state, text),
            on_lead=lambda: write_server_file(options.state.resolve() / SERVER_FILE, address),
            interruption_sources=sources_for(options.spot_notices, initial.fleet, is_clear),
            on_failure=lambda: os.kill(os.getpid(), signal.SIGTERM),
        ),
    )
    made.append(plane)
    return plane


def initial_fleet(path: Path | None) -> FleetFile:
    """The fleet of a file, or by default this machine."""
    from bursar.config import read_fleet
    from bursar.wiring.local_fleet import this_machine

    return read_fleet(path) if path is not None else this_machine()


def engines_for(fleet: FleetFile, state: Path) -> Mapping[EngineKind, Engine]:
    """The engines of this server. All local clusters share one, because they are one machine.

    The engine of a Slurm cluster drives the Slurm that this machine's commands address.
    """
    from bursar.engines.local.engine import LocalEngine
    from bursar.engines.local.gpu_discovery import detect_gpus
    from bursar.engines.local.settings import LocalSettings
    from bursar.model.fleet.fleet import EngineKind
    from bursar.wiring.local_fleet import THIS_MACHINE
    from bursar.wiring.slurm import engine

    local = {one.name for one in fleet.fleet.clusters if one.engine is EngineKind.LOCAL}
    pools = {pool.name for pool in fleet.fleet.pools if pool.cluster in local}
    nodes = tuple(node.id for node in fleet.fleet.nodes if node.pool in pools)
    real = {THIS_MACHINE: detect_gpus()} if THIS_MACHINE in nodes else {}
    engines: dict[EngineKind, Engine] = {
        EngineKind.LOCAL: LocalEngine(LocalSettings(state=state, nodes=nodes, gpus=real))
    }
    if engine.is_needed(fleet, state):
        engines[EngineKind.SLURM] = engine.slurm_engine(state)
    return engines


def first_token(plane: ControlPlane, state: Path, log: Callable[[str], None]) -> None:
    """Create an admin token for an installation without tokens, in a file for its owner only."""
    from bursar.api.server import write_private
    from bursar.control.access.token_cache import admin_token_spec, new_token
    from bursar.control.requests.token_requests import PutTokens

    path = state / ADMIN_TOKEN_FILE
    if not plane.is_leader or plane.reader.tokens():
        return
    now_ms = plane.query_state(lambda _state, now_ms: now_ms).result(60)
    token, text = new_token(admin_token_spec("admin"), now_ms)
    write_private(path, text + "\n")
    plane.send(PutTokens(tokens=[token])).result(60)
    log(f"the first token is in {path}; it has all permissions")


def save_fault(state: Path, text: str) -> str:
    """Save the details of an internal error; returns the path. One file a minute at most."""
    from bursar.api.server import write_private

    path = state / f"fault-{time.strftime('%Y%m%d-%H%M')}.txt"
    path.unlink(missing_ok=True)
    write_private(path, text)
    return str(path)
