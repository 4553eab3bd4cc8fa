"""(g) Short real jobs end to end: API, log, decisions, processes, reports. Wall-clock time.

Includes Slurm's ``sbatch`` on the same machine if it is installed (``sbatch.py``).
"""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import sbatch
from benchmarks.figure import Figure
from bursar.client import Client
from bursar.model.event import AttemptAssigned, AttemptStarted, AttemptSucceeded
from bursar.model.jobs.job import JobState
from bursar.ports import Recorded
from bursar.store import open_store

JOBS = int(os.environ.get("BURSAR_BENCH_JOBS", "10000"))
BULK = 500
TIMEOUT_SECONDS = 600.0
FLEET = """
clusters: {here: {engine: local}}
pools:
  t4: {cluster: here, market: owned, gpu_model: t4, gpus_per_node: 8, cpus: 256, memory_gib: 512,
       usd_per_node_hour: 1.6, nodes: 4}
tenants:
  acme: {children: {left: {}, right: {}}}
"""


def figures() -> list[Figure]:
    """Completed jobs per second, and the time from a freed GPU to the next process."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "state"
        (Path(folder) / "fleet.yaml").write_text(FLEET, encoding="utf-8")
        arguments = ["up", "--port", "0", "--state", str(state), "--fleet", f"{folder}/fleet.yaml"]
        server = subprocess.Popen(
            [sys.executable, "-m", "bursar", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            seconds = _run_jobs(state)
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(30)
        waits = _waits(state)
    return [
        Figure(
            scenario="(g) live",
            what=f"{JOBS:,} real 'true' jobs end to end, completed per second",
            measured=f"{JOBS / seconds:,.0f}/s",
            reference="Slurm 35-42/s",
        ),
        Figure(
            scenario="(g) live",
            what="free GPU to process start, p50 / p99",
            measured=f"{_percentile(waits, 50):.2f} / {_percentile(waits, 99):.2f} s",
            reference="target p50 under 0.3 s",
        ),
        *sbatch.figures(),
    ]


def _run_jobs(state: Path) -> float:
    deadline = time.monotonic() + 60
    while not (state / "server.json").exists() or not (state / "admin-token").exists():
        if time.monotonic() > deadline:
            raise TimeoutError("the server did not start within 60 s")
        time.sleep(0.05)
    os.environ["BURSAR_STATE"] = str(state)
    with Client() as client:
        began = time.monotonic()
        document: dict[str, Any] = {"name": "true", "run": "true", "resources": {"cpus": 1}}
        document["resources"]["accelerators"] = "T4:1"
        for first in range(0, JOBS, BULK):
            queue = "left" if first // BULK % 2 else "right"
            client.submit_many([{**document, "queue": queue}] * min(BULK, JOBS - first))
        while time.monotonic() - began < TIMEOUT_SECONDS:
            if count_succeeded(state) >= JOBS:
                return time.monotonic() - began
            time.sleep(0.5)
    raise TimeoutError(f"the jobs took more than {TIMEOUT_SECONDS:.0f} s")


def count_succeeded(state: Path) -> int:
    """Number of succeeded jobs, read from the store while the server runs."""
    store = open_store(state / "bursar.db", read_only=True)
    try:
        return store.count_jobs(None).get(JobState.SUCCEEDED, 0)
    finally:
        store.close()


def _waits(state: Path) -> list[float]:
    """Seconds from the end of a GPU's last job to the start of its next, for every reuse."""
    freed_at_ms: dict[tuple[str, int], int] = {}
    devices: dict[str, list[tuple[str, int]]] = {}
    waits: list[float] = []
    store = open_store(state / "bursar.db", read_only=True)
    try:
        for recorded in store.events():
            _apply_event(recorded, devices, freed_at_ms, waits)
    finally:
        store.close()
    return waits


def _apply_event(
    recorded: Recorded,
    devices: dict[str, list[tuple[str, int]]],
    freed_at_ms: dict[tuple[str, int], int],
    waits: list[float],
) -> None:
    match recorded.event:
        case AttemptAssigned(job_id=job_id, placement=placement):
            devices[job_id] = [(task.node, gpu) for task in placement.tasks for gpu in task.gpus]
        case AttemptStarted(job_id=job_id, at_ms=at_ms):
            ends = [freed_at_ms[device] for device in devices[job_id] if device in freed_at_ms]
            waits += [(at_ms - max(ends)) / 1000] if ends else []
        case AttemptSucceeded(job_id=job_id, at_ms=at_ms):
            freed_at_ms |= dict.fromkeys(devices.pop(job_id), at_ms)


def _percentile(values: list[float], percent: int) -> float:
    return statistics.quantiles(values, n=100)[percent - 1] if len(values) > 1 else 0.0
