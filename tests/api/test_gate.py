"""What stands before every route: host, site, token, permission; and that no route is without."""

from __future__ import annotations

import http.client
from dataclasses import replace
from pathlib import Path

import pytest

from bursar.api.app import App
from bursar.api.http.authentication import check_bind
from bursar.api.http.errors import CODES
from bursar.api.http.request import ApiSettings
from bursar.api.http.route import Open, Route
from bursar.api.routes import ROUTES
from bursar.control.monotonic_clock import MonotonicClock
from bursar.model.errors import BrokenInvariant, UserError
from bursar.model.tenants.identity import Permission
from tests.api.asking import Asker, job
from tests.api.scene import Scene

UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
ANY_ID = {"job_id": "j-aaaaaaaaaa", "token_id": "aaaa", "sha256": "0" * 64, "node": "t4-0001"}

guarded = [route for route in ROUTES if route.needs is not Open.TO_ALL]


def path_of(route: Route) -> str:
    path = route.path
    for name, value in ANY_ID.items():
        path = path.replace(f"{{{name}}}", value)
    return path


# -- deny by default ---------------------------------------------------------------------------------


@pytest.mark.parametrize("needs", [None, "jobs:read", ""])
def test_a_route_that_does_not_say_who_may_use_it_stops_the_server(
    scene: Scene, tmp_path: Path, needs: object
) -> None:
    undeclared = replace(ROUTES[3], path="/v1/new", needs=needs)
    with pytest.raises(BrokenInvariant, match="declares no permission"):
        App(
            scene.plane, ApiSettings(state_folder=tmp_path), MonotonicClock(), (*ROUTES, undeclared)
        )


def test_a_route_that_stands_twice_stops_the_server(scene: Scene, tmp_path: Path) -> None:
    with pytest.raises(BrokenInvariant, match="is twice in the route table"):
        App(scene.plane, ApiSettings(state_folder=tmp_path), MonotonicClock(), (*ROUTES, ROUTES[0]))


@pytest.mark.parametrize("route", guarded, ids=lambda route: route.name)
def test_no_route_answers_without_a_token(scene: Scene, route: Route) -> None:
    told = scene.asker().ask(route.method, path_of(route))
    assert (told.status, told.code) == (401, "no-token")
    assert told.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("route", guarded, ids=lambda route: route.name)
def test_no_route_answers_to_a_token_without_its_permission(scene: Scene, route: Route) -> None:
    if not isinstance(route.needs, Permission):
        return
    others = [one.value for one in Permission if one is not route.needs]
    made = scene.admin.post(
        "/v1/tokens", {"user": "narrow", "role": "admin", "tenant": "", "scopes": others}
    )
    narrow = Asker(scene.served.port, made.json["token"])
    told = narrow.ask(route.method, path_of(route))
    assert (told.status, told.code) == (403, "forbidden")
    assert route.needs.value in told.json["detail"]


def test_each_denial_is_written_down(scene: Scene) -> None:
    scene.viewer_a.post("/v1/jobs", job("a-train"))
    scene.bob.get("/v1/health")
    wanted = {("vic", "POST /v1/jobs", "denied"), ("bob", "GET /v1/health", "denied")}

    def is_written() -> bool:
        items = scene.admin.get("/v1/audit?limit=1000").json["items"]
        return wanted <= {(one["user"], one["action"], one["outcome"]) for one in items}

    scene.until(is_written, "both denials are in the audit log")


# -- hosts and sites ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "",
        "127.0.0.1@evil.example",
        "[::1",
        "0.0.0.0",
        "localhost:evil",
    ],
)
def test_another_name_is_not_answered_to(scene: Scene, host: str) -> None:
    told = scene.ann.get("/v1/jobs", Host=host)
    assert told.status in (400, 421)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:7070", "localhost", "LOCALHOST:1", "[::1]:9"]
)
def test_names_of_this_machine_are_answered_to(scene: Scene, host: str) -> None:
    assert scene.ann.get("/v1/jobs", Host=host).status == 200


@pytest.mark.parametrize("method", UNSAFE)
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "file:" + "///etc"},
        {"Origin": "http://[", "Sec-Fetch-Site": "none"},
    ],
)
def test_no_other_site_changes_anything(scene: Scene, method: str, headers: dict[str, str]) -> None:
    for path in ("/v1/jobs", "/v1/no-such-route", f"/v1/bundles/{'0' * 64}"):
        told = scene.admin.ask(method, path, b"{}", headers)
        assert (told.status, told.code) == (403, "cross-site")


def test_our_own_pages_may_change_things(scene: Scene) -> None:
    own = f"http://127.0.0.1:{scene.served.port}"
    told = scene.ann.ask("POST", "/v1/plan", job("a-train"), {"Origin": own})
    assert told.status == 200


def test_there_is_no_leave_for_other_sites(scene: Scene) -> None:
    told = scene.ann.ask(
        "OPTIONS", "/v1/jobs", headers={"Origin": "http://evil.example", "Host": "localhost"}
    )
    assert told.status == 405
    assert not [name for name in told.headers if name.startswith("access-control")]


def test_every_answer_carries_the_headers_that_keep_browsers_honest(scene: Scene) -> None:
    for told in (scene.asker().get("/healthz"), scene.ann.get("/v1/jobs"), scene.ann.get("/x")):
        assert told.headers["x-content-type-options"] == "nosniff"
        assert told.headers["x-frame-options"] == "DENY"
        assert "default-src 'none'" in told.headers["content-security-policy"]
        assert told.headers["cache-control"] == "no-store"
        assert "server" not in told.headers


# -- ways around -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/health/"),
        ("GET", "//v1/health"),
        ("GET", "/v1//health"),
        ("GET", "/V1/health"),
        ("GET", "/v1/./health"),
        ("GET", "/v1/x/../health"),
        ("GET", "/v1/%2e/health"),
        ("GET", "/v1/jobs/%2e%2e/health"),
        ("GET", "/v1%2fhealth%2f"),
        ("GET", "/v1/health;x"),
        ("GET", "/v1/health%00"),
        ("HEAD", "/v1/health"),
        ("OPTIONS", "/v1/health"),
        ("DELETE", "/v1/health"),
        ("PATCH", "/v1/health"),
        ("TRACE", "/v1/health"),
        ("FOO", "/v1/health"),
        ("get", "/v1/health"),
    ],
)
def test_no_spelling_leads_around_the_permission(scene: Scene, method: str, path: str) -> None:
    told = scene.bob.ask(method, path)
    assert told.status in (400, 401, 403, 404, 405)


@pytest.mark.parametrize(
    "headers",
    [
        {"X-HTTP-Method-Override": "POST"},
        {"X-HTTP-Method": "DELETE"},
        {"X-Original-URL": "/v1/health"},
        {"X-Rewrite-URL": "/v1/health"},
        {"X-Forwarded-For": "127.0.0.1"},
        {"X-Forwarded-User": "root"},
        {"X-Auth-Request-Email": "root@example.org"},
        {"X-Bursar-User": "root"},
    ],
)
def test_headers_change_neither_who_asks_nor_what(scene: Scene, headers: dict[str, str]) -> None:
    told = scene.bob.ask("GET", "/v1/whoami", headers=headers)
    assert told.status == 200 and told.json["user"] == "bob"
    assert scene.bob.ask("GET", "/v1/health", headers=headers).status == 403


def test_wrong_methods_say_which_are_right(scene: Scene) -> None:
    told = scene.ann.ask("DELETE", "/v1/jobs")
    assert (told.status, told.headers["allow"]) == (405, "GET, POST")


# -- strangers ---------------------------------------------------------------------------------------


def test_bad_tokens_are_slowed_down_and_good_ones_are_not(scene: Scene) -> None:
    bad = Asker(scene.served.port, "bur_aaaaaaaaaaaaaaaa_" + "A" * 43)
    statuses = [bad.get("/v1/jobs").status for _ in range(15)]
    assert statuses[0] == 401 and statuses[-1] == 429
    assert bad.get("/v1/jobs").headers["retry-after"] == "1"
    assert scene.ann.get("/v1/jobs").status == 200


@pytest.mark.parametrize(
    "given",
    ["Basic YTpi", "Bearer", "Bearer ", "bur_aaaaaaaaaaaaaaaa_" + "A" * 43, "Token x", ""],
)
def test_other_ways_to_say_who_one_is_are_no_token(scene: Scene, given: str) -> None:
    told = scene.asker().get("/v1/jobs", Authorization=given)
    assert (told.status, told.code) == (401, "no-token")


def test_a_header_that_decides_stands_once(scene: Scene) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", scene.served.port, timeout=20)
    connection.putrequest("GET", "/v1/whoami")
    connection.putheader("Authorization", f"Bearer {scene.tokens['bob']}")
    connection.putheader("Authorization", f"Bearer {scene.tokens['admin']}")
    connection.endheaders()
    assert connection.getresponse().status == 400
    connection.close()


# -- binding -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "::1", "[::1]"])
def test_this_machine_may_be_bound(host: str) -> None:
    check_bind(host, allow_remote=False)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "192.168.1.5", "example.org", "", "*", "localhost."]
)
def test_anything_else_needs_an_explicit_word(host: str) -> None:
    with pytest.raises(UserError) as refused:
        check_bind(host, allow_remote=False)
    assert refused.value.code == "remote-bind" and "--allow-remote" in refused.value.fix
    check_bind(host, allow_remote=True)


# -- problems ----------------------------------------------------------------------------------------


def test_every_problem_has_the_same_form(scene: Scene) -> None:
    for told in (
        scene.ann.get("/v1/none"),
        scene.ann.ask("DELETE", "/v1/jobs"),
        scene.ann.post("/v1/jobs", b"{", Content_Type="application/json"),
        scene.ann.post("/v1/jobs", b"x", Content_Type="text/html"),
        scene.ann.get("/v1/jobs?limit=0"),
        scene.ann.get("/v1/jobs/j-none"),
        scene.asker().get("/v1/jobs"),
    ):
        assert told.headers["content-type"] == "application/problem+json"
        problem = told.json
        assert set(problem) == {
            *("type", "title", "status", "detail", "code", "fix", "request_id"),
        }
        assert problem["status"] == told.status == CODES[problem["code"]].status
        assert problem["type"] == f"urn:bursar:problem:{problem['code']}"
        assert problem["request_id"] == told.headers["bursar-request-id"]
        assert problem["detail"] and problem["fix"]


def test_an_error_of_ours_shows_nothing_of_the_inside(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> object:
        raise ZeroDivisionError("the password is hunter2")

    monkeypatch.setattr(scene.plane.reader, "jobs", broken, raising=False)
    told = scene.ann.get("/v1/jobs")
    assert (told.status, told.code) == (500, "internal-error")
    assert b"hunter2" not in told.body and b"Traceback" not in told.body
    logged = [record.getMessage() for record in caplog.records if record.exc_info]
    assert any(told.json["request_id"] in line for line in logged)


def test_health_is_open_and_says_little(scene: Scene) -> None:
    assert set(scene.asker().get("/healthz").json) == {"status", "leader", "version"}
