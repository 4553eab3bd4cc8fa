"""The request to take a running job's node away, to see what becomes of the job."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field

from bursar.control.live.transaction import Transaction
from bursar.control.requests.write_request import Answer, new_audit_entry
from bursar.model.errors import UserError
from bursar.model.lifecycle import LIVE
from bursar.model.tenants.identity import Identity
from bursar.ports import Interruptible


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptionRequest:
    """How a node goes: announced so long before (0: not at all), and away for so long."""

    notice_ms: int
    absence_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Interrupted:
    """Which node goes, from when on, and when it is back."""

    job_id: str
    node: str
    lost_at_ms: int
    back_at_ms: int


@dataclass(slots=True, kw_only=True)
class InterruptJob:
    """Take the first node of a running job away, as a provider would."""

    who: Identity
    job_id: str
    terms: InterruptionRequest
    future: Future[Interrupted] = field(default_factory=Future)
    alone: bool = False

    def prepare(self, group: Transaction) -> Answer:
        record = group.state.jobs.get(self.job_id)
        if record is None or record.state not in LIVE or record.placement is None:
            state = "over" if record is None else record.state
            raise UserError(
                f"{self.job_id} is {state}: there is nothing to interrupt.",
                fix="Name a job that runs; 'bursar status --state running' lists them.",
                code="not-running",
            )
        kind = group.live.engine_of(record.placement.pool)
        engine: object = group.installation.engines.get(kind)
        if not isinstance(engine, Interruptible):
            raise UserError(
                f"{self.job_id} runs on the {kind} engine, whose nodes are not ours to take away.",
                fix="Try it on virtual nodes: a cluster with 'engine: local'.",
                code="cannot-interrupt",
            )
        taker, terms = engine, self.terms
        node = min(task.node for task in record.placement.tasks)
        lost_at_ms = group.now_ms + terms.notice_ms
        group.audit.append(new_audit_entry(self.who, "JobInterrupted", self.job_id, group.now_ms))

        def take_away() -> Interrupted:
            taker.interrupt(node, terms.notice_ms, terms.absence_ms)
            return Interrupted(
                job_id=self.job_id,
                node=node,
                lost_at_ms=lost_at_ms,
                back_at_ms=lost_at_ms + terms.absence_ms,
            )

        return take_away
