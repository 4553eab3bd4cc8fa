"""Final states of finished jobs, as long as they may be needed.

Dependent jobs and users ask how a job ended. Hardly any of a million jobs is asked for again, so old ones
are dropped: at least the last ``MINIMUM_STORED`` are stored, and beyond them those that a live job depends
on. So memory grows with live jobs, not with all jobs ever run.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, MutableMapping
from typing import Final

from bursar.model.jobs.job import JobState

MINIMUM_STORED: Final = 65_536
"""At least this many of the last jobs are stored, and at most twice as many."""


class FinishedJobs(MutableMapping[str, JobState]):
    """Final states by job id, in two generations: when the younger is full, the older is dropped.

    ``needed`` contains the jobs that a live job depends on; those survive every change of generation.
    """

    def __init__(self, needed: Container[str], minimum: int = MINIMUM_STORED) -> None:
        self._needed = needed
        self._minimum = minimum
        self._younger: dict[str, JobState] = {}
        self._older: dict[str, JobState] = {}

    def __setitem__(self, job_id: str, state: JobState) -> None:
        self._younger[job_id] = state
        if len(self._younger) >= self._minimum:
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
