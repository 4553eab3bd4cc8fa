"""Requests of users: submit jobs and cancel them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bursar.config.job.job_file import JobDocument
from bursar.control.access.permissions import can_see_queue, visible_tenants
from bursar.control.live.transaction import Transaction
from bursar.control.requests.submission import (
    IdempotencyKey,
    Submitted,
    idempotency_key_reused,
    new_job_id,
)
from bursar.control.requests.write_request import AfterCommit, WriteRequest
from bursar.core.admission.admission_request import AdmissionRequest
from bursar.core.admission.admit import submissions
from bursar.governance.admission import apply_governance
from bursar.governance.finding import Finding
from bursar.model.errors import UserError
from bursar.model.event import JobCancelled, JobSubmitted
from bursar.model.jobs.job import JobSpec, JobState
from bursar.model.tenants.identity import Identity
from bursar.ports import Acknowledgement, JobOrigin


@dataclass(slots=True, kw_only=True)
class SubmitJobs(WriteRequest[Submitted]):
    """Submit all of the jobs, or none."""

    caller: Identity
    submissions: Sequence[JobDocument]
    key: IdempotencyKey | None = None

    def prepare(self, transaction: Transaction) -> AfterCommit:
        if self.key is not None:
            known = transaction.acknowledged(self.key.tenant, self.key.key)
            if known is not None:
                return self._replay(known, self.key)
        ids: list[str] = []
        events: list[JobSubmitted] = []
        origins: dict[str, JobOrigin] = {}
        findings: list[Finding] = []
        for one in self.submissions:
            request = self._admission_request(one.spec, transaction)
            members = submissions(request, transaction.checked_jobs)
            members, job_findings = apply_governance(members, one.labels, transaction.state)
            members = transaction.budget_admission.with_holds(members, one.recipe.grace_seconds)
            findings += job_findings
            origin = JobOrigin(
                owner=self.caller.user, recipe=one.recipe, labels=one.labels, document=one.document
            )
            for event in members:
                origins[event.job_id] = origin
                ids.append(event.job_id)
            events += members
        transaction.budget_admission.hold(
            events, lambda tenant: tenant in visible_tenants(self.caller, transaction.access_tree)
        )
        transaction.events += events
        transaction.origins |= origins
        self._acknowledge(transaction, ids)
        result = Submitted(job_ids=tuple(ids), findings=tuple(findings))
        return lambda: result

    def _admission_request(self, spec: JobSpec, transaction: Transaction) -> AdmissionRequest:
        """Sets unmet dependencies, and the key of the jobs its run time is learned from."""
        if spec.depends_on:
            spec = drop_met_dependencies(spec, self.caller, transaction)
        keys = (spec.queue, self.caller.user, spec.name)
        return AdmissionRequest(
            spec=spec if spec.similarity_keys == keys else replace(spec, similarity_keys=keys),
            job_id=new_job_id(),
            at_ms=transaction.now_ms,
            state=transaction.state,
            known_models=transaction.installation.known_models,
        )

    def _acknowledge(self, transaction: Transaction, ids: list[str]) -> None:
        if self.key is not None:
            transaction.acknowledgements[self.key.tenant, self.key.key] = Acknowledgement(
                tenant=self.key.tenant,
                key=self.key.key,
                request_sha256=self.key.request_sha256,
                answer=json.dumps(ids),
                at_ms=transaction.now_ms,
            )

    def _replay(self, known: Acknowledgement, key: IdempotencyKey) -> AfterCommit:
        if known.request_sha256 != key.request_sha256:
            raise idempotency_key_reused(key.key)
        result = Submitted(job_ids=tuple(json.loads(known.answer)), replayed=True)
        return lambda: result


def drop_met_dependencies(spec: JobSpec, caller: Identity, transaction: Transaction) -> JobSpec:
    """Drops dependencies that have succeeded: finished jobs are not in the state.

    A job that the caller cannot see gets the same error as one that does not exist.
    """
    unmet = [
        name for named in spec.depends_on for name in _unmet_members(named, caller, transaction)
    ]
    return spec if unmet == list(spec.depends_on) else replace(spec, depends_on=tuple(unmet))


def _unmet_members(named: str, caller: Identity, transaction: Transaction) -> Iterator[str]:
    """Unfinished jobs of a dependency, which is a job or a whole array."""
    for name in _members(named, transaction):
        known = transaction.state.jobs.get(name)
        if known is not None:
            if not can_see_queue(caller, known.spec.queue, transaction.access_tree):
                raise _no_such_dependency(named)
            yield name
            continue
        row = transaction.reader.job(name)
        if row is None or not can_see_queue(caller, row.queue, transaction.access_tree):
            raise _no_such_dependency(named)
        if row.state is not JobState.SUCCEEDED:
            raise UserError(
                f"depends_on: {name} is {row.state}; this job would wait forever.",
                fix=f"Run 'bursar retry {name}' and depend on the new job, or leave it out.",
                code="dependency-failed",
            )


def _members(name: str, transaction: Transaction) -> Sequence[str]:
    """The jobs of an array, or the job itself."""
    if name in transaction.state.jobs:
        return (name,)
    return [member for member, _ in transaction.reader.members(name)] or (name,)


def _no_such_dependency(name: str) -> UserError:
    return UserError(
        f"depends_on: there is no job {name[:80]!r}.",
        fix="Name jobs that were submitted before this one; 'bursar status' lists yours.",
        code="unknown-dependency",
    )


@dataclass(slots=True, kw_only=True)
class CancelJobs(WriteRequest[dict[str, str]]):
    """Cancel unfinished jobs; others are left as they are."""

    job_ids: Sequence[str]

    def prepare(self, transaction: Transaction) -> AfterCommit:
        for job_id in self.job_ids:
            record = transaction.state.jobs.get(job_id)
            if record is not None and record.state is not JobState.CANCELLING:
                transaction.add(JobCancelled(at_ms=transaction.now_ms, job_id=job_id), job_id)
        return lambda: {job_id: self._state_of(transaction, job_id) for job_id in self.job_ids}

    def _state_of(self, transaction: Transaction, job_id: str) -> str:
        record = transaction.state.jobs.get(job_id)
        if record is not None:
            return record.state
        row = transaction.reader.job(job_id)
        return row.state if row is not None else ""
