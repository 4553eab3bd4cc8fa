"""Server-sent events: visibility, resumption and limits; job output and its streams."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bursar.api.streams.event_hub import MAX_BUFFERED, Follower
from bursar.api.streams.log_files import LogReader, select_files
from bursar.ports import LogFile
from tests.api.harness import ApiHarness, open_harness


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiHarness]:
    """A server with a short heartbeat and at most eight followers."""
    folder = tmp_path_factory.mktemp("state")
    with open_harness(folder, heartbeat_seconds=0.2, max_followers=8) as api:
        yield api


# -- events ------------------------------------------------------------------------------------------


def test_a_follower_gets_events_of_visible_jobs_only(api: ApiHarness) -> None:
    with api.bob.events("/v1/events") as events:
        api.wait_until(lambda: api.server.app.context.hub._followers, "the stream is open")
        foreign = api.ann.submit("a-train")
        own = api.bob.submit("b-train")
        first = events.next()
    assert (first["event"], first["data"]["type"]) == ("job", "JobSubmitted")
    assert first["data"]["job_id"] == own != foreign
    assert first["id"] == str(first["data"]["sequence"])


def test_a_resumed_stream_has_no_gaps_or_duplicates(api: ApiHarness) -> None:
    before = api.plane.reader.last_sequence()
    job_ids = [api.bob.submit("b-train", resources={"cpus": 1}) for _ in range(5)]
    with api.bob.events("/v1/events", {"Last-Event-ID": str(before)}) as events:
        received = [events.next() for _ in range(5)]
        later = api.bob.submit("b-train", resources={"cpus": 1})
        event = events.next()
        while event["data"]["job_id"] != later:
            event = events.next()
    submitted = [one["data"]["job_id"] for one in received if one["data"]["type"] == "JobSubmitted"]
    assert submitted == job_ids[: len(submitted)] and submitted
    sequences = [one["data"]["sequence"] for one in received]
    assert sequences == sorted(set(sequences)) and sequences[0] > before


@pytest.mark.parametrize("last", ["x", "-1", "1e9", "9" * 19, "٣"])
def test_a_bad_last_event_id_is_rejected(api: ApiHarness, last: str) -> None:
    response = api.ann.request(
        "GET", "/v1/events", headers={"Last-Event-ID": last.encode().decode("latin-1")}
    )
    assert response.status == 422


def test_an_idle_stream_sends_heartbeats(api: ApiHarness) -> None:
    with api.gone.events("/v1/events") as events:
        lines = [events.line() for _ in range(6)]
    assert lines[0] == "retry: 1000\n"
    assert ": still here\n" in lines


def test_a_revoked_token_ends_its_stream(api: ApiHarness) -> None:
    created = api.lead_a.post(
        "/v1/tokens", {"user": "x", "role": "viewer", "tenant": "team-a"}
    ).json
    follower = type(api.ann)(api.server.port, created["token"])
    with follower.events("/v1/events") as events:
        api.lead_a.post(f"/v1/tokens/{created['id']}:revoke")
        assert events.next() == {"event": "(closed)"}


def test_the_number_of_followers_is_limited(api: ApiHarness) -> None:
    context = api.server.app.context
    api.wait_until(lambda: context.followers == 0, "all streams are closed")
    threads = threading.active_count()
    streams = [api.ann.events("/v1/events") for _ in range(8)]
    for one in streams:
        one.__enter__()
    assert context.followers == 8
    assert threading.active_count() <= threads + 6
    response = api.ann.get("/v1/events")
    assert (response.status, response.code) == (429, "too-many-followers")
    for one in streams:
        one.__exit__(None, None, None)
    api.wait_until(lambda: context.followers == 0, "all streams are closed")
    api.wait_until(lambda: not context.hub._followers, "the hub has no followers")


def test_a_slow_follower_loses_the_oldest_events_and_gets_their_number() -> None:
    follower = Follower(visible=None)
    for number in range(MAX_BUFFERED + 7):
        follower.offer({"sequence": number, "at_ms": 0, "type": "x", "job_id": "j", "detail": {}})
    events, missed = follower.take()
    assert missed == 7 and len(events) == MAX_BUFFERED and events[0]["sequence"] == 7
    assert follower.take() == ([], 0)


# -- logs --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running(api: ApiHarness) -> str:
    job_id = api.ann.submit("a-train", resources={"cpus": 1})
    api.wait_for_state(job_id, "running")
    return job_id


def test_output_is_returned_unchanged(api: ApiHarness, running: str) -> None:
    api.engine.path(running).write_text("one\ntwo\nthree\n")
    api.engine.path(running, stream="stderr").write_text("")
    response = api.ann.get(f"/v1/jobs/{running}/logs?stream=stdout")
    assert response.body == b"one\ntwo\nthree\n"
    assert response.headers["content-type"].startswith("text/plain")
    assert api.ann.get(f"/v1/jobs/{running}/logs?stream=stdout&tail=2").body == b"two\nthree\n"
    assert api.ann.get(f"/v1/jobs/{running}/logs?stream=stdout&tail=0").body == b""
    api.engine.path(running, stream="stderr").write_text("oh\n")
    both = api.ann.get(f"/v1/jobs/{running}/logs").body.decode()
    assert both == (
        "==> task 0 stdout (t4-0001) <==\none\ntwo\nthree\n==> task 0 stderr (t4-0001) <==\noh\n"
    )


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("task=7", 404),
        ("attempt=9", 404),
        ("task=-1", 422),
        ("stream=../../passwd", 422),
        ("task=0/../1", 422),
        ("stream=stdout%00", 422),
        ("path=/etc/passwd", 422),
        ("attempt=..%2f..", 422),
        ("tail=-5", 422),
    ],
)
def test_a_bad_task_stream_or_attempt_is_rejected(
    api: ApiHarness, running: str, query: str, status: int
) -> None:
    response = api.ann.get(f"/v1/jobs/{running}/logs?{query}")
    assert response.status == status and b"root:" not in response.body


def test_a_symbolic_link_as_output_is_not_followed(
    api: ApiHarness, running: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not yours\n")
    path = api.engine.path(running, stream="stderr")
    path.unlink(missing_ok=True)
    path.symlink_to(secret)
    assert api.ann.get(f"/v1/jobs/{running}/logs?stream=stderr").body == b""
    path.unlink()


def test_output_is_followed_until_the_job_ends(api: ApiHarness) -> None:
    job_id = api.ann.submit("a-train", resources={"cpus": 1})
    api.wait_for_state(job_id, "running")
    path = api.engine.path(job_id)
    path.write_text("first\n")
    with api.ann.events(f"/v1/jobs/{job_id}/logs?follow=true") as events:
        first = events.next()
        with path.open("a") as file:
            file.write("second é\n")
        second = events.next()
        api.engine.end(job_id)
        last = events.next()
        closed = events.next()
    assert first["data"]["text"] == "first\n" and second["data"]["text"] == "second é\n"
    assert last["event"] == "end"
    assert last["data"] == {
        "state": "succeeded",
        "attempt": 1,
        "exit_code": last["data"]["exit_code"],
    }
    assert closed == {"event": "(closed)"}
    with api.ann.events(
        f"/v1/jobs/{job_id}/logs?follow=true", {"Last-Event-ID": first["id"]}
    ) as resumed:
        assert resumed.next()["data"]["text"] == "second é\n"


def test_a_rotated_log_is_read_without_gaps(tmp_path: Path) -> None:
    old, new = tmp_path / "out.1", tmp_path / "out"
    new.write_text("one\n")
    reader = LogReader()

    def read() -> str:
        paths = tuple(str(path) for path in (old, new) if path.exists())
        file = LogFile(task=0, node="n", stream="stdout", paths=paths)
        text = ""
        while pieces := list(reader.chunks([file])):
            text += "".join(piece["text"] for piece in pieces)
        return text

    assert read() == "one\n"
    with new.open("a") as file:
        file.write("two\n")
    new.rename(old)
    new.write_text("three\n")
    assert read() == "two\nthree\n"
    old.unlink()
    new.rename(old)
    new.write_text("four\n")
    assert read() == "four\n"


def test_a_multibyte_character_is_not_split(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes("aé".encode()[:-1])
    file = LogFile(task=0, node="n", stream="stdout", paths=(str(path),))
    reader = LogReader()
    (first,) = reader.chunks([file])
    path.write_bytes("aé!".encode())
    (second,) = reader.chunks([file])
    assert (first["text"], second["text"]) == ("a", "é!")


def test_log_files_are_selected_by_task_and_stream() -> None:
    files = [
        LogFile(task=task, node="n", stream=stream, paths=())
        for task in (1, 0)
        for stream in ("stderr", "stdout")
    ]
    assert [(one.task, one.stream) for one in select_files(files, None, None)] == [
        *((0, "stdout"), (0, "stderr"), (1, "stdout"), (1, "stderr")),
    ]
    assert [(one.task, one.stream) for one in select_files(files, 1, "stderr")] == [(1, "stderr")]
