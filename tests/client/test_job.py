"""Job objects of the client: waiting, output, results, files."""

from __future__ import annotations

import base64
import io
import json
import pickle
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import bursar
from bursar.client import Client, Job
from bursar.client.errors import Denied, JobFailed, Refused, TimedOut
from tests.client import job_functions
from tests.client.fake_server import (
    FakeServer,
    RecordedRequest,
    Reply,
    event_stream,
    problem,
    run_fake_server,
)

SUBMITTED = {"id": "j-a", "ids": ["j-a"], "state": "queued", "replayed": False}
STREAM = {"Content-Type": "text/event-stream"}


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with run_fake_server() as one:
        one.on("POST", "/v1/jobs", Reply(SUBMITTED, 201))
        one.on("GET", "/v1/whoami", Reply({"user": "ada", "queues": ["vision"]}))
        yield one


@pytest.fixture
def client(server: FakeServer) -> Iterator[Client]:
    with Client(server.address, "t", retry_seconds=1.0) as one:
        yield one


def job_reply(state: str, owner: str = "ada", **more: object) -> Reply:
    view = {"id": "j-a", "state": state, "owner": owner, "exit_code": 1, "exit_detail": ""}
    return Reply({**view, **more})


def output_of(value: object) -> Reply:
    result = json.dumps({"ok": True}).encode() + b"\n" + pickle.dumps(value)
    line = f"::bursar-result 1/1 {base64.b64encode(result).decode()}\n"
    return Reply(f"hello\n\n{line}".encode(), headers={"Content-Type": "text/plain"})


def test_wait_returns_when_the_job_ends(server: FakeServer, client: Client) -> None:
    server.on(
        "GET", "/v1/jobs/j-a", job_reply("queued"), job_reply("running"), job_reply("succeeded")
    )
    assert client.submit({"run": "true"}).wait(timeout=30) == "succeeded"


def test_wait_times_out(server: FakeServer, client: Client) -> None:
    server.on("GET", "/v1/jobs/j-a", job_reply("running"))
    with pytest.raises(TimedOut, match="still running; the timeout does not stop it") as late:
        client.job("j-a").wait(timeout=0.01)
    assert "bursar why j-a" in late.value.fix


def test_an_array_is_requested_by_its_id(server: FakeServer, client: Client) -> None:
    ids = ["j-a[0]", "j-a[1]"]
    server.on("POST", "/v1/jobs", Reply({**SUBMITTED, "ids": ids}, 201))
    members = [{"id": one, "state": "succeeded"} for one in ids]
    array = {"size": 2, "states": {"succeeded": 2}, "members": members}
    server.on("GET", "/v1/jobs/j-a", job_reply("succeeded", array=array))
    job = client.submit({"run": "true", "array": 2})
    assert job.wait(5) == "succeeded"
    for one in (job, client.job("j-a")):
        assert [member.id for member in one.members] == ids


def test_ids_of_array_members_are_quoted(server: FakeServer, client: Client) -> None:
    for number in (0, 1):
        server.on("GET", f"/v1/jobs/j-a%5B{number}%5D", job_reply("succeeded"))
    assert [client.job(one).state for one in ("j-a[0]", "j-a_1")] == ["succeeded"] * 2


def test_the_owner_reads_a_result(server: FakeServer, client: Client) -> None:
    server.on("GET", "/v1/jobs/j-a", job_reply("succeeded"))
    server.on("GET", "/v1/jobs/j-a/logs", output_of({"loss": 0.25}))
    job = client.job("j-a")
    assert job.result() == {"loss": 0.25}
    assert job.logs() == "hello\n"
    assert server.requests[-2].query == {"task": ["0"], "stream": ["stdout"]}


class Trap:
    """Its unpickling runs code that fails the test."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (pytest.fail, ("the pickle of another user was loaded",))


def test_the_result_of_another_user_is_never_loaded(server: FakeServer, client: Client) -> None:
    server.on("GET", "/v1/jobs/j-a", job_reply("succeeded", owner="eve"))
    server.on("GET", "/v1/jobs/j-a/logs", output_of(Trap()))
    with pytest.raises(Denied, match="belongs to eve, and you are ada"):
        client.job("j-a").result()
    assert "GET /v1/jobs/j-a/logs" not in server.paths()


def test_a_failed_job_without_a_result_is_reported(server: FakeServer, client: Client) -> None:
    server.on("GET", "/v1/jobs/j-a", job_reply("failed"))
    server.on("GET", "/v1/jobs/j-a/logs", Reply(b"killed\n"))
    with pytest.raises(JobFailed, match="failed and left no result: exit code 1"):
        client.job("j-a").result()


def log_piece(text: str, stream: str = "stdout") -> dict[str, object]:
    return {"task": 0, "node": "n1", "stream": stream, "text": text}


def log_events(*pieces: dict[str, object], end: bool = True) -> Reply:
    stream = b"retry: 1000\n\n"
    for number, one in enumerate(pieces):
        stream += f"id: {number}\nevent: log\ndata: {json.dumps(one)}\n\n: still here\n\n".encode()
    if end:
        stream += b'event: end\ndata: {"state": "succeeded", "attempt": 1, "exit_code": 0}\n\n'
    return Reply(stream, headers=STREAM)


def test_output_is_followed_line_by_line(server: FakeServer, client: Client) -> None:
    pieces = [
        log_piece("one\ntw"),
        log_piece("oh", "stderr"),
        log_piece("o\n\nthree"),
        log_piece("\nfour"),
    ]
    server.on("GET", "/v1/jobs/j-a/logs", log_events(*pieces))
    assert list(client.job("j-a").logs(follow=True)) == ["one", "two", "", "three", "oh", "four"]
    assert server.requests[-1].query == {"follow": ["true"]}


def test_a_broken_stream_is_resumed(server: FakeServer, client: Client) -> None:
    broken = log_events(log_piece("one\n"), log_piece("two\n"), end=False)
    server.on("GET", "/v1/jobs/j-a/logs", broken, log_events(log_piece("three\n")))
    assert list(client.job("j-a").logs(follow=True)) == ["one", "two", "three"]
    assert server.requests[-1].headers["last-event-id"] == "1"


def test_an_empty_stream_is_retried_twice(server: FakeServer, client: Client) -> None:
    server.on("GET", "/v1/jobs/j-a/logs", Reply(b"retry: 1000\n\n", headers=STREAM))
    assert list(client.job("j-a").logs(follow=True)) == []
    assert len(server.requests) == 3


def test_a_problem_in_a_stream_is_raised(server: FakeServer, client: Client) -> None:
    stream = b'event: problem\ndata: {"code": "no-such-log", "detail": "gone.", "fix": "x."}\n\n'
    server.on("GET", "/v1/jobs/j-a/logs", Reply(stream, headers=STREAM))
    with pytest.raises(Refused, match="gone"):
        list(client.job("j-a").logs(follow=True))


def test_events_are_streamed(server: FakeServer, client: Client) -> None:
    server.on(
        "GET", "/v1/events", Reply(event_stream({"sequence": 1}, {"sequence": 2}), headers=STREAM)
    )
    events = client.watch()
    assert [next(events).value["sequence"] for _ in range(2)] == [1, 2]


def test_files_are_uploaded_once_and_named_by_content(
    server: FakeServer, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print(1)\n")
    (tmp_path / "job.yaml").write_text("workdir: src # here\nrun: python train.py\n")
    uploaded: dict[str, bytes] = {}

    def bundle(request: RecordedRequest) -> Reply:
        sha256 = request.path.rsplit("/", 1)[1]
        if request.method == "PUT":
            uploaded[sha256] = request.body
        return Reply({}, 200) if sha256 in uploaded else problem(404, "no-such-route")

    server.by_prefix["/v1/bundles/"] = bundle
    client.submit(tmp_path / "job.yaml", queue="vision")
    [(sha256, content)] = uploaded.items()
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        assert archive.getnames() == ["train.py"]
    sent = server.requests[-1]
    assert sent.body.decode().splitlines() == [
        f'workdir: "sha256:{sha256}" # here',
        "run: python train.py",
        'queue: "vision"',
    ]
    assert sent.headers["content-type"] == "application/yaml"
    client.submit(tmp_path / "job.yaml", queue="vision")
    assert [one.split()[0] for one in server.paths()] == ["HEAD", "PUT", "POST", "POST"]
    with Client(server.address, "t") as another:
        another.submit(tmp_path / "job.yaml", queue="vision")
    assert [one.split()[0] for one in server.paths()[4:]] == ["HEAD", "POST"]


def test_a_function_becomes_a_job(server: FakeServer, client: Client) -> None:
    server.by_prefix["/v1/bundles/"] = lambda _request: Reply({})
    job = client.with_options(queue="vision", gpus="T4:2", python="python3.12").submit(
        job_functions.add, 1, second=2
    )
    sent = server.requests[-1].json()
    assert isinstance(job, Job)
    assert sent["name"] == "add"
    assert sent["queue"] == "vision"
    assert sent["resources"] == {"accelerators": "T4:2"}
    assert sent["run"] == "exec python3.12 .bursar/call.py"
    assert sent["workdir"].startswith("sha256:")


def test_only_functions_take_positional_arguments(client: Client) -> None:
    with pytest.raises(TypeError, match="only a function takes positional arguments"):
        client.submit({"run": "true"}, 3)


def test_the_package_exports_the_client(
    server: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BURSAR_SERVER", server.address)
    monkeypatch.setenv("BURSAR_TOKEN", "t")
    assert bursar.submit({"run": "true"}).id == "j-a"
    assert bursar.Client is Client
    with pytest.raises(AttributeError, match="no attribute 'Clinet'"):
        _ = bursar.Clinet
