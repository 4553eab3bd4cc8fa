"""Submits jobs to a governed Slurm cluster."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bursar.model.errors import UserError

if TYPE_CHECKING:
    from bursar.engines.slurm.commands.commands import Commands
    from bursar.engines.slurm.governed.routing import Promotion, SlurmRoute
    from bursar.wiring.slurm.governed import SlurmOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedJob:
    """A job's route, its sbatch command, and its id once it is submitted."""

    route: SlurmRoute
    argv: tuple[str, ...]
    script: str
    job_id: str | None = None

    @property
    def command(self) -> str:
        return shlex.join(self.argv)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOptions:
    """The submitting user, the output file, and whether to only show the command."""

    user: str | None = None
    log: str | None = None
    dry_run: bool = False


def submit_to_slurm(
    text: str, name: str, options: SlurmOptions, submit: SubmitOptions
) -> RoutedJob:
    """Route the job of a document and submit it, unless it is a dry run."""
    from bursar.config import read_fleet
    from bursar.config.job.job_file import JobDefaults, parse_job
    from bursar.engines.slurm.governed.batch import batch_options, batch_script
    from bursar.engines.slurm.governed.gres_names import GresNames
    from bursar.engines.slurm.governed.routing import route, used_by_qos
    from bursar.wiring.slurm.governed import local_commands, refusals_as_user_errors, render_slurm

    job = parse_job(text, name, JobDefaults(now_ms=int(time.time() * 1_000)))
    if job.local_files:
        raise UserError(
            f"{job.spec.name!r} has the local file {job.local_files[0].path}, which sbatch cannot copy.",
            fix="Put it on a file system that all nodes share, or use a cluster that Bursar drives.",
            code="not-supported",
        )
    fleet = read_fleet(Path(options.fleet)).fleet
    rendered = render_slurm(options)
    names = GresNames(fleet, rendered.cluster, {})
    with refusals_as_user_errors():
        commands = local_commands()
        chosen = route(job.spec, rendered.setup, names, used_by_qos(commands))
        job_options = batch_options(job.spec, job.recipe, chosen)
        argv = ("sbatch", "--parsable", *_submit_options(commands, submit), *job_options)
        script = batch_script(job.spec, job.recipe)
        if submit.dry_run:
            return RoutedJob(route=chosen, argv=argv, script=script)
        job_id = commands.run(*argv, text=script).strip().partition(";")[0]
    return RoutedJob(route=chosen, argv=argv, script=script, job_id=job_id)


def _submit_options(commands: Commands, submit: SubmitOptions) -> list[str]:
    """Folder, output and user. Another user's job must not have our group."""
    options = [f"--chdir={Path.cwd()}"]
    options += [f"--output={submit.log}"] if submit.log else []
    if submit.user:
        group = commands.run("id", "-g", "--", submit.user).strip()
        options += [f"--uid={submit.user}", f"--gid={group}"]
    return options


def promote_in_slurm(options: SlurmOptions) -> tuple[Promotion, ...]:
    """Move pending jobs from borrowed to their queue's own quota where it has capacity."""
    from bursar.engines.slurm.governed.routing import promote, promotions
    from bursar.wiring.slurm.governed import local_commands, refusals_as_user_errors, render_slurm

    with refusals_as_user_errors():
        commands = local_commands()
        jobs = promotions(commands, render_slurm(options).setup)
        promote(commands, jobs)
    return jobs
