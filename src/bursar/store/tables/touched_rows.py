"""Reads the rows that a batch of events can change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    bindparam,
    or_,
    select,
)

from bursar.model import event as ev
from bursar.model.jobs.job import JobState
from bursar.model.lifecycle import LIVE
from bursar.store.tables.codec import node_mark
from bursar.store.tables.projection import AttemptFacts, JobFacts, Rows
from bursar.store.tables.schema import attempts, jobs, waits

IDS_PER_QUERY = 500
"""Old versions of SQLite allow 999 parameters."""

ALIVE = attempts.c.outcome == ""

# Built once: building a statement takes longer than executing it.
IDS: BindParameter[list[str]] = bindparam("ids", expanding=True)
_DEPENDENTS = select(waits.c.job_id).where(waits.c.dependency.in_(IDS))
_JOBS = select(jobs).where(jobs.c.id.in_(IDS))
_LIVE_ATTEMPTS = select(attempts).where(ALIVE, attempts.c.job_id.in_(IDS))
_WAITS = select(waits).where(waits.c.job_id.in_(IDS))


def read_touched_rows(connection: Connection, events: Sequence[ev.LoggedEvent]) -> Rows:
    """The rows that folding these events needs. New jobs without dependencies need none."""
    job_ids: set[str] = set()
    for event in events:
        if isinstance(event, ev.JobSubmitted):
            job_ids.update(event.spec.depends_on)
        elif isinstance(event, ev.JobEvent):
            job_ids.add(event.job_id)
    lost_nodes = sorted({event.node for event in events if isinstance(event, ev.NodeLost)})
    job_ids |= _jobs_on(connection, lost_nodes)
    rows = Rows()
    if job_ids:
        job_ids |= {job_id for (job_id,) in rows_of_ids(connection, _DEPENDENTS, job_ids)}
        rows.load(
            map(job_facts, rows_of_ids(connection, _JOBS, job_ids)),
            map(AttemptFacts._make, rows_of_ids(connection, _LIVE_ATTEMPTS, job_ids)),
            map(tuple, rows_of_ids(connection, _WAITS, job_ids)),
        )
    return rows


def job_facts(row: Row[tuple[object, ...]]) -> JobFacts:
    """Converts a row of ``jobs``."""
    facts = JobFacts._make(row)
    return facts._replace(state=JobState(facts.state))


def _jobs_on(connection: Connection, nodes: Sequence[str]) -> set[str]:
    """Jobs whose live attempt uses one of these nodes."""
    job_ids: set[str] = set()
    for chunk in _chunks(nodes):
        on_nodes = [
            attempts.c.placement.contains(node_mark(node), autoescape=True) for node in chunk
        ]
        query = select(attempts.c.job_id).where(ALIVE, or_(*on_nodes))
        job_ids.update(connection.scalars(query))
    return job_ids


def rows_of_ids(connection: Connection, query: Select[Any], ids: Iterable[str]) -> Iterator[Any]:
    """The rows of a query that has the parameter ``IDS``, for any number of ids."""
    for chunk in _chunks(sorted(ids)):
        yield from connection.execute(query, {"ids": chunk})


def _chunks(ids: Iterable[str]) -> Iterator[list[str]]:
    remaining = iter(ids)
    while chunk := list(islice(remaining, IDS_PER_QUERY)):
        yield chunk


def is_live_attempt_of_job() -> ColumnElement[bool]:
    """Condition that joins a job to its live attempt."""
    return and_(
        attempts.c.job_id == jobs.c.id,
        attempts.c.attempt == jobs.c.attempt,
        jobs.c.state.in_(sorted(LIVE)),
    )
