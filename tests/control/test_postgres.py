"""The control plane on a real PostgreSQL that is stopped and started under it."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from bursar.control.control_plane import OPERATOR, ControlPlane
from bursar.control.requests.job_requests import SubmitJobs
from bursar.control.requests.submission import IdempotencyKey
from bursar.model.errors import EngineFault
from bursar.model.jobs.job import JobState
from bursar.store.rebuild import differences
from tests.control.harness import ControlPlaneHarness, gpu_job, submit, until, until_state
from tests.store.private_postgres import PrivatePostgres
from tests.support.memory_engine import MemoryEngine

pytestmark = pytest.mark.real
RESTARTS = 3
JOBS = 120


def test_a_job_runs_and_another_process_takes_over(tmp_path: Path, fresh_postgres: str) -> None:
    harness = ControlPlaneHarness(tmp_path, database=fresh_postgres)
    with harness.plane("first") as first:
        (job,) = submit(first, gpu_job())
        until_state(first, job, JobState.RUNNING)
        with harness.plane("second") as second:
            assert not second.is_leader and second.leader_address == "first"
            first.close()
            until(lambda: second.is_leader, "the second leads")
            harness.engine.end(job)
            until_state(second, job, JobState.SUCCEEDED)


def test_restarts_under_load_lose_and_repeat_nothing(
    tmp_path: Path, postgres_server: PrivatePostgres
) -> None:
    harness = ControlPlaneHarness(
        tmp_path,
        engine=MemoryEngine(ends_at_once=True),
        database=postgres_server.new_database(),
    )
    with harness.plane() as plane:
        until(lambda: plane.declaration() is not None, "a fleet is declared")
        acknowledged: list[str] = []
        load = threading.Thread(target=submit_all, args=(plane, acknowledged))
        load.start()
        for _ in range(RESTARTS):
            time.sleep(0.5)
            postgres_server.stop("immediate")
            postgres_server.start()
        load.join(timeout=120)
        assert not load.is_alive(), "the load never ended"
        until(lambda: all_succeeded(plane, acknowledged), "everything acknowledged has succeeded")
        assert len(acknowledged) == len(set(acknowledged)) == JOBS
        started = [ref.job_id for ref in harness.engine.started]
        assert sorted(started) == sorted(acknowledged)
        assert list(differences(plane.reader)) == []  # type: ignore[arg-type]


def submit_all(plane: ControlPlane, acknowledged: list[str]) -> None:
    """Retries with the same idempotency key until there is a response, as a client does."""
    for number in range(JOBS):
        key = IdempotencyKey(tenant="acme", key=str(number), request_sha256="x")
        while True:
            try:
                taken = plane.send(
                    SubmitJobs(caller=OPERATOR, submissions=[gpu_job()], key=key)
                ).result(60)
            except EngineFault:
                time.sleep(0.05)
                continue
            acknowledged += taken.job_ids
            break


def all_succeeded(plane: ControlPlane, jobs: list[str]) -> bool:
    try:
        rows = [plane.reader.job(job) for job in jobs]
    except EngineFault:
        return False
    return all(row is not None and row.state is JobState.SUCCEEDED for row in rows)
