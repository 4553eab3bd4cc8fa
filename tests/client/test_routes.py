"""The client has a method for every route of the API, and each method calls its route."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

import pytest

from bursar.api.routes import ROUTES
from bursar.client import Client
from bursar.client.bundle import pack_files
from tests.client.fake_server import FakeServer, RecordedRequest, Reply, problem, run_fake_server

SHA256 = "0" * 64

CALLS: dict[str, Callable[[Client], object]] = {
    "GET /healthz": lambda client: client.alive(),
    "GET /v1/openapi.json": lambda client: client.openapi(),
    "GET /v1/schema/job.json": lambda client: client.schema("job"),
    "GET /v1/schema/fleet.json": lambda client: client.schema("fleet"),
    "POST /v1/jobs": lambda client: client.submit({"run": "true"}),
    "POST /v1/jobs:bulk": lambda client: client.submit_many([{"run": "true"}]),
    "GET /v1/jobs": lambda client: list(client.jobs()),
    "GET /v1/jobs/{job_id}": lambda client: client.show("j-a"),
    "GET /v1/jobs/{job_id}/why": lambda client: client.why("j-a"),
    "GET /v1/jobs/{job_id}/interruptions": lambda client: client.why_preempted("j-a"),
    "GET /v1/jobs/{job_id}/events": lambda client: client.events_of("j-a"),
    "GET /v1/jobs/{job_id}/logs": lambda client: client.log_text("j-a"),
    "POST /v1/jobs/{job_id}:cancel": lambda client: client.cancel("j-a"),
    "POST /v1/jobs/{job_id}:retry": lambda client: client.retry("j-a"),
    "POST /v1/plan": lambda client: client.plan({"run": "true"}),
    "GET /v1/queue": lambda client: list(client.queue()),
    "GET /v1/events": lambda client: list(client.watch()),
    "GET /v1/bundles/{sha256}": lambda client: client.stored_bundle("0" * 64),
    "PUT /v1/bundles/{sha256}": lambda client: client.upload(pack_files({"a": b"1"})),
    "GET /v1/fleet": lambda client: client.fleet(),
    "POST /v1/fleet:plan": lambda client: client.plan_fleet({"fleet.yaml": ""}),
    "POST /v1/fleet:apply": lambda client: client.apply_fleet({"fleet.yaml": ""}, 1),
    "GET /v1/quota": lambda client: client.quota(),
    "GET /v1/fair": lambda client: client.fair(),
    "GET /metrics": lambda client: client.metrics(),
    "GET /v1/budgets": lambda client: client.cost.budgets(),
    "POST /v1/jobs/{job_id}:interrupt": lambda client: client.interrupt("j-a"),
    "GET /v1/rules": lambda client: client.findings(),
    "GET /v1/cost/report": lambda client: client.cost.report(),
    "GET /v1/cost/diff": lambda client: client.cost.diff(),
    "GET /v1/cost/forecast": lambda client: client.cost.forecast(),
    "GET /v1/cost/statement": lambda client: client.cost.statement(),
    "GET /v1/cost/savings": lambda client: client.cost.savings(),
    "GET /v1/cost/export": lambda client: client.cost.export(),
    "POST /v1/cost/bills": lambda client: client.cost.bill(
        {"pool": "t4", "from_day": "2026-11-01", "to_day": "2026-11-02", "billed_micro_usd": 1}
    ),
    "GET /v1/tenants": lambda client: client.tenants(),
    "GET /v1/whoami": lambda client: client.whoami(),
    "GET /v1/tokens": lambda client: client.tokens(),
    "POST /v1/tokens": lambda client: client.create_token(
        {"user": "ada", "role": "member", "tenant": "vision"}
    ),
    "POST /v1/tokens/{token_id}:revoke": lambda client: client.revoke_token("abc"),
    "GET /v1/health": lambda client: client.health(),
    "GET /v1/audit": lambda client: list(client.audit()),
    "POST /v1/nodes/{node}:drain": lambda client: client.drain("n1"),
    "POST /v1/nodes/{node}:restore": lambda client: client.restore("n1"),
}


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    with run_fake_server() as one:
        yield one


def test_every_route_has_a_method() -> None:
    names = {f"{route.method} {route.path}" for route in ROUTES}
    assert names - CALLS.keys() == set()
    assert CALLS.keys() - names <= {"GET /v1/openapi.json"}


@pytest.mark.parametrize("name", sorted(CALLS))
def test_a_method_calls_its_route(server: FakeServer, name: str) -> None:
    method, path = name.split()
    pattern = re.compile(re.sub(r"\\{\w+\\}", "[^/:]+", re.escape(path)))
    requests: list[RecordedRequest] = []

    def reply(request: RecordedRequest) -> Reply:
        if request.method == "HEAD":
            return problem(405, "wrong-method")
        requests.append(request)
        return Reply({"items": [], "next_cursor": None, "ids": ["j-a"], "id": "j-a"})

    server.by_prefix["/"] = reply
    with Client(server.address, "t") as client, contextlib.suppress(KeyError):
        CALLS[name](client)
    assert {(one.method, bool(pattern.fullmatch(one.path))) for one in requests} == {(method, True)}
