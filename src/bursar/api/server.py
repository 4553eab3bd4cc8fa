"""Running the application: where it listens, how it is found, and how it ends."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

import uvicorn
import uvloop

from bursar.api.app import App
from bursar.api.http.authentication import check_bind, is_loopback
from bursar.api.http.request import ApiSettings
from bursar.control.control_plane import ControlPlane
from bursar.control.monotonic_clock import MonotonicClock
from bursar.model.errors import UserError

SERVER_FILE: Final = "server.json"
GRACE_SECONDS: Final = 5
COLLECT_AFTER: Final = (100_000, 50, 100)
MOST_CONNECTIONS: Final = 4_096
WAITING_CONNECTIONS: Final = 2_048


def _nobody(_address: str) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """Where to listen, and what to keep where."""

    state_folder: Path
    host: str = "127.0.0.1"
    port: int = 0
    """0 takes any that is free."""
    allow_remote: bool = False
    allowed_hosts: tuple[str, ...] = ()
    max_bundle_bytes: int = 512 * 2**20
    ready: Callable[[str], None] = field(default=_nobody)
    """Told the address as soon as the server listens on it."""


def open_socket(options: ServeOptions) -> socket.socket:
    """Take the address. A second server on it, or an address not of this machine, is the user's error."""
    check_bind(options.host, options.allow_remote)
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    taken = socket.socket(family, socket.SOCK_STREAM)
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((options.host.strip("[]"), options.port))
    except OSError as error:
        taken.close()
        raise UserError(
            f"{options.host}:{options.port} cannot be listened on: {error.strerror or error}.",
            fix="Stop what listens there, or choose another port with --port.",
            code="address-taken",
        ) from error
    taken.set_inheritable(False)
    return taken


def address_of(taken: socket.socket) -> str:
    """The address as a client would write it."""
    host, port = taken.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(plane: ControlPlane, options: ServeOptions, taken: socket.socket | None = None) -> None:
    """Answer until SIGTERM or Ctrl-C; then finish what is under way, within a few seconds.

    ``taken`` is a socket from ``open_socket``, for callers that must know the address before.
    """
    listening = taken if taken is not None else open_socket(options)
    names = options.allowed_hosts
    if not is_loopback(options.host):
        names = (*names, options.host)
    settings = ApiSettings(
        state_folder=options.state_folder,
        allowed_hosts=names,
        max_bundle_bytes=options.max_bundle_bytes,
    )
    app = App(plane, settings, MonotonicClock())
    address = address_of(listening)
    server_file = options.state_folder / SERVER_FILE
    if plane.is_leader or not server_file.exists():
        write_server_file(server_file, address)
    try:
        with (
            _ending_quietly(),
            _collecting_rarely(),
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            server = uvicorn.Server(configured(app))
            runner.run(run_server(server, app, listening, lambda: options.ready(address)))
    finally:
        listening.close()
        remove_server_file(server_file)


@contextmanager
def _ending_quietly() -> Iterator[None]:
    """uvicorn ends by a signal and then raises it again; the caller still has a control plane to close."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {one: signal.signal(one, _heard) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _heard(_number: int, _frame: FrameType | None) -> None:
    """The server has heard it already."""


@contextmanager
def _collecting_rarely() -> Iterator[None]:
    """The fleet's state is large and lives on; walking over it for cycles took a quarter of each submit."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


async def run_server(
    server: uvicorn.Server, app: App, listening: socket.socket, ready: Callable[[], None]
) -> None:
    """Answer until the server is told to exit."""
    telling = asyncio.create_task(_tell_when_up(server, app, ready))
    try:
        await server.serve(sockets=[listening])
    finally:
        telling.cancel()
        await asyncio.gather(telling, return_exceptions=True)


async def _tell_when_up(server: uvicorn.Server, app: App, ready: Callable[[], None]) -> None:
    """Say that the server is up, and end the streams when it is told to go: they never end by themselves."""
    while not server.started:
        await asyncio.sleep(0.01)
    ready()
    while not server.should_exit:
        await asyncio.sleep(0.1)
    app.desk.closing.set()


def configured(app: App) -> uvicorn.Config:
    """uvicorn as we want it: no header of a client is believed, and nothing is let pile up."""
    return uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        backlog=WAITING_CONNECTIONS,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


# -- how others find it ------------------------------------------------------------------------------


def write_server_file(path: Path, address: str) -> None:
    """Where the server answers, for those who may read the state folder: whole, or not at all."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = json.dumps({"address": address, "pid": os.getpid()})
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.unlink(missing_ok=True)
    number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(number, "w", encoding="utf-8") as file:
        file.write(text + "\n")
    os.replace(part, path)


def remove_server_file(path: Path) -> None:
    """Take the note down, unless another process has put up its own since."""
    try:
        is_ours = json.loads(path.read_text(encoding="utf-8")).get("pid") == os.getpid()
    except (OSError, ValueError, AttributeError):
        return
    if is_ours:
        path.unlink(missing_ok=True)
