"""Which jobs a listing shows, found by walking an index from its newest end.

A database that is asked for the newest jobs of several queues at once gathers all of them and sorts.
Asked for the newest of each, it reads a page of each and no more; the newest of those are the answer.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, select, tuple_, union_all

from bursar.ports import JobFilter
from bursar.store.tables.schema import jobs, origin_labels

NEWEST_FIRST = (jobs.c.submitted_at_ms.desc(), jobs.c.id.desc())
MOST_PARTS = 100
"""Above, one sort is cheaper to ask for than so many pages. SQLite allows 500."""


def sequences_of(wanted: JobFilter) -> Select[Any]:
    """The keys of the jobs of one page."""
    asked = _filtered(wanted)
    parts = [asked.where(part) for part in _parts(wanted)]
    if len(parts) == 1:
        return _newest(parts[0], wanted.limit).with_only_columns(jobs.c.sequence)
    pages = [_newest(part, wanted.limit).subquery() for part in parts]
    together = union_all(*(select(page) for page in pages)).subquery()
    newest = select(together.c.sequence)
    return newest.order_by(together.c.submitted_at_ms.desc(), together.c.id.desc()).limit(
        wanted.limit
    )


def _parts(wanted: JobFilter) -> list[ColumnElement[bool]]:
    """Each of these is one stretch of an index that is in order of time."""
    if wanted.states:
        return [jobs.c.state == state for state in sorted(wanted.states)]
    if wanted.queues is not None and 1 < len(wanted.queues) <= MOST_PARTS:
        return [jobs.c.queue == queue for queue in sorted(wanted.queues)]
    return [jobs.c.sequence > 0]


def _newest(asked: Select[Any], limit: int) -> Select[Any]:
    return asked.order_by(*NEWEST_FIRST).limit(limit)


def _filtered(wanted: JobFilter) -> Select[Any]:
    asked: Select[Any] = select(jobs.c.sequence, jobs.c.submitted_at_ms, jobs.c.id)
    if wanted.queues is not None:
        asked = asked.where(jobs.c.queue.in_(sorted(wanted.queues)))
    if wanted.owner is not None:
        asked = asked.where(jobs.c.owner == wanted.owner)
    if wanted.name is not None:
        asked = asked.where(jobs.c.name == wanted.name)
    if wanted.label is not None:
        key, value = wanted.label
        labelled = select(origin_labels.c.origin).where(
            origin_labels.c.key == key, origin_labels.c.value == value
        )
        asked = asked.where(jobs.c.origin.in_(labelled))
    if wanted.after is not None:
        asked = asked.where(tuple_(jobs.c.submitted_at_ms, jobs.c.id) < wanted.after)
    return asked
