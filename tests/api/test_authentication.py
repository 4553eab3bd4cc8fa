"""Checks before every route: host, origin, token and permission."""

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
from tests.api.harness import ApiHarness
from tests.api.http_client import HttpClient, job

UNSAFE = ("POST", "PUT", "PATCH", "DELETE")
ANY_ID = {"job_id": "j-aaaaaaaaaa", "token_id": "aaaa", "sha256": "0" * 64, "node": "t4-0001"}

guarded = [route for route in ROUTES if route.needs is not Open.TO_ALL]


def example_path(route: Route) -> str:
    path = route.path
    for name, value in ANY_ID.items():
        path = path.replace(f"{{{name}}}", value)
    return path


# -- deny by default ---------------------------------------------------------------------------------


@pytest.mark.parametrize("needs", [None, "jobs:read", ""])
def test_a_route_without_a_permission_stops_the_server(
    api: ApiHarness, tmp_path: Path, needs: object
) -> None:
    undeclared = replace(ROUTES[3], path="/v1/new", needs=needs)
    with pytest.raises(BrokenInvariant, match="declares no permission"):
        App(api.plane, ApiSettings(state_folder=tmp_path), MonotonicClock(), (*ROUTES, undeclared))


def test_a_duplicate_route_stops_the_server(api: ApiHarness, tmp_path: Path) -> None:
    with pytest.raises(BrokenInvariant, match="is twice in the route table"):
        App(api.plane, ApiSettings(state_folder=tmp_path), MonotonicClock(), (*ROUTES, ROUTES[0]))


@pytest.mark.parametrize("route", guarded, ids=lambda route: route.name)
def test_every_route_requires_a_token(api: ApiHarness, route: Route) -> None:
    response = api.client().request(route.method, example_path(route))
    assert (response.status, response.code) == (401, "no-token")
    assert response.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("route", guarded, ids=lambda route: route.name)
def test_every_route_requires_its_permission(api: ApiHarness, route: Route) -> None:
    if not isinstance(route.needs, Permission):
        return
    other_scopes = [one.value for one in Permission if one is not route.needs]
    created = api.admin.post(
        "/v1/tokens", {"user": "narrow", "role": "admin", "tenant": "", "scopes": other_scopes}
    )
    narrow = HttpClient(api.server.port, created.json["token"])
    response = narrow.request(route.method, example_path(route))
    assert (response.status, response.code) == (403, "forbidden")
    assert route.needs.value in response.json["detail"]


def test_denials_are_audited(api: ApiHarness) -> None:
    api.viewer_a.post("/v1/jobs", job("a-train"))
    api.bob.get("/v1/health")
    expected = {("vic", "POST /v1/jobs", "denied"), ("bob", "GET /v1/health", "denied")}

    def is_audited() -> bool:
        items = api.admin.get("/v1/audit?limit=1000").json["items"]
        return expected <= {(one["user"], one["action"], one["outcome"]) for one in items}

    api.wait_until(is_audited, "both denials are in the audit log")


# -- hosts and origins -------------------------------------------------------------------------------


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
def test_an_unknown_host_is_rejected(api: ApiHarness, host: str) -> None:
    response = api.ann.get("/v1/jobs", Host=host)
    assert response.status in (400, 421)


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:7070", "localhost", "LOCALHOST:1", "[::1]:9"]
)
def test_loopback_hosts_are_accepted(api: ApiHarness, host: str) -> None:
    assert api.ann.get("/v1/jobs", Host=host).status == 200


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
def test_unsafe_requests_of_other_origins_are_rejected(
    api: ApiHarness, method: str, headers: dict[str, str]
) -> None:
    for path in ("/v1/jobs", "/v1/no-such-route", f"/v1/bundles/{'0' * 64}"):
        response = api.admin.request(method, path, b"{}", headers)
        assert (response.status, response.code) == (403, "cross-site")


def test_unsafe_requests_of_the_own_origin_are_accepted(api: ApiHarness) -> None:
    own = f"http://127.0.0.1:{api.server.port}"
    response = api.ann.request("POST", "/v1/plan", job("a-train"), {"Origin": own})
    assert response.status == 200


def test_cors_is_not_supported(api: ApiHarness) -> None:
    response = api.ann.request(
        "OPTIONS", "/v1/jobs", headers={"Origin": "http://evil.example", "Host": "localhost"}
    )
    assert response.status == 405
    assert not [name for name in response.headers if name.startswith("access-control")]


def test_every_response_has_security_headers(api: ApiHarness) -> None:
    for response in (api.client().get("/healthz"), api.ann.get("/v1/jobs"), api.ann.get("/x")):
        assert response.headers["x-content-type-options"] == "nosniff"
        assert response.headers["x-frame-options"] == "DENY"
        assert "default-src 'none'" in response.headers["content-security-policy"]
        assert response.headers["cache-control"] == "no-store"
        assert "server" not in response.headers


# -- bypass attempts -----------------------------------------------------------------------------------


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
def test_no_spelling_of_a_path_bypasses_the_permission(
    api: ApiHarness, method: str, path: str
) -> None:
    response = api.bob.request(method, path)
    assert response.status in (400, 401, 403, 404, 405)


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
def test_headers_change_neither_the_identity_nor_the_route(
    api: ApiHarness, headers: dict[str, str]
) -> None:
    response = api.bob.request("GET", "/v1/whoami", headers=headers)
    assert response.status == 200 and response.json["user"] == "bob"
    assert api.bob.request("GET", "/v1/health", headers=headers).status == 403


def test_a_wrong_method_gets_the_allowed_ones(api: ApiHarness) -> None:
    response = api.ann.request("DELETE", "/v1/jobs")
    assert (response.status, response.headers["allow"]) == (405, "GET, POST")


# -- bad credentials -------------------------------------------------------------------------------------


def test_only_bad_tokens_are_rate_limited(api: ApiHarness) -> None:
    bad = HttpClient(api.server.port, "bur_aaaaaaaaaaaaaaaa_" + "A" * 43)
    statuses = [bad.get("/v1/jobs").status for _ in range(15)]
    assert statuses[0] == 401 and statuses[-1] == 429
    assert bad.get("/v1/jobs").headers["retry-after"] == "1"
    assert api.ann.get("/v1/jobs").status == 200


@pytest.mark.parametrize(
    "header",
    ["Basic YTpi", "Bearer", "Bearer ", "bur_aaaaaaaaaaaaaaaa_" + "A" * 43, "Token x", ""],
)
def test_other_credentials_are_rejected(api: ApiHarness, header: str) -> None:
    response = api.client().get("/v1/jobs", Authorization=header)
    assert (response.status, response.code) == (401, "no-token")


def test_a_repeated_authorization_header_is_rejected(api: ApiHarness) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", api.server.port, timeout=20)
    connection.putrequest("GET", "/v1/whoami")
    connection.putheader("Authorization", f"Bearer {api.tokens['bob']}")
    connection.putheader("Authorization", f"Bearer {api.tokens['admin']}")
    connection.endheaders()
    assert connection.getresponse().status == 400
    connection.close()


# -- binding -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "::1", "[::1]"])
def test_loopback_may_be_bound(host: str) -> None:
    check_bind(host, allow_remote=False)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "192.168.1.5", "example.org", "", "*", "localhost."]
)
def test_other_addresses_need_an_explicit_option(host: str) -> None:
    with pytest.raises(UserError) as refused:
        check_bind(host, allow_remote=False)
    assert refused.value.code == "remote-bind" and "--allow-remote" in refused.value.fix
    check_bind(host, allow_remote=True)


# -- problems ----------------------------------------------------------------------------------------


def test_every_problem_has_the_same_form(api: ApiHarness) -> None:
    for response in (
        api.ann.get("/v1/none"),
        api.ann.request("DELETE", "/v1/jobs"),
        api.ann.post("/v1/jobs", b"{", Content_Type="application/json"),
        api.ann.post("/v1/jobs", b"x", Content_Type="text/html"),
        api.ann.get("/v1/jobs?limit=0"),
        api.ann.get("/v1/jobs/j-none"),
        api.client().get("/v1/jobs"),
    ):
        assert response.headers["content-type"] == "application/problem+json"
        problem = response.json
        assert set(problem) == {
            *("type", "title", "status", "detail", "code", "fix", "request_id"),
        }
        assert problem["status"] == response.status == CODES[problem["code"]].status
        assert problem["type"] == f"urn:bursar:problem:{problem['code']}"
        assert problem["request_id"] == response.headers["bursar-request-id"]
        assert problem["detail"] and problem["fix"]


def test_an_internal_error_reveals_no_details(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> object:
        raise ZeroDivisionError("the password is hunter2")

    monkeypatch.setattr(api.plane.reader, "jobs", fail, raising=False)
    response = api.ann.get("/v1/jobs")
    assert (response.status, response.code) == (500, "internal-error")
    assert b"hunter2" not in response.body and b"Traceback" not in response.body
    logged = [record.getMessage() for record in caplog.records if record.exc_info]
    assert any(response.json["request_id"] in line for line in logged)


def test_the_public_health_check_has_few_fields(api: ApiHarness) -> None:
    assert set(api.client().get("/healthz").json) == {"status", "leader", "version"}
