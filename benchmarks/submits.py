"""(f) Durable submissions over HTTP: each is acknowledged after its fsync.

Three processes communicate over loopback: the server with its writer and SQLite, the clients, and this one.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.figure import Figure
from bursar.api.http.request import ApiSettings
from bursar.api.server import address_of, open_socket, serve
from bursar.catalog.gpu_models import GPU_MODELS
from bursar.config.fleet.fleet_file import parse_fleet
from bursar.control.access.token_cache import admin_token_spec, new_token
from bursar.control.control_plane import ControlPlane, PlaneOptions
from bursar.control.requests.token_requests import PutTokens
from bursar.model.fleet.fleet import EngineKind
from bursar.store import open_store
from tests.support.memory_engine import MemoryEngine

CLIENTS = 64
SINGLE = 8_000
BULK_CLIENTS, BULK_SIZE, BULK = 4, 500, 40
TIMEOUT_SECONDS = 120.0
KINDS = 8
FLEET = """
clusters: {here: {engine: local}}
pools:
  t4: {cluster: here, market: owned, gpu_model: t4, gpus_per_node: 4, cpus: 64, memory_gib: 256,
       usd_per_node_hour: 1.6, nodes: 5}
tenants:
  acme: {children: {retraining: {quotas: {t4/owned: 10}}, experiments: {quotas: {t4/owned: 10}}}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests to send: their number, clients, target and jobs per request."""

    port: int
    token: str
    path: str
    clients: int
    requests: int
    jobs_each: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Server:
    port: int
    token: str
    pid: int

    def cpu_seconds(self) -> float:
        """CPU seconds of the server so far, which other load hardly affects."""
        stat = Path(f"/proc/{self.pid}/stat")
        if not stat.exists():
            return float("nan")
        fields = stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def figures() -> list[Figure]:
    """Single and bulk submissions, compared with published and measured references."""
    spawn = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="bursar-bench-") as folder:
        receiver, sender = spawn.Pipe()
        server = spawn.Process(target=_serve, args=(folder, sender), daemon=True)
        server.start()
        try:
            if not receiver.poll(TIMEOUT_SECONDS):
                raise RuntimeError("the server did not start in time")
            port, token = receiver.recv()
            running = _Server(port=port, token=token, pid=server.pid or 0)
            rows = [_single(running), _bulk(running)]
        finally:
            server.terminate()
            server.join(30)
    return rows


def _single(server: _Server) -> Figure:
    load = Load(
        port=server.port,
        token=server.token,
        path="/v1/jobs",
        clients=CLIENTS,
        requests=SINGLE,
        jobs_each=1,
    )
    before = server.cpu_seconds()
    seconds, latencies = _measure(load)
    cpu = (server.cpu_seconds() - before) / SINGLE
    return Figure(
        scenario=f"(f) {SINGLE:,} submissions over HTTP, {CLIENTS} clients, acknowledged after fsync",
        what="submissions per second; p50 / p99, ms; server CPU per job, ms",
        measured=(
            f"{SINGLE / seconds:,.0f}; {_percentile(latencies, 50):.0f} / {_percentile(latencies, 99):.0f}; "
            f"{cpu * 1_000:.2f}"
        ),
        reference="target 1,500, p99 150; Slurm's sbatch 65; bare Starlette 2,672, p99 58",
    )


def _bulk(server: _Server) -> Figure:
    load = Load(
        port=server.port,
        token=server.token,
        path="/v1/jobs:bulk",
        clients=BULK_CLIENTS,
        requests=BULK,
        jobs_each=BULK_SIZE,
    )
    before = server.cpu_seconds()
    seconds, latencies = _measure(load)
    cpu = (server.cpu_seconds() - before) / (BULK * BULK_SIZE)
    return Figure(
        scenario=f"(f) {BULK * BULK_SIZE:,} jobs in requests of {BULK_SIZE}, {BULK_CLIENTS} clients",
        what="jobs per second; p99 of a request, ms; server CPU per job, ms",
        measured=f"{BULK * BULK_SIZE / seconds:,.0f}; {_percentile(latencies, 99):,.0f}; {cpu * 1_000:.2f}",
        reference="target 5,000",
    )


def _percentile(latencies: list[float], percent: int) -> float:
    return 1_000 * latencies[min(len(latencies) - 1, len(latencies) * percent // 100)]


def _measure(load: Load) -> tuple[float, list[float]]:
    spawn = multiprocessing.get_context("spawn")
    receiver, sender = spawn.Pipe()
    clients = spawn.Process(target=_send_all, args=(load, sender), daemon=True)
    clients.start()
    try:
        if not receiver.poll(TIMEOUT_SECONDS):
            raise RuntimeError(f"{load.path}: not finished within {TIMEOUT_SECONDS:g} s")
        seconds, latencies = receiver.recv()
    finally:
        clients.terminate()
        clients.join(30)
    return seconds, latencies


# -- the server --------------------------------------------------------------------------------------


def _serve(folder: str, results: Connection) -> None:
    state = Path(folder)
    listening = open_socket()
    store = open_store(state / "bursar.db")
    plane = ControlPlane(
        store,
        {EngineKind.LOCAL: MemoryEngine()},
        PlaneOptions(
            address=address_of(listening),
            known_models=frozenset(model.name for model in GPU_MODELS),
            initial_fleet=parse_fleet({"fleet.yaml": FLEET}),
        ),
    )
    plane.start()
    token, text = new_token(admin_token_spec("bench"), time.time_ns() // 1_000_000)
    plane.send(PutTokens(tokens=[token])).result(30)
    results.send((listening.getsockname()[1], text))
    try:
        serve(plane, ApiSettings(state_folder=state), listening)
    finally:
        plane.close()
        store.close()


# -- the clients -------------------------------------------------------------------------------------


def _send_all(load: Load, results: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    results.send(asyncio.run(_clients(load)))


async def _clients(load: Load) -> tuple[float, list[float]]:
    numbers = iter(range(load.requests))
    latencies: list[float] = []

    async def run_client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", load.port)
        for number in numbers:
            began = time.perf_counter()
            writer.write(_request(load, number))
            await _read_response(reader)
            latencies.append(time.perf_counter() - began)
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(run_client() for _ in range(load.clients)))
    return time.perf_counter() - began, sorted(latencies)


def _request(load: Load, number: int) -> bytes:
    document = {
        "name": f"train-{number}",
        "queue": ("retraining", "experiments")[number % 2],
        "run": "python train.py --seed 1",
        "resources": {"accelerators": f"T4:{1 + number % 4}", "cpus": 2, "memory": 8},
        "max_hours": 1 + number % KINDS,
        "envs": {"SEED": str(number)},
    }
    content = document if load.jobs_each == 1 else {"jobs": [document] * load.jobs_each}
    body = json.dumps(content).encode()
    head = (
        f"POST {load.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {load.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _read_response(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 201"):
        raise RuntimeError((head + await reader.read(1_000)).decode(errors="replace"))
    lower = head.lower()
    start = lower.index(b"content-length:") + len(b"content-length:")
    await reader.readexactly(int(lower[start : lower.index(b"\r\n", start)]))


if __name__ == "__main__":
    from benchmarks.figure import write_table

    sys.stdout.write(f"{write_table(figures())}\n")
