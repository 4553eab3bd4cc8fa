"""Submits jobs: parses documents, checks access to queues, sends them to the control plane."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from starlette.responses import Response

from bursar.api import wire
from bursar.api.endpoints.jobs.bundles import bundle_path, has_bundle
from bursar.api.endpoints.visibility import ArrayRow, find, require_owner
from bursar.api.http.body import decode_text, parse_json
from bursar.api.http.errors import HttpRefusal, no_fleet
from bursar.api.http.request import RequestContext, json_response
from bursar.api.http.route import Body, Parameter, Route
from bursar.api.wire.views import to_wire
from bursar.config.job.job_file import JobDefaults, JobDocument, parse_job, read_job
from bursar.control.access.permissions import visible_queues
from bursar.control.requests.job_requests import SubmitJobs
from bursar.control.requests.submission import IdempotencyKey, Submitted
from bursar.core.admission.problem import suggest
from bursar.model.errors import UserError
from bursar.model.jobs.job import OVER, JobSpec, JobState
from bursar.model.jobs.run_spec import RunSpec
from bursar.model.tenants.identity import Permission
from bursar.model.units import counted
from bursar.ports import JobOrigin, JobRow

MAX_JOBS = 1_000
_KEY = re.compile(r"[!-~]{1,128}")

IDEMPOTENCY = Parameter(
    wire.IDEMPOTENCY_HEADER,
    "A unique key of your choice: a request sent twice with it is carried out once.",
    pattern=r"[!-~]+",
    max_length=128,
)
DOCUMENT = {"$ref": "#/components/schemas/JobDocument"}
JOB_BODY = Body(media={wire.JSON: DOCUMENT, wire.YAML: {"type": "string"}}, max_bytes=2**20)
JOBS = {
    "type": "object",
    "properties": {
        "jobs": {"type": "array", "minItems": 1, "maxItems": MAX_JOBS, "items": DOCUMENT}
    },
    "required": ["jobs"],
    "additionalProperties": False,
}


@Route(
    "POST",
    "/v1/jobs",
    Permission.WRITE_JOBS,
    "The job was accepted.",
    status=201,
    kind=wire.SubmittedView,
    problems=(409,),
    body=JOB_BODY,
    headers=(IDEMPOTENCY,),
    writes=True,
)
async def submit(request: RequestContext) -> Response:
    """Submit a job, as JSON or YAML. The response is sent when the job is durable."""
    media, body = await request.body()
    document = await read_document(request, media, body)
    result = await _submit(request, [document], body)
    return await _submitted(request, result, document.spec)


@Route(
    "POST",
    "/v1/jobs:bulk",
    Permission.WRITE_JOBS,
    "All were accepted.",
    status=201,
    problems=(409,),
    body=Body(media={wire.JSON: JOBS}, max_bytes=16 * 2**20),
    headers=(IDEMPOTENCY,),
    writes=True,
)
async def submit_many(request: RequestContext) -> wire.BulkSubmitted:
    """Submit up to 1,000 jobs: all are accepted, or none."""
    _, body = await request.body()
    defaults = await _job_defaults(request)
    jobs = _parse_jobs(parse_json(body))
    documents = [_read_numbered(index, one, defaults) for index, one in enumerate(jobs)]
    result = await _submit(request, documents, body)
    return to_wire(
        result,
        wire.BulkSubmitted,
        ids=list(result.job_ids),
        findings=[to_wire(one, wire.FindingRow) for one in result.findings],
    )


async def read_document(request: RequestContext, media: str, body: bytes) -> JobDocument:
    """Reads the job of a body. YAML is parsed on a thread: it takes a hundred times as long."""
    defaults = await _job_defaults(request)
    if media == wire.JSON:
        return read_job(parse_json(body), defaults)
    return await request.context.run_blocking(parse_job, decode_text(body), "job.yaml", defaults)


async def _job_defaults(request: RequestContext) -> JobDefaults:
    """A user with one queue need not name it."""
    visible = await request.visible_queues()
    queue = next(iter(visible)) if visible is not None and len(visible) == 1 else None
    return JobDefaults(
        default_queue=queue, now_ms=request.context.clock.now_ms(), user=request.caller.user
    )


def _parse_jobs(plain: Any) -> list[Any]:
    jobs = plain.get("jobs") if isinstance(plain, dict) else None
    if not isinstance(jobs, list) or set(plain) != {"jobs"} or not 1 <= len(jobs) <= MAX_JOBS:
        raise HttpRefusal(
            "the body is not a list of jobs.",
            fix=f'Send {{"jobs": [...]}} with 1 to {MAX_JOBS:,} job documents.',
            code="wrong-value",
        )
    return jobs


def _read_numbered(index: int, plain: Any, defaults: JobDefaults) -> JobDocument:
    try:
        return read_job(plain, defaults)
    except UserError as error:
        raise UserError(
            f"jobs[{index}]: {error.problem}", fix=error.fix, code=error.code
        ) from error


async def _submitted(request: RequestContext, result: Submitted, spec: JobSpec) -> Response:
    """The response to a submission. The state is read only if it can differ from queued."""
    first = result.job_ids[0]
    job_id = first.removesuffix("[0]") if spec.array_size > 1 else first
    state = JobState.QUEUED
    if result.replayed or spec.depends_on:
        row = await request.read_store(lambda store: store.job(first))
        state = row.state if row is not None else state
    view = to_wire(
        result,
        wire.SubmittedView,
        id=job_id,
        ids=list(result.job_ids),
        state=state.value,
        findings=[to_wire(one, wire.FindingRow) for one in result.findings],
    )
    return json_response(view, 201, {"Location": f"/v1/jobs/{job_id}"})


async def _submit(
    request: RequestContext, documents: Sequence[JobDocument], body: bytes
) -> Submitted:
    await require_visible_queues(request, [one.spec for one in documents])
    _refuse_local_files(documents)
    for bundle in bundles_of(one.recipe for one in documents):
        if await has_bundle(request, bundle) is None:
            raise _not_uploaded(bundle)
    key = _idempotency_key(request, body)
    return await request.context.send(
        SubmitJobs(caller=request.caller, submissions=documents, key=key)
    )


def _idempotency_key(request: RequestContext, body: bytes) -> IdempotencyKey | None:
    """The idempotency key of the request. Keys of different users never collide."""
    key = request.headers.get(wire.IDEMPOTENCY_HEADER.lower())
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise HttpRefusal(
            f"{wire.IDEMPOTENCY_HEADER} is {key[:40]!r}.",
            fix="Send 1 to 128 visible ASCII characters, for example a UUID.",
            code="wrong-value",
        )
    media = request.headers.get("content-type", "")
    prefix = f"{request.route.name}\n{','.join(request.path.values())}\n{media}\n".encode()
    return IdempotencyKey(
        tenant=request.caller.tenant,
        key=f"{request.caller.user}:{key}",
        request_sha256=hashlib.sha256(prefix + body).hexdigest(),
    )


async def require_visible_queues(request: RequestContext, specs: Iterable[JobSpec]) -> None:
    """Refuses another tenant's queue as if it did not exist.

    Access to jobs that are depended on is checked by the control plane.
    """
    tree = (await request.context.fleet()).tree
    if not tree.parents:
        raise no_fleet()
    visible = visible_queues(request.caller, tree)
    if visible is None:
        return
    for spec in specs:
        if spec.queue not in visible:
            request.audit("hidden", f"queue {spec.queue}")
            raise UserError(
                f"job {spec.name[:60]!r}: queue is {spec.queue[:60]!r}, which does not exist.",
                fix=suggest(spec.queue, visible, "queue that you may use"),
                code="unknown-queue",
            )


def _refuse_local_files(documents: Iterable[JobDocument]) -> None:
    """Refuses paths on the caller's machine, which the server cannot read."""
    for document in documents:
        for file in document.local_files:
            raise UserError(
                f"job {document.spec.name[:60]!r} names the local path {file.path[:80]!r}.",
                fix="'bursar submit' uploads it; over HTTP, PUT /v1/bundles/{sha256} and name that.",
                code="local-files",
            )


def bundles_of(recipes: Iterable[RunSpec]) -> list[str]:
    """The archives that jobs name; a missing one would fail the job later, on its node."""
    bundles = {
        bundle
        for recipe in recipes
        for bundle in (recipe.workdir, *(mount.bundle for mount in recipe.mounts))
        if bundle is not None
    }
    return sorted(bundles)


def _not_uploaded(bundle: str) -> HttpRefusal:
    return HttpRefusal(
        f"the archive {bundle[:80]!r} was not uploaded.",
        fix="PUT it to /v1/bundles/{sha256} first; 'bursar submit' does so automatically.",
        code="no-such-bundle",
    )


# -- retry -------------------------------------------------------------------------------------------


@Route(
    "POST",
    "/v1/jobs/{job_id}:retry",
    Permission.WRITE_JOBS,
    "The new job was accepted.",
    status=201,
    kind=wire.SubmittedView,
    problems=(409,),
    headers=(IDEMPOTENCY,),
    writes=True,
    is_audited=True,
)
async def retry(request: RequestContext) -> Response:
    """Submit a finished job again, under a new id."""
    found = await find(request)
    row = found.first if isinstance(found, ArrayRow) else found
    require_owner(request, row)
    origin = await request.read_store(lambda store: store.origin(row.id))
    submission = _resubmission(found, origin)
    await require_visible_queues(request, [row.spec])
    for bundle in bundles_of([submission.recipe]):
        path = bundle_path(request.context.settings.state_folder, bundle)
        if path is None or not await request.context.run_blocking(path.is_file):
            raise _not_uploaded(bundle)
    key = _idempotency_key(request, b"")
    result = await request.context.send(
        SubmitJobs(caller=request.caller, submissions=[submission], key=key)
    )
    return await _submitted(request, result, submission.spec)


def _resubmission(found: JobRow | ArrayRow, origin: JobOrigin | None) -> JobDocument:
    if found.state not in OVER:
        raise HttpRefusal(
            f"{found.id} is {found.state} and has not ended.",
            fix=f"Wait until it ends, or POST /v1/jobs/{found.id}:cancel first.",
            code="job-not-over",
        )
    if origin is None:
        raise UserError(
            f"the document of {found.id} is no longer stored.",
            fix="Submit its file again.",
            code="origin-forgotten",
        )
    secrets = json.loads(origin.document or "{}").get("secrets") or {}
    if secrets:
        raise UserError(
            f"{found.id} had {counted(len(secrets), 'secret')}, deleted when it ended.",
            fix="Submit its file again, with the secrets.",
            code="secrets-forgotten",
        )
    return JobDocument(
        spec=found.spec, recipe=origin.recipe, labels=origin.labels, document=origin.document
    )
