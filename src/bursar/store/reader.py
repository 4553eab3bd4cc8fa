"""Reads: each call is one short transaction on a connection that cannot write.

A long read would keep SQLite from emptying its log of changes, so the event log is read in pages; it
only grows, so that pages are as consistent as one read up to where it ended when reading began.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, and_, bindparam, func, or_, select
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
from bursar.store.tables.codec import (
    origin_of,
    spec_of,
)
from bursar.store.tables.job_listing import NEWEST_FIRST, sequences_of
from bursar.store.tables.projection import AttemptFacts
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
from bursar.store.tables.touched_rows import in_parts, of_live_attempt

PAGE = 1_000
MOST_MEMBERS = 10_000
"""No array is larger (``core/admission``), so that no more of the table is looked through."""

_ORIGINS = (
    select(jobs.c.id.label("job_id"), jobs.c.state, origins, secrets.c.body.label("secrets"))
    .join(origins, origins.c.id == jobs.c.origin)
    .outerjoin(secrets, secrets.c.origin == origins.c.id)
    .where(jobs.c.id.in_(bindparam("ids", expanding=True)))
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
        progress.c.attempt.label("told_attempt"),
        progress.c.step,
        progress.c.total,
        progress.c.at_ms.label("told_at_ms"),
        progress.c.since_step,
        progress.c.since_ms,
    )
    .join(events, events.c.sequence == jobs.c.sequence)
    .outerjoin(origins, origins.c.id == jobs.c.origin)
    .outerjoin(attempts, of_live_attempt())
    .outerjoin(progress, progress.c.job_id == jobs.c.id)
)


class SqlReader:
    """``ports.StoreReader`` on a SQL database."""

    def __init__(self, engine: Engine, fault: Callable[[SQLAlchemyError], Exception]) -> None:
        self.engine = engine
        self._fault = fault

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """One consistent moment of the database."""
        try:
            with self.engine.connect() as connection, connection.begin():
                yield connection
        except SQLAlchemyError as error:
            raise self._fault(error) from error

    # -- the log ---------------------------------------------------------------------------------

    def last_sequence(self) -> int:
        """The newest event's number; 0 in an empty log."""
        with self.reading() as connection:
            return int(connection.execute(select(meta.c.last_sequence)).scalar_one())

    def events(self, after: int = 0, limit: int | None = None) -> Iterator[Recorded]:
        """The log in order, from behind ``after``."""
        last = self.last_sequence()
        if limit is not None:
            last = min(last, after + limit)
        while after < last:
            until = min(after + PAGE, last)
            wanted = select(events.c.sequence, events.c.body).where(
                events.c.sequence > after, events.c.sequence <= until
            )
            with self.reading() as connection:
                page = connection.execute(wanted.order_by(events.c.sequence)).all()
            yield from (Recorded(sequence=number, event=event_of(body)) for number, body in page)
            after = until

    def events_of(self, job_id: str) -> Sequence[Recorded]:
        """One job's events, in order, and the losses of nodes that ended its attempts."""
        lost = select(attempts.c.ended_by).where(
            attempts.c.job_id == job_id, attempts.c.outcome == "NodeLost"
        )
        wanted = select(events.c.sequence, events.c.body).where(
            or_(events.c.job_id == job_id, events.c.sequence.in_(lost))
        )
        with self.reading() as connection:
            found = connection.execute(wanted.order_by(events.c.sequence)).all()
        return [Recorded(sequence=number, event=event_of(body)) for number, body in found]

    def snapshot(self) -> Snapshot | None:
        """The newest one."""
        wanted = select(snapshots).order_by(snapshots.c.sequence.desc()).limit(1)
        with self.reading() as connection:
            found = connection.execute(wanted).first()
        return Snapshot(sequence=found.sequence, body=found.body) if found else None

    # -- jobs ------------------------------------------------------------------------------------

    def job(self, job_id: str) -> JobRow | None:
        """One job by its id."""
        with self.reading() as connection:
            found = connection.execute(_JOB_ROWS.where(jobs.c.id == job_id)).first()
        return _job_row(found) if found else None

    def jobs(self, wanted: JobFilter) -> Sequence[JobRow]:
        """Newest first."""
        chosen = _JOB_ROWS.where(jobs.c.sequence.in_(sequences_of(wanted)))
        with self.reading() as connection:
            found = connection.execute(chosen.order_by(*NEWEST_FIRST)).all()
        return [_job_row(one) for one in found]

    def members(self, array_id: str) -> Sequence[tuple[str, JobState]]:
        """The jobs of an array and where each is. They came in one after the other and share an origin."""
        first = (
            select(jobs.c.sequence, jobs.c.origin).where(jobs.c.id == f"{array_id}[0]").subquery()
        )
        shared = and_(
            jobs.c.origin == first.c.origin,
            jobs.c.sequence >= first.c.sequence,
            jobs.c.sequence < first.c.sequence + MOST_MEMBERS,
        )
        wanted = select(jobs.c.id, jobs.c.state).join(first, shared).order_by(jobs.c.sequence)
        with self.reading() as connection:
            found = connection.execute(wanted).all()
        return [(one.id, JobState(one.state)) for one in found]

    def count_jobs(self, queues: frozenset[str] | None) -> Mapping[JobState, int]:
        """How many jobs are in each state that any job is in."""
        wanted = select(job_counts.c.state, func.sum(job_counts.c.jobs))
        if queues is not None:
            wanted = wanted.where(job_counts.c.queue.in_(sorted(queues)))
        with self.reading() as connection:
            found = connection.execute(wanted.group_by(job_counts.c.state)).all()
        counts = {state: int(count) for state, count in found}
        return {state: counts[state] for state in JobState if counts.get(state)}

    def attempts(self, job_id: str) -> Sequence[AttemptRow]:
        """Every try of a job, in order."""
        wanted = select(attempts).where(attempts.c.job_id == job_id).order_by(attempts.c.attempt)
        with self.reading() as connection:
            found = connection.execute(wanted).all()
        return [_attempt_row(AttemptFacts._make(one)) for one in found]

    def origin(self, job_id: str) -> JobOrigin | None:
        """With its secrets while the job lives, without them afterwards."""
        return self.origins((job_id,)).get(job_id)

    def origins(self, job_ids: Collection[str]) -> Mapping[str, JobOrigin]:
        """The same of several jobs. Jobs that came together share one, which is read once."""
        found: dict[str, JobOrigin] = {}
        shared: dict[tuple[int, bool], JobOrigin] = {}
        with self.reading() as connection:
            for some in in_parts(sorted(job_ids)):
                for one in connection.execute(_ORIGINS, {"ids": some}):
                    is_over = JobState(one.state) in OVER
                    key = (one.id, is_over)
                    if key not in shared:
                        kept_secrets = None if is_over else one.secrets
                        shared[key] = origin_of(one.owner, one.labels, one.body, kept_secrets)
                    found[one.job_id] = shared[key]
        return found

    # -- the rest --------------------------------------------------------------------------------

    def tags(self, job_ids: Collection[str]) -> Mapping[str, JobLabel]:
        """Whose these jobs are and what they are called; those that are not known are left out.

        Jobs that are alike in this share one tag: a month has hundreds of thousands of jobs.
        """
        named = select(jobs.c.id, jobs.c.name, jobs.c.owner, origins.c.labels).outerjoin(
            origins, origins.c.id == jobs.c.origin
        )
        found: dict[str, JobLabel] = {}
        shared: dict[tuple[str, str, str | None], JobLabel] = {}
        with self.reading() as connection:
            for some in in_parts(sorted(job_ids)):
                for job_id, name, owner, text in connection.execute(
                    named.where(jobs.c.id.in_(some))
                ):
                    tag = shared.get((owner, name, text))
                    if tag is None:
                        labels = from_text(dict[str, str], text) if text else {}
                        tag = JobLabel(owner=owner, name=name, labels=labels)
                        shared[owner, name, text] = tag
                    found[job_id] = tag
        return found

    def acknowledgement(self, tenant: str, key: str) -> Acknowledgement | None:
        """The answer that a key got."""
        wanted = select(acknowledgements).where(
            acknowledgements.c.tenant == tenant, acknowledgements.c.key == key
        )
        with self.reading() as connection:
            found = connection.execute(wanted).first()
        return Acknowledgement(**found._mapping) if found else None

    def tokens(self) -> Sequence[Token]:
        """Every token there is, by id."""
        with self.reading() as connection:
            found = connection.scalars(select(tokens.c.body).order_by(tokens.c.id)).all()
        return [from_text(Token, body) for body in found]

    def audit(self, limit: int, before: int | None = None) -> Sequence[tuple[int, AuditEntry]]:
        """Newest first, each with its number."""
        wanted = select(audit).order_by(audit.c.number.desc()).limit(limit)
        if before is not None:
            wanted = wanted.where(audit.c.number < before)
        with self.reading() as connection:
            found = connection.execute(wanted).all()
        return [(one.number, audit_entry(one)) for one in found]

    def verify_audit(self) -> Sequence[str]:
        """What is wrong with the chain of the audit log; empty when it holds."""
        with self.reading() as connection:
            head = connection.execute(select(meta.c.audit_number, meta.c.audit_hash)).one()
            whole = select(audit).order_by(audit.c.number).execution_options(yield_per=PAGE)
            with connection.execute(whole) as found:
                rows = ((one.number, audit_entry(one), one.hash) for one in found)
                return broken_links(rows, (head.audit_number, head.audit_hash))

    def leader(self) -> tuple[int, str] | None:
        """The epoch and the address that the present or last leader gave."""
        with self.reading() as connection:
            epoch, address = connection.execute(select(meta.c.epoch, meta.c.leader_address)).one()
        return (epoch, address) if epoch else None


def _job_row(found: Any) -> JobRow:
    spec = spec_of(found.submission)
    return JobRow(
        id=found.id,
        name=spec.name,
        queue=spec.queue,
        owner=found.owner,
        state=JobState(found.state),
        priority=found.priority,
        attempt=found.attempt,
        failures=found.failures,
        preemptions=found.preemptions,
        submitted_at_ms=found.submitted_at_ms,
        started_at_ms=found.started_at_ms,
        ended_at_ms=found.ended_at_ms,
        exit_code=found.exit_code,
        exit_signal=found.exit_signal,
        exit_detail=found.exit_detail,
        placement=from_text(Placement, found.placement) if found.placement else None,
        spec=spec,
        labels=from_text(dict[str, str], found.labels) if found.labels else {},
        saved_at_ms=found.saved_at_ms,
        saved_step=found.saved_step,
        resumed_at_ms=found.resumed_at_ms,
        resumed_step=found.resumed_step,
        progress=_progress(found),
    )


def _progress(found: Any) -> JobProgress | None:
    if found.step is None:
        return None
    return JobProgress(
        attempt=found.told_attempt,
        step=found.step,
        total=found.total,
        at_ms=found.told_at_ms,
        since_step=found.since_step,
        since_ms=found.since_ms,
    )


def _attempt_row(facts: AttemptFacts) -> AttemptRow:
    shown = facts._asdict()
    del shown["ended_by"]
    return AttemptRow(**shown | {"placement": from_text(Placement, facts.placement)})


def audit_entry(found: Any) -> AuditEntry:
    """A row of ``audit`` without its number and hash."""
    return AuditEntry(
        at_ms=found.at_ms,
        user=found.user,
        token_id=found.token_id,
        action=found.action,
        subject=found.subject,
        outcome=found.outcome,
        detail=found.detail,
    )
