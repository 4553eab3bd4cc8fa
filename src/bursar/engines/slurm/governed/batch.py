"""Turns a job into an sbatch command for a governed cluster: options from its route, and a script."""

from __future__ import annotations

import shlex

from bursar.engines.slurm.governed.routing import SlurmRoute
from bursar.model.errors import UserError
from bursar.model.jobs.job import JobSpec, WholeGpus
from bursar.model.jobs.run_spec import RunSpec
from bursar.model.units import MILLI
from bursar.slurm_text import write_duration


def batch_options(spec: JobSpec, recipe: RunSpec, route: SlurmRoute) -> tuple[str, ...]:
    """The options of sbatch."""
    if len(spec.groups) != 1:
        raise UserError(
            f"{spec.name!r} has {len(spec.groups)} groups of tasks.",
            fix="Submit it to a cluster that Bursar drives, or write it with one group.",
            code="not-supported",
        )
    group = spec.groups[0]
    options = [
        f"--job-name={spec.name}",
        f"--account={route.account}",
        f"--partition={','.join(route.partitions)}",
        f"--nodes={group.count}",
        "--ntasks-per-node=1",
        "--requeue",
        f"--signal=B:{recipe.stop_signal.removeprefix('SIG')}@{max(1, recipe.grace_seconds)}",
    ]
    if route.qos:
        options.append(f"--qos={route.qos}")
    if isinstance(group.gpu, WholeGpus):
        kind = f"{route.gres_type}:" if route.gres_type else ""
        options.append(f"--gres=gpu:{kind}{group.gpu.count}")
    if group.cpu_milli:
        options.append(f"--cpus-per-task={-(-group.cpu_milli // MILLI)}")
    if group.memory_mib:
        options.append(f"--mem={group.memory_mib}M")
    limit_ms = spec.max_run_ms or spec.expected_run_ms
    if limit_ms:
        options.append(f"--time={write_duration(limit_ms)}")
    if spec.array_size > 1:
        options.append(f"--array=0-{spec.array_size - 1}")
    return tuple(options)


def batch_script(spec: JobSpec, recipe: RunSpec) -> str:
    """The script: setup once, then the commands, on every node of a job with several."""
    if recipe.workdir or recipe.mounts:
        raise UserError(
            f"{spec.name!r} has a workdir or mounts, which a governed Slurm cluster does not support.",
            fix="Put the files on a file system that all nodes share, or use a cluster that Bursar drives.",
            code="not-supported",
        )
    if recipe.secrets:
        raise UserError(
            f"{spec.name!r} has secrets ({', '.join(sorted(recipe.secrets))}), and Slurm stores scripts.",
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
