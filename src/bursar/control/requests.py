"""Everything that can be asked of the writer. Each turns into parts of one batch, or is refused alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from bursar.config.fleet_file import FleetFile
from bursar.control.group import Group
from bursar.control.house_rules import governed
from bursar.control.listen import Beside, event_for, progress_for
from bursar.control.submission import (
    IdempotencyKey,
    Submission,
    Submitted,
    key_used_otherwise,
    new_job_id,
)
from bursar.core.admission import Arrival, submissions_beside
from bursar.governance.finding import Finding
from bursar.model.errors import UserError
from bursar.model.event import (
    FleetDeclared,
    JobCancelled,
    JobSubmitted,
    NodeDrained,
    NodeLost,
    NodeRestored,
)
from bursar.model.fleet import EngineKind, Fleet
from bursar.model.identity import MEMBER_OF_ALL, Identity, Token
from bursar.model.job import JobSpec, JobState
from bursar.model.report import (
    ForeignSeen,
    NodeBack,
    NodeGone,
    NoticeReport,
    Progressed,
    Report,
    TasksEnded,
)
from bursar.model.reshape import reshaped
from bursar.ports import Acknowledgement, AttemptRef, AuditEntry, JobOrigin

Answer = Callable[[], Any]
"""Gives what the caller gets, once everything is committed and applied."""


def ignore(_refs: Sequence[AttemptRef]) -> None:
    """Nobody needs to know."""


def did(who: Identity, action: str, subject: str, now_ms: int) -> AuditEntry:
    """Something privileged that was done; it is written in the transaction that does it."""
    return AuditEntry(
        at_ms=now_ms,
        user=who.user,
        token_id=who.token_id,
        action=action,
        subject=subject,
        outcome="done",
    )


class Request(Protocol):
    """Something to be written."""

    future: Future[Any]
    alone: bool
    """Whether it must not share a group: what follows must see its effect."""

    def prepare(self, group: Group) -> Answer:
        """Add to the group, or raise ``UserError``; then nothing of it may be in the group."""


@dataclass(slots=True, kw_only=True)
class SubmitJobs:
    """All of the jobs, or none."""

    who: Identity
    submissions: Sequence[Submission]
    key: IdempotencyKey | None
    known_models: Collection[str]
    future: Future[Submitted] = field(default_factory=Future)
    alone: bool = False

    def prepare(self, group: Group) -> Answer:
        if self.key is not None:
            known = group.acknowledged(self.key.tenant, self.key.key)
            if known is not None:
                return self._replay(known, self.key)
        ids: list[str] = []
        events: list[JobSubmitted] = []
        origins: dict[str, JobOrigin] = {}
        findings: list[Finding] = []
        for one in self.submissions:
            made = submissions_beside(self._arrival(one.spec, group), group.alike_jobs)
            made, said = governed(made, one.labels, group.state)
            made = group.door.with_holds(made, one.recipe.grace_seconds)
            findings += said
            origin = JobOrigin(
                owner=self.who.user, recipe=one.recipe, labels=one.labels, document=one.document
            )
            for event in made:
                origins[event.job_id] = origin
                ids.append(event.job_id)
            events += made
        group.door.let_in(events, lambda tenant: _sees(self.who, tenant, group))
        group.events += events
        group.origins |= origins
        self._acknowledge(group, ids)
        answer = Submitted(job_ids=tuple(ids), findings=tuple(findings))
        return lambda: answer

    def _arrival(self, spec: JobSpec, group: Group) -> Arrival:
        """A job at the door, as it is kept: with what it waits for, and whom its run time is learned from."""
        if spec.depends_on:
            spec = without_what_is_met(spec, self.who, group)
        alike = (spec.queue, self.who.user, spec.name)
        return Arrival(
            spec=spec if spec.alike == alike else replace(spec, alike=alike),
            job_id=new_job_id(),
            at_ms=group.now_ms,
            state=group.state,
            known_models=self.known_models,
        )

    def _acknowledge(self, group: Group, ids: list[str]) -> None:
        if self.key is not None:
            group.acknowledgements[self.key.tenant, self.key.key] = Acknowledgement(
                tenant=self.key.tenant,
                key=self.key.key,
                request_sha256=self.key.request_sha256,
                answer=json.dumps(ids),
                at_ms=group.now_ms,
            )

    def _replay(self, known: Acknowledgement, key: IdempotencyKey) -> Answer:
        if known.request_sha256 != key.request_sha256:
            raise key_used_otherwise(key.key)
        answer = Submitted(job_ids=tuple(json.loads(known.answer)), replayed=True)
        return lambda: answer


def without_what_is_met(spec: JobSpec, who: Identity, group: Group) -> JobSpec:
    """Dependencies that have succeeded are dropped: the state forgets what is over.

    A job that the caller may not see is answered exactly as one that does not exist.
    """
    unmet = [name for named in spec.depends_on for name in _unmet_members(named, who, group)]
    return spec if unmet == list(spec.depends_on) else replace(spec, depends_on=tuple(unmet))


def _unmet_members(named: str, who: Identity, group: Group) -> Iterator[str]:
    """What is not over yet of a job, or of the members of an array that is named as a whole."""
    for name in _members(named, group):
        known = group.state.jobs.get(name)
        if known is not None:
            if not _sees(who, known.spec.queue, group):
                raise _no_such_dependency(named)
            yield name
            continue
        row = group.reader.job(name)
        if row is None or not _sees(who, row.queue, group):
            raise _no_such_dependency(named)
        if row.state is not JobState.SUCCEEDED:
            raise UserError(
                f"depends_on: {name} is {row.state}; this job would wait for ever.",
                fix=f"'bursar retry {name}' and depend on the new job, or leave it out.",
                code="dependency-failed",
            )


def _members(name: str, group: Group) -> Sequence[str]:
    """The jobs of an array that is named as a whole; else what is named."""
    if name in group.state.jobs:
        return (name,)
    return [member for member, _ in group.reader.members(name)] or (name,)


def _sees(who: Identity, queue: str, group: Group) -> bool:
    if who.tenant in (MEMBER_OF_ALL, queue):
        return True
    return queue in group.state.tenants and who.tenant in group.state.quota.ancestors(queue)


def _no_such_dependency(name: str) -> UserError:
    return UserError(
        f"depends_on: there is no job {name[:80]!r}.",
        fix="Name jobs that were submitted before this one; 'bursar status' lists yours.",
        code="unknown-dependency",
    )


@dataclass(slots=True, kw_only=True)
class CancelJobs:
    """Each that is not over yet and was not cancelled before."""

    who: Identity
    job_ids: Sequence[str]
    future: Future[dict[str, str]] = field(default_factory=Future)
    alone: bool = False

    def prepare(self, group: Group) -> Answer:
        for job_id in self.job_ids:
            record = group.state.jobs.get(job_id)
            if record is not None and record.state is not JobState.CANCELLING:
                group.note(JobCancelled(at_ms=group.now_ms, job_id=job_id), job_id)
        return lambda: {job_id: self._state_of(group, job_id) for job_id in self.job_ids}

    def _state_of(self, group: Group, job_id: str) -> str:
        record = group.state.jobs.get(job_id)
        if record is not None:
            return record.state
        row = group.reader.job(job_id)
        return row.state if row is not None else ""


@dataclass(slots=True, kw_only=True)
class PutTokens:
    """New tokens, or known ones that changed."""

    who: Identity
    tokens: Sequence[Token]
    future: Future[None] = field(default_factory=Future)
    alone: bool = False

    def prepare(self, group: Group) -> Answer:
        group.tokens |= {token.id: token for token in self.tokens}
        return lambda: None


@dataclass(slots=True, kw_only=True)
class NoteAudit:
    """Somebody did or tried something."""

    entry: AuditEntry
    future: Future[None] = field(default_factory=Future)
    alone: bool = False

    def prepare(self, group: Group) -> Answer:
        group.audit.append(self.entry)
        return lambda: None


@dataclass(slots=True, kw_only=True)
class SetNodeUp:
    """Let nothing new start on a node, or let it again."""

    who: Identity
    node: str
    up: bool
    future: Future[None] = field(default_factory=Future)
    alone: bool = False

    def prepare(self, group: Group) -> Answer:
        if self.node not in group.state.pool_of_node:
            raise UserError(
                f"node {self.node[:80]!r} does not exist.",
                fix="'bursar gpus' lists the nodes.",
                code="no-such-node",
            )
        happened = NodeRestored if self.up else NodeDrained
        group.note(happened(at_ms=group.now_ms, node=self.node), self.node)
        group.audit.append(did(self.who, happened.__name__, self.node, group.now_ms))
        return lambda: None


@dataclass(slots=True, kw_only=True)
class DeclareFleet:
    """What there is, who shares it and how, from now on, in one step."""

    who: Identity
    declared: FleetFile
    expected_sequence: int | None
    engines: Collection[EngineKind]
    """What can run jobs here."""
    future: Future[int] = field(default_factory=Future)
    alone: bool = True

    def prepare(self, group: Group) -> Answer:
        live = group.live
        self._refuse_what_nothing_runs()
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
                reshaped(live.declared.fleet, after.fleet) & live.state.pool_of_node.keys()
            ):
                group.events.append(NodeLost(at_ms=group.now_ms, node=node))
            _refuse_lost_queues(group, after)
        group.events.append(after)
        group.audit.append(did(self.who, FleetDeclared.__name__, "fleet", group.now_ms))
        return lambda: after.at_ms

    def _refuse_what_nothing_runs(self) -> None:
        refuse_several_slurms(self.declared.fleet)
        for cluster in self.declared.fleet.clusters:
            if cluster.engine not in self.engines:
                here = ", ".join(sorted(self.engines)) or "none"
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


def _refuse_lost_queues(group: Group, after: FleetDeclared) -> None:
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


@dataclass(slots=True, kw_only=True)
class TakeReports:
    """What engines said. ``stale`` counts what spoke of the past and was refused."""

    reports: Sequence[Report]
    settled: Callable[[Sequence[AttemptRef]], None] = ignore
    """Told once the ends among the reports are committed: the engine may forget them."""
    future: Future[None] = field(default_factory=Future)
    alone: bool = False
    stale: int = 0

    def prepare(self, group: Group) -> Answer:
        ended: list[AttemptRef] = []
        beside = Beside(fleet=group.live.declared.fleet if group.live.declared else None)
        for before in group.events:
            beside.hear(before)
        for report in self.reports:
            if isinstance(report, Progressed):
                self._take_progress(report, group)
                continue
            event = event_for(report, group.state, group.now_ms, beside)
            if isinstance(report, TasksEnded):
                ended.append(AttemptRef(job_id=report.job_id, attempt=report.attempt))
            if event is None or not group.note(event, _subject(report)):
                self.stale += 1
            else:
                beside.hear(event)
        return lambda: self.settled(ended)

    def _take_progress(self, report: Progressed, group: Group) -> None:
        progress = progress_for(report, group.state, group.now_ms)
        if progress is None:
            self.stale += 1
        else:
            group.progressed[progress.job_id] = progress


def _subject(report: Report) -> str:
    match report:
        case NodeGone() | NodeBack() | NoticeReport() | ForeignSeen():
            return report.node
        case _:
            return report.job_id
