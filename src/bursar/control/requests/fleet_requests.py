"""Requests of administrators: declare the fleet, drain and restore nodes."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future
from dataclasses import dataclass, field

from bursar.config.fleet.fleet_file import FleetFile
from bursar.control.live.transaction import Transaction
from bursar.control.requests.write_request import AfterCommit, new_audit_entry
from bursar.model.errors import UserError
from bursar.model.event import FleetDeclared, NodeDrained, NodeLost, NodeRestored
from bursar.model.fleet.changed_nodes import changed_nodes
from bursar.model.fleet.fleet import EngineKind, Fleet
from bursar.model.tenants.identity import Identity


@dataclass(slots=True, kw_only=True)
class SetNodeUp:
    """Drain a node, so that nothing new starts there, or restore it."""

    caller: Identity
    node: str
    up: bool
    future: Future[None] = field(default_factory=Future)
    alone: bool = False

    def prepare(self, transaction: Transaction) -> AfterCommit:
        if self.node not in transaction.state.pool_of_node:
            raise UserError(
                f"node {self.node[:80]!r} does not exist.",
                fix="'bursar gpus' lists the nodes.",
                code="no-such-node",
            )
        event_type = NodeRestored if self.up else NodeDrained
        transaction.add(event_type(at_ms=transaction.now_ms, node=self.node), self.node)
        transaction.audit.append(
            new_audit_entry(self.caller, event_type.__name__, self.node, transaction.now_ms)
        )
        return lambda: None


@dataclass(slots=True, kw_only=True)
class DeclareFleet:
    """Replace fleet, tenants and policies in one step."""

    caller: Identity
    declared: FleetFile
    expected_sequence: int | None = None
    future: Future[int] = field(default_factory=Future)
    alone: bool = True

    def prepare(self, transaction: Transaction) -> AfterCommit:
        live = transaction.live
        self._require_engines(transaction.installation.engines)
        if self.expected_sequence is not None and live.declared is not None:
            if self.expected_sequence != live.declared.at_ms:
                raise UserError(
                    "the fleet was changed after this plan was made.",
                    fix="Run 'bursar fleet plan' again and apply what it shows now.",
                    code="fleet-changed",
                )
        after = FleetDeclared(
            at_ms=max(transaction.now_ms, live.last_event_ms + 1),
            fleet=self.declared.fleet,
            tenants=self.declared.tenants,
            policies=self.declared.policies,
        )
        if live.declared is not None:
            for node in sorted(
                changed_nodes(live.declared.fleet, after.fleet) & live.state.pool_of_node.keys()
            ):
                transaction.events.append(NodeLost(at_ms=transaction.now_ms, node=node))
            _require_used_queues(transaction, after)
        transaction.events.append(after)
        transaction.audit.append(
            new_audit_entry(self.caller, FleetDeclared.__name__, "fleet", transaction.now_ms)
        )
        return lambda: after.at_ms

    def _require_engines(self, engines: Collection[EngineKind]) -> None:
        require_single_slurm_cluster(self.declared.fleet)
        for cluster in self.declared.fleet.clusters:
            if cluster.engine not in engines:
                available = ", ".join(sorted(engines)) or "none"
                raise UserError(
                    f"the cluster {cluster.name!r} needs the engine {cluster.engine!r}; this server has "
                    f"{available}.",
                    fix=f"Write 'engine: {available}' for it, or use the file with 'bursar simulate'.",
                    code="no-engine",
                )


def require_single_slurm_cluster(fleet: Fleet) -> None:
    """Reject a fleet with several Slurm clusters: Slurm's commands address only one."""
    names = [one.name for one in fleet.clusters if one.engine is EngineKind.SLURM]
    if len(names) > 1:
        raise UserError(
            f"{len(names)} clusters of this fleet are run by Slurm ({', '.join(names)}); one Bursar "
            "drives 1.",
            fix="Start one 'bursar up' for each, with a fleet file, a --state and a SLURM_CONF of its own; "
            "or let Slurm decide on the others ('bursar render slurm --cluster NAME').",
            code="no-engine",
        )


def _require_used_queues(transaction: Transaction, after: FleetDeclared) -> None:
    """Reject a declaration that removes a queue with unfinished jobs."""
    queues = {tenant.name for tenant in after.tenants if tenant.is_queue}
    removed: dict[str, int] = {}
    for record in transaction.state.jobs.values():
        if record.spec.queue not in queues:
            removed[record.spec.queue] = removed.get(record.spec.queue, 0) + 1
    for queue, jobs in sorted(removed.items()):
        transaction.events.clear()
        raise UserError(
            f"the queue {queue!r} would be removed, and {jobs:,} of its jobs have not finished.",
            fix=f"Cancel them ('bursar cancel --queue {queue}'), or keep the queue.",
            code="queue-in-use",
        )
