"""Reads: each call is one short transaction on a read-only connection.

The event log is read in pages, because a long read would prevent SQLite from emptying its WAL. The log
is append-only, so the pages together are as consistent as one read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, Select, and_, func, or_, select
from sqlalchemy.exc import SQLAlchemyError

from bursar.codec import event_of, from_text
from bursar.model.jobs.attempt import Placement
from bursar.model.jobs.job import OVER, JobState
from bursar.model.jobs.job_labels import JobLabel
from bursar.model.tenants.identity import Token
from bursar.ports import (
    Acknowledgement,
    AttemptRow,
    AuditEntry,
    JobFilter,
    JobOrigin,
    JobProgress,
    JobRow,
    Recorded,
    Snapshot,
)
from bursar.store.audit_chain import broken_links
from bursar.store.tables.codec import origin_of, spec_of
from bursar.store.tables.job_listing import NEWEST_FIRST, sequences_of
from bursar.store.tables.schema import (
    acknowledgements,
    attempts,
    audit,
    events,
    job_counts,
    jobs,
    meta,
    origins,
    progress,
    secrets,
    snapshots,
    tokens,
)
from bursar.store.tables.touched_rows import IDS, is_live_attempt_of_job, rows_of_ids

Value = TypeVar("Value")
PAGE_ROWS = 1_000
MAX_ARRAY_JOBS = 10_000
"""Admission allows no larger array (``core/admission``); bounds the scan of the table."""

_ORIGINS = (
    select(jobs.c.id.label("job_id"), jobs.c.state, origins, secrets.c.body.label("secrets"))
    .join(origins, origins.c.id == jobs.c.origin)
    .outerjoin(secrets, secrets.c.origin == origins.c.id)
    .where(jobs.c.id.in_(IDS))
)
_TAGS = (
    select(jobs.c.id, jobs.c.name, jobs.c.owner, origins.c.labels)
    .outerjoin(origins, origins.c.id == jobs.c.origin)
    .where(jobs.c.id.in_(IDS))
)
_JOB_ROWS = (
    select(
        jobs,
        events.c.body.label("submission"),
        origins.c.labels,
        attempts.c.placement,
        attempts.c.saved_at_ms,
        attempts.c.saved_step,
        attempts.c.resumed_at_ms,
        attempts.c.resumed_step,
        progress.c.attempt.label("progress_attempt"),
        progress.c.step,
        progress.c.total,
        progress.c.at_ms.label("progress_at_ms"),
        progress.c.since_step,
        progress.c.since_ms,
    )
    .join(events, events.c.sequence == jobs.c.sequence)
    .outerjoin(origins, origins.c.id == jobs.c.origin)
    .outerjoin(attempts, is_live_attempt_of_job())
    .outerjoin(progress, progress.c.job_id == jobs.c.id)
)


class SqlReader:
    """``ports.StoreReader`` on a SQL database."""

    def __init__(self, engine: Engine, fault: Callable[[SQLAlchemyError], Exception]) -> None:
        self.engine = engine
        self._fault = fault

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A read-only transaction: one consistent snapshot of the database."""
        try:
            with self.engine.connect() as connection, connection.begin():
                yield connection
        except SQLAlchemyError as error:
            raise self._fault(error) from error

    def _rows(self, query: Select[Any]) -> Sequence[Any]:
        """All rows of a query, in a transaction of its own."""
        with self.reading() as connection:
            return connection.execute(query).all()

    # -- the log -----------------------------------------------------------------------------------

    def last_sequence(self) -> int:
        """Sequence number of the newest event; 0 in an empty log."""
        with self.reading() as connection:
            return int(connection.execute(select(meta.c.last_sequence)).scalar_one())

    def events(self, after: int = 0, limit: int | None = None) -> Iterator[Recorded]:
        """The events after sequence number ``after``, in order."""
        last = self.last_sequence()
        if limit is not None:
            last = min(last, after + limit)
        while after < last:
            until = min(after + PAGE_ROWS, last)
            query = select(events.c.sequence, events.c.body).where(
                events.c.sequence > after, events.c.sequence <= until
            )
            page = self._rows(query.order_by(events.c.sequence))
            yield from (Recorded(sequence=number, event=event_of(body)) for number, body in page)
            after = until

    def events_of(self, job_id: str) -> Sequence[Recorded]:
        """Events of a job, in order, with the node losses that ended its attempts."""
        lost = select(attempts.c.ended_by).where(
            attempts.c.job_id == job_id, attempts.c.outcome == "NodeLost"
        )
        query = select(events.c.sequence, events.c.body).where(
            or_(events.c.job_id == job_id, events.c.sequence.in_(lost))
        )
        rows = self._rows(query.order_by(events.c.sequence))
        return [Recorded(sequence=number, event=event_of(body)) for number, body in rows]

    def snapshot(self) -> Snapshot | None:
        """The newest snapshot."""
        rows = self._rows(select(snapshots).order_by(snapshots.c.sequence.desc()).limit(1))
        return Snapshot(**rows[0]._mapping) if rows else None

    # -- jobs --------------------------------------------------------------------------------------

    def job(self, job_id: str) -> JobRow | None:
        rows = self._rows(_JOB_ROWS.where(jobs.c.id == job_id))
        return _job_row(rows[0]) if rows else None

    def jobs(self, wanted: JobFilter) -> Sequence[JobRow]:
        """The jobs that match a filter, newest first."""
        chosen = _JOB_ROWS.where(jobs.c.sequence.in_(sequences_of(wanted)))
        return [_job_row(row) for row in self._rows(chosen.order_by(*NEWEST_FIRST))]

    def members(self, array_id: str) -> Sequence[tuple[str, JobState]]:
        """The jobs of an array with their states. Their sequences are consecutive."""
        first = (
            select(jobs.c.sequence, jobs.c.origin).where(jobs.c.id == f"{array_id}[0]").subquery()
        )
        shared = and_(
            jobs.c.origin == first.c.origin,
            jobs.c.sequence >= first.c.sequence,
            jobs.c.sequence < first.c.sequence + MAX_ARRAY_JOBS,
        )
        query = select(jobs.c.id, jobs.c.state).join(first, shared).order_by(jobs.c.sequence)
        return [(row.id, JobState(row.state)) for row in self._rows(query)]

    def count_jobs(self, queues: frozenset[str] | None) -> Mapping[JobState, int]:
        """Number of jobs in each state; states without jobs are omitted."""
        query = select(job_counts.c.state, func.sum(job_counts.c.jobs))
        if queues is not None:
            query = query.where(job_counts.c.queue.in_(sorted(queues)))
        rows = self._rows(query.group_by(job_counts.c.state))
        counts = {state: int(count) for state, count in rows}
        return {state: counts[state] for state in JobState if counts.get(state)}

    def attempts(self, job_id: str) -> Sequence[AttemptRow]:
        """All attempts of a job, in order."""
        query = select(attempts).where(attempts.c.job_id == job_id).order_by(attempts.c.attempt)
        return [_attempt_row(row) for row in self._rows(query)]

    def origin(self, job_id: str) -> JobOrigin | None:
        """Origin of a job; its secrets are included until the job has ended."""
        return self.origins((job_id,)).get(job_id)

    def origins(self, job_ids: Collection[str]) -> Mapping[str, JobOrigin]:
        """Origins by job id. Jobs submitted together share one object."""
        by_job: dict[str, JobOrigin] = {}
        shared: dict[tuple[int, bool], JobOrigin] = {}
        with self.reading() as connection:
            for row in rows_of_ids(connection, _ORIGINS, job_ids):
                is_over = JobState(row.state) in OVER
                key = (row.id, is_over)
                if key not in shared:
                    job_secrets = None if is_over else row.secrets
                    shared[key] = origin_of(row.owner, row.labels, row.body, job_secrets)
                by_job[row.job_id] = shared[key]
        return by_job

    # -- labels, acknowledgements, tokens, audit ---------------------------------------------------

    def tags(self, job_ids: Collection[str]) -> Mapping[str, JobLabel]:
        """Owner, name and labels by job id; unknown jobs are omitted.

        Jobs with equal values share one object: a month has hundreds of thousands of jobs.
        """
        by_job: dict[str, JobLabel] = {}
        shared: dict[tuple[str, str, str | None], JobLabel] = {}
        with self.reading() as connection:
            for job_id, name, owner, text in rows_of_ids(connection, _TAGS, job_ids):
                label = shared.get((owner, name, text))
                if label is None:
                    labels = from_text(dict[str, str], text) if text else {}
                    label = JobLabel(owner=owner, name=name, labels=labels)
                    shared[owner, name, text] = label
                by_job[job_id] = label
        return by_job

    def acknowledgement(self, tenant: str, key: str) -> Acknowledgement | None:
        """The stored response to an idempotency key."""
        query = select(acknowledgements).where(
            acknowledgements.c.tenant == tenant, acknowledgements.c.key == key
        )
        rows = self._rows(query)
        return Acknowledgement(**rows[0]._mapping) if rows else None

    def tokens(self) -> Sequence[Token]:
        """All tokens, sorted by id."""
        rows = self._rows(select(tokens.c.body).order_by(tokens.c.id))
        return [from_text(Token, body) for (body,) in rows]

    def audit(self, limit: int, before: int | None = None) -> Sequence[tuple[int, AuditEntry]]:
        """Audit entries with their numbers, newest first."""
        query = select(audit).order_by(audit.c.number.desc()).limit(limit)
        if before is not None:
            query = query.where(audit.c.number < before)
        return [(row.number, _audit_entry(row)) for row in self._rows(query)]

    def verify_audit(self) -> Sequence[str]:
        """Problems of the audit log's hash chain; empty if it is intact."""
        with self.reading() as connection:
            head = connection.execute(select(meta.c.audit_number, meta.c.audit_hash)).one()
            query = select(audit).order_by(audit.c.number).execution_options(yield_per=PAGE_ROWS)
            with connection.execute(query) as rows:
                links = ((row.number, _audit_entry(row), row.hash) for row in rows)
                return broken_links(links, (head.audit_number, head.audit_hash))

    def leader(self) -> tuple[int, str] | None:
        """Epoch and address of the current or last leader."""
        with self.reading() as connection:
            epoch, address = connection.execute(select(meta.c.epoch, meta.c.leader_address)).one()
        return (epoch, address) if epoch else None


def _job_row(row: Any) -> JobRow:
    spec = spec_of(row.submission)
    own: dict[str, Any] = {
        "name": spec.name,
        "queue": spec.queue,
        "state": JobState(row.state),
        "placement": from_text(Placement, row.placement) if row.placement else None,
        "spec": spec,
        "labels": from_text(dict[str, str], row.labels) if row.labels else {},
        "progress": _progress(row),
    }
    return _from_columns(JobRow, row, **own)


def _progress(row: Any) -> JobProgress | None:
    if row.step is None:
        return None
    own = {"attempt": row.progress_attempt, "at_ms": row.progress_at_ms}
    return _from_columns(JobProgress, row, **own)


def _attempt_row(row: Any) -> AttemptRow:
    return _from_columns(AttemptRow, row, placement=from_text(Placement, row.placement))


def _audit_entry(row: Any) -> AuditEntry:
    return _from_columns(AuditEntry, row)


def _from_columns(kind: Callable[..., Value], row: Any, **own: Any) -> Value:
    """Builds a value: each field is the column of that name, unless ``own`` has it."""
    columns = row._mapping
    return kind(
        **{name: own[name] if name in own else columns[name] for name in _field_names(kind)}
    )


@cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind))
