"""Selects the jobs of one page of a listing, newest first.

One query for the newest jobs of several queues would sort all jobs of those queues. Instead, one page of
each queue is read from the newest end of an index, and the pages are merged.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, select, tuple_, union_all

from bursar.ports import JobFilter
from bursar.store.tables.schema import jobs, origin_labels

NEWEST_FIRST = (jobs.c.submitted_at_ms.desc(), jobs.c.id.desc())
MAX_RANGES = 100
"""With more, one sort is cheaper than so many pages. SQLite allows 500."""


def sequences_of(wanted: JobFilter) -> Select[Any]:
    """Selects the keys of the jobs of one page."""
    matching = _filtered(wanted)
    ranges = [matching.where(condition) for condition in _index_ranges(wanted)]
    if len(ranges) == 1:
        return _newest(ranges[0], wanted.limit).with_only_columns(jobs.c.sequence)
    pages = [_newest(one, wanted.limit).subquery() for one in ranges]
    merged = union_all(*(select(page) for page in pages)).subquery()
    newest = select(merged.c.sequence)
    return newest.order_by(merged.c.submitted_at_ms.desc(), merged.c.id.desc()).limit(wanted.limit)


def _index_ranges(wanted: JobFilter) -> list[ColumnElement[bool]]:
    """Conditions that each select one range of an index sorted by time."""
    if wanted.states:
        return [jobs.c.state == state for state in sorted(wanted.states)]
    if wanted.queues is not None and 1 < len(wanted.queues) <= MAX_RANGES:
        return [jobs.c.queue == queue for queue in sorted(wanted.queues)]
    return [jobs.c.sequence > 0]


def _newest(matching: Select[Any], limit: int) -> Select[Any]:
    return matching.order_by(*NEWEST_FIRST).limit(limit)


def _filtered(wanted: JobFilter) -> Select[Any]:
    matching: Select[Any] = select(jobs.c.sequence, jobs.c.submitted_at_ms, jobs.c.id)
    if wanted.queues is not None:
        matching = matching.where(jobs.c.queue.in_(sorted(wanted.queues)))
    if wanted.owner is not None:
        matching = matching.where(jobs.c.owner == wanted.owner)
    if wanted.name is not None:
        matching = matching.where(jobs.c.name == wanted.name)
    if wanted.label is not None:
        key, value = wanted.label
        labelled = select(origin_labels.c.origin).where(
            origin_labels.c.key == key, origin_labels.c.value == value
        )
        matching = matching.where(jobs.c.origin.in_(labelled))
    if wanted.after is not None:
        matching = matching.where(tuple_(jobs.c.submitted_at_ms, jobs.c.id) < wanted.after)
    return matching
