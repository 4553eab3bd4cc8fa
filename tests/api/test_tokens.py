"""Tokens over HTTP, and two processes that share a database."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest

from bursar.control.access.permissions import RANK
from bursar.model.tenants.identity import Role
from tests.api.harness import (
    USERS,
    ApiHarness,
    LogWritingEngine,
    RunningServer,
    open_plane,
    serve_in_background,
)
from tests.api.http_client import HttpClient, job

TENANTS = ("", "acme", "team-a", "a-train", "team-b", "b-train")


def test_the_text_of_a_token_is_shown_once(api: ApiHarness) -> None:
    created = api.lead_a.post(
        "/v1/tokens", {"user": "new", "role": "member", "tenant": "team-a"}
    ).json
    secret = created["token"].removeprefix(f"bur_{created['id']}_")
    assert len(secret) == 43, (
        "a secret may contain underscores, which separate the parts of a token"
    )
    assert HttpClient(api.server.port, created["token"]).get("/v1/whoami").json["user"] == "new"
    listed = api.lead_a.get("/v1/tokens").body.decode()
    assert created["id"] in listed and secret not in listed and "sha256" not in listed
    for file in api.folder.rglob("*"):
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file


def test_a_token_expires(api: ApiHarness) -> None:
    created = api.lead_a.post(
        "/v1/tokens",
        {"user": "new", "role": "viewer", "tenant": "team-a", "expires_in_seconds": 1},
    ).json
    client = HttpClient(api.server.port, created["token"])
    assert client.get("/v1/whoami").status == 200
    api.wait_until(lambda: client.get("/v1/whoami").status in (401, 429), "the token has expired")


@pytest.mark.parametrize("grantor", sorted(set(USERS) - {"gone"}))
def test_a_new_token_never_exceeds_its_creator(api: ApiHarness, grantor: str) -> None:
    """Every user creates every kind of token: none exceeds the permissions of its creator."""
    _, grantor_role, grantor_tenant = USERS[grantor]
    own = set(api.client(grantor).get("/v1/whoami").json["permissions"])
    covered = {
        "": set(TENANTS),
        "team-a": {"team-a", "a-train"},
        "team-b": {"team-b", "b-train"},
    }[grantor_tenant]
    for role, tenant in itertools.product(Role, TENANTS):
        response = api.client(grantor).post(
            "/v1/tokens", {"user": "x", "role": role.value, "tenant": tenant}
        )
        allowed = (
            RANK[grantor_role] >= RANK[Role.LEAD]
            and RANK[role] <= RANK[grantor_role]
            and tenant in covered
        )
        assert (response.status == 201) is allowed, (grantor, role, tenant, response.body)
        if allowed:
            assert set(response.json["scopes"]) <= own
        else:
            assert response.status in (403, 404)


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"user": "x", "role": "owner", "tenant": ""},
        {"user": "", "role": "viewer", "tenant": ""},
        {"user": "a\nb", "role": "viewer", "tenant": ""},
        {"user": "x" * 129, "role": "viewer", "tenant": ""},
        {"user": "x", "role": "viewer", "tenant": "", "scopes": "jobs:read"},
        {"user": "x", "role": "viewer", "tenant": "", "scopes": ["all"]},
        {"user": "x", "role": "viewer", "tenant": "", "expires_in_seconds": 0},
        {"user": "x", "role": "viewer", "tenant": "", "expires_in_seconds": True},
        {"user": "x", "role": "viewer", "tenant": "", "expires_in_seconds": 10**12},
        {"user": "x", "role": "viewer", "tenant": "", "id": "mine"},
        {"user": "x", "role": "viewer", "tenant": "", "created_by": "root"},
        {"user": "x", "role": ["viewer"], "tenant": None},
    ],
)
def test_a_bad_request_creates_no_token(api: ApiHarness, body: object) -> None:
    before = len(api.admin.get("/v1/tokens").json["items"])
    response = api.admin.post("/v1/tokens", body if isinstance(body, dict) else b"[]")
    assert response.status in (415, 422)
    assert len(api.admin.get("/v1/tokens").json["items"]) == before


def test_a_token_of_a_higher_role_cannot_be_revoked(api: ApiHarness) -> None:
    created = api.admin.post("/v1/tokens", {"user": "x", "role": "admin", "tenant": "team-a"}).json
    assert api.lead_a.post(f"/v1/tokens/{created['id']}:revoke").code == "forbidden"
    assert api.lead_b.post(f"/v1/tokens/{created['id']}:revoke").code == "no-such-token"
    assert api.admin.post(f"/v1/tokens/{created['id']}:revoke").status == 200


def test_granting_and_revoking_are_audited(api: ApiHarness) -> None:
    created = api.lead_a.post(
        "/v1/tokens", {"user": "x", "role": "viewer", "tenant": "team-a"}
    ).json
    api.lead_a.post(f"/v1/tokens/{created['id']}:revoke")

    def is_audited() -> bool:
        items = api.admin.get("/v1/audit?limit=1000").json["items"]
        done = {
            one["action"]
            for one in items
            if created["id"] in one["subject"] and one["outcome"] == "done" and one["user"] == "amy"
        }
        return done == {"POST /v1/tokens", "POST /v1/tokens/{token_id}:revoke"}

    api.wait_until(is_audited, "both are in the audit log")


# -- a second process --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def follower(api: ApiHarness, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Another server on the same database. The first one is the leader."""
    engine = LogWritingEngine(tmp_path_factory.mktemp("other"))
    with (
        open_plane(api.folder, engine, "http://127.0.0.1:2") as plane,
        serve_in_background(plane, api.folder) as server,
    ):
        assert not plane.is_leader
        yield server


def test_a_follower_serves_reads(api: ApiHarness, follower: RunningServer) -> None:
    job_id = api.ann.submit("a-train", resources={"cpus": 1})
    ann = api.client("ann", follower.port)
    assert ann.get(f"/v1/jobs/{job_id}").status == 200
    for path in ("/v1/jobs", "/v1/queue", "/v1/fleet", "/v1/quota", "/v1/fair", "/v1/tenants"):
        assert ann.get(path).status == 200, path
    assert ann.get("/healthz").json["leader"] is False
    api.wait_until(
        lambda: ann.get(f"/v1/jobs/{job_id}/why").status == 200, "the follower has caught up"
    )


@pytest.mark.parametrize(
    ("name", "method", "path"),
    [
        ("ann", "POST", "/v1/jobs"),
        ("ann", "POST", "/v1/jobs:bulk"),
        ("ann", "POST", "/v1/jobs/j-aaaaaaaaaa:cancel"),
        ("lead_a", "POST", "/v1/tokens"),
        ("admin", "POST", "/v1/nodes/t4-0001:drain"),
        ("admin", "POST", "/v1/fleet:apply"),
        ("ann", "PUT", "/v1/bundles/" + "0" * 64),
    ],
)
def test_a_follower_rejects_writes_and_names_the_leader(
    api: ApiHarness, follower: RunningServer, name: str, method: str, path: str
) -> None:
    response = api.client(name, follower.port).request(method, path, job("a-train"))
    assert (response.status, response.code) == (503, "not-leader")
    assert (
        response.json["leader"] == "http://127.0.0.1:1" and response.headers["retry-after"] == "1"
    )


def test_a_revocation_applies_to_the_follower_within_a_second(
    api: ApiHarness, follower: RunningServer
) -> None:
    created = api.lead_a.post(
        "/v1/tokens", {"user": "x", "role": "viewer", "tenant": "team-a"}
    ).json
    follower_client = HttpClient(follower.port, created["token"])
    leader_client = HttpClient(api.server.port, created["token"])
    api.wait_until(
        lambda: follower_client.get("/v1/whoami").status == 200, "the follower knows the token"
    )
    assert api.lead_a.post(f"/v1/tokens/{created['id']}:revoke").status == 200
    assert leader_client.get("/v1/whoami").status == 401
    time.sleep(1.0)
    assert follower_client.get("/v1/whoami").status == 401


def test_a_follower_streams_new_events(api: ApiHarness, follower: RunningServer) -> None:
    with api.client("bob", follower.port).events("/v1/events") as events:
        api.wait_until(lambda: follower.app.context.hub._followers, "the stream is open")
        job_id = api.bob.submit("b-train", resources={"cpus": 1})
        assert events.next()["data"]["job_id"] == job_id
