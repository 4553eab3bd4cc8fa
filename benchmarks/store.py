"""Durable submissions to SQLite in batches of several sizes, then reads of the log.

Measured in wall-clock time, because most of it is waiting for the disk.
"""

from __future__ import annotations

import tempfile
import time
from itertools import count
from pathlib import Path

from benchmarks.figure import Figure
from bursar.model.event import JobSubmitted
from bursar.model.jobs.job import JobSpec, TaskGroup, WholeGpus
from bursar.model.jobs.run_spec import RunSpec
from bursar.ports import Batch, JobFilter, JobOrigin
from bursar.store import open_store
from bursar.store.sql_store import SqlStore

SIZES = {1_000: (30, ">= 15,000/s"), 50: (200, ">= 3,000/s; group commit of 50 bare rows: 16,000")}
ONE_BY_ONE = (300, "446/s, bare rows")
QUEUES = 7
_numbers = count(1)


def figures() -> list[Figure]:
    """Rates in wall-clock time, with synchronous=FULL."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder) / "bursar.db")
        lead = store.try_lead("benchmark")
        assert lead is not None
        rows = []
        for size, (batches, reference) in {**SIZES, 1: ONE_BY_ONE}.items():
            prepared = [_batch(size) for _ in range(batches)]
            began = time.perf_counter()
            for batch in prepared:
                store.append(batch, lead)
            rate = size * batches / (time.perf_counter() - began)
            rows.append(_figure(f"submitted jobs, batches of {size}", f"{rate:,.0f}/s", reference))
        rows += _read_figures(store)
        store.close()
    return rows


def _read_figures(store: SqlStore) -> list[Figure]:
    began = time.perf_counter()
    events = sum(1 for _ in store.events())
    rate = events / (time.perf_counter() - began)
    queues = frozenset(f"team-{number}" for number in range(QUEUES))
    began = time.perf_counter()
    for _ in range(20):
        store.jobs(JobFilter(queues=queues))
    listed_ms = 1_000 * (time.perf_counter() - began) / 20
    return [
        _figure(
            "events read back",
            f"{rate:,.0f}/s",
            "a starting server reads the events after its snapshot",
        ),
        _figure(
            f"newest 100 jobs of {events:,} in {QUEUES} queues", f"{listed_ms:.1f} ms", "< 50 ms"
        ),
    ]


def _figure(what: str, measured: str, reference: str) -> Figure:
    return Figure(scenario="store, SQLite FULL", what=what, measured=measured, reference=reference)


def _batch(size: int) -> Batch:
    """Submissions of jobs of many users, each with its own specification."""
    events, origins = [], {}
    for number in (next(_numbers) for _ in range(size)):
        job_id = f"j-{number * 7_919 % 1_000_003:010d}"
        gpus = WholeGpus(count=1 + number % 4)
        spec = JobSpec(
            name=f"train-{number}",
            queue=f"team-{number % QUEUES}",
            groups=(TaskGroup(gpu=gpus, cpu_milli=4_000, memory_mib=16_384),),
            max_run_ms=3_600_000,
        )
        events.append(JobSubmitted(at_ms=number, job_id=job_id, spec=spec, priority=10))
        origins[job_id] = JobOrigin(
            owner=f"user-{number % 40}",
            recipe=RunSpec(run=f"python train.py --seed {number}", envs={"SEED": str(number)}),
            labels={"project": "vision"},
            document=f"resources:\n  accelerators: A100:1\nrun: python train.py --seed {number}\n",
        )
    return Batch(events=tuple(events), origins=origins)
