"""What one append writes, inside a transaction that somebody else begins and commits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any

from sqlalchemy import (
    Connection,
    Table,
    Update,
    and_,
    bindparam,
    case,
    delete,
    insert,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import IntegrityError

from bursar.codec import event_text, to_text
from bursar.model.errors import BrokenInvariant
from bursar.model.event import JobSubmitted
from bursar.model.jobs.job import OVER, JobState
from bursar.ports import Batch, JobOrigin, LeadershipLost, Snapshot
from bursar.store.audit_chain import audit_rows
from bursar.store.tables.codec import (
    origin_text,
    storable,
)
from bursar.store.tables.projection import (
    NO_ORIGIN,
    AttemptFacts,
    JobFacts,
    OriginRef,
    Rows,
    Wait,
    fold,
)
from bursar.store.tables.schema import (
    acknowledgements,
    attempts,
    audit,
    events,
    job_counts,
    jobs,
    meta,
    origin_labels,
    origins,
    progress,
    secrets,
    snapshots,
    tokens,
    waits,
)
from bursar.store.tables.touched_rows import gather

KEPT_SNAPSHOTS = 2
Columns = tuple[tuple[str, ...], tuple[str, ...]]
"""Of an update: those that may change, and those that find the row."""

# Made once: every transaction needs these, and to build them takes as long as to execute them.
_OURS = update(meta).where(meta.c.id == 1, meta.c.epoch == bindparam("of_epoch"))
_HOLD = _OURS.values(epoch=meta.c.epoch)
_CLAIM = _OURS.values(
    last_sequence=meta.c.last_sequence + bindparam("more"), last_batch=bindparam("this_batch")
)
_HEADS = select(meta.c.last_sequence, meta.c.audit_number, meta.c.audit_hash)
_JOB_KEEPS = {"sequence", "id", "name", "queue", "owner", "origin", "priority", "retries"}
_JOB_KEEPS.add("submitted_at_ms")
_JOB_MAY_CHANGE = tuple(name for name in JobFacts._fields if name not in _JOB_KEEPS)
_job_changes = attrgetter(*_JOB_MAY_CHANGE)
_UPDATED_JOB = (_JOB_MAY_CHANGE, ("sequence",))
_ATTEMPT_KEEPS = {"job_id", "attempt", "placement", "assigned_at_ms"}
_ATTEMPT_MAY_CHANGE = tuple(name for name in AttemptFacts._fields if name not in _ATTEMPT_KEEPS)
_attempt_changes = attrgetter(*_ATTEMPT_MAY_CHANGE)
_UPDATED_ATTEMPT = (_ATTEMPT_MAY_CHANGE, ("job_id", "attempt"))
_DROP_WAIT = delete(waits).where(
    waits.c.dependency == bindparam("of_dependency"), waits.c.job_id == bindparam("of_job")
)
_FEWER_ALIVE = (
    update(secrets)
    .where(secrets.c.origin == bindparam("of_origin"))
    .values(jobs_alive=secrets.c.jobs_alive - bindparam("over"))
)
_SET_ALIVE = (
    update(secrets)
    .where(secrets.c.origin == bindparam("of_origin"))
    .values(jobs_alive=bindparam("now_alive"))
)
_DROP_SECRETS = delete(secrets).where(
    secrets.c.origin == bindparam("of_origin"), secrets.c.jobs_alive <= 0
)


@dataclass(frozen=True, slots=True)
class Claimed:
    """The row of ``meta`` after the lead was found to be ours: where log and audit go on."""

    last_sequence: int
    audit_number: int
    audit_hash: str


def fence(connection: Connection, epoch: int, change: Update = _HOLD, **values: Any) -> None:
    """Change the row of ``meta``, or just hold it, if the lead is still that of this epoch."""
    if connection.execute(change, {"of_epoch": epoch, **values}).rowcount != 1:
        raise LeadershipLost(f"another process has taken the lead since epoch {epoch}")


def _claim(connection: Connection, batch: Batch, epoch: int, batch_id: str) -> Claimed:
    """Take the next numbers of the log."""
    fence(connection, epoch, _CLAIM, more=len(batch.events), this_batch=batch_id)
    return Claimed(*connection.execute(_HEADS).one())


def write_batch(connection: Connection, batch: Batch, epoch: int, batch_id: str) -> int:
    """Everything of a batch; the last sequence number."""
    claimed = _claim(connection, batch, epoch, batch_id)
    try:
        if batch.events:
            _write_log(connection, batch, claimed.last_sequence - len(batch.events) + 1)
        _write_rest(connection, batch, claimed)
    except IntegrityError as error:
        raise BrokenInvariant(f"the batch contradicts what is stored: {error.orig}") from error
    return claimed.last_sequence


def write_snapshot(connection: Connection, snapshot: Snapshot) -> None:
    """Keep a snapshot and the one before it."""
    connection.execute(delete(snapshots).where(snapshots.c.sequence == snapshot.sequence))
    connection.execute(insert(snapshots).values(sequence=snapshot.sequence, body=snapshot.body))
    newest = select(snapshots.c.sequence).order_by(snapshots.c.sequence.desc())
    kept = connection.scalars(newest.limit(KEPT_SNAPSHOTS)).all()
    connection.execute(delete(snapshots).where(snapshots.c.sequence < kept[-1]))


# -- the log and what follows from it ----------------------------------------------------------------


def _write_log(connection: Connection, batch: Batch, first: int) -> None:
    refs = _write_origins(connection, batch, first)
    _insert_many(connection, events, list(_event_rows(batch, first, refs)))
    rows = gather(connection, batch.events)
    before = Before(rows)
    for sequence, event in enumerate(batch.events, first):
        ref = NO_ORIGIN
        if type(event) is JobSubmitted:
            ref = refs.get(event.job_id, NO_ORIGIN)
        fold(rows, sequence, event, ref)
    changed = before.write_changes(connection, rows)
    _forget_secrets(connection, [job for job in changed if job.state in OVER])


def _event_rows(
    batch: Batch, first: int, refs: Mapping[str, OriginRef]
) -> Iterator[tuple[Any, ...]]:
    for sequence, event in enumerate(batch.events, first):
        kind = type(event).__name__
        job_id = getattr(event, "job_id", None)
        origin = None
        if job_id is not None:
            job_id = storable(job_id)
            if type(event) is JobSubmitted:
                origin = refs.get(event.job_id, NO_ORIGIN).id
        yield sequence, event.at_ms, kind, job_id, origin, event_text(event)


def _write_origins(connection: Connection, batch: Batch, first: int) -> dict[str, OriginRef]:
    """Keep each origin once, under the sequence of its first job; says which job has which."""
    refs: dict[str, OriginRef] = {}
    numbers: dict[int, int] = {}
    kept: dict[int, JobOrigin] = {}
    alive: Counter[int] = Counter()
    for sequence, event in enumerate(batch.events, first):
        if type(event) is not JobSubmitted or event.job_id not in batch.origins:
            continue
        origin = batch.origins[event.job_id]
        number = numbers.setdefault(id(origin), sequence)
        kept[number] = origin
        alive[number] += 1
        refs[event.job_id] = OriginRef(number, origin.owner)
    _insert_many(
        connection,
        origins,
        [
            (number, storable(one.owner), to_text(one.labels), origin_text(one))
            for number, one in kept.items()
        ],
    )
    _insert_many(
        connection,
        origin_labels,
        [
            (storable(key), storable(value), number)
            for number, one in kept.items()
            for key, value in one.labels.items()
        ],
    )
    _insert(
        connection,
        secrets,
        [
            {
                "origin": number,
                "jobs_alive": alive[number],
                "body": to_text(origin.recipe.secrets),
            }
            for number, origin in kept.items()
            if origin.recipe.secrets
        ],
    )
    return refs


class Before:
    """Rows as they were, to write only what folding has changed. Rows are immutable: this is cheap."""

    def __init__(self, rows: Rows) -> None:
        self.jobs: Mapping[str, JobFacts] = dict(rows.jobs)
        self.attempts: Mapping[tuple[str, int], AttemptFacts] = dict(rows.attempts)
        self.waits: set[Wait] = rows.waits()

    def write_changes(self, connection: Connection, rows: Rows) -> Sequence[JobFacts]:
        """Write what is not as it was; says which jobs that were."""
        changed = [job for job in rows.jobs.values() if job is not self.jobs.get(job.id)]
        self._write_jobs(connection, changed)
        self._write_attempts(connection, rows)
        self._write_waits(connection, rows.waits())
        self._write_counts(connection, changed)
        return changed

    def _write_jobs(self, connection: Connection, changed: Sequence[JobFacts]) -> None:
        new = [job for job in changed if job.id not in self.jobs]
        _insert_many(connection, jobs, new)
        known = [(*_job_changes(job), job.sequence) for job in changed if job.id in self.jobs]
        _update_many(connection, jobs, _UPDATED_JOB, known)

    def _write_attempts(self, connection: Connection, rows: Rows) -> None:
        changed = [
            (key, one) for key, one in rows.attempts.items() if one is not self.attempts.get(key)
        ]
        new = [one for key, one in changed if key not in self.attempts]
        _insert_many(connection, attempts, new)
        known = [(*_attempt_changes(one), *key) for key, one in changed if key in self.attempts]
        _update_many(connection, attempts, _UPDATED_ATTEMPT, known)

    def _write_waits(self, connection: Connection, now: set[Wait]) -> None:
        new = [{"dependency": one, "job_id": job_id} for one, job_id in sorted(now - self.waits)]
        _insert(connection, waits, new)
        gone = [
            {"of_dependency": one, "of_job": job_id} for one, job_id in sorted(self.waits - now)
        ]
        _execute(connection, _DROP_WAIT, gone)

    def _write_counts(self, connection: Connection, changed: Sequence[JobFacts]) -> None:
        moved: Counter[tuple[str, JobState]] = Counter()
        for job in changed:
            moved[job.queue, job.state] += 1
            if job.id in self.jobs:
                moved[job.queue, self.jobs[job.id].state] -= 1
        rows = [
            {"queue": queue, "state": state, "jobs": count}
            for (queue, state), count in sorted(moved.items())
            if count
        ]
        _execute(connection, _add_counts(connection.dialect.name), rows)


def _forget_secrets(connection: Connection, over: Iterable[JobFacts]) -> None:
    ended = Counter(job.origin for job in over if job.origin is not None)
    rows = [{"of_origin": origin, "over": count} for origin, count in sorted(ended.items())]
    _execute(connection, _FEWER_ALIVE, rows)
    _execute(connection, _DROP_SECRETS, [{"of_origin": row["of_origin"]} for row in rows])


def set_secrets_alive(connection: Connection, alive: Mapping[int, int]) -> None:
    """Say anew how many jobs need each origin's secrets; those that none needs are gone."""
    connection.execute(update(secrets).values(jobs_alive=0))
    rows = [{"of_origin": origin, "now_alive": count} for origin, count in sorted(alive.items())]
    _execute(connection, _SET_ALIVE, rows)
    connection.execute(delete(secrets).where(secrets.c.jobs_alive <= 0))


# -- the rest ----------------------------------------------------------------------------------------


def _write_rest(connection: Connection, batch: Batch, claimed: Claimed) -> None:
    _insert(
        connection,
        acknowledgements,
        [
            {
                "tenant": one.tenant,
                "key": one.key,
                "request_sha256": one.request_sha256,
                "answer": one.answer,
                "at_ms": one.at_ms,
            }
            for one in batch.acknowledgements
        ],
    )
    _execute(
        connection,
        _put_token(connection.dialect.name),
        [{"id": token.id, "body": to_text(token)} for token in batch.tokens],
    )
    _execute(
        connection,
        _put_progress(connection.dialect.name),
        [
            {
                "job_id": one.job_id,
                "attempt": one.attempt,
                "step": one.step,
                "total": one.total,
                "at_ms": one.at_ms,
                "since_step": one.step,
                "since_ms": one.at_ms,
            }
            for one in batch.progressed
        ],
    )
    rows = audit_rows(batch.audit, claimed.audit_number, claimed.audit_hash)
    _insert(connection, audit, rows)
    if rows:
        head = {"audit_number": rows[-1]["number"], "audit_hash": rows[-1]["hash"]}
        connection.execute(update(meta).values(head))


def _insert_many(connection: Connection, table: Table, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert whole rows, in the order of the columns, past SQLAlchemy's work on each value.

    That work is a third of the cost of a bulk submission; texts must be ``storable`` already.
    """
    if rows:
        connection.exec_driver_sql(_insert_statement(table, connection.dialect.name), rows)


@cache
def _insert_statement(table: Table, dialect: str) -> str:
    mark = "%s" if dialect == "postgresql" else "?"
    names = ", ".join(table.columns.keys())
    return f"INSERT INTO {table.name} ({names}) VALUES ({', '.join([mark] * len(table.columns))})"


def _update_many(
    connection: Connection, table: Table, columns: Columns, rows: Sequence[tuple[Any, ...]]
) -> None:
    """The same for rows that are there: values of the columns that may change, then of those that find it."""
    if rows:
        connection.exec_driver_sql(
            _update_statement(table, columns, connection.dialect.name), list(rows)
        )


@cache
def _update_statement(table: Table, columns: Columns, dialect: str) -> str:
    mark = "%s" if dialect == "postgresql" else "?"
    changed, found_by = (tuple(f"{name} = {mark}" for name in names) for names in columns)
    return f"UPDATE {table.name} SET {', '.join(changed)} WHERE {' AND '.join(found_by)}"


def _insert(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    _execute(connection, insert(table), rows)


def _execute(connection: Connection, statement: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        connection.execute(statement, rows)


def _upsert(dialect: str, table: Table) -> Any:
    """The two databases agree on this sentence, but SQLAlchemy has it once for each."""
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)


@cache
def _add_counts(dialect: str) -> Any:
    new = _upsert(dialect, job_counts)
    return new.on_conflict_do_update(
        index_elements=["queue", "state"], set_={"jobs": job_counts.c.jobs + new.excluded.jobs}
    )


@cache
def _put_token(dialect: str) -> Any:
    new = _upsert(dialect, tokens)
    return new.on_conflict_do_update(index_elements=["id"], set_={"body": new.excluded.body})


@cache
def _put_progress(dialect: str) -> Any:
    """The newest counts; where an attempt began to tell stays, unless it began anew."""
    new = _upsert(dialect, progress)
    goes_on = and_(
        progress.c.attempt == new.excluded.attempt, progress.c.since_step <= new.excluded.step
    )
    kept = {
        name: case((goes_on, progress.c[name]), else_=new.excluded[name])
        for name in ("since_step", "since_ms")
    }
    newest = {name: new.excluded[name] for name in ("attempt", "step", "total", "at_ms")}
    return new.on_conflict_do_update(index_elements=["job_id"], set_=newest | kept)
