"""The route table: every route there is, and who may use it. There is no other way in."""

from __future__ import annotations

from functools import cache
from typing import Any

from bursar.api import wire
from bursar.api.endpoints.fleet import findings, fleet, interrupt, tenants
from bursar.api.endpoints.jobs import (
    bundles,
    events,
    interruption_report,
    jobs,
    logs,
    queue,
    submit,
)
from bursar.api.endpoints.money.routes import COST
from bursar.api.endpoints.operations import metrics, operations, tokens
from bursar.api.endpoints.operations.prometheus import MEDIA_TYPE
from bursar.api.http.route import Body, Open, Parameter, Reply, Route
from bursar.api.wire.schemas import reference
from bursar.config.job.job_schema import job_schema
from bursar.model.jobs.job import JobState
from bursar.model.tenants.identity import Permission

KIB, MIB = 2**10, 2**20

LIMIT = Parameter(name="limit", about="How many at most.", least=1, most=1_000)
CURSOR = Parameter(
    name="cursor", about="next_cursor of the page before.", pattern=r"[A-Za-z0-9_-]+"
)
IDEMPOTENCY = Parameter(
    name=wire.IDEMPOTENCY_HEADER,
    about="Your own name for the request: sent twice, it is done once.",
    pattern=r"[!-~]+",
    max_length=128,
)
LAST_EVENT = Parameter(
    name=wire.LAST_EVENT_HEADER, about="Go on after this event.", pattern=r"[0-9]{1,18}"
)


@cache
def _job_document() -> dict[str, Any]:
    """The schema of a job, without the parts that only stand-alone schemas have."""
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
            "maxItems": submit.MOST_AT_ONCE,
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
        about="Whether the process answers, and whether it leads.",
        replies={200: Reply(about="It answers.", kind=wire.Alive)},
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
        about="Submit a job, as JSON or YAML. The answer comes when the job is durable.",
        replies={201: Reply(about="The job was taken.", kind=wire.SubmittedView)},
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
        about="Submit up to 1,000 jobs: all are taken, or none.",
        replies={201: Reply(about="All were taken.", kind=wire.BulkSubmitted)},
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
            Parameter(name="queue", about="Only of this queue; may be repeated.", is_repeated=True),
            Parameter(name="owner", about="Only of this user."),
            Parameter(name="name", about="Only of this name."),
            Parameter(
                name="label",
                about="Only with this label, as key=value.",
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
        about="One job, its attempts and its document.",
        replies={200: Reply(about="The job.", kind=wire.JobDetail)},
    ),
    Route(
        method="GET",
        path="/v1/jobs/{job_id}/why",
        needs=Permission.READ_JOBS,
        endpoint=jobs.why,
        about="Why it does not run, when it will, and what would start it now.",
        replies={200: Reply(about="The explanation.", kind=wire.ExplanationView)},
    ),
    Route(
        method="GET",
        path="/v1/jobs/{job_id}/interruptions",
        needs=Permission.READ_JOBS,
        endpoint=interruption_report.why_preempted,
        about="What interrupted a job, what that cost, and what would help.",
        replies={200: Reply(about="The story.", kind=wire.InterruptionReportView)},
        problems=(404,),
    ),
    Route(
        method="GET",
        path="/v1/jobs/{job_id}/events",
        needs=Permission.READ_JOBS,
        endpoint=jobs.job_events,
        about="Everything that happened to it.",
        replies={200: Reply(about="Its events, in order.", kind=wire.JobEvents)},
    ),
    Route(
        method="GET",
        path="/v1/jobs/{job_id}/logs",
        needs=Permission.READ_JOBS,
        endpoint=logs.logs,
        about="Its output; with follow=true as server-sent events, as it grows.",
        replies={200: Reply(about="The output.", media=(wire.TEXT, wire.EVENT_STREAM))},
        query=(
            Parameter(name="task", about="Only of this task.", least=0, most=1_000_000),
            Parameter(name="stream", about="Only this stream.", choices=("stdout", "stderr")),
            Parameter(name="tail", about="Only so many last lines.", least=0, most=1_000_000),
            Parameter(name="attempt", about="Of this attempt.", least=1, most=1_000_000),
            Parameter(name="follow", about="Go on as it grows.", choices=("true", "false")),
        ),
        headers=(Parameter(name=wire.LAST_EVENT_HEADER, about="Go on after this event."),),
    ),
    Route(
        method="POST",
        path="/v1/jobs/{job_id}:cancel",
        needs=Permission.WRITE_JOBS,
        endpoint=jobs.cancel,
        about="End it. Its own user may, and whoever leads.",
        replies={200: Reply(about="The job as it is now.", kind=wire.JobView)},
        writes=True,
        is_audited=True,
    ),
    Route(
        method="POST",
        path="/v1/jobs/{job_id}:retry",
        needs=Permission.WRITE_JOBS,
        endpoint=submit.retry,
        about="Submit a job that is over again, under a new id.",
        replies={201: Reply(about="The new job was taken.", kind=wire.SubmittedView)},
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
        about="What would become of a job: feasibility, place, start, cost. Nothing is submitted.",
        replies={200: Reply(about="The plan.", kind=wire.Plan)},
        body=_job_body(MIB),
    ),
    Route(
        method="GET",
        path="/v1/queue",
        needs=Permission.READ_JOBS,
        endpoint=queue.list_waiting,
        about="Waiting jobs in the order in which they come, with why and where each stands.",
        replies={200: Reply(about="A page of waiting jobs.", kind=wire.WaitingPage)},
        query=(LIMIT, CURSOR),
    ),
    Route(
        method="GET",
        path="/v1/events",
        needs=Permission.READ_JOBS,
        endpoint=events.follow_events,
        about="What happens to jobs, as server-sent events.",
        replies={200: Reply(about="Events as they come.", media=(wire.EVENT_STREAM,))},
        headers=(LAST_EVENT,),
    ),
    Route(
        method="GET",
        path="/v1/bundles/{sha256}",
        needs=Permission.WRITE_JOBS,
        endpoint=bundles.get_bundle,
        about="Whether your tenant has uploaded an archive already. HEAD asks the same.",
        replies={200: Reply(about="It is here.", kind=wire.StoredBundle)},
        takes_head=True,
    ),
    Route(
        method="PUT",
        path="/v1/bundles/{sha256}",
        needs=Permission.WRITE_JOBS,
        endpoint=bundles.put_bundle,
        about="Upload a tar.gz that jobs name by its SHA-256.",
        replies={
            200: Reply(about="It was there already.", kind=wire.StoredBundle),
            201: Reply(about="It is kept.", kind=wire.StoredBundle),
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
        about="Pools, nodes and GPUs, and who holds them.",
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
        about="Make the fleet what these files say, in one step.",
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
        about="What each tenant may hold, holds and borrows.",
        replies={200: Reply(about="One row for each tenant and resource.", kind=wire.QuotaPage)},
    ),
    Route(
        method="GET",
        path="/v1/rules",
        needs=Permission.READ_TENANTS,
        endpoint=findings.list_findings,
        about="What the house rules have to say about the fleet and its jobs as they are.",
        replies={200: Reply(about="One row for each finding.", kind=wire.FindingPage)},
    ),
    Route(
        method="GET",
        path="/v1/fair",
        needs=Permission.READ_TENANTS,
        endpoint=tenants.fair,
        about="What each tenant has had, against what it is promised.",
        replies={200: Reply(about="One row for each tenant.", kind=wire.FairPage)},
    ),
    Route(
        method="GET",
        path="/v1/tenants",
        needs=Permission.READ_TENANTS,
        endpoint=tenants.list_tenants,
        about="The tenants within reach.",
        replies={200: Reply(about="One row for each tenant.", kind=wire.TenantPage)},
    ),
)

PEOPLE = (
    Route(
        method="GET",
        path="/v1/whoami",
        needs=Open.TO_ANY_TOKEN,
        endpoint=tokens.whoami,
        about="Who the server takes you for.",
        replies={200: Reply(about="You.", kind=wire.WhoAmI)},
    ),
    Route(
        method="GET",
        path="/v1/tokens",
        needs=Permission.WRITE_TOKENS,
        endpoint=tokens.list_tokens,
        about="Tokens of the tenants within reach, never their secrets.",
        replies={200: Reply(about="One row for each token.", kind=wire.TokenPage)},
    ),
    Route(
        method="POST",
        path="/v1/tokens",
        needs=Permission.WRITE_TOKENS,
        endpoint=tokens.create_token,
        about="Make a token. Nobody grants more than he has. Its text is shown this once.",
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
        about="End a token, everywhere within a second.",
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
        endpoint=metrics.scrape,
        about="Figures for Prometheus: of the tenants within reach, and of the fleet for those who see it.",
        replies={200: Reply(about="Text, one figure a line.", media=(MEDIA_TYPE,))},
    ),
    Route(
        method="GET",
        path="/v1/health",
        needs=Permission.OPERATE,
        endpoint=operations.health,
        about="How the control plane is doing, in numbers.",
        replies={200: Reply(about="The numbers.")},
    ),
    Route(
        method="GET",
        path="/v1/audit",
        needs=Permission.OPERATE,
        endpoint=operations.audit,
        about="Who did or tried what, newest first.",
        replies={200: Reply(about="A page of entries.", kind=wire.AuditPage)},
        query=(LIMIT, CURSOR),
    ),
    Route(
        method="POST",
        path="/v1/jobs/{job_id}:interrupt",
        needs=Permission.OPERATE,
        endpoint=interrupt.interrupt,
        about="Take a running job's virtual node away, announced or not, to see what becomes of the job.",
        replies={200: Reply(about="The node, and when it goes.", kind=wire.InterruptedView)},
        problems=(409,),
        body=_json_body(reference(wire.InterruptionRequest), 4 * KIB),
        writes=True,
    ),
    Route(
        method="POST",
        path="/v1/nodes/{node}:drain",
        needs=Permission.OPERATE,
        endpoint=operations.drain,
        about="Let nothing new start on a node.",
        replies={200: Reply(about="Done.", kind=wire.NodeChanged)},
        writes=True,
    ),
    Route(
        method="POST",
        path="/v1/nodes/{node}:restore",
        needs=Permission.OPERATE,
        endpoint=operations.restore,
        about="Let a node take jobs again.",
        replies={200: Reply(about="Done.", kind=wire.NodeChanged)},
        writes=True,
    ),
)

ROUTES: tuple[Route, ...] = (*PUBLIC, *JOBS, *FLEET, *COST, *PEOPLE, *OPERATION)


def job_document_schema() -> dict[str, Any]:
    """The schema of a job document, for the components of OpenAPI."""
    return _job_document()
