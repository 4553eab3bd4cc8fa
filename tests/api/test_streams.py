"""Server-sent events: what comes, to whom, after a break, and what a follower costs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bursar.api.streams.event_hub import MAX_BUFFERED, Follower
from bursar.api.streams.log_files import LogReader, select_files
from bursar.ports import LogFile
from tests.api.scene import Scene, open_scene


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A server with a short heartbeat and few places."""
    folder = tmp_path_factory.mktemp("state")
    with open_scene(folder, heartbeat_seconds=0.2, max_followers=8) as opened:
        yield opened


# -- events ------------------------------------------------------------------------------------------


def test_a_follower_sees_his_own_jobs_and_nobody_elses(quick: Scene) -> None:
    with quick.bob.events("/v1/events") as events:
        quick.until(lambda: quick.served.app.context.hub._followers, "bob follows")
        hidden = quick.ann.submit("a-train")
        own = quick.bob.submit("b-train")
        first = events.next()
    assert (first["event"], first["data"]["type"]) == ("job", "JobSubmitted")
    assert first["data"]["job_id"] == own != hidden
    assert first["id"] == str(first["data"]["sequence"])


def test_after_a_break_nothing_is_missed_and_nothing_comes_twice(quick: Scene) -> None:
    before = quick.plane.reader.last_sequence()
    made = [quick.bob.submit("b-train", resources={"cpus": 1}) for _ in range(5)]
    with quick.bob.events("/v1/events", {"Last-Event-ID": str(before)}) as events:
        found = [events.next() for _ in range(5)]
        later = quick.bob.submit("b-train", resources={"cpus": 1})
        seen = events.next()
        while seen["data"]["job_id"] != later:
            seen = events.next()
    submitted = [one["data"]["job_id"] for one in found if one["data"]["type"] == "JobSubmitted"]
    assert submitted == made[: len(submitted)] and submitted
    sequences = [one["data"]["sequence"] for one in found]
    assert sequences == sorted(set(sequences)) and sequences[0] > before


@pytest.mark.parametrize("last", ["x", "-1", "1e9", "9" * 19, "٣"])
def test_a_place_that_was_never_given_is_refused(quick: Scene, last: str) -> None:
    told = quick.ann.ask(
        "GET", "/v1/events", headers={"Last-Event-ID": last.encode().decode("latin-1")}
    )
    assert told.status == 422


def test_a_quiet_stream_shows_that_it_lives(quick: Scene) -> None:
    with quick.gone.events("/v1/events") as events:
        lines = [events.line() for _ in range(6)]
    assert lines[0] == "retry: 1000\n"
    assert ": still here\n" in lines


def test_a_revoked_token_ends_its_stream(quick: Scene) -> None:
    made = quick.lead_a.post("/v1/tokens", {"user": "x", "role": "viewer", "tenant": "team-a"}).json
    follower = type(quick.ann)(quick.served.port, made["token"])
    with follower.events("/v1/events") as events:
        quick.lead_a.post(f"/v1/tokens/{made['id']}:revoke")
        assert events.next() == {"event": "(closed)"}


def test_followers_have_places_and_give_them_back(quick: Scene) -> None:
    context = quick.served.app.context
    quick.until(lambda: context.followers == 0, "all have left")
    threads = threading.active_count()
    streams = [quick.ann.events("/v1/events") for _ in range(8)]
    for one in streams:
        one.__enter__()
    assert context.followers == 8
    assert threading.active_count() <= threads + 6
    told = quick.ann.get("/v1/events")
    assert (told.status, told.code) == (429, "too-many-followers")
    for one in streams:
        one.__exit__(None, None, None)
    quick.until(lambda: context.followers == 0, "all have left")
    quick.until(lambda: not context.hub._followers, "nobody is sent anything")


def test_a_slow_follower_loses_the_oldest_and_is_told() -> None:
    follower = Follower(visible=None)
    for number in range(MAX_BUFFERED + 7):
        follower.offer({"sequence": number, "at_ms": 0, "type": "x", "job_id": "j", "detail": {}})
    events, missed = follower.take()
    assert missed == 7 and len(events) == MAX_BUFFERED and events[0]["sequence"] == 7
    assert follower.take() == ([], 0)


# -- logs --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running(quick: Scene) -> str:
    job_id = quick.ann.submit("a-train", resources={"cpus": 1})
    quick.until_state(job_id, "running")
    return job_id


def test_output_is_given_as_it_is(quick: Scene, running: str) -> None:
    quick.engine.path(running).write_text("one\ntwo\nthree\n")
    quick.engine.path(running, stream="stderr").write_text("")
    told = quick.ann.get(f"/v1/jobs/{running}/logs?stream=stdout")
    assert told.body == b"one\ntwo\nthree\n"
    assert told.headers["content-type"].startswith("text/plain")
    assert quick.ann.get(f"/v1/jobs/{running}/logs?stream=stdout&tail=2").body == b"two\nthree\n"
    assert quick.ann.get(f"/v1/jobs/{running}/logs?stream=stdout&tail=0").body == b""
    quick.engine.path(running, stream="stderr").write_text("oh\n")
    both = quick.ann.get(f"/v1/jobs/{running}/logs").body.decode()
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
def test_nothing_but_tasks_and_streams_can_be_named(
    quick: Scene, running: str, query: str, status: int
) -> None:
    told = quick.ann.get(f"/v1/jobs/{running}/logs?{query}")
    assert told.status == status and b"root:" not in told.body


def test_a_link_in_the_place_of_output_is_not_followed(
    quick: Scene, running: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("not yours\n")
    path = quick.engine.path(running, stream="stderr")
    path.unlink(missing_ok=True)
    path.symlink_to(secret)
    assert quick.ann.get(f"/v1/jobs/{running}/logs?stream=stderr").body == b""
    path.unlink()


def test_output_is_followed_to_the_end_of_the_job(quick: Scene) -> None:
    job_id = quick.ann.submit("a-train", resources={"cpus": 1})
    quick.until_state(job_id, "running")
    path = quick.engine.path(job_id)
    path.write_text("first\n")
    with quick.ann.events(f"/v1/jobs/{job_id}/logs?follow=true") as events:
        first = events.next()
        with path.open("a") as file:
            file.write("second é\n")
        second = events.next()
        quick.engine.end(job_id)
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
    with quick.ann.events(
        f"/v1/jobs/{job_id}/logs?follow=true", {"Last-Event-ID": first["id"]}
    ) as resumed:
        assert resumed.next()["data"]["text"] == "second é\n"


def test_a_rotated_stream_is_read_on_without_gap(tmp_path: Path) -> None:
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


def test_a_character_is_not_cut_in_two(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes("aé".encode()[:-1])
    file = LogFile(task=0, node="n", stream="stdout", paths=(str(path),))
    reader = LogReader()
    (first,) = reader.chunks([file])
    path.write_bytes("aé!".encode())
    (second,) = reader.chunks([file])
    assert (first["text"], second["text"]) == ("a", "é!")


def test_streams_are_chosen_by_task_and_name() -> None:
    files = [
        LogFile(task=task, node="n", stream=stream, paths=())
        for task in (1, 0)
        for stream in ("stderr", "stdout")
    ]
    assert [(one.task, one.stream) for one in select_files(files, None, None)] == [
        *((0, "stdout"), (0, "stderr"), (1, "stdout"), (1, "stderr")),
    ]
    assert [(one.task, one.stream) for one in select_files(files, 1, "stderr")] == [(1, "stderr")]
