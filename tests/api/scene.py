"""A real server on loopback over a real control plane on a real SQLite file; only the jobs are not real.

Two teams of one organisation. ``ann`` and ``abe`` are members of team A, ``bob`` of team B.
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
from bursar.api.server import ServeOptions, address_of, configured, open_socket, run_server
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
from tests.api.asking import PATIENCE_SECONDS, Asker
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

PEOPLE: dict[str, tuple[str, Role, str]] = {
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


class WritingEngine(MemoryEngine):
    """Attempts whose output a test writes."""

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
class Served:
    """One server process's worth: a plane, its application, and the thread it answers on."""

    plane: ControlPlane
    app: App
    port: int


@dataclass
class Scene:
    folder: Path
    engine: WritingEngine
    served: Served
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def plane(self) -> ControlPlane:
        return self.served.plane

    def asker(self, name: str | None = None, port: int | None = None) -> Asker:
        """Somebody of the cast, or a stranger."""
        token = self.tokens[name] if name is not None else None
        return Asker(port if port is not None else self.served.port, token)

    def until(self, what: Callable[[], object], told: str) -> None:
        """Wait for something to become true."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not what():
            assert time.monotonic() < deadline, f"never came true: {told}"
            time.sleep(0.01)

    def until_state(self, job_id: str, state: str) -> None:
        def is_there() -> bool:
            row = self.plane.reader.job(job_id)
            return row is not None and row.state == state

        self.until(is_there, f"{job_id} is {state}")

    def __getattr__(self, name: str) -> Asker:
        if name in PEOPLE:
            return self.asker(name)
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
def serving(plane: ControlPlane, folder: Path, **settings: object) -> Iterator[Served]:
    """A server that answers on a thread of its own."""
    listening = open_socket(ServeOptions(state_folder=folder))
    app = App(
        plane,
        ApiSettings(state_folder=folder, price_book=packaged_prices(), **settings),
        MonotonicClock(),
    )  # type: ignore[arg-type]
    up = threading.Event()
    server = uvicorn.Server(configured(app))
    thread = threading.Thread(
        target=lambda: asyncio.run(run_server(server, app, listening, up.set)), name="api-server"
    )
    thread.start()
    try:
        assert up.wait(PATIENCE_SECONDS)
        yield Served(plane, app, int(address_of(listening).rpartition(":")[2]))
    finally:
        server.should_exit = True
        thread.join(PATIENCE_SECONDS)
        listening.close()
        assert not thread.is_alive()


def make_tokens(plane: ControlPlane) -> dict[str, str]:
    """A token for everybody of the cast."""
    texts: dict[str, str] = {}
    rows: list[Token] = []
    for name, (user, role, tenant) in PEOPLE.items():
        scopes = _all_scopes(role, tenant)
        terms = TokenSpec(user=user, role=role, tenant=tenant, scopes=scopes, created_by="the test")
        row, texts[name] = new_token(terms, MonotonicClock().now_ms())
        rows.append(row)
    plane.send(PutTokens(tokens=rows)).result(PATIENCE_SECONDS)
    return texts


def _all_scopes(role: Role, tenant: str) -> tuple[Permission, ...]:
    tree = AccessTree(parents={tenant: None}, queues=frozenset())
    return grant_scopes(OPERATOR, Grant(user="x", role=role, tenant=tenant), tree)


@contextmanager
def open_scene(folder: Path, fleet: str | None = FLEET, **settings: object) -> Iterator[Scene]:
    engine = WritingEngine(folder / "output")
    with ExitStack() as stack:
        plane = stack.enter_context(open_plane(folder, engine, "http://127.0.0.1:1", fleet))
        tokens = make_tokens(plane)
        served = stack.enter_context(serving(plane, folder, **settings))
        yield Scene(folder, engine, served, tokens)
