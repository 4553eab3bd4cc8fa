"""Runs the application as a server: socket, shutdown, and the file with its address."""

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
from pathlib import Path
from typing import Final

import uvicorn
import uvloop

from bursar.api.app import App
from bursar.api.http.authentication import check_bind
from bursar.api.http.request import ApiSettings
from bursar.control.control_plane import ControlPlane
from bursar.control.monotonic_clock import MonotonicClock
from bursar.model.errors import UserError

SERVER_FILE: Final = "server.json"
GRACE_SECONDS: Final = 5
COLLECT_AFTER: Final = (100_000, 50, 100)
MAX_CONNECTIONS: Final = 4_096
SOCKET_BACKLOG: Final = 2_048


def open_socket(
    host: str = "127.0.0.1", port: int = 0, allow_remote: bool = False
) -> socket.socket:
    """Binds the address; port 0 chooses a free port.

    An address in use, or of another machine, is the user's error.
    """
    check_bind(host, allow_remote)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host.strip("[]"), port))
    except OSError as error:
        bound.close()
        raise UserError(
            f"cannot listen on {host}:{port}: {error.strerror or error}.",
            fix="Stop the process that listens there, or choose another port with --port.",
            code="address-taken",
        ) from error
    bound.set_inheritable(False)
    return bound


def address_of(bound: socket.socket) -> str:
    """The address as a URL."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def _ignoring_signals_again() -> Iterator[None]:
    """Ignores the signal that uvicorn raises again after its own shutdown.

    The control plane must still release the lead and save a snapshot.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    signals = (signal.SIGTERM, signal.SIGINT)
    before = {one: signal.signal(one, lambda *_: None) for one in signals}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@_ignoring_signals_again()
def serve(
    plane: ControlPlane,
    settings: ApiSettings,
    listening: socket.socket,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serves until SIGTERM or Ctrl-C, then completes pending requests within a few seconds.

    Closes the socket at the end. ``ready`` is called as soon as the server accepts requests.
    """
    app = App(plane, settings, MonotonicClock())
    server_file = settings.state_folder / SERVER_FILE
    if plane.is_leader or not server_file.exists():
        write_server_file(server_file, address_of(listening))
    try:
        with _rare_gc(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            server = uvicorn.Server(configured(app))
            runner.run(run_server(server, app, listening, ready))
    finally:
        listening.close()
        remove_server_file(server_file)


@contextmanager
def _rare_gc() -> Iterator[None]:
    """Runs the cycle collector rarely: on a large fleet state it took a quarter of each submit."""
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
    """Serves until the server's ``should_exit`` is set."""
    watching = asyncio.create_task(_watch(server, app, ready))
    try:
        await server.serve(sockets=[listening])
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(server: uvicorn.Server, app: App, ready: Callable[[], None]) -> None:
    """Calls ``ready`` when the server is up; ends the streams at shutdown, or they would block it."""
    while not server.started:
        await asyncio.sleep(0.01)
    ready()
    while not server.should_exit:
        await asyncio.sleep(0.1)
    app.context.closing.set()


def configured(app: App) -> uvicorn.Config:
    """Configures uvicorn: no proxy header is trusted, and connections are limited."""
    return uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="on",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        backlog=SOCKET_BACKLOG,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )


# -- the server file ---------------------------------------------------------------------------------


def write_server_file(path: Path, address: str) -> None:
    """Writes the address of the server to the state folder, atomically."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, json.dumps({"address": address, "pid": os.getpid()}) + "\n")


def write_private(path: Path, text: str) -> None:
    """Writes a file for its owner only, atomically."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.unlink(missing_ok=True)
    number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(number, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def remove_server_file(path: Path) -> None:
    """Removes the server file unless another process has replaced it."""
    try:
        is_ours = json.loads(path.read_text(encoding="utf-8")).get("pid") == os.getpid()
    except (OSError, ValueError, AttributeError):
        return
    if is_ours:
        path.unlink(missing_ok=True)
