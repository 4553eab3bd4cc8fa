"""Requests of users: submit jobs and cancel them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from bursar.control.access.permissions import sees_queue, tenants_seen
from bursar.control.live.transaction import Transaction
from bursar.control.requests.governance_admission import apply_governance
from bursar.control.requests.submission import (
    IdempotencyKey,
    Submission,
    Submitted,
    key_used_otherwise,
    new_job_id,
)
from bursar.control.requests.write_request import Answer
from bursar.core.admission.admit import AdmissionRequest, submissions_beside
from bursar.governance.finding import Finding
from bursar.model.errors import UserError
from bursar.model.event import JobCancelled, JobSubmitted
from bursar.model.jobs.job import JobSpec, JobState
from bursar.model.tenants.identity import Identity
from bursar.ports import Acknowledgement, JobOrigin


@dataclass(slots=True, kw_only=True)
class SubmitJobs:
    """All of the jobs, or none."""

    who: Identity
    submissions: Sequence[Submission]
    key: IdempotencyKey | None = None
    future: Future[Submitted] = field(default_factory=Future)
    alone: bool = False

    def prepare(self, group: Transaction) -> Answer:
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
            made, said = apply_governance(made, one.labels, group.state)
            made = group.door.with_holds(made, one.recipe.grace_seconds)
            findings += said
            origin = JobOrigin(
                owner=self.who.user, recipe=one.recipe, labels=one.labels, document=one.document
            )
            for event in made:
                origins[event.job_id] = origin
                ids.append(event.job_id)
            events += made
        group.door.let_in(
            events, lambda tenant: tenant in tenants_seen(self.who, group.access_tree)
        )
        group.events += events
        group.origins |= origins
        self._acknowledge(group, ids)
        answer = Submitted(job_ids=tuple(ids), findings=tuple(findings))
        return lambda: answer

    def _arrival(self, spec: JobSpec, group: Transaction) -> AdmissionRequest:
        """A job at the door, as it is kept: with what it waits for, and whom its run time is learned from."""
        if spec.depends_on:
            spec = drop_met_dependencies(spec, self.who, group)
        alike = (spec.queue, self.who.user, spec.name)
        return AdmissionRequest(
            spec=spec if spec.similarity_keys == alike else replace(spec, similarity_keys=alike),
            job_id=new_job_id(),
            at_ms=group.now_ms,
            state=group.state,
            known_models=group.installation.known_models,
        )

    def _acknowledge(self, group: Transaction, ids: list[str]) -> None:
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


def drop_met_dependencies(spec: JobSpec, who: Identity, group: Transaction) -> JobSpec:
    """Dependencies that have succeeded are dropped: the state forgets what is over.

    A job that the caller may not see is answered exactly as one that does not exist.
    """
    unmet = [name for named in spec.depends_on for name in _unmet_members(named, who, group)]
    return spec if unmet == list(spec.depends_on) else replace(spec, depends_on=tuple(unmet))


def _unmet_members(named: str, who: Identity, group: Transaction) -> Iterator[str]:
    """What is not over yet of a job, or of the members of an array that is named as a whole."""
    for name in _members(named, group):
        known = group.state.jobs.get(name)
        if known is not None:
            if not sees_queue(who, known.spec.queue, group.access_tree):
                raise _no_such_dependency(named)
            yield name
            continue
        row = group.reader.job(name)
        if row is None or not sees_queue(who, row.queue, group.access_tree):
            raise _no_such_dependency(named)
        if row.state is not JobState.SUCCEEDED:
            raise UserError(
                f"depends_on: {name} is {row.state}; this job would wait for ever.",
                fix=f"'bursar retry {name}' and depend on the new job, or leave it out.",
                code="dependency-failed",
            )


def _members(name: str, group: Transaction) -> Sequence[str]:
    """The jobs of an array that is named as a whole; else what is named."""
    if name in group.state.jobs:
        return (name,)
    return [member for member, _ in group.reader.members(name)] or (name,)


def _no_such_dependency(name: str) -> UserError:
    return UserError(
        f"depends_on: there is no job {name[:80]!r}.",
        fix="Name jobs that were submitted before this one; 'bursar status' lists yours.",
        code="unknown-dependency",
    )


@dataclass(slots=True, kw_only=True)
class CancelJobs:
    """Each that is not over yet and was not cancelled before."""

    job_ids: Sequence[str]
    future: Future[dict[str, str]] = field(default_factory=Future)
    alone: bool = False

    def prepare(self, group: Transaction) -> Answer:
        for job_id in self.job_ids:
            record = group.state.jobs.get(job_id)
            if record is not None and record.state is not JobState.CANCELLING:
                group.note(JobCancelled(at_ms=group.now_ms, job_id=job_id), job_id)
        return lambda: {job_id: self._state_of(group, job_id) for job_id in self.job_ids}

    def _state_of(self, group: Transaction, job_id: str) -> str:
        record = group.state.jobs.get(job_id)
        if record is not None:
            return record.state
        row = group.reader.job(job_id)
        return row.state if row is not None else ""
