"""Test harness: a real server and control plane on a SQLite file; only the engine is fake.

It has two teams of one organisation. ``ann`` and ``abe`` are members of team A, ``bob`` of team B.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn

from bursar.api.app import App
from bursar.api.http.request import ApiSettings
from bursar.api.server import address_of, configured, open_socket, run_server
from bursar.catalog.gpu_models import GPU_MODELS
from bursar.config.fleet.fleet_file import parse_fleet
from bursar.control.access.permissions import AccessTree, Grant, grant_scopes
from bursar.control.access.token_cache import TokenSpec, new_token
from bursar.control.control_plane import OPERATOR, ControlPlane, PlaneOptions
from bursar.control.monotonic_clock import MonotonicClock
from bursar.control.requests.token_requests import PutTokens
from bursar.model.fleet.fleet import EngineKind
from bursar.model.tenants.identity import Permission, Role, Token
from bursar.ports import AttemptRef, LogFile
from bursar.store import open_store
from bursar.wiring.price_refresh import packaged_prices
from tests.api.http_client import TIMEOUT_SECONDS, HttpClient
from tests.support.memory_engine import MemoryEngine

FLEET = """
clusters:
  here: {engine: local}
pools:
  t4:
    cluster: here
    market: owned
    gpu_model: t4
    gpus_per_node: 4
    cpus: 16
    memory_gib: 64
    usd_per_node_hour: 1.60
    nodes: 1
tenants:
  acme:
    children:
      team-a:
        children:
          a-train: {quotas: {t4/owned: 2}}
          a-dev: {}
      team-b:
        children:
          b-train: {quotas: {t4/owned: 2}}
"""

USERS: dict[str, tuple[str, Role, str]] = {
    "admin": ("root", Role.ADMIN, ""),
    "lead_a": ("amy", Role.LEAD, "team-a"),
    "ann": ("ann", Role.MEMBER, "team-a"),
    "abe": ("abe", Role.MEMBER, "team-a"),
    "viewer_a": ("vic", Role.VIEWER, "team-a"),
    "bob": ("bob", Role.MEMBER, "team-b"),
    "lead_b": ("bea", Role.LEAD, "team-b"),
    "admin_b": ("bez", Role.ADMIN, "team-b"),
    "gone": ("gil", Role.MEMBER, "no-such-team"),
}


class LogWritingEngine(MemoryEngine):
    """An engine whose job output is written by the test."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def path(self, job_id: str, attempt: int = 1, stream: str = "stdout") -> Path:
        folder = self.folder / job_id / str(attempt)
        folder.mkdir(parents=True, exist_ok=True)
        return folder / stream

    def logs(self, ref: AttemptRef) -> tuple[LogFile, ...]:
        return tuple(
            LogFile(
                task=0,
                node="t4-0001",
                stream=stream,
                paths=(str(self.path(ref.job_id, ref.attempt, stream)),),
            )
            for stream in ("stdout", "stderr")
        )


@dataclass
class RunningServer:
    """A control plane and the server in front of it."""

    plane: ControlPlane
    app: App
    port: int


@dataclass
class ApiHarness:
    """A server with its engine, and a client for each user: ``api.ann.get("/v1/jobs")``."""

    folder: Path
    engine: LogWritingEngine
    server: RunningServer
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def plane(self) -> ControlPlane:
        return self.server.plane

    def client(self, name: str | None = None, port: int | None = None) -> HttpClient:
        """A client for this user; without a name, one without a token."""
        token = self.tokens[name] if name is not None else None
        return HttpClient(port if port is not None else self.server.port, token)

    def wait_until(self, condition: Callable[[], object], description: str) -> None:
        """Waits until the condition holds."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"timed out: {description}"
            time.sleep(0.01)

    def wait_for_state(self, job_id: str, state: str) -> None:
        def has_state() -> bool:
            row = self.plane.reader.job(job_id)
            return row is not None and row.state == state

        self.wait_until(has_state, f"{job_id} is {state}")

    def __getattr__(self, name: str) -> HttpClient:
        if name in USERS:
            return self.client(name)
        raise AttributeError(name)


@contextmanager
def open_plane(
    folder: Path, engine: MemoryEngine, address: str, fleet: str | None = FLEET
) -> Iterator[ControlPlane]:
    store = open_store(folder / "bursar.db")
    options = PlaneOptions(
        address=address,
        known_models=frozenset(model.name for model in GPU_MODELS),
        initial_fleet=parse_fleet({"fleet.yaml": fleet}) if fleet is not None else None,
    )
    plane = ControlPlane(store, {EngineKind.LOCAL: engine}, options)
    plane.start()
    try:
        yield plane
    finally:
        plane.close()
        store.close()


@contextmanager
def serve_in_background(
    plane: ControlPlane, folder: Path, **settings: object
) -> Iterator[RunningServer]:
    """Runs a server on a background thread."""
    listener = open_socket()
    app = App(
        plane,
        ApiSettings(state_folder=folder, price_book=packaged_prices(), **settings),
        MonotonicClock(),
    )  # type: ignore[arg-type]
    ready = threading.Event()
    server = uvicorn.Server(configured(app))
    thread = threading.Thread(
        target=lambda: asyncio.run(run_server(server, app, listener, ready.set)), name="api-server"
    )
    thread.start()
    try:
        assert ready.wait(TIMEOUT_SECONDS)
        yield RunningServer(plane, app, int(address_of(listener).rpartition(":")[2]))
    finally:
        server.should_exit = True
        thread.join(TIMEOUT_SECONDS)
        listener.close()
        assert not thread.is_alive()


def make_tokens(plane: ControlPlane) -> dict[str, str]:
    """Creates a token for each user."""
    texts: dict[str, str] = {}
    rows: list[Token] = []
    for name, (user, role, tenant) in USERS.items():
        scopes = _all_scopes(role, tenant)
        spec = TokenSpec(user=user, role=role, tenant=tenant, scopes=scopes, created_by="the test")
        row, texts[name] = new_token(spec, MonotonicClock().now_ms())
        rows.append(row)
    plane.send(PutTokens(tokens=rows)).result(TIMEOUT_SECONDS)
    return texts


def _all_scopes(role: Role, tenant: str) -> tuple[Permission, ...]:
    tree = AccessTree(parents={tenant: None}, queues=frozenset())
    return grant_scopes(OPERATOR, Grant(user="x", role=role, tenant=tenant), tree)


@contextmanager
def open_harness(
    folder: Path, fleet: str | None = FLEET, **settings: object
) -> Iterator[ApiHarness]:
    """Starts a server on a state folder."""
    engine = LogWritingEngine(folder / "output")
    with ExitStack() as stack:
        plane = stack.enter_context(open_plane(folder, engine, "http://127.0.0.1:1", fleet))
        tokens = make_tokens(plane)
        server = stack.enter_context(serve_in_background(plane, folder, **settings))
        yield ApiHarness(folder, engine, server, tokens)
