"""A trace while it is being read: jobs so far, rows that made no sense, and what was left out."""

from __future__ import annotations

from operator import attrgetter

from bursar.simulate.workload.trace import BadRow, Trace, TraceJob


class TraceBuilder:
    """Every row of a file ends here in one of three ways: as a job, as a bad row, or counted."""

    def __init__(self, file: str, *, gpus_only: bool = False) -> None:
        self.file = file
        self._gpus_only = gpus_only
        self._jobs: list[TraceJob] = []
        self._ids: set[str] = set()
        self._bad_rows: list[BadRow] = []
        self._counts: dict[str, int] = {}
        self._remarks: dict[str, None] = {}

    def add(self, line: int, job: TraceJob) -> None:
        """Keep a job, unless its name is taken or it has no GPU and only GPU jobs are wanted."""
        job_id = job.job_id
        if job_id in self._ids:
            self.reject(line, f"a second job is called {job_id!r}")
            return
        if self._gpus_only and not job.gpus and not job.gpu_milli:
            self.count("jobs without GPUs left out")
            return
        self._ids.add(job_id)
        self._jobs.append(job)

    def reject(self, line: int, problem: str) -> None:
        """Keep what is wrong with a row."""
        self._bad_rows.append(BadRow(file=self.file, line=line, problem=problem))

    def count(self, what: str) -> None:
        """One more of something that is no error but should not pass unseen."""
        self._counts[what] = self._counts.get(what, 0) + 1

    def remark(self, sentence: str) -> None:
        """Something a reader of the results should know about the whole trace."""
        self._remarks[sentence] = None

    def trace(self) -> Trace:
        """The trace in order of submission, its clock starting with the first job."""
        jobs = self._jobs
        # By name, then by time: files mostly have their names in order, and the second of two sorts keeps
        # what the first has done. Numbers alone sort three times as fast as pairs.
        jobs.sort(key=attrgetter("job_id"))
        jobs.sort(key=attrgetter("submitted_ms"))
        if jobs and jobs[0].submitted_ms:
            _move(jobs, jobs[0].submitted_ms)
        counts = (f"{self._counts[what]:,} {what}" for what in sorted(self._counts))
        return Trace(
            source=self.file,
            jobs=tuple(jobs),
            bad_rows=tuple(self._bad_rows),
            notes=(*self._remarks, *counts),
        )


def _move(jobs: list[TraceJob], by_ms: int) -> None:
    """Nobody else holds these jobs yet, and moving them costs a tenth of making them again."""
    change = object.__setattr__
    for job in jobs:
        change(job, "submitted_ms", job.submitted_ms - by_ms)
        if job.deadline_ms is not None:
            change(job, "deadline_ms", job.deadline_ms - by_ms)
