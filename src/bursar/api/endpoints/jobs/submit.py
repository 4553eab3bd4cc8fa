"""Job documents on their way in: read, kept to the caller's tenant, and handed to the control plane."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, cast

from starlette.responses import Response

from bursar.api import wire
from bursar.api.endpoints.fleet.findings import finding
from bursar.api.endpoints.jobs.bundles import bundle_path, has_bundle
from bursar.api.endpoints.visibility import ArrayRow, find, own_job
from bursar.api.http.body import parse_json, text_of
from bursar.api.http.errors import HttpRefusal, no_fleet
from bursar.api.http.request import RequestContext, answer
from bursar.config.job.job_file import JobDefaults, JobDocument, parse_job, read_job
from bursar.control.access.permissions import visible_queues
from bursar.control.requests.job_requests import SubmitJobs
from bursar.control.requests.submission import IdempotencyKey, Submission, Submitted
from bursar.core.admission.problem import suggest
from bursar.model.errors import UserError
from bursar.model.jobs.job import OVER, JobSpec, JobState
from bursar.model.jobs.run_spec import RunSpec
from bursar.ports import JobOrigin, JobRow

MOST_AT_ONCE = 1_000
_KEY = re.compile(r"[!-~]{1,128}")


async def submit(call: RequestContext) -> Response:
    """One job, as JSON or as the YAML that people write."""
    media, body = await call.body()
    document = await read_document(call, media, body)
    done = await _submit(call, [document], body)
    return await submitted(call, done, document.spec)


async def submit_many(call: RequestContext) -> Response:
    """Many jobs: all are taken, or none is."""
    _, body = await call.body()
    terms = await terms_for(call)
    jobs = _jobs_in(parse_json(body))
    documents = [_numbered(index, one, terms) for index, one in enumerate(jobs)]
    done = await _submit(call, documents, body)
    made: wire.BulkSubmitted = {
        "ids": list(done.job_ids),
        "replayed": done.replayed,
        "findings": [finding(one) for one in done.findings],
    }
    return answer(made, 201)


async def read_document(call: RequestContext, media: str, body: bytes) -> JobDocument:
    """The job in a body. YAML is read beside the loop: it takes a hundred times as long."""
    terms = await terms_for(call)
    if media == wire.JSON:
        return read_job(parse_json(body), terms)
    return await call.desk.read(parse_job, text_of(body), "job.yaml", terms)


async def terms_for(call: RequestContext) -> JobDefaults:
    """Whoever has one queue need not name it."""
    seen = await call.seen()
    only = next(iter(seen)) if seen is not None and len(seen) == 1 else None
    return JobDefaults(default_queue=only, now_ms=call.desk.clock.now_ms(), user=call.who.user)


def _jobs_in(plain: Any) -> list[Any]:
    jobs = plain.get("jobs") if isinstance(plain, dict) else None
    if not isinstance(jobs, list) or set(plain) != {"jobs"} or not 1 <= len(jobs) <= MOST_AT_ONCE:
        raise HttpRefusal(
            "the body does not hold a list of jobs.",
            fix=f'Send {{"jobs": [...]}} with 1 to {MOST_AT_ONCE:,} job documents.',
            code="wrong-value",
        )
    return jobs


def _numbered(index: int, plain: Any, terms: JobDefaults) -> JobDocument:
    try:
        return read_job(plain, terms)
    except UserError as error:
        raise UserError(
            f"jobs[{index}]: {error.problem}", fix=error.fix, code=error.code
        ) from error


async def submitted(call: RequestContext, done: Submitted, spec: JobSpec) -> Response:
    """The answer to a submission. What has not changed since need not be looked up."""
    first = done.job_ids[0]
    made_id = first.removesuffix("[0]") if spec.array_size > 1 else first
    state = JobState.QUEUED.value
    if done.replayed or spec.depends_on:
        row = await call.desk.read(call.desk.plane.reader.job, first)
        state = row.state.value if row is not None else state
    made: wire.SubmittedView = {
        "id": made_id,
        "ids": list(done.job_ids),
        "state": cast(wire.State, state),
        "replayed": done.replayed,
        "findings": [finding(one) for one in done.findings],
    }
    return answer(made, 201, {"Location": f"/v1/jobs/{made_id}"})


async def _submit(call: RequestContext, documents: Sequence[JobDocument], body: bytes) -> Submitted:
    await keep_to_tenant(call, [one.spec for one in documents])
    refuse_local_files(documents)
    for bundle in bundles_in(one.recipe for one in documents):
        if await has_bundle(call, bundle) is None:
            raise _not_uploaded(bundle)
    submissions = [
        Submission(spec=one.spec, recipe=one.recipe, labels=one.labels, document=one.document)
        for one in documents
    ]
    key = idempotency_key(call, body)
    return await call.desk.send(SubmitJobs(caller=call.who, submissions=submissions, key=key))


def idempotency_key(call: RequestContext, body: bytes) -> IdempotencyKey | None:
    """The caller's own name for the request. It is his alone: nobody else's key can meet it."""
    key = call.headers.get(wire.IDEMPOTENCY_HEADER.lower())
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise HttpRefusal(
            f"{wire.IDEMPOTENCY_HEADER} is {key[:40]!r}.",
            fix="Write 1 to 128 visible ASCII characters, for example a UUID.",
            code="wrong-value",
        )
    media = call.headers.get("content-type", "")
    told = f"{call.route.name}\n{','.join(call.path.values())}\n{media}\n".encode()
    return IdempotencyKey(
        tenant=call.who.tenant,
        key=f"{call.who.user}:{key}",
        request_sha256=hashlib.sha256(told + body).hexdigest(),
    )


async def keep_to_tenant(call: RequestContext, specs: Iterable[JobSpec]) -> None:
    """Another tenant's queue is answered as if it did not exist.

    Jobs that are depended on are kept to the tenant where they are looked up, by the control plane.
    """
    tree = (await call.desk.ground()).tree
    if not tree.parents:
        raise no_fleet()
    seen = visible_queues(call.who, tree)
    if seen is None:
        return
    for spec in specs:
        if spec.queue not in seen:
            call.note("hidden", f"queue {spec.queue}")
            raise UserError(
                f"job {spec.name[:60]!r}: queue is {spec.queue[:60]!r}, which does not exist.",
                fix=suggest(spec.queue, seen, "queue that you may use"),
                code="unknown-queue",
            )


def refuse_local_files(documents: Iterable[JobDocument]) -> None:
    """Paths of the caller's machine mean nothing here."""
    for document in documents:
        for file in document.local_files:
            raise UserError(
                f"job {document.spec.name[:60]!r} names the local path {file.path[:80]!r}.",
                fix="bursar submit uploads it; over HTTP, PUT /v1/bundles/{sha256} and name that.",
                code="local-files",
            )


def bundles_in(recipes: Iterable[RunSpec]) -> list[str]:
    """The archives that jobs name. One that nobody uploaded would fail the job on its node, long after."""
    wanted = {
        bundle
        for recipe in recipes
        for bundle in (recipe.workdir, *(mount.bundle for mount in recipe.mounts))
        if bundle is not None
    }
    return sorted(wanted)


def _not_uploaded(bundle: str) -> HttpRefusal:
    return HttpRefusal(
        f"the archive {bundle[:80]!r} was not uploaded.",
        fix="PUT it to /v1/bundles/{sha256} first; bursar submit does so by itself.",
        code="no-such-bundle",
    )


# -- again -------------------------------------------------------------------------------------------


async def retry(call: RequestContext) -> Response:
    """Submit a job again, as it was. The new job has an id of its own."""
    found = await find(call)
    row = found.first if isinstance(found, ArrayRow) else found
    own_job(call, row)
    origin = await call.desk.read(call.desk.plane.reader.origin, row.id)
    submission = _again(found, origin)
    await keep_to_tenant(call, [row.spec])
    for bundle in bundles_in([submission.recipe]):
        path = bundle_path(call.desk.settings.state_folder, bundle)
        if path is None or not await call.desk.read(path.is_file):
            raise _not_uploaded(bundle)
    key = idempotency_key(call, b"")
    done = await call.desk.send(SubmitJobs(caller=call.who, submissions=[submission], key=key))
    return await submitted(call, done, submission.spec)


def _again(found: JobRow | ArrayRow, origin: JobOrigin | None) -> Submission:
    if found.state not in OVER:
        raise HttpRefusal(
            f"{found.id} is {found.state} and not over yet.",
            fix=f"Wait for its end, or POST /v1/jobs/{found.id}:cancel first.",
            code="job-not-over",
        )
    if origin is None:
        raise UserError(
            f"what {found.id} was submitted as is not kept any more.",
            fix="Submit its file again.",
            code="origin-forgotten",
        )
    forgotten = json.loads(origin.document or "{}").get("secrets") or {}
    if forgotten:
        raise UserError(
            f"{found.id} had {len(forgotten)} secrets, which were forgotten at its end.",
            fix="Submit its file again, with the secrets.",
            code="secrets-forgotten",
        )
    spec = found.whole_spec if isinstance(found, ArrayRow) else found.spec
    return Submission(
        spec=spec, recipe=origin.recipe, labels=origin.labels, document=origin.document
    )
