"""The route table: all routes, with their permissions. No request is served outside it."""

from __future__ import annotations

from functools import cache
from typing import Any

from bursar.api import wire
from bursar.api.endpoints.fleet import findings, fleet, tenants
from bursar.api.endpoints.jobs import (
    bundles,
    events,
    jobs,
    logs,
    queue,
    submit,
)
from bursar.api.endpoints.money.routes import COST
from bursar.api.endpoints.operations import operations, prometheus, tokens
from bursar.api.http.route import Body, Open, Parameter, Reply, Route
from bursar.api.wire.schemas import reference
from bursar.config.job.job_keys import job_schema
from bursar.model.jobs.job import JobState
from bursar.model.tenants.identity import Permission

KIB, MIB = 2**10, 2**20

LIMIT = Parameter(name="limit", about="The maximum number of items.", minimum=1, maximum=1_000)
CURSOR = Parameter(
    name="cursor", about="next_cursor of the previous page.", pattern=r"[A-Za-z0-9_-]+"
)
IDEMPOTENCY = Parameter(
    name=wire.IDEMPOTENCY_HEADER,
    about="A unique key of your choice: a request sent twice with it is carried out once.",
    pattern=r"[!-~]+",
    max_length=128,
)
LAST_EVENT = Parameter(
    name=wire.LAST_EVENT_HEADER, about="Resume after this event.", pattern=r"[0-9]{1,18}"
)


@cache
def job_document_schema() -> dict[str, Any]:
    """The schema of a job document as a component, without the keys of a stand-alone schema."""
    return {key: one for key, one in job_schema().items() if not key.startswith("$")}


def _job_body(max_bytes: int) -> Body:
    document = {"$ref": "#/components/schemas/JobDocument"}
    return Body(media={wire.JSON: document, wire.YAML: {"type": "string"}}, max_bytes=max_bytes)


def _json_body(schema: Any, max_bytes: int) -> Body:
    return Body(media={wire.JSON: schema}, max_bytes=max_bytes)


BULK = {
    "type": "object",
    "properties": {
        "jobs": {
            "type": "array",
            "minItems": 1,
            "maxItems": submit.MAX_JOBS,
            "items": {"$ref": "#/components/schemas/JobDocument"},
        }
    },
    "required": ["jobs"],
    "additionalProperties": False,
}
FILES = reference(wire.FleetFiles)

PUBLIC = (
    Route(
        method="GET",
        path="/healthz",
        needs=Open.TO_ALL,
        endpoint=operations.alive,
        about="Whether the process is up, and whether it is the leader.",
        replies={200: Reply(about="It is up.", kind=wire.Alive)},
    ),
    Route(
        method="GET",
        path="/v1/schema/job.json",
        needs=Open.TO_ALL,
        endpoint=operations.job_schema_file,
        about="The JSON Schema of a job file.",
        replies={200: Reply(about="The schema.")},
    ),
    Route(
        method="GET",
        path="/v1/schema/fleet.json",
        needs=Open.TO_ALL,
        endpoint=operations.fleet_schema_file,
        about="The JSON Schema of a fleet file.",
        replies={200: Reply(about="The schema.")},
    ),
)

JOBS = (
    Route(
        method="POST",
        path="/v1/jobs",
        needs=Permission.WRITE_JOBS,
        endpoint=submit.submit,
        about="Submit a job, as JSON or YAML. The response is sent when the job is durable.",
        replies={201: Reply(about="The job was accepted.", kind=wire.SubmittedView)},
        problems=(409,),
        body=_job_body(MIB),
        headers=(IDEMPOTENCY,),
        writes=True,
    ),
    Route(
        method="POST",
        path="/v1/jobs:bulk",
        needs=Permission.WRITE_JOBS,
        endpoint=submit.submit_many,
        about="Submit up to 1,000 jobs: all are accepted, or none.",
        replies={201: Reply(about="All were accepted.", kind=wire.BulkSubmitted)},
        problems=(409,),
        body=_json_body(BULK, 16 * MIB),
        headers=(IDEMPOTENCY,),
        writes=True,
    ),
    Route(
        method="GET",
        path="/v1/jobs",
        needs=Permission.READ_JOBS,
        endpoint=jobs.list_jobs,
        about="Jobs, newest first.",
        replies={200: Reply(about="A page of jobs.", kind=wire.JobPage)},
        query=(
            Parameter(
                name="state",
                about="Only jobs in this state; may be repeated.",
                choices=tuple(one.value for one in JobState),
                is_repeated=True,
            ),
            Parameter(
                name="queue", about="Only jobs of this queue; may be repeated.", is_repeated=True
            ),
            Parameter(name="owner", about="Only jobs of this user."),
            Parameter(name="name", about="Only jobs with this name."),
            Parameter(
                name="label",
                about="Only jobs with this label, as key=value.",
                pattern=r"[^=\x00-\x1f\x7f]{1,100}=[^\x00-\x1f\x7f]{0,100}",
            ),
            LIMIT,
            CURSOR,
        ),
    ),
    Route(
        method="GET",
        path="/v1/jobs/{job_id}",
        needs=Permission.READ_JOBS,
        endpoint=jobs.get_job,
        about="One job with its attempts and its document.",
        replies={200: Reply(about="The job.", kind=wire.JobDetail)},
    ),
    Route(
        method="GET",
        path="/v1/jobs/{job_id}/why",
        needs=Permission.READ_JOBS,
        endpoint=jobs.why,
        about="Why a job does not run, when it will start, and what would start it now.",
        replies={200: Reply(about="The explanation.", kind=wire.ExplanationView)},
    ),
    Route(
        method="GET",
        path="/v1/jobs/{job_id}/interruptions",
        needs=Permission.READ_JOBS,
        endpoint=jobs.why_preempted,
        about="What interrupted a job, what that cost, and what would help.",
        replies={200: Reply(about="The report.", kind=wire.InterruptionReportView)},
        problems=(404,),
    ),
    Route(
        method="GET",
        path="/v1/jobs/{job_id}/events",
        needs=Permission.READ_JOBS,
        endpoint=jobs.job_events,
        about="All events of a job.",
        replies={200: Reply(about="The events, in order.", kind=wire.JobEvents)},
    ),
    Route(
        method="GET",
        path="/v1/jobs/{job_id}/logs",
        needs=Permission.READ_JOBS,
        endpoint=logs.logs,
        about="The output of a job; with follow=true as server-sent events while it is written.",
        replies={200: Reply(about="The output.", media=(wire.TEXT, wire.EVENT_STREAM))},
        query=(
            Parameter(name="task", about="Only output of this task.", minimum=0, maximum=1_000_000),
            Parameter(name="stream", about="Only this stream.", choices=("stdout", "stderr")),
            Parameter(
                name="tail", about="Only this many last lines.", minimum=0, maximum=1_000_000
            ),
            Parameter(
                name="attempt",
                about="Output of this attempt; without it, of the last one.",
                minimum=1,
                maximum=1_000_000,
            ),
            Parameter(
                name="follow",
                about="Follow the output while it is written.",
                choices=("true", "false"),
            ),
        ),
        headers=(Parameter(name=wire.LAST_EVENT_HEADER, about="Resume after this event."),),
    ),
    Route(
        method="POST",
        path="/v1/jobs/{job_id}:cancel",
        needs=Permission.WRITE_JOBS,
        endpoint=jobs.cancel,
        about="Cancel a job. Its owner and leads may.",
        replies={200: Reply(about="The job as it is now.", kind=wire.JobView)},
        writes=True,
        is_audited=True,
    ),
    Route(
        method="POST",
        path="/v1/jobs/{job_id}:retry",
        needs=Permission.WRITE_JOBS,
        endpoint=submit.retry,
        about="Submit a finished job again, under a new id.",
        replies={201: Reply(about="The new job was accepted.", kind=wire.SubmittedView)},
        problems=(409,),
        headers=(IDEMPOTENCY,),
        writes=True,
        is_audited=True,
    ),
    Route(
        method="POST",
        path="/v1/plan",
        needs=Permission.WRITE_JOBS,
        endpoint=queue.plan,
        about="Feasibility, placement, start and cost of a job. Nothing is submitted.",
        replies={200: Reply(about="The plan.", kind=wire.Plan)},
        body=_job_body(MIB),
    ),
    Route(
        method="GET",
        path="/v1/queue",
        needs=Permission.READ_JOBS,
        endpoint=queue.list_waiting,
        about="Waiting jobs in queue order, with the position and the reasons of each.",
        replies={200: Reply(about="A page of waiting jobs.", kind=wire.WaitingPage)},
        query=(LIMIT, CURSOR),
    ),
    Route(
        method="GET",
        path="/v1/events",
        needs=Permission.READ_JOBS,
        endpoint=events.follow_events,
        about="Events of jobs, as server-sent events.",
        replies={200: Reply(about="Events as they come.", media=(wire.EVENT_STREAM,))},
        headers=(LAST_EVENT,),
    ),
    Route(
        method="GET",
        path="/v1/bundles/{sha256}",
        needs=Permission.WRITE_JOBS,
        endpoint=bundles.get_bundle,
        about="Whether your tenant has uploaded an archive already. HEAD works too.",
        replies={200: Reply(about="It is stored.", kind=wire.StoredBundle)},
        takes_head=True,
    ),
    Route(
        method="PUT",
        path="/v1/bundles/{sha256}",
        needs=Permission.WRITE_JOBS,
        endpoint=bundles.put_bundle,
        about="Upload a tar.gz archive; jobs refer to it by its SHA-256.",
        replies={
            200: Reply(about="It was stored already.", kind=wire.StoredBundle),
            201: Reply(about="It was stored.", kind=wire.StoredBundle),
        },
        body=Body(
            media={wire.BUNDLE: {"type": "string", "format": "binary"}},
            max_bytes=0,
            is_streamed=True,
        ),
        writes=True,
    ),
)

FLEET = (
    Route(
        method="GET",
        path="/v1/fleet",
        needs=Permission.READ_FLEET,
        endpoint=fleet.get_fleet,
        about="Pools, nodes and GPUs, and the jobs that hold them.",
        replies={200: Reply(about="The fleet.", kind=wire.FleetView)},
        query=(Parameter(name="pool", about="Only this pool."),),
    ),
    Route(
        method="POST",
        path="/v1/fleet:plan",
        needs=Permission.WRITE_FLEET,
        endpoint=fleet.plan_fleet,
        about="What these fleet files would change.",
        replies={200: Reply(about="The changes.", kind=wire.FleetPlan)},
        body=_json_body(FILES, 8 * MIB),
    ),
    Route(
        method="POST",
        path="/v1/fleet:apply",
        needs=Permission.WRITE_FLEET,
        endpoint=fleet.apply_fleet,
        about="Apply these fleet files, in one transaction.",
        replies={200: Reply(about="What was changed.", kind=wire.FleetPlan)},
        problems=(409,),
        body=_json_body(FILES, 8 * MIB),
        writes=True,
    ),
    Route(
        method="GET",
        path="/v1/quota",
        needs=Permission.READ_TENANTS,
        endpoint=tenants.quota,
        about="Quota, usage and borrowing of each tenant.",
        replies={200: Reply(about="One row for each tenant and resource.", kind=wire.QuotaPage)},
    ),
    Route(
        method="GET",
        path="/v1/rules",
        needs=Permission.READ_TENANTS,
        endpoint=findings.list_findings,
        about="Findings of the governance rules on the fleet and its jobs.",
        replies={200: Reply(about="One row for each finding.", kind=wire.FindingPage)},
    ),
    Route(
        method="GET",
        path="/v1/fair",
        needs=Permission.READ_TENANTS,
        endpoint=tenants.fair,
        about="The usage of each tenant against its fair share.",
        replies={200: Reply(about="One row for each tenant.", kind=wire.FairPage)},
    ),
    Route(
        method="GET",
        path="/v1/tenants",
        needs=Permission.READ_TENANTS,
        endpoint=tenants.list_tenants,
        about="The tenants that you may see.",
        replies={200: Reply(about="One row for each tenant.", kind=wire.TenantPage)},
    ),
)

PEOPLE = (
    Route(
        method="GET",
        path="/v1/whoami",
        needs=Open.TO_ANY_TOKEN,
        endpoint=tokens.whoami,
        about="Your identity and permissions.",
        replies={200: Reply(about="The identity.", kind=wire.WhoAmI)},
    ),
    Route(
        method="GET",
        path="/v1/tokens",
        needs=Permission.WRITE_TOKENS,
        endpoint=tokens.list_tokens,
        about="Tokens of the tenants that you may see, without their secrets.",
        replies={200: Reply(about="One row for each token.", kind=wire.TokenPage)},
    ),
    Route(
        method="POST",
        path="/v1/tokens",
        needs=Permission.WRITE_TOKENS,
        endpoint=tokens.create_token,
        about="Create a token, with at most your own permissions. Its text is shown only once.",
        replies={201: Reply(about="The token.", kind=wire.NewToken)},
        body=_json_body(reference(wire.TokenRequest), 64 * KIB),
        writes=True,
        is_audited=True,
    ),
    Route(
        method="POST",
        path="/v1/tokens/{token_id}:revoke",
        needs=Permission.WRITE_TOKENS,
        endpoint=tokens.revoke_token,
        about="Revoke a token, on all processes within one second.",
        replies={200: Reply(about="The token as it is now.", kind=wire.TokenRow)},
        writes=True,
        is_audited=True,
    ),
)

OPERATION = (
    Route(
        method="GET",
        path="/metrics",
        needs=Permission.READ_TENANTS,
        endpoint=prometheus.scrape,
        about="Metrics for Prometheus: of the tenants that you may see, and of the fleet for admins of all.",
        replies={200: Reply(about="Prometheus text format.", media=(prometheus.MEDIA_TYPE,))},
    ),
    Route(
        method="GET",
        path="/v1/health",
        needs=Permission.OPERATE,
        endpoint=operations.health,
        about="The health of the control plane, in numbers.",
        replies={200: Reply(about="The numbers.")},
    ),
    Route(
        method="GET",
        path="/v1/audit",
        needs=Permission.OPERATE,
        endpoint=operations.audit,
        about="The audit log: who did or tried what, newest first.",
        replies={200: Reply(about="A page of entries.", kind=wire.AuditPage)},
        query=(LIMIT, CURSOR),
    ),
    Route(
        method="POST",
        path="/v1/jobs/{job_id}:interrupt",
        needs=Permission.OPERATE,
        endpoint=operations.interrupt,
        about="Interrupt the virtual node of a running job, with or without a notice, as a test.",
        replies={200: Reply(about="The node, and when it is lost.", kind=wire.InterruptedView)},
        problems=(409,),
        body=_json_body(reference(wire.InterruptionRequest), 4 * KIB),
        writes=True,
    ),
    Route(
        method="POST",
        path="/v1/nodes/{node}:drain",
        needs=Permission.OPERATE,
        endpoint=operations.drain,
        about="Drain a node: no new job starts on it.",
        replies={200: Reply(about="The node as changed.", kind=wire.NodeChanged)},
        writes=True,
    ),
    Route(
        method="POST",
        path="/v1/nodes/{node}:restore",
        needs=Permission.OPERATE,
        endpoint=operations.restore,
        about="Restore a drained node.",
        replies={200: Reply(about="The node as changed.", kind=wire.NodeChanged)},
        writes=True,
    ),
)

ROUTES: tuple[Route, ...] = (*PUBLIC, *JOBS, *FLEET, *COST, *PEOPLE, *OPERATION)
