"""Submits the jobs of a folder to an installation that has had none."""

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
    plane: ControlPlane, folder: Path | None, log: Callable[[str], None]
) -> Iterator[None]:
    """Within the block, submit the files in order of their names, in the background."""
    closing = threading.Event()
    files = _files(plane, folder, log)

    def run() -> None:
        for path in files:
            try:
                _submit(plane, path, log)
            except UserError as error:
                log(f"{error.problem} {error.fix}")
            if closing.wait(BETWEEN_FILES_SECONDS):
                return
        if files:
            log(WHAT_NEXT)

    submitter = threading.Thread(target=run, name="bursar-first-jobs", daemon=True)
    submitter.start()
    try:
        yield
    finally:
        closing.set()
        submitter.join(timeout=5)


WHAT_NEXT = """in another terminal:
  bursar queue              running and waiting jobs, and why they wait
  bursar why JOB            one job: every reason in numbers, and when it will start
  bursar logs -f JOB        its output
  bursar quota              quota, use and borrowing of each team
  bursar submit examples/jobs/hello.yaml --queue experiments --wait"""


def _files(plane: ControlPlane, folder: Path | None, log: Callable[[str], None]) -> list[Path]:
    if folder is None or not plane.is_leader:
        return []
    counts = plane.reader.count_jobs(None)
    if any(counts.values()):
        ended = sum(n for state, n in counts.items() if state in OVER)
        log(f"this installation has {sum(counts.values()):,} jobs, {ended:,} of them ended")
        log(WHAT_NEXT)
        return []
    return sorted(folder.glob("*.yaml"))


def _submit(plane: ControlPlane, path: Path, log: Callable[[str], None]) -> None:
    from bursar.config.job.job_file import parse_job
    from bursar.control.control_plane import OPERATOR
    from bursar.control.requests.job_requests import SubmitJobs

    read = parse_job(path.read_text(encoding="utf-8"), str(path))
    ids = plane.send(SubmitJobs(caller=OPERATOR, submissions=[read])).result(60).job_ids
    submitted = ids[0]
    if len(ids) > 1:
        submitted = f"{ids[0].removesuffix('[0]')}, an array of {len(ids)} jobs"
    log(f"submitted {path.name} to {read.spec.queue}: {submitted}")
