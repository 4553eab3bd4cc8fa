"""Submits the jobs of a folder to an installation that never had any: something to look at."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from bursar.model.errors import UserError
from bursar.model.jobs.job import OVER

if TYPE_CHECKING:
    from bursar.control.control_plane import ControlPlane

BETWEEN_FILES_SECONDS = 3.0
"""Long enough to see the jobs of one file start before those of the next arrive."""


@contextmanager
def submitting(
    plane: ControlPlane, folder: Path | None, tell: Callable[[str], None]
) -> Iterator[None]:
    """Within the block, in the background, one file after the other in order of their names."""
    over = threading.Event()
    files = _files(plane, folder, tell)

    def run() -> None:
        for path in files:
            try:
                _submit(plane, path, tell)
            except UserError as error:
                tell(f"{error.problem} {error.fix}")
            if over.wait(BETWEEN_FILES_SECONDS):
                return
        if files:
            tell(WHAT_NEXT)

    submitter = threading.Thread(target=run, name="bursar-first-jobs", daemon=True)
    submitter.start()
    try:
        yield
    finally:
        over.set()
        submitter.join(timeout=5)


WHAT_NEXT = """in another terminal:
  bursar queue              who runs, who waits, and why
  bursar why JOB            one job: every reason in numbers, and when it will start
  bursar logs -f JOB        what it prints
  bursar quota              what each team has, uses and borrows
  bursar submit examples/jobs/hello.yaml --queue experiments --wait"""


def _files(plane: ControlPlane, folder: Path | None, tell: Callable[[str], None]) -> list[Path]:
    if folder is None or not plane.is_leader:
        return []
    known = plane.reader.count_jobs(None)
    if any(known.values()):
        over = sum(n for state, n in known.items() if state in OVER)
        tell(f"{sum(known.values()):,} jobs are known from before, {over:,} of them over")
        tell(WHAT_NEXT)
        return []
    return sorted(folder.glob("*.yaml"))


def _submit(plane: ControlPlane, path: Path, tell: Callable[[str], None]) -> None:
    from bursar.config.job.job_file import parse_job
    from bursar.control.control_plane import OPERATOR
    from bursar.control.requests.job_requests import SubmitJobs
    from bursar.control.requests.submission import Submission

    read = parse_job(path.read_text(encoding="utf-8"), str(path))
    job = Submission(spec=read.spec, recipe=read.recipe, labels=read.labels, document=read.document)
    taken = plane.send(SubmitJobs(caller=OPERATOR, submissions=[job])).result(60).job_ids
    made = taken[0]
    if len(taken) > 1:
        made = f"{taken[0].removesuffix('[0]')}, an array of {len(taken)} jobs"
    tell(f"submitted {path.name} to {read.spec.queue}: {made}")
