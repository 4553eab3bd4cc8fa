"""On every route, resources of another tenant get the same response as missing ones.

The cases are made from the route table, so that new routes are covered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from bursar.api.http.route import Open, Route
from bursar.api.routes import ROUTES
from tests.api.harness import ApiHarness, open_harness
from tests.api.http_client import HttpClient, Response, job

OTHERS = ("bob", "lead_b", "admin_b", "gone")
STREAMS = {"GET /v1/events"}
MISSING = {"job_id": "j-zzzzzzzzzz", "token_id": "zzzzzzzzzzzzzzzz"}
SHARED = {"sha256", "node"}
"""Ids that belong to no tenant: archives are named by content, nodes belong to the installation."""

with_parameters = [route for route in ROUTES if route.path_parameters]
without_parameters = [
    route
    for route in ROUTES
    if not route.path_parameters and route.needs is not Open.TO_ALL and route.name not in STREAMS
]


@dataclass(frozen=True)
class TeamA:
    """Ids and names of what team A owns."""

    api: ApiHarness
    ids: dict[str, str]
    names: tuple[str, ...]


@pytest.fixture(scope="module")
def team_a(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TeamA]:
    with open_harness(tmp_path_factory.mktemp("state")) as api:
        labels = {"secret-label": "very-secret-value"}
        running = api.ann.submit("a-train", name="a-running-name", labels=labels)
        api.wait_for_state(running, "running")
        api.engine.path(running).write_text("a-secret-output\n")
        waiting = api.ann.submit(
            "a-train", name="a-waiting-name", resources={"accelerators": "T4:4"}
        )
        tokens = [one for one in api.server.app.context.tokens.all() if one.tenant == "team-a"]
        own = next(one for one in tokens if one.user == "amy")
        names = (
            *(running, waiting, "a-running-name", "a-waiting-name", "a-train", "a-dev", "team-a"),
            *("secret-label", "very-secret-value", "a-secret-output", '"ann"', '"amy"'),
            *(one.id for one in tokens),
        )
        yield TeamA(api, {"job_id": running, "token_id": own.id}, names)


def fill(route: Route, ids: dict[str, str]) -> str:
    path = route.path
    for name in route.path_parameters:
        path = path.replace(f"{{{name}}}", ids[name])
    return path


def send(client: HttpClient, route: Route, path: str) -> Response:
    body: Any = None
    headers = {}
    if route.body is not None:
        headers["Content-Type"] = next(iter(route.body.media))
        body = b"{}"
    return client.request(route.method, path, body, headers)


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("route", with_parameters, ids=lambda route: route.name)
def test_a_foreign_id_gets_the_response_of_a_missing_one(
    team_a: TeamA, route: Route, other: str
) -> None:
    if set(route.path_parameters) & SHARED:
        return
    client = team_a.api.client(other)
    foreign = send(client, route, fill(route, team_a.ids))
    missing = send(client, route, fill(route, MISSING))
    assert foreign.status in (403, 404)
    assert (foreign.status, _without_ids(foreign, team_a.ids)) == (
        missing.status,
        _without_ids(missing, MISSING),
    )
    assert _stable_headers(foreign) == _stable_headers(missing)


def _without_ids(response: Response, ids: dict[str, str]) -> bytes:
    body = response.without_request_id
    for one in ids.values():
        body = body.replace(one.encode(), b"ID")
    return body


def _stable_headers(response: Response) -> dict[str, str]:
    varying = {"date", "bursar-request-id", "content-length"}
    return {name: value for name, value in response.headers.items() if name not in varying}


@pytest.mark.parametrize("route", with_parameters, ids=lambda route: route.name)
def test_every_path_parameter_is_covered(route: Route) -> None:
    """A new kind of id must be added to MISSING or to SHARED."""
    assert set(route.path_parameters) <= MISSING.keys() | SHARED


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("route", without_parameters, ids=lambda route: route.name)
def test_a_response_contains_nothing_of_another_tenant(
    team_a: TeamA, route: Route, other: str
) -> None:
    response = send(team_a.api.client(other), route, route.path)
    text = response.body.decode()
    assert [name for name in team_a.names if name in text] == []


def test_the_owner_sees_all_of_these_names(team_a: TeamA) -> None:
    """Otherwise the tests that search for these names could not fail."""
    lead = team_a.api.lead_a
    paths = ["/v1/jobs", "/v1/queue", "/v1/tokens", "/v1/tenants", "/v1/fleet", "/v1/whoami"]
    paths.append(f"/v1/jobs/{team_a.ids['job_id']}/logs")
    text = "".join(lead.get(path).body.decode() for path in paths)
    assert [name for name in team_a.names if name not in text] == []


@pytest.mark.parametrize(
    "query",
    [
        "queue=a-train",
        "owner=ann",
        "name=a-running-name",
        "label=secret-label=very-secret-value",
        "state=running",
        "queue=a-train&queue=b-train",
    ],
)
def test_filters_match_no_foreign_jobs(team_a: TeamA, query: str) -> None:
    response = team_a.api.bob.get(f"/v1/jobs?{query}")
    assert response.json == {"items": [], "next_cursor": None}


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/plan"])
def test_a_foreign_queue_gets_the_response_of_a_missing_one(team_a: TeamA, path: str) -> None:
    bob = team_a.api.bob
    foreign, missing = bob.post(path, job("a-train")), bob.post(path, job("x-train"))
    assert foreign.status == missing.status == 422
    assert foreign.without_request_id.replace(b"a-train", b"Q") == (
        missing.without_request_id.replace(b"x-train", b"Q")
    )
    assert foreign.code == "unknown-queue"


def test_a_foreign_queue_rejects_the_whole_batch(team_a: TeamA) -> None:
    response = team_a.api.bob.post("/v1/jobs:bulk", {"jobs": [job("b-train"), job("a-train")]})
    assert response.status == 422
    assert team_a.api.bob.get("/v1/jobs").json["items"] == []


def test_a_foreign_dependency_gets_the_response_of_a_missing_one(team_a: TeamA) -> None:
    bob, foreign = team_a.api.bob, team_a.ids["job_id"]
    one = bob.post("/v1/jobs", job("b-train", depends_on=[foreign]))
    other = bob.post("/v1/jobs", job("b-train", depends_on=["j-zzzzzzzzzz"]))
    assert one.status == other.status == 422
    assert one.without_request_id.replace(foreign.encode(), b"ID") == (
        other.without_request_id.replace(b"j-zzzzzzzzzz", b"ID")
    )


def test_explanations_do_not_name_foreign_jobs(tmp_path: Any) -> None:
    with open_harness(tmp_path) as api:
        for _ in range(4):
            api.wait_for_state(api.ann.submit("a-train", name="a-name"), "running")
        api.wait_until(lambda: b"a-train" in api.ann.get("/v1/fleet").body, "the holder is shown")
        waiting = api.bob.submit("b-train", resources={"accelerators": "T4:4"})
        for path in (f"/v1/jobs/{waiting}/why", "/v1/queue", "/v1/fleet"):
            text = api.bob.get(path).body.decode()
            assert "a-train" not in text and "a-name" not in text
        planned = api.bob.post("/v1/plan", job("b-train", resources={"accelerators": "T4:4"}))
        assert planned.status == 200
        assert b"a-train" not in planned.body


def test_a_token_of_a_removed_tenant_sees_nothing(team_a: TeamA) -> None:
    gone = team_a.api.gone
    assert gone.get("/v1/jobs").json["items"] == []
    assert gone.get("/v1/whoami").json["queues"] == []
    assert gone.post("/v1/jobs", job("a-train")).code == "unknown-queue"


def test_access_to_a_foreign_job_is_audited(team_a: TeamA) -> None:
    foreign = team_a.ids["job_id"]
    team_a.api.bob.get(f"/v1/jobs/{foreign}")

    def is_audited() -> bool:
        return any(
            one["outcome"] == "hidden" and one["user"] == "bob" and foreign in one["detail"]
            for one in team_a.api.admin.get("/v1/audit?limit=1000").json["items"]
        )

    team_a.api.wait_until(is_audited, "the access is in the audit log")


def test_an_unknown_archive_is_rejected(team_a: TeamA) -> None:
    sha256 = hashlib.sha256(b"never sent").hexdigest()
    response = team_a.api.bob.post("/v1/jobs", job("b-train", workdir=f"sha256:{sha256}"))
    assert (response.status, response.code) == (422, "no-such-bundle")
