"""An array has an id of its own, which can be asked for like that of a job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.asking import Asker, job
from tests.api.scene import Scene, open_scene

HALF = {"accelerators": "T4:2"}


@pytest.fixture
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    with open_scene(tmp_path_factory.mktemp("state")) as opened:
        yield opened


def array(who: Asker, size: int = 3, **more: Any) -> tuple[str, list[str]]:
    """An array of which two members fit at a time; its id and those of its members."""
    told = who.post("/v1/jobs", job("a-train", array=size, resources=HALF, **more))
    assert told.status == 201, told.body
    assert told.headers["location"] == f"/v1/jobs/{told.json['id']}"
    made, ids = told.json["id"], told.json["ids"]
    assert ids == [f"{made}[{number}]" for number in range(size)]
    return made, ids


def two_run(scene: Scene, made: str) -> None:
    scene.until(
        lambda: (
            scene.ann.get(f"/v1/jobs/{made}").json["array"]["states"] == {"queued": 1, "running": 2}
        ),
        "two of three run",
    )


def test_it_shows_where_its_members_are(scene: Scene) -> None:
    made, ids = array(scene.ann, name="sweep")
    two_run(scene, made)
    shown = scene.ann.get(f"/v1/jobs/{made}").json
    assert (shown["id"], shown["name"], shown["state"]) == (made, "sweep", "running")
    assert (shown["owner"], shown["queue"]) == ("ann", "a-train")
    assert shown["array"]["size"] == 3
    assert [one["id"] for one in shown["array"]["members"]] == ids
    assert shown["attempts"] == [] and '"array": 3' in shown["document"]


def test_it_is_over_when_all_are_and_failed_when_one_has(scene: Scene) -> None:
    made, ids = array(scene.ann)
    for job_id, code in zip(ids, (0, 3, 0), strict=True):
        scene.until_state(job_id, "running")
        assert scene.ann.get(f"/v1/jobs/{made}").json["state"] == "running"
        scene.engine.end(job_id, code=code)
        scene.until(lambda: scene.plane.reader.job(job_id).ended_at_ms, "it is over")  # type: ignore[union-attr] # noqa: B023
    assert scene.ann.get(f"/v1/jobs/{made}").json["state"] == "failed"


def test_cancelling_it_ends_all_its_members(scene: Scene) -> None:
    made, ids = array(scene.ann)
    two_run(scene, made)
    assert scene.abe.post(f"/v1/jobs/{made}:cancel").code == "forbidden"
    told = scene.ann.post(f"/v1/jobs/{made}:cancel")
    assert told.status == 200 and told.json["id"] == made
    for job_id in ids:
        scene.until_state(job_id, "cancelled")
    again = scene.ann.post(f"/v1/jobs/{made}:cancel")
    assert (again.status, again.json["state"]) == (200, "cancelled")


def test_it_is_submitted_again_as_a_whole(scene: Scene) -> None:
    made, _ = array(scene.ann, name="sweep")
    assert scene.ann.post(f"/v1/jobs/{made}:retry").code == "job-not-over"
    scene.ann.post(f"/v1/jobs/{made}:cancel")
    scene.until(
        lambda: scene.ann.get(f"/v1/jobs/{made}").json["state"] == "cancelled", "it is over"
    )
    told = scene.ann.post(f"/v1/jobs/{made}:retry").json
    assert told["id"] != made and len(told["ids"]) == 3
    names = [scene.ann.get(f"/v1/jobs/{told['id']}[{n}]").json["name"] for n in range(3)]
    assert names == ["sweep[0]", "sweep[1]", "sweep[2]"]


def test_why_tells_of_a_member_that_waits(scene: Scene) -> None:
    made, ids = array(scene.ann)
    two_run(scene, made)
    told = scene.ann.get(f"/v1/jobs/{made}/why").json
    assert (told["id"], told["state"]) == (made, "running")
    assert told["text"][0] == f"{made} is an array of 3 jobs: 1 queued, 2 running."
    assert told["text"][1].startswith(f"{ids[2]} (2 GPUs of t4-16gb) waits in a-train")
    assert told["reasons"]


def test_its_output_is_that_of_its_members(scene: Scene) -> None:
    made, ids = array(scene.ann)
    two_run(scene, made)
    for job_id in ids[:2]:
        scene.engine.path(job_id).write_text(f"hello from {job_id}\n")
    text = scene.ann.get(f"/v1/jobs/{made}/logs?stream=stdout").body.decode()
    assert text == "".join(f"==> {one} <==\nhello from {one}\n" for one in ids[:2])
    assert scene.ann.get(f"/v1/jobs/{made}/logs?follow=true").code == "is-an-array"


def test_its_events_are_those_of_its_members_in_order(scene: Scene) -> None:
    made, ids = array(scene.ann)
    two_run(scene, made)
    items = scene.ann.get(f"/v1/jobs/{made}/events").json["items"]
    assert {one["job_id"] for one in items} == set(ids)
    assert [one["sequence"] for one in items] == sorted(one["sequence"] for one in items)


def test_another_job_can_wait_for_all_of_it(scene: Scene) -> None:
    made, ids = array(scene.ann, size=2)
    after = scene.ann.submit("a-train", depends_on=[made])
    assert scene.plane.reader.job(after).state == "blocked"  # type: ignore[union-attr]
    for job_id in ids:
        scene.until_state(job_id, "running")
        scene.engine.end(job_id)
    scene.until_state(after, "running")
    scene.engine.end(after)
    late = scene.ann.submit("a-train", depends_on=[made])
    scene.until_state(late, "running")


@pytest.mark.parametrize("path", ["", "/why", "/events", "/logs", ":cancel", ":retry"])
def test_another_tenants_array_is_answered_as_a_missing_one(scene: Scene, path: str) -> None:
    made, _ = array(scene.ann)
    missing = "j-aaaaaaaaaa"
    method = "POST" if path.startswith(":") else "GET"
    theirs = scene.bob.ask(method, f"/v1/jobs/{made}{path}")
    nobodys = scene.bob.ask(method, f"/v1/jobs/{missing}{path}")
    assert theirs.status == nobodys.status == 404
    hidden = theirs.without_request_id.replace(made.encode(), missing.encode())
    assert hidden == nobodys.without_request_id


def test_an_array_of_another_tenant_cannot_be_waited_for(scene: Scene) -> None:
    made, _ = array(scene.ann)
    theirs = scene.bob.post("/v1/jobs", job("b-train", depends_on=[made]))
    nobodys = scene.bob.post("/v1/jobs", job("b-train", depends_on=["j-aaaaaaaaaa"]))
    hidden = theirs.without_request_id.replace(made.encode(), b"j-aaaaaaaaaa")
    assert hidden == nobodys.without_request_id
