"""Requests of administrators: declare the fleet, drain, restore and interrupt nodes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from bursar.config.fleet.fleet_file import FleetFile
from bursar.control.live.transaction import Transaction
from bursar.control.requests.write_request import AfterCommit, WriteRequest
from bursar.model.errors import UserError
from bursar.model.event import FleetDeclared, NodeDrained, NodeLost, NodeRestored
from bursar.model.fleet.changed_nodes import changed_nodes
from bursar.model.fleet.fleet import EngineKind, Fleet
from bursar.model.lifecycle import LIVE
from bursar.model.tenants.identity import Identity
from bursar.ports import Interruptible


@dataclass(slots=True, kw_only=True)
class SetNodeUp(WriteRequest[None]):
    """Drain a node, so that nothing new starts there, or restore it."""

    caller: Identity
    node: str
    up: bool

    def prepare(self, transaction: Transaction) -> AfterCommit:
        if self.node not in transaction.state.pool_of_node:
            raise UserError(
                f"node {self.node[:80]!r} does not exist.",
                fix="'bursar gpus' lists the nodes.",
                code="no-such-node",
            )
        event_type = NodeRestored if self.up else NodeDrained
        transaction.add(event_type(at_ms=transaction.now_ms, node=self.node), self.node)
        transaction.record_action(self.caller, event_type.__name__, self.node)
        return lambda: None


@dataclass(slots=True, kw_only=True)
class DeclareFleet(WriteRequest[int]):
    """Replace fleet, tenants and policies in one step."""

    caller: Identity
    declared: FleetFile
    expected_sequence: int | None = None
    alone = True

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
        transaction.record_action(self.caller, FleetDeclared.__name__, "fleet")
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


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptionTimes:
    """Notice before the node is lost (0: none), and time until it returns."""

    notice_ms: int
    absence_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """The interrupted node, when it is lost, and when it returns."""

    job_id: str
    node: str
    lost_at_ms: int
    back_at_ms: int


@dataclass(slots=True, kw_only=True)
class InterruptJob(WriteRequest[Interrupted]):
    """Take the first node of a running job away, as a spot provider would."""

    caller: Identity
    job_id: str
    terms: InterruptionTimes

    def prepare(self, transaction: Transaction) -> AfterCommit:
        record = transaction.state.jobs.get(self.job_id)
        if record is None or record.state not in LIVE or record.placement is None:
            state = "finished" if record is None else record.state
            raise UserError(
                f"{self.job_id} is {state}: there is nothing to interrupt.",
                fix="Name a running job; 'bursar status --state running' lists them.",
                code="not-running",
            )
        kind = transaction.live.engine_of(record.placement.pool)
        engine: object = transaction.installation.engines.get(kind)
        if not isinstance(engine, Interruptible):
            raise UserError(
                f"{self.job_id} runs on the {kind} engine, whose nodes Bursar cannot take away.",
                fix="Use virtual nodes: a cluster with 'engine: local'.",
                code="cannot-interrupt",
            )
        interruptible, terms = engine, self.terms
        node = min(task.node for task in record.placement.tasks)
        lost_at_ms = transaction.now_ms + terms.notice_ms
        transaction.record_action(self.caller, "JobInterrupted", self.job_id)

        def interrupt() -> Interrupted:
            interruptible.interrupt(node, terms.notice_ms, terms.absence_ms)
            return Interrupted(
                job_id=self.job_id,
                node=node,
                lost_at_ms=lost_at_ms,
                back_at_ms=lost_at_ms + terms.absence_ms,
            )

        return interrupt
