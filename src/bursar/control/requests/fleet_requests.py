"""Requests of administrators: declare the fleet, drain and restore nodes."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future
from dataclasses import dataclass, field

from bursar.config.fleet.fleet_file import FleetFile
from bursar.control.live.transaction import Transaction
from bursar.control.requests.write_request import Answer, new_audit_entry
from bursar.model.errors import UserError
from bursar.model.event import FleetDeclared, NodeDrained, NodeLost, NodeRestored
from bursar.model.fleet.changed_nodes import changed_nodes
from bursar.model.fleet.fleet import EngineKind, Fleet
from bursar.model.tenants.identity import Identity


@dataclass(slots=True, kw_only=True)
class SetNodeUp:
    """Let nothing new start on a node, or let it again."""

    who: Identity
    node: str
    up: bool
    future: Future[None] = field(default_factory=Future)
    alone: bool = False

    def prepare(self, group: Transaction) -> Answer:
        if self.node not in group.state.pool_of_node:
            raise UserError(
                f"node {self.node[:80]!r} does not exist.",
                fix="'bursar gpus' lists the nodes.",
                code="no-such-node",
            )
        happened = NodeRestored if self.up else NodeDrained
        group.note(happened(at_ms=group.now_ms, node=self.node), self.node)
        group.audit.append(new_audit_entry(self.who, happened.__name__, self.node, group.now_ms))
        return lambda: None


@dataclass(slots=True, kw_only=True)
class DeclareFleet:
    """What there is, who shares it and how, from now on, in one step."""

    who: Identity
    declared: FleetFile
    expected_sequence: int | None = None
    future: Future[int] = field(default_factory=Future)
    alone: bool = True

    def prepare(self, group: Transaction) -> Answer:
        live = group.live
        self._refuse_missing_engines(group.installation.engines)
        if self.expected_sequence is not None and live.declared is not None:
            if self.expected_sequence != live.declared.at_ms:
                raise UserError(
                    "the fleet was changed after this plan was made.",
                    fix="Run 'bursar fleet plan' again and apply what it shows now.",
                    code="fleet-changed",
                )
        after = FleetDeclared(
            at_ms=max(group.now_ms, live.last_event_ms + 1),
            fleet=self.declared.fleet,
            tenants=self.declared.tenants,
            policies=self.declared.policies,
        )
        if live.declared is not None:
            for node in sorted(
                changed_nodes(live.declared.fleet, after.fleet) & live.state.pool_of_node.keys()
            ):
                group.events.append(NodeLost(at_ms=group.now_ms, node=node))
            _refuse_lost_queues(group, after)
        group.events.append(after)
        group.audit.append(new_audit_entry(self.who, FleetDeclared.__name__, "fleet", group.now_ms))
        return lambda: after.at_ms

    def _refuse_missing_engines(self, engines: Collection[EngineKind]) -> None:
        refuse_several_slurms(self.declared.fleet)
        for cluster in self.declared.fleet.clusters:
            if cluster.engine not in engines:
                here = ", ".join(sorted(engines)) or "none"
                raise UserError(
                    f"the cluster {cluster.name!r} wants the engine {cluster.engine!r}; here is {here}.",
                    fix=f"Write 'engine: {here}' for it, or leave it to 'bursar simulate'.",
                    code="no-engine",
                )


def refuse_several_slurms(fleet: Fleet) -> None:
    """Slurm's own commands speak with one cluster, and so does the engine that uses them."""
    names = [one.name for one in fleet.clusters if one.engine is EngineKind.SLURM]
    if len(names) > 1:
        raise UserError(
            f"{len(names)} clusters of this fleet are run by Slurm ({', '.join(names)}); one Bursar "
            "drives 1.",
            fix="Start one 'bursar up' for each, with a fleet file, a --state and a SLURM_CONF of its own; "
            "or let Slurm decide on the others ('bursar render slurm --cluster NAME').",
            code="no-engine",
        )


def _refuse_lost_queues(group: Transaction, after: FleetDeclared) -> None:
    kept = {tenant.name for tenant in after.tenants if tenant.is_queue}
    lost: dict[str, int] = {}
    for record in group.state.jobs.values():
        if record.spec.queue not in kept:
            lost[record.spec.queue] = lost.get(record.spec.queue, 0) + 1
    for queue, jobs in sorted(lost.items()):
        group.events.clear()
        raise UserError(
            f"the queue {queue!r} would be gone, and {jobs:,} of its jobs are not over.",
            fix=f"Cancel them ('bursar cancel --queue {queue}'), or keep the queue.",
            code="queue-in-use",
        )
