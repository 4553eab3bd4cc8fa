"""Jobs of ours to a Slurm that decides for itself."""

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
    """Where a job goes, the sbatch command for it, and its number once it is submitted."""

    route: SlurmRoute
    argv: tuple[str, ...]
    script: str
    job_id: str | None = None

    @property
    def command(self) -> str:
        return shlex.join(self.argv)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitting:
    """As whom, with the output where; and whether it is meant."""

    user: str | None = None
    log: str | None = None
    really: bool = True


def submit_to_slurm(text: str, name: str, options: SlurmOptions, wanted: Submitting) -> RoutedJob:
    """Route the job of a document, and submit it if that is wanted."""
    from bursar.config import read_fleet
    from bursar.config.job.job_file import JobDefaults, parse_job
    from bursar.engines.slurm.governed.batch import batch_options, batch_script
    from bursar.engines.slurm.governed.gres_names import GresNames
    from bursar.engines.slurm.governed.routing import route, used_by_qos
    from bursar.wiring.slurm.governed import commands_here, refusals_are_users, render_slurm

    job = parse_job(text, name, JobDefaults(now_ms=int(time.time() * 1_000)))
    if job.local_files:
        raise UserError(
            f"{job.spec.name!r} brings {job.local_files[0].path} along, which sbatch does not take.",
            fix="Put it where all nodes see it, or use a cluster that Bursar drives.",
            code="not-supported",
        )
    fleet = read_fleet(Path(options.fleet)).fleet
    rendered = render_slurm(options)
    names = GresNames(fleet, rendered.cluster, {})
    with refusals_are_users():
        commands = commands_here()
        chosen = route(job.spec, rendered.setup, names, used_by_qos(commands))
        words = (*_surroundings(commands, wanted), *batch_options(job.spec, job.recipe, chosen))
        argv = ("sbatch", "--parsable", *words)
        script = batch_script(job.spec, job.recipe)
        if not wanted.really:
            return RoutedJob(route=chosen, argv=argv, script=script)
        said = commands.run(*argv, text=script).strip().partition(";")[0]
    return RoutedJob(route=chosen, argv=argv, script=script, job_id=said)


def _surroundings(commands: Commands, wanted: Submitting) -> list[str]:
    """Its folder, its output, and whose it is: somebody else's job must not have our group."""
    found = [f"--chdir={Path.cwd()}"]
    found += [f"--output={wanted.log}"] if wanted.log else []
    if wanted.user:
        group = commands.run("id", "-g", "--", wanted.user).strip()
        found += [f"--uid={wanted.user}", f"--gid={group}"]
    return found


def promote_in_slurm(options: SlurmOptions) -> tuple[Promotion, ...]:
    """Move waiting jobs from borrowed to their queue's own quota where it has room."""
    from bursar.engines.slurm.governed.routing import promote, promotions
    from bursar.wiring.slurm.governed import commands_here, refusals_are_users, render_slurm

    with refusals_are_users():
        commands = commands_here()
        found = promotions(commands, render_slurm(options).setup)
        promote(commands, found)
    return found
