"""Tokens over HTTP, and two processes that share a database."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

import pytest

from bursar.control.access.permissions import RANK
from bursar.model.tenants.identity import Role
from tests.api.asking import Asker, job
from tests.api.scene import PEOPLE, Scene, Served, WritingEngine, open_plane, serving

TENANTS = ("", "acme", "team-a", "a-train", "team-b", "b-train")


def test_a_token_is_shown_once(scene: Scene) -> None:
    made = scene.lead_a.post(
        "/v1/tokens", {"user": "new", "role": "member", "tenant": "team-a"}
    ).json
    secret = made["token"].removeprefix(f"bur_{made['id']}_")
    assert len(secret) == 43, "a secret may contain the underscore that parts a token"
    assert Asker(scene.served.port, made["token"]).get("/v1/whoami").json["user"] == "new"
    listed = scene.lead_a.get("/v1/tokens").body.decode()
    assert made["id"] in listed and secret not in listed and "sha256" not in listed
    for file in scene.folder.rglob("*"):
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file


def test_a_token_ends_when_it_was_to_end(scene: Scene) -> None:
    made = scene.lead_a.post(
        "/v1/tokens",
        {"user": "new", "role": "viewer", "tenant": "team-a", "expires_in_seconds": 1},
    ).json
    asker = Asker(scene.served.port, made["token"])
    assert asker.get("/v1/whoami").status == 200
    scene.until(lambda: asker.get("/v1/whoami").status in (401, 429), "it has expired")


@pytest.mark.parametrize("giver", sorted(set(PEOPLE) - {"gone"}))
def test_the_matrix_of_grants(scene: Scene, giver: str) -> None:
    """Everybody tries to make everybody: what is granted is never more than the giver has."""
    _, giver_role, giver_tenant = PEOPLE[giver]
    own = set(scene.asker(giver).get("/v1/whoami").json["permissions"])
    within = {
        "": set(TENANTS),
        "team-a": {"team-a", "a-train"},
        "team-b": {"team-b", "b-train"},
    }[giver_tenant]
    for role, tenant in itertools.product(Role, TENANTS):
        told = scene.asker(giver).post(
            "/v1/tokens", {"user": "x", "role": role.value, "tenant": tenant}
        )
        allowed = (
            RANK[giver_role] >= RANK[Role.LEAD]
            and RANK[role] <= RANK[giver_role]
            and tenant in within
        )
        assert (told.status == 201) is allowed, (giver, role, tenant, told.body)
        if allowed:
            assert set(told.json["scopes"]) <= own
        else:
            assert told.status in (403, 404)


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
def test_a_wrong_wish_makes_no_token(scene: Scene, body: object) -> None:
    before = len(scene.admin.get("/v1/tokens").json["items"])
    told = scene.admin.post("/v1/tokens", body if isinstance(body, dict) else b"[]")
    assert told.status in (415, 422)
    assert len(scene.admin.get("/v1/tokens").json["items"]) == before


def test_nobody_revokes_above_himself(scene: Scene) -> None:
    made = scene.admin.post("/v1/tokens", {"user": "x", "role": "admin", "tenant": "team-a"}).json
    assert scene.lead_a.post(f"/v1/tokens/{made['id']}:revoke").code == "forbidden"
    assert scene.lead_b.post(f"/v1/tokens/{made['id']}:revoke").code == "no-such-token"
    assert scene.admin.post(f"/v1/tokens/{made['id']}:revoke").status == 200


def test_granting_and_revoking_are_written_down(scene: Scene) -> None:
    made = scene.lead_a.post("/v1/tokens", {"user": "x", "role": "viewer", "tenant": "team-a"}).json
    scene.lead_a.post(f"/v1/tokens/{made['id']}:revoke")

    def is_written() -> bool:
        items = scene.admin.get("/v1/audit?limit=1000").json["items"]
        done = {
            one["action"]
            for one in items
            if made["id"] in one["subject"] and one["outcome"] == "done" and one["user"] == "amy"
        }
        return done == {"POST /v1/tokens", "POST /v1/tokens/{token_id}:revoke"}

    scene.until(is_written, "both are in the audit log")


# -- a second process --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def follower(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Another server on the same database. The first one leads."""
    engine = WritingEngine(tmp_path_factory.mktemp("other"))
    with (
        open_plane(scene.folder, engine, "http://127.0.0.1:2") as plane,
        serving(plane, scene.folder) as served,
    ):
        assert not plane.is_leader
        yield served


def test_a_follower_answers_questions(scene: Scene, follower: Served) -> None:
    made = scene.ann.submit("a-train", resources={"cpus": 1})
    ann = scene.asker("ann", follower.port)
    assert ann.get(f"/v1/jobs/{made}").status == 200
    for path in ("/v1/jobs", "/v1/queue", "/v1/fleet", "/v1/quota", "/v1/fair", "/v1/tenants"):
        assert ann.get(path).status == 200, path
    assert ann.get("/healthz").json["leader"] is False
    scene.until(lambda: ann.get(f"/v1/jobs/{made}/why").status == 200, "it has caught up")


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
def test_a_follower_says_who_writes(
    scene: Scene, follower: Served, name: str, method: str, path: str
) -> None:
    told = scene.asker(name, follower.port).ask(method, path, job("a-train"))
    assert (told.status, told.code) == (503, "not-leader")
    assert told.json["leader"] == "http://127.0.0.1:1" and told.headers["retry-after"] == "1"


def test_a_revocation_counts_in_the_other_process_within_a_second(
    scene: Scene, follower: Served
) -> None:
    made = scene.lead_a.post("/v1/tokens", {"user": "x", "role": "viewer", "tenant": "team-a"}).json
    there = Asker(follower.port, made["token"])
    here = Asker(scene.served.port, made["token"])
    scene.until(lambda: there.get("/v1/whoami").status == 200, "it is known there")
    assert scene.lead_a.post(f"/v1/tokens/{made['id']}:revoke").status == 200
    assert here.get("/v1/whoami").status == 401
    time.sleep(1.0)
    assert there.get("/v1/whoami").status == 401


def test_a_follower_follows_the_log(scene: Scene, follower: Served) -> None:
    with scene.asker("bob", follower.port).events("/v1/events") as events:
        scene.until(lambda: follower.app.context.hub._followers, "bob follows")
        made = scene.bob.submit("b-train", resources={"cpus": 1})
        assert events.next()["data"]["job_id"] == made
