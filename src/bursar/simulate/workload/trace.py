"""A trace: the jobs of a workload with their submission times, requests and true run times.

Every reader makes one. A value that a row lacks is ``None`` and becomes the default of a job.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """One job of a trace. Times are milliseconds; ``submitted_ms`` counts from the trace's start.

    A task has ``gpus`` whole GPUs, or ``gpu_milli`` thousandths of one. ``run_ms`` is its run time at
    full size; ``expected_ms`` is its user's estimate.
    """

    job_id: str
    submitted_ms: int
    run_ms: int
    team: str = "all"
    user: str = ""
    name: str = ""
    tasks: int = 1
    gpus: int = 0
    gpu_milli: int = 0
    gpu_models: tuple[str, ...] = ()
    cpu_milli: int = 0
    memory_mib: int = 0
    expected_ms: int | None = None
    deadline_ms: int | None = None
    priority: int = 0
    outcome: str = ""

    @property
    def gpu_total_milli(self) -> int:
        """The GPU capacity that the job holds while it runs."""
        return self.tasks * (self.gpus * 1_000 + self.gpu_milli)


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """An invalid row: its location and the problem."""

    file: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A workload in order of submission, and its invalid rows."""

    source: str
    jobs: tuple[TraceJob, ...]
    bad_rows: tuple[BadRow, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[TraceJob]:
        return iter(self.jobs)
