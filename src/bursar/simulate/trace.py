"""A workload as a trace tells it: who asked for what, when, and how long it really ran.

Every reader makes one of these, and every run begins with one. What a row cannot say is ``None`` and
gets the default of the job it becomes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from bursar.model.made_often import made_often


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class TraceJob:
    """One job of a trace. Times are milliseconds; ``submitted_ms`` counts from the trace's start.

    A task has ``gpus`` whole GPUs, or ``gpu_milli`` thousandths of one when it asks for a part.
    ``run_ms`` is how long it ran at full size; ``expected_ms`` is what its user said beforehand.
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

    def __init__(
        self,
        *,
        job_id: str,
        submitted_ms: int,
        run_ms: int,
        team: str = "all",
        user: str = "",
        name: str = "",
        tasks: int = 1,
        gpus: int = 0,
        gpu_milli: int = 0,
        gpu_models: tuple[str, ...] = (),
        cpu_milli: int = 0,
        memory_mib: int = 0,
        expected_ms: int | None = None,
        deadline_ms: int | None = None,
        priority: int = 0,
        outcome: str = "",
    ) -> None:
        self.job_id = job_id  # type: ignore[misc]
        self.submitted_ms = submitted_ms  # type: ignore[misc]
        self.run_ms = run_ms  # type: ignore[misc]
        self.team = team  # type: ignore[misc]
        self.user = user  # type: ignore[misc]
        self.name = name  # type: ignore[misc]
        self.tasks = tasks  # type: ignore[misc]
        self.gpus = gpus  # type: ignore[misc]
        self.gpu_milli = gpu_milli  # type: ignore[misc]
        self.gpu_models = gpu_models  # type: ignore[misc]
        self.cpu_milli = cpu_milli  # type: ignore[misc]
        self.memory_mib = memory_mib  # type: ignore[misc]
        self.expected_ms = expected_ms  # type: ignore[misc]
        self.deadline_ms = deadline_ms  # type: ignore[misc]
        self.priority = priority  # type: ignore[misc]
        self.outcome = outcome  # type: ignore[misc]

    @property
    def gpu_total_milli(self) -> int:
        """All the GPU it holds while it runs."""
        return self.tasks * (self.gpus * 1_000 + self.gpu_milli)


made_often(TraceJob)


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRow:
    """A row that could not be used: where it is, and what is wrong with it."""

    file: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A workload in order of submission, and the rows that were not understood."""

    source: str
    jobs: tuple[TraceJob, ...]
    bad_rows: tuple[BadRow, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def __len__(self) -> int:
        return len(self.jobs)

    def __iter__(self) -> Iterator[TraceJob]:
        return iter(self.jobs)
