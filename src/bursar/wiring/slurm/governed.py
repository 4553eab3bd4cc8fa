"""A Slurm that decides for itself: what it should have, what it has, and why a job of it waits."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bursar.model.errors import UserError

if TYPE_CHECKING:
    from bursar.config import FleetFile
    from bursar.engines.slurm.commands.commands import Commands
    from bursar.engines.slurm.governed.desired import SlurmSetup
    from bursar.engines.slurm.governed.difference import SlurmDifference
    from bursar.engines.slurm.governed.explain_job import SlurmExplanation


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmOptions:
    """What a user says about a rendering. ``members`` are pairs of a user and a queue."""

    fleet: str
    cluster: str | None = None
    members: Sequence[tuple[str, str]] = ()
    grace_seconds: int = 30
    conf: str | None = None
    """Where the part of slurm.conf is kept, if it is to be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A setup and its two texts."""

    cluster: str
    setup: SlurmSetup
    commands: tuple[str, ...]
    conf: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """What was found, what was done, and what is left for slurm.conf."""

    found: SlurmDifference
    left: SlurmDifference
    conf_written: str | None = None


@contextmanager
def refusals_are_users() -> Iterator[None]:
    """What Slurm refuses is for whoever asked: asking again would change nothing."""
    from bursar.engines.slurm.commands.commands import SlurmRefused

    try:
        yield
    except SlurmRefused as error:
        raise UserError(
            f"{error}.".replace("..", "."),
            fix="Put right what it says, or ask whoever runs the cluster.",
            code="slurm-refused",
        ) from error


def commands_here(**also: str) -> Commands:
    """The Slurm that this machine's commands reach (``SLURM_CONF``); it must be installed."""
    from dataclasses import replace
    from shutil import which

    from bursar.engines.slurm.commands.commands import from_environment

    if which("scontrol") is None:
        raise UserError(
            "Slurm's commands are not on this machine: there is no 'scontrol'.",
            fix="Run this on a login node, or install them (Debian and Ubuntu: slurm-client).",
            code="no-slurm",
        )
    found = from_environment()
    return replace(found, environment={**found.environment, **also}, patience_seconds=120.0)


# -- rendering ---------------------------------------------------------------------------------------


def render_slurm(options: SlurmOptions, *, ask: bool = False) -> Rendered:
    """What the fleet calls for; with ``ask`` in the words of the cluster that is there."""
    from bursar.config import read_fleet
    from bursar.engines.slurm.governed.conf import conf_text
    from bursar.engines.slurm.governed.desired import AccountMember
    from bursar.engines.slurm.governed.difference import commands_for
    from bursar.engines.slurm.governed.render import RenderOptions, render, slurm_cluster

    file = read_fleet(Path(options.fleet))
    cluster = slurm_cluster(file.fleet, options.cluster)
    setup = render(
        file.fleet,
        file.tenants,
        file.policies,
        RenderOptions(
            cluster=cluster,
            members=tuple(
                AccountMember(user=user, account=queue) for user, queue in options.members
            ),
            grace_seconds=options.grace_seconds,
            gres_types=_types_there(file) if ask else None,
        ),
    )
    made = tuple(shlex.join(one.argv) for one in commands_for(setup, cluster))
    return Rendered(cluster=cluster, setup=setup, commands=made, conf=conf_text(setup))


def _types_there(file: FleetFile) -> dict[str, str]:
    """What the cluster calls each model of the fleet, where it is the only name for it."""
    from bursar.catalog.gpu_models import find_gpu_model
    from bursar.engines.slurm.commands.inventory import inventory

    with refusals_are_users():
        kinds = sorted({node.gpu_kind for node in inventory(commands_here()).nodes} - {""})
    wanted = {pool.gpu_model.name for pool in file.fleet.pools if pool.gpu_model}
    found: dict[str, str] = {}
    for kind in kinds:
        try:
            model = find_gpu_model(kind).name
        except UserError:
            continue
        if model in wanted:
            found.setdefault(model, kind)
    return found


def compare_slurm(rendered: Rendered) -> SlurmDifference:
    """What the cluster lacks of what the fleet calls for."""
    from bursar.engines.slurm.governed.difference import difference
    from bursar.engines.slurm.governed.present import read_present

    with refusals_are_users():
        present = read_present(commands_here())
    if present.cluster != rendered.cluster:
        raise UserError(
            f"the Slurm here is the cluster {present.cluster!r}, not {rendered.cluster!r}.",
            fix=f"Call the cluster {present.cluster!r} in the fleet file, or set SLURM_CONF.",
            code="another-cluster",
        )
    return difference(rendered.setup, present)


def apply_slurm(rendered: Rendered, options: SlurmOptions) -> Applied:
    """Change what differs and nothing else; the second time there is nothing to do."""
    from bursar.engines.slurm.governed.difference import apply

    found = compare_slurm(rendered)
    written = _write_conf(rendered, options.conf) if options.conf else None
    with refusals_are_users():
        if written is not None:
            commands_here().run("scontrol", "reconfigure")
        left = apply(commands_here(), rendered.setup, found) if found.changes else found
    if written is not None:
        left = compare_slurm(rendered)
    return Applied(found=found, left=left, conf_written=written)


def _write_conf(rendered: Rendered, path: str) -> str | None:
    """The file, if it does not say so already."""
    from bursar.wiring.simulation import cannot_write

    file = Path(path)
    try:
        if file.exists() and file.read_text(encoding="utf-8") == rendered.conf:
            return None
        aside = file.with_name(f".{file.name}.new")
        aside.write_text(rendered.conf, encoding="utf-8")
        aside.replace(file)
    except OSError as error:
        raise cannot_write(path, error) from error
    return path


# -- explaining --------------------------------------------------------------------------------------


def explain_slurm_job(job_id: str) -> SlurmExplanation:
    """Why it does not run, when it should, and what to do."""
    from bursar.engines.slurm.governed.explain_job import explain

    with refusals_are_users():
        return explain(commands_here(), job_id, int(time.time() * 1_000))


def slurm_story_json(story: SlurmExplanation) -> dict[str, object]:
    """The same for programs."""
    from bursar.codec import to_plain

    return {**to_plain(story), "text": list(story.lines())}
