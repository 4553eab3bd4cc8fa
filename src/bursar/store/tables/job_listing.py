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


def sequences_of(job_filter: JobFilter) -> Select[Any]:
    """Selects the keys of the jobs of one page."""
    matching = _filtered(job_filter)
    ranges = [matching.where(condition) for condition in _index_ranges(job_filter)]
    if len(ranges) == 1:
        return _newest(ranges[0], job_filter.limit).with_only_columns(jobs.c.sequence)
    pages = [_newest(one, job_filter.limit).subquery() for one in ranges]
    merged = union_all(*(select(page) for page in pages)).subquery()
    newest = select(merged.c.sequence)
    return newest.order_by(merged.c.submitted_at_ms.desc(), merged.c.id.desc()).limit(
        job_filter.limit
    )


def _index_ranges(job_filter: JobFilter) -> list[ColumnElement[bool]]:
    """Conditions that each select one range of an index sorted by time."""
    if job_filter.states:
        return [jobs.c.state == state for state in sorted(job_filter.states)]
    if job_filter.queues is not None and 1 < len(job_filter.queues) <= MAX_RANGES:
        return [jobs.c.queue == queue for queue in sorted(job_filter.queues)]
    return [jobs.c.sequence > 0]


def _newest(matching: Select[Any], limit: int) -> Select[Any]:
    return matching.order_by(*NEWEST_FIRST).limit(limit)


def _filtered(job_filter: JobFilter) -> Select[Any]:
    matching: Select[Any] = select(jobs.c.sequence, jobs.c.submitted_at_ms, jobs.c.id)
    if job_filter.queues is not None:
        matching = matching.where(jobs.c.queue.in_(sorted(job_filter.queues)))
    if job_filter.owner is not None:
        matching = matching.where(jobs.c.owner == job_filter.owner)
    if job_filter.name is not None:
        matching = matching.where(jobs.c.name == job_filter.name)
    if job_filter.label is not None:
        key, value = job_filter.label
        labelled = select(origin_labels.c.origin).where(
            origin_labels.c.key == key, origin_labels.c.value == value
        )
        matching = matching.where(jobs.c.origin.in_(labelled))
    if job_filter.after is not None:
        matching = matching.where(tuple_(jobs.c.submitted_at_ms, jobs.c.id) < job_filter.after)
    return matching
