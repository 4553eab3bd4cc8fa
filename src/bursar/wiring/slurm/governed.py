"""Renders, compares and applies the setup of a governed Slurm cluster, and explains its jobs."""

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
    """Options of a rendering. ``members`` are pairs of a user and a queue."""

    fleet: str
    cluster: str | None = None
    members: Sequence[tuple[str, str]] = ()
    grace_seconds: int = 30
    conf: str | None = None
    """Path for the fragment of slurm.conf, if it is to be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """A setup as commands and as a fragment of slurm.conf."""

    cluster: str
    setup: SlurmSetup
    commands: tuple[str, ...]
    conf: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The difference before and after applying a setup."""

    before: SlurmDifference
    after: SlurmDifference


@contextmanager
def refusals_as_user_errors() -> Iterator[None]:
    """Turn Slurm's refusals into user errors: a retry would not help."""
    from bursar.engines.slurm.commands.commands import SlurmRefused

    try:
        yield
    except SlurmRefused as error:
        raise UserError(
            f"{error}.".replace("..", "."),
            fix="Fix the problem, or ask the operators of the cluster.",
            code="slurm-refused",
        ) from error


def local_commands(**environment: str) -> Commands:
    """Slurm's commands on this machine (``SLURM_CONF`` selects the cluster); they must be installed."""
    from dataclasses import replace
    from shutil import which

    from bursar.engines.slurm.commands.commands import from_environment

    if which("scontrol") is None:
        raise UserError(
            "Slurm's commands are not installed: 'scontrol' is not on the PATH.",
            fix="Run this on a login node, or install them (Debian and Ubuntu: slurm-client).",
            code="no-slurm",
        )
    commands = from_environment()
    environment = {**commands.environment, **environment}
    return replace(commands, environment=environment, timeout_seconds=120.0)


# -- rendering ---------------------------------------------------------------------------------------


def render_slurm(options: SlurmOptions, *, query_types: bool = False) -> Rendered:
    """Render the fleet; with ``query_types`` by the GPU types of the cluster."""
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
            gres_types=_query_gres_types(file) if query_types else None,
        ),
    )
    commands = tuple(shlex.join(one.argv) for one in commands_for(setup, cluster))
    return Rendered(cluster=cluster, setup=setup, commands=commands, conf=conf_text(setup))


def _query_gres_types(file: FleetFile) -> dict[str, str]:
    """The cluster's GPU type of each model of the fleet."""
    from bursar.catalog.gpu_models import find_gpu_model
    from bursar.engines.slurm.commands.inventory import inventory

    with refusals_as_user_errors():
        kinds = sorted({node.gpu_kind for node in inventory(local_commands()).nodes} - {""})
    models = {pool.gpu_model.name for pool in file.fleet.pools if pool.gpu_model}
    types: dict[str, str] = {}
    for kind in kinds:
        try:
            model = find_gpu_model(kind).name
        except UserError:
            continue
        if model in models:
            types.setdefault(model, kind)
    return types


def compare_slurm(rendered: Rendered) -> SlurmDifference:
    """The difference between the desired and the current setup."""
    from bursar.engines.slurm.governed.difference import difference
    from bursar.engines.slurm.governed.present import read_current_setup

    with refusals_as_user_errors():
        current = read_current_setup(local_commands())
    if current.cluster != rendered.cluster:
        raise UserError(
            f"the Slurm cluster here is {current.cluster!r}, not {rendered.cluster!r}.",
            fix=f"Name the cluster {current.cluster!r} in the fleet file, or set SLURM_CONF.",
            code="another-cluster",
        )
    return difference(rendered.setup, current)


def apply_slurm(rendered: Rendered, options: SlurmOptions) -> Applied:
    """Apply the difference. Idempotent."""
    from bursar.engines.slurm.governed.difference import apply

    before = compare_slurm(rendered)
    is_written = _write_conf(rendered, options.conf) if options.conf else False
    with refusals_as_user_errors():
        if is_written:
            local_commands().run("scontrol", "reconfigure")
        after = apply(local_commands(), rendered.setup, before) if before.changes else before
    if is_written:
        after = compare_slurm(rendered)
    return Applied(before=before, after=after)


def _write_conf(rendered: Rendered, path: str) -> bool:
    """Write the fragment; returns whether it has changed."""
    from bursar.wiring.simulation import cannot_write

    file = Path(path)
    try:
        if file.exists() and file.read_text(encoding="utf-8") == rendered.conf:
            return False
        temporary = file.with_name(f".{file.name}.new")
        temporary.write_text(rendered.conf, encoding="utf-8")
        temporary.replace(file)
    except OSError as error:
        raise cannot_write(path, error) from error
    return True


# -- explaining --------------------------------------------------------------------------------------


def explain_slurm_job(job_id: str) -> SlurmExplanation:
    """Explain why a Slurm job is pending, when it should start, and what to do."""
    from bursar.engines.slurm.governed.explain_job import explain

    with refusals_as_user_errors():
        return explain(local_commands(), job_id, int(time.time() * 1_000))


def slurm_explanation_json(explanation: SlurmExplanation) -> dict[str, object]:
    """An explanation as values for JSON."""
    from bursar.codec import to_plain

    return {**to_plain(explanation), "text": list(explanation.lines())}
