"""The request to take a running job's node away, to test how the job recovers."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field

from bursar.control.live.transaction import Transaction
from bursar.control.requests.write_request import AfterCommit, new_audit_entry
from bursar.model.errors import UserError
from bursar.model.lifecycle import LIVE
from bursar.model.tenants.identity import Identity
from bursar.ports import Interruptible


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptionRequest:
    """Time of notice before the node goes (0: none), and time until it is back."""

    notice_ms: int
    absence_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """The node that is taken away, from when, and when it is back."""

    job_id: str
    node: str
    lost_at_ms: int
    back_at_ms: int


@dataclass(slots=True, kw_only=True)
class InterruptJob:
    """Take the first node of a running job away, as a spot provider would."""

    caller: Identity
    job_id: str
    terms: InterruptionRequest
    future: Future[Interrupted] = field(default_factory=Future)
    alone: bool = False

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
        transaction.audit.append(
            new_audit_entry(self.caller, "JobInterrupted", self.job_id, transaction.now_ms)
        )

        def interrupt() -> Interrupted:
            interruptible.interrupt(node, terms.notice_ms, terms.absence_ms)
            return Interrupted(
                job_id=self.job_id,
                node=node,
                lost_at_ms=lost_at_ms,
                back_at_ms=lost_at_ms + terms.absence_ms,
            )

        return interrupt
