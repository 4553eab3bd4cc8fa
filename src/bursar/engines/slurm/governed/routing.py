"""Chooses account, QOS and partitions of a job on a governed cluster.

A queue's own quota comes first. Jobs above it are submitted as borrowing, and moved to the queue's own QOS
when that has capacity again, which avoids needless preemptions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bursar.engines.slurm.commands.gres import parse_gres
from bursar.engines.slurm.commands.inventory import CommandRunner
from bursar.engines.slurm.governed.conf import partitions_of
from bursar.engines.slurm.governed.desired import BORROW, Qos, SlurmSetup
from bursar.engines.slurm.governed.gres_names import GresNames
from bursar.model.errors import UserError
from bursar.model.fleet.fleet import PARTITION_LABEL, Pool
from bursar.model.jobs.job import JobSpec, TaskGroup, WholeGpus

GPUS = "gres/gpu"
DEFAULT_CLASS = "normal"
"""Priority class of jobs that name none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmRoute:
    """Where a job is submitted, and why."""

    account: str
    qos: str
    partitions: tuple[str, ...]
    gres_type: str | None
    why: str


def route(
    spec: JobSpec,
    setup: SlurmSetup,
    names: GresNames,
    used: Mapping[str, Mapping[str, int]],
) -> SlurmRoute:
    """Route a job. ``used`` is the usage by QOS and resource, see ``used_by_qos``."""
    account = next((one for one in setup.accounts if one.name == spec.queue.lower()), None)
    if account is None or (setup.qos and not account.qos):
        raise UserError(
            f"{spec.queue!r} is not a queue of this cluster.",
            fix=f"Its queues: {', '.join(one.name for one in setup.accounts if one.qos)}.",
            code="no-such-queue",
        )
    if spec.constraints.anchors_percent:
        raise UserError(
            f"{spec.name!r} requests anchors, but on this cluster Slurm chooses the nodes of a job.",
            fix="Remove anchors_percent, or run the cluster with 'engine: slurm'.",
            code="not-expressible",
        )
    pools = _pools_for(spec, names.pools)
    kinds = {names.type_of(pool) for pool in pools} if _gpus(spec) else {None}
    kind = kinds.pop() if len(kinds) == 1 else None
    qos, why = _qos(account.qos, {one.name: one for one in setup.qos}, used, _requested(spec, kind))
    return SlurmRoute(
        account=account.name,
        qos=qos,
        partitions=_partitions(spec, pools),
        gres_type=kind,
        why=f"{why}{_ignored_class(spec)}",
    )


def _ignored_class(spec: JobSpec) -> str:
    if spec.priority_class == DEFAULT_CLASS:
        return ""
    return f"; its priority class {spec.priority_class} has no effect in Slurm"


def _pools_for(spec: JobSpec, pools: Iterable[Pool]) -> list[Pool]:
    """Pools whose nodes fit a task of each group."""
    fitting = [pool for pool in pools if all(_fits(group, spec, pool) for group in spec.groups)]
    if not fitting:
        raise UserError(
            f"no pool of this cluster has nodes for {spec.name!r}.",
            fix="Request fewer GPUs on a node, another model, or less memory.",
            code="never-fits",
        )
    return fitting


def _fits(group: TaskGroup, spec: JobSpec, pool: Pool) -> bool:
    labels = [one for one in spec.constraints.node_labels if one[0] != PARTITION_LABEL]
    if any(pool.labels.get(key) != value for key, value in labels):
        return False
    if pool.market not in spec.constraints.markets:
        return False
    if group.cpu_milli > pool.cpu_milli or group.memory_mib > pool.memory_mib:
        return False
    if group.gpu is None:
        return True
    if not isinstance(group.gpu, WholeGpus) or pool.gpu_model is None:
        return False
    named = not group.gpu.models or pool.gpu_model.name in group.gpu.models
    return named and group.gpu.count <= pool.gpus_per_node


def _partitions(spec: JobSpec, pools: Iterable[Pool]) -> tuple[str, ...]:
    """The partition that the job names; else all of its nodes', of which Slurm uses the first to start it."""
    usable = {name: None for pool in pools for name in partitions_of(pool)}
    named = dict(spec.constraints.node_labels).get(PARTITION_LABEL)
    if named is None:
        return tuple(usable)
    if named not in usable:
        raise UserError(
            f"{spec.name!r} names the partition {named!r}, which has no nodes for it.",
            fix=f"Use one of {', '.join(usable)}.",
            code="never-fits",
        )
    return (named,)


def _gpus(spec: JobSpec) -> int:
    return sum(
        group.count * group.gpu.count for group in spec.groups if isinstance(group.gpu, WholeGpus)
    )


def _requested(spec: JobSpec, kind: str | None) -> dict[str, int]:
    gpus = _gpus(spec)
    if not gpus:
        return {}
    return {GPUS: gpus} | ({f"{GPUS}:{kind}": gpus} if kind else {})


def _qos(
    names: tuple[str, ...],
    known: Mapping[str, Qos],
    used: Mapping[str, Mapping[str, int]],
    requested: Mapping[str, int],
) -> tuple[str, str]:
    if not names:
        return "", "no quota applies"
    own = [name for name in names if not name.endswith(BORROW)]
    borrowed = [name for name in names if name.endswith(BORROW)]
    if own:
        held = used.get(own[0], {})
        short = [
            f"{name}: {held.get(name, 0)} of {most} in use, {requested[name]} requested"
            for name, most in sorted(known[own[0]].most.items())
            if name in requested and held.get(name, 0) + requested[name] > most
        ]
        if not short:
            return own[0], "within the queue's own quota"
        if not borrowed:
            return own[0], f"waits for its own quota ({'; '.join(short)}); it may not borrow"
        return borrowed[0], f"above its own quota ({'; '.join(short)}): borrowed, may be preempted"
    return borrowed[0], "the queue has no own quota: borrowed, may be preempted"


# -- usage -------------------------------------------------------------------------------------------


def used_by_qos(commands: CommandRunner) -> dict[str, dict[str, int]]:
    """Resources of the pending and running jobs of each QOS."""
    used: dict[str, dict[str, int]] = {}
    text = commands.run("squeue", "-a", "-r", "-h", "-t", "PD,R,CF,S", "-o", "%q|%D|%b")
    for line in text.splitlines():
        qos, nodes, gres = line.split("|")
        held = used.setdefault(qos, {})
        for name, amount in requested_gpus(gres, int(nodes)).items():
            held[name] = held.get(name, 0) + amount
    return used


def requested_gpus(gres: str, nodes: int) -> dict[str, int]:
    """``gres:gpu:t4:4`` on two nodes: 8 GPUs, 8 of them t4."""
    amounts: dict[str, int] = {}
    for one in parse_gres(gres):
        if one.name == "gpu":
            amounts[GPUS] = amounts.get(GPUS, 0) + one.count * nodes
            if one.kind:
                name = f"{GPUS}:{one.kind}"
                amounts[name] = amounts.get(name, 0) + one.count * nodes
    return amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """A pending job that moves from borrowed to its queue's own quota."""

    job_id: str
    qos: str


def promotions(commands: CommandRunner, setup: SlurmSetup) -> tuple[Promotion, ...]:
    """Pending jobs that fit into the rest of their queue's own quota, in order of priority."""
    used = used_by_qos(commands)
    own = {one.name: one for one in setup.qos if not one.name.endswith(BORROW)}
    columns = ("-o", "%i|%q|%D|%b", "-S", "-p,i")
    promoted = []
    for line in commands.run("squeue", "-a", "-r", "-h", "-t", "PD", *columns).splitlines():
        job_id, qos, nodes, gres = line.split("|")
        target = own.get(qos.removesuffix(BORROW)) if qos.endswith(BORROW) else None
        if target is None:
            continue
        requested = requested_gpus(gres, int(nodes))
        held = used.setdefault(target.name, {})
        if all(
            held.get(name, 0) + amount <= target.most.get(name, amount + held.get(name, 0))
            for name, amount in requested.items()
        ):
            for name, amount in requested.items():
                held[name] = held.get(name, 0) + amount
            promoted.append(Promotion(job_id=job_id, qos=target.name))
    return tuple(promoted)


def promote(commands: CommandRunner, jobs: Iterable[Promotion]) -> None:
    """Move jobs to their new QOS."""
    for one in jobs:
        commands.run("scontrol", "update", f"jobid={one.job_id}", f"qos={one.qos}")
