"""Final states of finished jobs, as long as they may be needed.

Dependent jobs and users ask how a job ended. Hardly any of a million jobs is asked for again, so old ones
are dropped: at least the last ``MINIMUM_STORED`` are stored, and beyond them those that a live job depends
on. So memory grows with live jobs, not with all jobs ever run.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import islice
from typing import Final

from bursar.model.jobs.job import JobState

MINIMUM_STORED: Final = 65_536
"""At least this many of the last jobs are stored, and at most twice as many."""


class FinishedJobs(dict[str, JobState]):
    """Final states by job id, in two generations: when the younger is full, the older is dropped.

    ``needed`` contains the jobs that a live job depends on; those survive every change of generation.
    """

    def __init__(self, needed: Container[str], minimum: int = MINIMUM_STORED) -> None:
        super().__init__()
        self._needed = needed
        self._minimum = minimum
        self._older = 0

    def __setitem__(self, job_id: str, state: JobState) -> None:
        super().__setitem__(job_id, state)
        if len(self) - self._older >= self._minimum:
            for older in [job for job in islice(self, self._older) if job not in self._needed]:
                del self[older]
            self._older = len(self)
