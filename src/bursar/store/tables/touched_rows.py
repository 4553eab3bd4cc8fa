"""Which rows a batch of events can touch, read before the events are folded."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice

from sqlalchemy import BindParameter, ColumnElement, Connection, Row, and_, bindparam, or_, select

from bursar.model import event as ev
from bursar.model.jobs.job import JobState
from bursar.model.lifecycle import LIVE
from bursar.store.tables.codec import node_mark
from bursar.store.tables.projection import AttemptFacts, JobFacts, Rows
from bursar.store.tables.schema import attempts, jobs, waits

AT_ONCE = 500
"""How many ids one question names: SQLite allows 999 in the versions that allow least."""

ALIVE = attempts.c.outcome == ""

# Made once: to build such a statement takes longer than to execute it, and every batch needs all four.
_IDS: BindParameter[list[str]] = bindparam("ids", expanding=True)
_DEPENDENTS = select(waits.c.job_id).where(waits.c.dependency.in_(_IDS))
_JOBS = select(jobs).where(jobs.c.id.in_(_IDS))
_LIVE_ATTEMPTS = select(attempts).where(ALIVE, attempts.c.job_id.in_(_IDS))
_WAITS = select(waits).where(waits.c.job_id.in_(_IDS))


def gather(connection: Connection, events: Sequence[ev.LoggedEvent]) -> Rows:
    """Everything that folding these events can look at. New jobs alone need nothing read."""
    named: set[str] = set()
    for event in events:
        if isinstance(event, ev.JobSubmitted):
            named.update(event.spec.depends_on)
        elif isinstance(event, ev.JobEvent):
            named.add(event.job_id)
    lost = sorted({event.node for event in events if isinstance(event, ev.NodeLost)})
    named |= _holders(connection, lost)
    rows = Rows()
    if named:
        named |= _dependents(connection, named)
        rows.load(
            _jobs(connection, named), _live_attempts(connection, named), _waits(connection, named)
        )
    return rows


def job_facts(row: Row[tuple[object, ...]]) -> JobFacts:
    """A row of ``jobs`` as the fold knows it."""
    facts = JobFacts._make(row)
    return facts._replace(state=JobState(facts.state))


def _holders(connection: Connection, nodes: Sequence[str]) -> set[str]:
    """Jobs whose live attempt is on one of these nodes; some more do no harm."""
    found: set[str] = set()
    for some in in_parts(nodes):
        marked = [attempts.c.placement.contains(node_mark(node), autoescape=True) for node in some]
        wanted = select(attempts.c.job_id).where(ALIVE, or_(*marked))
        found.update(connection.scalars(wanted))
    return found


def _dependents(connection: Connection, ids: Collection[str]) -> set[str]:
    found: set[str] = set()
    for some in in_parts(sorted(ids)):
        found.update(connection.scalars(_DEPENDENTS, {"ids": some}))
    return found


def _jobs(connection: Connection, ids: Collection[str]) -> Iterator[JobFacts]:
    for some in in_parts(sorted(ids)):
        for row in connection.execute(_JOBS, {"ids": some}):
            yield job_facts(row)


def _live_attempts(connection: Connection, ids: Collection[str]) -> Iterator[AttemptFacts]:
    for some in in_parts(sorted(ids)):
        yield from map(AttemptFacts._make, connection.execute(_LIVE_ATTEMPTS, {"ids": some}))


def _waits(connection: Connection, ids: Collection[str]) -> Iterator[tuple[str, str]]:
    for some in in_parts(sorted(ids)):
        found = connection.execute(_WAITS, {"ids": some})
        yield from ((dependency, job_id) for dependency, job_id in found)


def in_parts(ids: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(ids)
    while some := list(islice(rest, AT_ONCE)):
        yield some


def of_live_attempt() -> ColumnElement[bool]:
    """Joins a job to the attempt it has now, if it has one."""
    return and_(
        attempts.c.job_id == jobs.c.id,
        attempts.c.attempt == jobs.c.attempt,
        jobs.c.state.in_(sorted(LIVE)),
    )
