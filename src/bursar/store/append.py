"""Writes one batch; the caller begins and commits the transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import Any, Generic, TypeVar

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
from bursar.store.tables.codec import origin_text, storable
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
from bursar.store.tables.touched_rows import read_touched_rows

RETAINED_SNAPSHOTS = 2
MARKS = {"sqlite": "?", "postgresql": "%s"}
"""What stands for a value in a statement of each database's driver."""
Facts = TypeVar("Facts", JobFacts, AttemptFacts)
Key = TypeVar("Key")

# Built once: building a statement takes as long as executing it.
_IF_EPOCH = update(meta).where(meta.c.id == 1, meta.c.epoch == bindparam("of_epoch"))
_LOCK_META = _IF_EPOCH.values(epoch=meta.c.epoch)
_CLAIM = _IF_EPOCH.values(
    last_sequence=meta.c.last_sequence + bindparam("more"), last_batch=bindparam("this_batch")
)
_SELECT_HEADS = select(meta.c.last_sequence, meta.c.audit_number, meta.c.audit_hash)
_ACKNOWLEDGEMENT = acknowledgements.columns.keys()
_DROP_WAIT = delete(waits).where(
    waits.c.dependency == bindparam("of_dependency"), waits.c.job_id == bindparam("of_job")
)
_SUBTRACT_ALIVE = (
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
class LogHeads:
    """The heads of the log and of the audit log after the fence was passed."""

    last_sequence: int
    audit_number: int
    audit_hash: str


def fence(connection: Connection, epoch: int, change: Update = _LOCK_META, **values: Any) -> None:
    """Updates the row of ``meta``, or only locks it; fails if the epoch has changed."""
    if connection.execute(change, {"of_epoch": epoch, **values}).rowcount != 1:
        raise LeadershipLost(f"another process has become leader since epoch {epoch}")


def write_batch(connection: Connection, batch: Batch, epoch: int, batch_id: str) -> int:
    """Writes a batch and returns the last sequence number."""
    fence(connection, epoch, _CLAIM, more=len(batch.events), this_batch=batch_id)
    heads = LogHeads(*connection.execute(_SELECT_HEADS).one())
    try:
        if batch.events:
            _write_log(connection, batch, heads.last_sequence - len(batch.events) + 1)
        _write_other_tables(connection, batch, heads)
    except IntegrityError as error:
        raise BrokenInvariant(f"the batch contradicts what is stored: {error.orig}") from error
    return heads.last_sequence


def write_snapshot(connection: Connection, snapshot: Snapshot) -> None:
    """Stores a snapshot; only it and the one before it are retained."""
    connection.execute(delete(snapshots).where(snapshots.c.sequence == snapshot.sequence))
    connection.execute(insert(snapshots).values(sequence=snapshot.sequence, body=snapshot.body))
    newest = select(snapshots.c.sequence).order_by(snapshots.c.sequence.desc())
    retained = connection.scalars(newest.limit(RETAINED_SNAPSHOTS)).all()
    connection.execute(delete(snapshots).where(snapshots.c.sequence < retained[-1]))


# -- the log and its projections -------------------------------------------------------------------


def _write_log(connection: Connection, batch: Batch, first: int) -> None:
    refs = _write_origins(connection, batch, first)
    _insert_many(connection, events, list(_event_rows(batch, first, refs)))
    rows = read_touched_rows(connection, batch.events)
    stored = StoredRows(rows)
    for sequence, event in enumerate(batch.events, first):
        ref = NO_ORIGIN
        if type(event) is JobSubmitted:
            ref = refs.get(event.job_id, NO_ORIGIN)
        fold(rows, sequence, event, ref)
    changed = stored.write_changes(connection, rows)
    _delete_unused_secrets(connection, [job for job in changed if job.state in OVER])


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
    """Stores each origin once, under the sequence of its first job; returns it by job id."""
    refs: dict[str, OriginRef] = {}
    numbers: dict[int, int] = {}
    new_origins: dict[int, JobOrigin] = {}
    alive: Counter[int] = Counter()
    for sequence, event in enumerate(batch.events, first):
        if type(event) is not JobSubmitted or event.job_id not in batch.origins:
            continue
        origin = batch.origins[event.job_id]
        number = numbers.setdefault(id(origin), sequence)
        new_origins[number] = origin
        alive[number] += 1
        refs[event.job_id] = OriginRef(number, origin.owner)
    _insert_many(
        connection,
        origins,
        [
            (number, storable(origin.owner), to_text(origin.labels), origin_text(origin))
            for number, origin in new_origins.items()
        ],
    )
    _insert_many(
        connection,
        origin_labels,
        [
            (storable(key), storable(value), number)
            for number, origin in new_origins.items()
            for key, value in origin.labels.items()
        ],
    )
    _execute(
        connection,
        insert(secrets),
        [
            {
                "origin": number,
                "jobs_alive": alive[number],
                "body": to_text(origin.recipe.secrets),
            }
            for number, origin in new_origins.items()
            if origin.recipe.secrets
        ],
    )
    return refs


class _FactsTable(Generic[Facts]):
    """A projected table whose rows are ``Facts``; an update writes all but the ``fixed`` columns."""

    def __init__(self, table: Table, key: tuple[str, ...], fixed: set[str]) -> None:
        mutable = [one.name for one in table.columns if one.name not in {*key, *fixed}]
        self._table = table
        self._update_values = attrgetter(*mutable, *key)
        self._update = {
            dialect: f"UPDATE {table.name} SET {', '.join(f'{name} = {mark}' for name in mutable)} "
            f"WHERE {' AND '.join(f'{name} = {mark}' for name in key)}"
            for dialect, mark in MARKS.items()
        }

    def write_changes(
        self, connection: Connection, before: Mapping[Key, Facts], after: Mapping[Key, Facts]
    ) -> list[Facts]:
        """Inserts new rows and updates replaced ones; returns both."""
        changed = [(key, row) for key, row in after.items() if row is not before.get(key)]
        _insert_many(connection, self._table, [row for key, row in changed if key not in before])
        known = [self._update_values(row) for key, row in changed if key in before]
        if known:
            connection.exec_driver_sql(self._update[connection.dialect.name], known)
        return [row for _, row in changed]


_SUBMITTED = {"id", "name", "queue", "owner", "origin", "priority", "retries", "submitted_at_ms"}
_JOBS: _FactsTable[JobFacts] = _FactsTable(jobs, ("sequence",), _SUBMITTED)
_ATTEMPTS: _FactsTable[AttemptFacts] = _FactsTable(
    attempts, ("job_id", "attempt"), {"placement", "assigned_at_ms"}
)


class StoredRows:
    """Rows before the fold, to write only the changes. Rows are immutable: copies are cheap."""

    def __init__(self, rows: Rows) -> None:
        self.jobs: Mapping[str, JobFacts] = dict(rows.jobs)
        self.attempts: Mapping[tuple[str, int], AttemptFacts] = dict(rows.attempts)
        self.waits: set[Wait] = rows.waits()

    def write_changes(self, connection: Connection, rows: Rows) -> Sequence[JobFacts]:
        """Writes the changed rows and returns the changed jobs."""
        changed = _JOBS.write_changes(connection, self.jobs, rows.jobs)
        _ATTEMPTS.write_changes(connection, self.attempts, rows.attempts)
        self._write_waits(connection, rows.waits())
        self._write_counts(connection, changed)
        return changed

    def _write_waits(self, connection: Connection, now: set[Wait]) -> None:
        new = [{"dependency": one, "job_id": job_id} for one, job_id in sorted(now - self.waits)]
        _execute(connection, insert(waits), new)
        met = [{"of_dependency": one, "of_job": job_id} for one, job_id in sorted(self.waits - now)]
        _execute(connection, _DROP_WAIT, met)

    def _write_counts(self, connection: Connection, changed: Sequence[JobFacts]) -> None:
        deltas: Counter[tuple[str, JobState]] = Counter()
        for job in changed:
            deltas[job.queue, job.state] += 1
            if job.id in self.jobs:
                deltas[job.queue, self.jobs[job.id].state] -= 1
        rows = [
            {"queue": queue, "state": state, "jobs": count}
            for (queue, state), count in sorted(deltas.items())
            if count
        ]
        _execute(connection, _add_counts(connection.dialect.name), rows)


def _delete_unused_secrets(connection: Connection, over: Iterable[JobFacts]) -> None:
    ended = Counter(job.origin for job in over if job.origin is not None)
    rows = [{"of_origin": origin, "over": count} for origin, count in sorted(ended.items())]
    _execute(connection, _SUBTRACT_ALIVE, rows)
    _execute(connection, _DROP_SECRETS, [{"of_origin": row["of_origin"]} for row in rows])


def set_secrets_alive(connection: Connection, alive: Mapping[int, int]) -> None:
    """Sets how many jobs need each origin's secrets; deletes secrets that no job needs."""
    connection.execute(update(secrets).values(jobs_alive=0))
    rows = [{"of_origin": origin, "now_alive": count} for origin, count in sorted(alive.items())]
    _execute(connection, _SET_ALIVE, rows)
    connection.execute(delete(secrets).where(secrets.c.jobs_alive <= 0))


# -- acknowledgements, tokens, progress, audit -----------------------------------------------------


def _write_other_tables(connection: Connection, batch: Batch, heads: LogHeads) -> None:
    _execute(
        connection,
        insert(acknowledgements),
        [{name: getattr(one, name) for name in _ACKNOWLEDGEMENT} for one in batch.acknowledgements],
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
    rows = audit_rows(batch.audit, heads.audit_number, heads.audit_hash)
    _execute(connection, insert(audit), rows)
    if rows:
        head = {"audit_number": rows[-1]["number"], "audit_hash": rows[-1]["hash"]}
        connection.execute(update(meta).values(head))


def _insert_many(connection: Connection, table: Table, rows: Sequence[tuple[Any, ...]]) -> None:
    """Inserts rows, in column order, without SQLAlchemy's processing of each value.

    That processing is a third of the cost of a bulk submission. Texts must be ``storable``.
    """
    if rows:
        connection.exec_driver_sql(_insert_statement(table, connection.dialect.name), rows)


@cache
def _insert_statement(table: Table, dialect: str) -> str:
    marks = ", ".join([MARKS[dialect]] * len(table.columns))
    return f"INSERT INTO {table.name} ({', '.join(table.columns.keys())}) VALUES ({marks})"


def _execute(connection: Connection, statement: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        connection.execute(statement, rows)


def _upsert(dialect: str, table: Table) -> Any:
    """The dialect's insert: SQLAlchemy has no common one with ``ON CONFLICT``."""
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
    """Upserts progress; the first report of an attempt stays unless its steps restart."""
    new = _upsert(dialect, progress)
    continues = and_(
        progress.c.attempt == new.excluded.attempt, progress.c.since_step <= new.excluded.step
    )
    first_report = {
        name: case((continues, progress.c[name]), else_=new.excluded[name])
        for name in ("since_step", "since_ms")
    }
    newest = {name: new.excluded[name] for name in ("attempt", "step", "total", "at_ms")}
    return new.on_conflict_do_update(index_elements=["job_id"], set_=newest | first_report)
