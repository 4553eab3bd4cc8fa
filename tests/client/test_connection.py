"""The connection: retries, timeouts, redirects to the leader, errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bursar.client import Client
from bursar.client.connection import Connection
from bursar.client.errors import (
    Conflict,
    Denied,
    Infeasible,
    Invalid,
    NotFound,
    QuotaError,
    Refused,
    ServerFailed,
    TimedOut,
    Unreachable,
)
from tests.client.fake_server import FakeServer, RecordedRequest, Reply, problem, run_fake_server

SUBMITTED = {"id": "j-a", "ids": ["j-a"], "state": "queued", "replayed": False}
DISCONNECT = Reply(disconnect=True)
BUSY = Reply({}, 503, {"Retry-After": "0"})


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with run_fake_server() as one:
        yield one


def client_of(server: FakeServer, retry_seconds: float = 10.0) -> Client:
    return Client(server.address, "bur_token", retry_seconds=retry_seconds)


def test_a_connection_is_reused(server: FakeServer) -> None:
    server.on("GET", "/v1/whoami", Reply({"user": "ada"}))
    with client_of(server) as client:
        for _ in range(5):
            client.whoami()
    assert server.connections == 1
    assert server.requests[0].headers["authorization"] == "Bearer bur_token"


@pytest.mark.parametrize("failure", [DISCONNECT, BUSY], ids=["disconnect", "503"])
def test_a_submission_is_retried_with_the_same_key(server: FakeServer, failure: Reply) -> None:
    server.on("POST", "/v1/jobs", failure, failure, Reply(SUBMITTED, 201))
    job = client_of(server).submit({"run": "true"})
    assert job.id == "j-a"
    keys = {one.headers["idempotency-key"] for one in server.requests}
    assert len(server.requests) == 3 and len(keys) == 1
    assert len({one.body for one in server.requests}) == 1


def test_two_submissions_have_two_keys(server: FakeServer) -> None:
    server.on("POST", "/v1/jobs", Reply(SUBMITTED, 201))
    client = client_of(server)
    client.submit({"run": "true"})
    client.submit({"run": "true"})
    assert len({one.headers["idempotency-key"] for one in server.requests}) == 2


@pytest.mark.parametrize("failure", [DISCONNECT, BUSY], ids=["disconnect", "503"])
def test_a_request_that_is_not_idempotent_is_not_retried(
    server: FakeServer, failure: Reply
) -> None:
    server.on("POST", "/v1/tokens", failure, Reply({}))
    with pytest.raises(Refused):
        client_of(server).create_token({"user": "ada", "role": "member", "tenant": "vision"})
    assert len(server.requests) == 1


def test_retries_end_after_the_limit(server: FakeServer) -> None:
    server.on("GET", "/v1/whoami", problem(503, "too-busy", "no answer in time."))
    with pytest.raises(ServerFailed, match="no answer in time"):
        client_of(server, retry_seconds=0.3).whoami()
    assert len(server.requests) > 1


def test_retry_after_is_respected(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    server.on("GET", "/v1/whoami", Reply({}, 503, {"Retry-After": "3"}), Reply({"user": "ada"}))
    client = client_of(server)
    monkeypatch.setattr(client._connection, "_sleep", waits.append)
    client.whoami()
    assert waits == [3.0]


def test_the_client_follows_a_redirect_to_the_leader(server: FakeServer) -> None:
    with run_fake_server() as leader:
        leader.on("POST", "/v1/jobs", Reply(SUBMITTED, 201))
        server.on("POST", "/v1/jobs", problem(503, "not-leader", leader=leader.address))
        client = client_of(server)
        assert client.submit({"run": "true"}).id == "j-a"
        assert client.server == leader.address
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("current", "leader", "follows"),
    [
        ("http://10.0.0.1:1", "http://10.0.0.2:1", True),
        ("https://a:1", "https://b:1", True),
        ("https://a:1", "http://b:1", False),
        ("http://10.0.0.1:1", "http://127.0.0.1:1", False),
        ("http://127.0.0.1:1", "http://127.0.0.1:2", True),
        ("http://a:1", "nonsense://x", False),
        ("http://a:1", "", False),
    ],
)
def test_the_token_is_sent_to_safe_leaders_only(current: str, leader: str, follows: bool) -> None:
    from bursar.client.address import read_address

    address = Connection(read_address(current), "t")._leader(leader)
    assert (str(address) == leader) is follows


def test_an_unreachable_server_is_reported() -> None:
    with run_fake_server() as stopped:
        address = stopped.address
    with pytest.raises(Unreachable, match="no server answers at") as refused:
        Client(address, "t", retry_seconds=0.2).whoami()
    assert "bursar up" in refused.value.fix


def test_a_slow_response_times_out(server: FakeServer) -> None:
    import time

    def late(_: object) -> Reply:
        time.sleep(0.4)
        return Reply({})

    server.on("GET", "/v1/whoami", late)
    client = Client(server.address, "t", timeout_seconds=0.1)
    with pytest.raises(TimedOut, match=r"took longer than 0\.1 s"):
        client.whoami()


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (400, "bad-request", Invalid),
        (401, "bad-token", Denied),
        (403, "forbidden", Denied),
        (404, "no-such-job", NotFound),
        (409, "fleet-changed", Conflict),
        (422, "unknown-key", Invalid),
        (422, "no-pool-fits", Infeasible),
        (422, "over-potential-quota", QuotaError),
        (422, "budget-spent", QuotaError),
        (429, "too-many-bad-tokens", ServerFailed),
        (500, "internal-error", ServerFailed),
    ],
)
def test_a_problem_becomes_an_error_of_its_class(
    server: FakeServer, status: int, code: str, kind: type[Refused]
) -> None:
    server.on("GET", "/v1/whoami", problem(status, code, "that is wrong."))
    with pytest.raises(Refused) as refused:
        client_of(server).whoami()
    assert type(refused.value) is kind
    assert (refused.value.code, refused.value.fix, refused.value.status) == (
        code,
        "write yes.",
        status,
    )
    assert refused.value.request_id == "r-1"
    assert refused.value.problem.startswith("that is wrong.")


def test_a_response_that_is_not_json_is_reported(server: FakeServer) -> None:
    server.on("GET", "/v1/whoami", Reply(b"<html>", headers={"Content-Type": "text/html"}))
    with pytest.raises(ServerFailed, match="not JSON"):
        client_of(server).whoami()
    server.on("GET", "/v1/whoami", Reply(b"<html>", 502))
    with pytest.raises(ServerFailed, match="responded with status 502"):
        client_of(server).whoami()


def test_a_path_in_the_address_is_a_prefix(server: FakeServer) -> None:
    server.on("GET", "/gpus/v1/whoami", Reply({"user": "ada"}))
    assert Client(f"{server.address}/gpus/", "t").whoami()["user"] == "ada"


def test_pages_are_read_up_to_the_limit(server: FakeServer) -> None:
    def page(request: RecordedRequest) -> Reply:
        start = int(request.query.get("cursor", ["0"])[0])
        size = int(request.query["limit"][0])
        items = [{"id": f"j-{number}"} for number in range(start, min(450, start + size))]
        more = str(start + size) if start + size < 450 else None
        return Reply({"items": items, "next_cursor": more})

    server.on("GET", "/v1/jobs", page)
    client = client_of(server)
    assert len(list(client.jobs())) == 450
    assert [one["id"] for one in client.jobs(limit=3)] == ["j-0", "j-1", "j-2"]
    assert len(list(client.jobs(limit=201, state=["running", "queued"]))) == 201
    assert server.requests[-1].query["state"] == ["running", "queued"]


def test_importing_the_client_loads_no_server_and_no_third_party() -> None:
    import subprocess
    import sys

    program = (
        "import sys; before = set(sys.modules); import bursar.client; "
        "print(sorted({name.split('.')[0] for name in set(sys.modules) - before}"
        " - set(sys.stdlib_module_names)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "['bursar']"


def test_a_connection_without_a_token_sends_none(server: FakeServer) -> None:
    from bursar.client.address import read_address
    from bursar.client.connection import HttpRequest

    server.on("GET", "/healthz", Reply({}))
    Connection(read_address(server.address), "").send(HttpRequest(method="GET", path="/healthz"))
    assert "authorization" not in server.requests[0].headers
