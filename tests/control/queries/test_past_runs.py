"""Run times are learned from the tables: from jobs that ran once, were retried or cancelled, or still run."""

from __future__ import annotations

from pathlib import Path

from bursar.control.queries.past_runs import similar_runs
from bursar.model import event as ev
from bursar.model.units import HOUR_MS
from bursar.ports import LeaderLease
from bursar.store import open_store
from bursar.store.sql_store import SqlStore
from tests.store import facts

QUEUE = "red"


def append(store: SqlStore, lead: LeaderLease, *events: ev.LoggedEvent) -> None:
    origins = {one.job_id: facts.origin() for one in events if isinstance(one, ev.JobSubmitted)}
    store.append(facts.batch(*events, origins=origins), lead)


def submitted(job_id: str) -> ev.JobSubmitted:
    made = facts.submitted(job_id, queue=QUEUE)
    return ev.JobSubmitted(at_ms=0, job_id=job_id, spec=made.spec, priority=0)


def ran(job_id: str, hours: int, attempt: int = 1, from_hour: int = 0) -> list[ev.LoggedEvent]:
    begins_ms = from_hour * HOUR_MS
    return [
        facts.assigned(job_id, attempt, at_ms=begins_ms),
        ev.AttemptStarted(at_ms=begins_ms, job_id=job_id, attempt=attempt),
        ev.AttemptSucceeded(at_ms=begins_ms + hours * HOUR_MS, job_id=job_id, attempt=attempt),
    ]


def test_the_expected_run_time_follows_from_past_jobs_of_the_queue(tmp_path: Path) -> None:
    store = open_store(tmp_path / "bursar.db")
    lead = store.try_lead("here")
    assert lead is not None
    for number in range(5):
        append(store, lead, submitted(f"j-{number}"), *ran(f"j-{number}", hours=2 + number))
    asked = submitted("j-new").spec
    found = similar_runs(store, QUEUE).run_time(asked, now_ms=0)
    assert found is not None and found.p50_ms == 4 * HOUR_MS and "5 jobs" in found.basis
    assert similar_runs(store, "blue").run_time(asked, now_ms=0) is None
    store.close()


def test_a_retried_job_counts_its_useful_time_and_not_its_lost_time(tmp_path: Path) -> None:
    store = open_store(tmp_path / "bursar.db")
    lead = store.try_lead("here")
    assert lead is not None
    for number in range(5):
        job_id = f"j-{number}"
        first: list[ev.LoggedEvent] = [
            facts.assigned(job_id, at_ms=0),
            ev.AttemptStarted(at_ms=0, job_id=job_id, attempt=1),
            ev.CheckpointSaved(at_ms=3 * HOUR_MS, job_id=job_id, attempt=1),
            ev.AttemptPreempted(at_ms=4 * HOUR_MS, job_id=job_id, attempt=1),
        ]
        again = ran(job_id, hours=2, attempt=2, from_hour=6)
        append(store, lead, submitted(job_id), *first, *again)
    found = similar_runs(store, QUEUE).run_time(submitted("j-new").spec, now_ms=0)
    assert found is not None and found.p50_ms == 5 * HOUR_MS
    store.close()
