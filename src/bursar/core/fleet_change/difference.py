"""Differences between two fleet declarations, each with its effect on jobs.

Nothing is changed here. The control plane applies a declaration atomically: not at all if a change is
rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from bursar.core.admission.problem import Problem, itemized, listed, raise_problems
from bursar.core.fleet_change.effects import Effects, FleetDeclaration, effects_of
from bursar.core.fleet_change.text import differing, write_pool, write_quota, write_value
from bursar.core.state.fleet_state import FleetState
from bursar.model.errors import UserError
from bursar.model.event import FleetDeclared
from bursar.model.fleet.fleet import Cluster, Fleet, Pool
from bursar.model.tenants.policy import Policies
from bursar.model.tenants.tenant import Tenant
from bursar.model.units import counted


class ChangeKind(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetChange:
    """One difference. ``effect`` describes what it does to jobs; ``fix`` is set if it is rejected."""

    kind: ChangeKind
    subject: str
    field: str = ""
    before: str | None = None
    after: str | None = None
    effect: str = ""
    fix: str = ""

    @property
    def is_refused(self) -> bool:
        return bool(self.fix)

    def __str__(self) -> str:
        name = f"{self.subject} {self.field}".rstrip()
        values = {
            ChangeKind.ADDED: self.after,
            ChangeKind.REMOVED: self.before,
            ChangeKind.CHANGED: f"{self.before} -> {self.after}",
        }[self.kind]
        text = f"{self.kind} {name}" + (f": {values}" if values else "")
        return f"{text} ({self.effect})" if self.effect else text


def fleet_changes(
    old: FleetDeclaration | None, new: FleetDeclaration, state: FleetState | None
) -> tuple[FleetChange, ...]:
    """Every difference, with its effect on jobs, in the order of a fleet file."""
    before: FleetDeclaration = _EMPTY if old is None else old
    effects = Effects() if state is None else effects_of(before, new, state)
    changes = [
        *_clusters(before.fleet, new.fleet),
        *_pools(before.fleet, new.fleet, effects),
        *_tenants(before.tenants, new.tenants, effects),
        *_policies(before.policies, new.policies),
    ]
    if effects.never_again:
        changes.append(_never_again(effects))
    return tuple(changes)


def refuse_bad_changes(changes: Iterable[FleetChange]) -> None:
    """Raises one ``UserError`` for all changes that current jobs do not allow."""
    refused = [
        Problem(code="queue-in-use", field=f"{one.subject}:", text=one.effect, fix=one.fix)
        for one in changes
        if one.is_refused
    ]
    if len(refused) > 1:
        raise UserError(
            f"{len(refused)} changes cannot be made:{itemized(refused)}",
            fix="Do these first, then apply again.",
            code="queue-in-use",
        )
    raise_problems("", refused)


_EMPTY = FleetDeclared(
    at_ms=0, fleet=Fleet(clusters=(), pools=(), nodes=()), tenants=(), policies=Policies()
)


# -- clusters and pools ----------------------------------------------------------------------------


def _clusters(old: Fleet, new: Fleet) -> Iterator[FleetChange]:
    before: Mapping[str, Cluster] = {one.name: one for one in old.clusters}
    after: Mapping[str, Cluster] = {one.name: one for one in new.clusters}
    for name in _names(before, after):
        subject = f"cluster {name}"
        if name not in before:
            yield FleetChange(kind=ChangeKind.ADDED, subject=subject, after=after[name].engine)
        elif name not in after:
            yield FleetChange(kind=ChangeKind.REMOVED, subject=subject, before=before[name].engine)
        else:
            yield from _fields(subject, before[name], after[name])


def _pools(old: Fleet, new: Fleet, effects: Effects) -> Iterator[FleetChange]:
    before = {pool.name: pool for pool in old.pools}
    after = {pool.name: pool for pool in new.pools}
    old_nodes, new_nodes = _nodes_by_pool(old), _nodes_by_pool(new)
    for name in _names(before, after):
        subject = f"pool {name}"
        before_nodes, after_nodes = old_nodes.get(name, {}), new_nodes.get(name, {})
        if name not in before:
            text = write_pool(after[name], len(after_nodes))
            yield FleetChange(kind=ChangeKind.ADDED, subject=subject, after=text)
        elif name not in after:
            text, effect = (
                write_pool(before[name], len(before_nodes)),
                effects.of_nodes(before_nodes),
            )
            yield FleetChange(kind=ChangeKind.REMOVED, subject=subject, before=text, effect=effect)
        else:
            effect = effects.of_nodes(before_nodes.keys() & after_nodes)
            yield from _pool_fields(before[name], after[name], effect)
            yield from _node_changes(subject, before_nodes, after_nodes, effects)


def _pool_fields(old: Pool, new: Pool, effect: str) -> Iterator[FleetChange]:
    """Changed fields of a pool; the effect on jobs is attached to the first only."""
    for change in _fields(f"pool {old.name}", old, new):
        yield replace(change, effect=effect)
        effect = ""


def _node_changes(
    subject: str, before: Mapping[str, object], after: Mapping[str, object], effects: Effects
) -> Iterator[FleetChange]:
    removed, added = sorted(before.keys() - after.keys()), sorted(after.keys() - before.keys())
    if removed:
        text = _write_nodes(removed)
        effect = effects.of_nodes(removed)
        yield FleetChange(
            kind=ChangeKind.REMOVED, subject=subject, field="nodes", before=text, effect=effect
        )
    if added:
        text = _write_nodes(added)
        yield FleetChange(kind=ChangeKind.ADDED, subject=subject, field="nodes", after=text)
    for name in sorted(before.keys() & after.keys()):
        if before[name] != after[name]:
            yield FleetChange(
                kind=ChangeKind.CHANGED,
                subject=f"node {name}",
                field="labels",
                before=write_value("labels", before[name]),
                after=write_value("labels", after[name]),
            )


def _write_nodes(names: list[str]) -> str:
    return f"{len(names):,}, {listed(names, 4)}"


def _nodes_by_pool(fleet: Fleet) -> dict[str, dict[str, object]]:
    labels: dict[str, dict[str, object]] = {}
    for node in fleet.nodes:
        labels.setdefault(node.pool, {})[node.id] = node.labels
    return labels


# -- tenants ---------------------------------------------------------------------------------------


def _tenants(
    old: tuple[Tenant, ...], new: tuple[Tenant, ...], effects: Effects
) -> Iterator[FleetChange]:
    before = {tenant.name: tenant for tenant in old}
    after = {tenant.name: tenant for tenant in new}
    for name in _names(before, after):
        subject = f"tenant {name}"
        if name not in before:
            parent = after[name].parent
            text = f"below {parent}" if parent else "at the top"
            yield FleetChange(kind=ChangeKind.ADDED, subject=subject, after=text)
            yield from _quotas(Tenant(name=name), after[name], effects)
        elif name not in after:
            yield _in_use(FleetChange(kind=ChangeKind.REMOVED, subject=subject), name, effects)
        else:
            for change in _fields(subject, before[name], after[name], leave_out=("quotas",)):
                is_queue_removed = change.field == "is_queue" and not after[name].is_queue
                yield _in_use(change, name, effects) if is_queue_removed else change
            yield from _quotas(before[name], after[name], effects)


def _in_use(change: FleetChange, queue: str, effects: Effects) -> FleetChange:
    """Rejects the removal of a queue with unfinished jobs."""
    jobs = effects.unfinished_jobs.get(queue, 0)
    if not jobs:
        return change
    fix = f"Cancel them ('bursar cancel --queue {queue}') or let them end, or keep the queue."
    return replace(change, effect=f"it has {counted(jobs, 'unfinished job')}", fix=fix)


def _quotas(old: Tenant, new: Tenant, effects: Effects) -> Iterator[FleetChange]:
    for key in sorted(old.quotas.keys() | new.quotas.keys()):
        was, now = old.quotas.get(key), new.quotas.get(key)
        if was == now:
            continue
        kind = ChangeKind.CHANGED
        if was is None or now is None:
            kind = ChangeKind.ADDED if was is None else ChangeKind.REMOVED
        yield FleetChange(
            kind=kind,
            subject=f"tenant {new.name}",
            field=f"quota of {key[0]} {key[1]}",
            before=None if was is None else write_quota(was, key[1]),
            after=None if now is None else write_quota(now, key[1]),
            effect=effects.over_quota.get((new.name, key), ""),
        )


# -- policies --------------------------------------------------------------------------------------


def _policies(old: Policies, new: Policies) -> Iterator[FleetChange]:
    yield from _fields("policies", old, new, leave_out=("priority_classes",))
    before, after = old.priority_classes, new.priority_classes
    for name in sorted(before.keys() | after.keys()):
        if before.get(name) == after.get(name):
            continue
        kind = ChangeKind.CHANGED
        if name not in before or name not in after:
            kind = ChangeKind.ADDED if name not in before else ChangeKind.REMOVED
        yield FleetChange(
            kind=kind,
            subject=f"priority class {name}",
            before=str(before[name]) if name in before else None,
            after=str(after[name]) if name in after else None,
            effect="jobs submitted before keep theirs" if name in before else "",
        )


# -- shared steps ----------------------------------------------------------------------------------


def _never_again(effects: Effects) -> FleetChange:
    jobs = [job for kind in effects.never_again for job in kind.jobs]
    reasons = "; ".join(kind.reason for kind in effects.never_again[:3])
    return FleetChange(
        kind=ChangeKind.CHANGED,
        subject="waiting jobs",
        before=f"{effects.could_run:,} could run",
        after=f"{effects.could_run - len(jobs):,} could run",
        effect=f"{len(jobs):,} could never run any more: {listed(sorted(jobs), 4)}. {reasons}",
    )


def _names(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    return sorted(before.keys() | after.keys())


def _fields(
    subject: str, old: object, new: object, leave_out: tuple[str, ...] = ()
) -> Iterator[FleetChange]:
    for name, was, now in differing(old, new):
        if name.partition(".")[0] in leave_out:
            continue
        yield FleetChange(
            kind=ChangeKind.CHANGED,
            subject=subject,
            field=name,
            before=write_value(name, was),
            after=write_value(name, now),
        )
