"""A job of ours as sbatch takes it where Slurm decides: options from its route, a script from its recipe."""

from __future__ import annotations

import shlex

from bursar.engines.slurm.commands.tables import write_duration_minutes
from bursar.engines.slurm.governed.routing import SlurmRoute
from bursar.model.errors import UserError
from bursar.model.jobs.job import JobSpec, WholeGpus
from bursar.model.jobs.run_spec import RunSpec
from bursar.model.units import MILLI


def batch_options(spec: JobSpec, recipe: RunSpec, route: SlurmRoute) -> tuple[str, ...]:
    """The words before the script."""
    if len(spec.groups) != 1:
        raise UserError(
            f"{spec.name!r} has {len(spec.groups)} groups of tasks.",
            fix="Submit it to a cluster that Bursar drives, or write it with one group.",
            code="not-supported",
        )
    group = spec.groups[0]
    found = [
        f"--job-name={spec.name}",
        f"--account={route.account}",
        f"--partition={','.join(route.partitions)}",
        f"--nodes={group.count}",
        "--ntasks-per-node=1",
        "--requeue",
        f"--signal=B:{recipe.stop_signal.removeprefix('SIG')}@{max(1, recipe.grace_seconds)}",
    ]
    if route.qos:
        found.append(f"--qos={route.qos}")
    if isinstance(group.gpu, WholeGpus):
        kind = f"{route.gres_type}:" if route.gres_type else ""
        found.append(f"--gres=gpu:{kind}{group.gpu.count}")
    if group.cpu_milli:
        found.append(f"--cpus-per-task={-(-group.cpu_milli // MILLI)}")
    if group.memory_mib:
        found.append(f"--mem={group.memory_mib}M")
    limit_ms = spec.max_run_ms or spec.expected_run_ms
    if limit_ms:
        found.append(f"--time={write_duration_minutes(limit_ms)}")
    if spec.array_size > 1:
        found.append(f"--array=0-{spec.array_size - 1}")
    return tuple(found)


def batch_script(spec: JobSpec, recipe: RunSpec) -> str:
    """What runs: setup once, then the commands, on every node where there are several."""
    if recipe.workdir or recipe.mounts:
        raise UserError(
            f"{spec.name!r} brings files along, which a Slurm that decides for itself does not take.",
            fix="Put them where all nodes see them, or use a cluster that Bursar drives.",
            code="not-supported",
        )
    if recipe.secrets:
        raise UserError(
            f"{spec.name!r} has secrets ({', '.join(sorted(recipe.secrets))}), and Slurm keeps scripts.",
            fix="Read them from a file that only its user can read, or use a cluster that Bursar drives.",
            code="not-supported",
        )
    lines = [f"#!{recipe.shell}"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in sorted(recipe.envs.items())]
    lines += [recipe.setup] if recipe.setup else []
    body = shlex.join(recipe.argv) if recipe.argv else recipe.run
    if spec.groups[0].count > 1:
        body = f"srun --ntasks-per-node=1 {recipe.shell} -c {shlex.quote(body)}"
    return "\n".join([*lines, body, ""])
