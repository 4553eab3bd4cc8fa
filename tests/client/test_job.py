"""Jobs as their owner holds them: waiting, output, results, files."""

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
from tests.client import called
from tests.client.fake_server import Asked, FakeServer, Says, problem, running, server_sent

MADE = {"id": "j-a", "ids": ["j-a"], "state": "queued", "replayed": False}
STREAM = {"Content-Type": "text/event-stream"}


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with running() as one:
        one.on("POST", "/v1/jobs", Says(MADE, 201))
        one.on("GET", "/v1/whoami", Says({"user": "ada", "queues": ["vision"]}))
        yield one


@pytest.fixture
def client(server: FakeServer) -> Iterator[Client]:
    with Client(server.address, "t", retry_seconds=1.0) as one:
        yield one


def shown(state: str, owner: str = "ada", **more: object) -> Says:
    said = {"id": "j-a", "state": state, "owner": owner, "exit_code": 1, "exit_detail": ""}
    return Says({**said, **more})


def output_of(value: object) -> Says:
    sent = json.dumps({"ok": True}).encode() + b"\n" + pickle.dumps(value)
    line = f"::bursar-result 1/1 {base64.b64encode(sent).decode()}\n"
    return Says(f"hello\n\n{line}".encode(), headers={"Content-Type": "text/plain"})


def test_waiting_ends_when_the_job_is_over(server: FakeServer, client: Client) -> None:
    server.on("GET", "/v1/jobs/j-a", shown("queued"), shown("running"), shown("succeeded"))
    assert client.submit({"run": "true"}).wait(timeout=30) == "succeeded"


def test_waiting_may_end_before_the_job(server: FakeServer, client: Client) -> None:
    server.on("GET", "/v1/jobs/j-a", shown("running"))
    with pytest.raises(TimedOut, match="still running; the timeout does not stop it") as late:
        client.job("j-a").wait(timeout=0.01)
    assert "bursar why j-a" in late.value.fix


def test_an_array_is_asked_for_by_its_own_id(server: FakeServer, client: Client) -> None:
    ids = ["j-a[0]", "j-a[1]"]
    server.on("POST", "/v1/jobs", Says({**MADE, "ids": ids}, 201))
    members = [{"id": one, "state": "succeeded"} for one in ids]
    array = {"size": 2, "states": {"succeeded": 2}, "members": members}
    server.on("GET", "/v1/jobs/j-a", shown("succeeded", array=array))
    job = client.submit({"run": "true", "array": 2})
    assert job.wait(5) == "succeeded"
    for one in (job, client.job("j-a")):
        assert [member.id for member in one.members] == ids


def test_ids_of_array_members_are_quoted(server: FakeServer, client: Client) -> None:
    for number in (0, 1):
        server.on("GET", f"/v1/jobs/j-a%5B{number}%5D", shown("succeeded"))
    assert [client.job(one).state for one in ("j-a[0]", "j-a_1")] == ["succeeded"] * 2


def test_a_result_is_read_for_its_owner(server: FakeServer, client: Client) -> None:
    server.on("GET", "/v1/jobs/j-a", shown("succeeded"))
    server.on("GET", "/v1/jobs/j-a/logs", output_of({"loss": 0.25}))
    job = client.job("j-a")
    assert job.result() == {"loss": 0.25}
    assert job.logs() == "hello\n"
    assert server.asked[-2].query == {"task": ["0"], "stream": ["stdout"]}


class Trap:
    """Unpickling it runs code."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return (pytest.fail, ("somebody else's pickle was read",))


def test_a_result_of_somebody_else_is_never_read(server: FakeServer, client: Client) -> None:
    server.on("GET", "/v1/jobs/j-a", shown("succeeded", owner="eve"))
    server.on("GET", "/v1/jobs/j-a/logs", output_of(Trap()))
    with pytest.raises(Denied, match="belongs to eve, and you are ada"):
        client.job("j-a").result()
    assert "GET /v1/jobs/j-a/logs" not in server.paths()


def test_a_job_that_failed_before_its_function_could_answer(
    server: FakeServer, client: Client
) -> None:
    server.on("GET", "/v1/jobs/j-a", shown("failed"))
    server.on("GET", "/v1/jobs/j-a/logs", Says(b"killed\n"))
    with pytest.raises(JobFailed, match="failed and left no result: exit code 1"):
        client.job("j-a").result()


def piece(text: str, stream: str = "stdout") -> dict[str, object]:
    return {"task": 0, "node": "n1", "stream": stream, "text": text}


def log_events(*pieces: dict[str, object], end: bool = True) -> Says:
    told = b"retry: 1000\n\n"
    for number, one in enumerate(pieces):
        told += f"id: {number}\nevent: log\ndata: {json.dumps(one)}\n\n: still here\n\n".encode()
    if end:
        told += b'event: end\ndata: {"state": "succeeded", "attempt": 1, "exit_code": 0}\n\n'
    return Says(told, headers=STREAM)


def test_output_is_followed_line_by_line(server: FakeServer, client: Client) -> None:
    pieces = [piece("one\ntw"), piece("oh", "stderr"), piece("o\n\nthree"), piece("\nfour")]
    server.on("GET", "/v1/jobs/j-a/logs", log_events(*pieces))
    assert list(client.job("j-a").logs(follow=True)) == ["one", "two", "", "three", "oh", "four"]
    assert server.asked[-1].query == {"follow": ["true"]}


def test_a_stream_that_breaks_off_goes_on_where_it_was(server: FakeServer, client: Client) -> None:
    broken = log_events(piece("one\n"), piece("two\n"), end=False)
    server.on("GET", "/v1/jobs/j-a/logs", broken, log_events(piece("three\n")))
    assert list(client.job("j-a").logs(follow=True)) == ["one", "two", "three"]
    assert server.asked[-1].headers["last-event-id"] == "1"


def test_a_stream_that_never_says_anything_is_given_up(server: FakeServer, client: Client) -> None:
    server.on("GET", "/v1/jobs/j-a/logs", Says(b"retry: 1000\n\n", headers=STREAM))
    assert list(client.job("j-a").logs(follow=True)) == []
    assert len(server.asked) == 3


def test_a_stream_can_end_in_a_refusal(server: FakeServer, client: Client) -> None:
    told = b'event: problem\ndata: {"code": "no-such-log", "detail": "gone.", "fix": "x."}\n\n'
    server.on("GET", "/v1/jobs/j-a/logs", Says(told, headers=STREAM))
    with pytest.raises(Refused, match="gone"):
        list(client.job("j-a").logs(follow=True))


def test_changes_of_state_are_watched(server: FakeServer, client: Client) -> None:
    server.on(
        "GET", "/v1/events", Says(server_sent({"sequence": 1}, {"sequence": 2}), headers=STREAM)
    )
    events = client.watch()
    assert [next(events).value["sequence"] for _ in range(2)] == [1, 2]


def test_files_are_sent_once_and_named_by_their_content(
    server: FakeServer, client: Client, tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print(1)\n")
    (tmp_path / "job.yaml").write_text("workdir: src # here\nrun: python train.py\n")
    held: dict[str, bytes] = {}

    def bundle(asked: Asked) -> Says:
        sha256 = asked.path.rsplit("/", 1)[1]
        if asked.method == "PUT":
            held[sha256] = asked.body
        return Says({}, 200) if sha256 in held else problem(404, "no-such-route")

    server.by_start["/v1/bundles/"] = bundle
    client.submit(tmp_path / "job.yaml", queue="vision")
    [(sha256, content)] = held.items()
    with tarfile.open(fileobj=io.BytesIO(content), mode="r:gz") as archive:
        assert archive.getnames() == ["train.py"]
    sent = server.asked[-1]
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
    server.by_start["/v1/bundles/"] = lambda _asked: Says({})
    job = client.with_options(queue="vision", gpus="T4:2", python="python3.12").submit(
        called.add, 1, second=2
    )
    sent = server.asked[-1].json()
    assert isinstance(job, Job)
    assert sent["name"] == "add"
    assert sent["queue"] == "vision"
    assert sent["resources"] == {"accelerators": "T4:2"}
    assert sent["run"] == "exec python3.12 .bursar/call.py"
    assert sent["workdir"].startswith("sha256:")


def test_only_functions_take_arguments(client: Client) -> None:
    with pytest.raises(TypeError, match="only a function takes positional arguments"):
        client.submit({"run": "true"}, 3)


def test_the_package_offers_the_client(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURSAR_SERVER", server.address)
    monkeypatch.setenv("BURSAR_TOKEN", "t")
    assert bursar.submit({"run": "true"}).id == "j-a"
    assert bursar.Client is Client
    with pytest.raises(AttributeError, match="no attribute 'Clinet'"):
        _ = bursar.Clinet
