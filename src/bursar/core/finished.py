"""How jobs ended that are over, for as long as anybody may ask.

A job that depends on one that is over must be told how it ended, and so must a person who asks after it.
Of a million jobs hardly any is ever asked for again, so what is over is forgotten in time: the last
``KEPT`` at least are remembered, and beyond them those that a live job depends on. The memory of a fleet
grows with what is alive, not with what ever was.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, MutableMapping
from typing import Final

from bursar.model.job import JobState

KEPT: Final = 65_536
"""So many of the last jobs are remembered at least, and twice as many at most."""


class FinishedJobs(MutableMapping[str, JobState]):
    """Ends of jobs by id, in two generations: when the younger is full, the older one goes.

    ``needed`` says which jobs a live job depends on; those survive every change of generation.
    """

    __slots__ = ("_kept", "_needed", "_older", "_younger")

    def __init__(self, needed: Container[str], kept: int = KEPT) -> None:
        self._needed = needed
        self._kept = kept
        self._younger: dict[str, JobState] = {}
        self._older: dict[str, JobState] = {}

    def __setitem__(self, job_id: str, state: JobState) -> None:
        self._younger[job_id] = state
        if len(self._younger) >= self._kept:
            self._change_generation()

    def _change_generation(self) -> None:
        needed = {job: state for job, state in self._older.items() if job in self._needed}
        self._older = {**needed, **self._younger}
        self._younger = {}

    def __getitem__(self, job_id: str) -> JobState:
        found = self._younger.get(job_id)
        return self._older[job_id] if found is None else found

    def __contains__(self, job_id: object) -> bool:
        return job_id in self._younger or job_id in self._older

    def __delitem__(self, job_id: str) -> None:
        if job_id not in self:
            raise KeyError(job_id)
        self._younger.pop(job_id, None)
        self._older.pop(job_id, None)

    def __iter__(self) -> Iterator[str]:
        yield from (job for job in self._older if job not in self._younger)
        yield from self._younger

    def __len__(self) -> int:
        return sum(1 for _ in self)
