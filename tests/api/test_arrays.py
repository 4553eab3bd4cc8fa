"""The id of an array can be used like the id of a job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.harness import ApiHarness, open_harness
from tests.api.http_client import HttpClient, job

HALF = {"accelerators": "T4:2"}


@pytest.fixture
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiHarness]:
    with open_harness(tmp_path_factory.mktemp("state")) as opened:
        yield opened


def submit_array(client: HttpClient, size: int = 3, **more: Any) -> tuple[str, list[str]]:
    """Submits an array of which two members fit at once; returns its id and its members' ids."""
    response = client.post("/v1/jobs", job("a-train", array=size, resources=HALF, **more))
    assert response.status == 201, response.body
    assert response.headers["location"] == f"/v1/jobs/{response.json['id']}"
    array_id, ids = response.json["id"], response.json["ids"]
    assert ids == [f"{array_id}[{number}]" for number in range(size)]
    return array_id, ids


def wait_until_two_run(api: ApiHarness, array_id: str) -> None:
    api.wait_until(
        lambda: (
            api.ann.get(f"/v1/jobs/{array_id}").json["array"]["states"]
            == {"queued": 1, "running": 2}
        ),
        "two of three run",
    )


def test_an_array_shows_the_states_of_its_members(api: ApiHarness) -> None:
    array_id, ids = submit_array(api.ann, name="sweep")
    wait_until_two_run(api, array_id)
    shown = api.ann.get(f"/v1/jobs/{array_id}").json
    assert (shown["id"], shown["name"], shown["state"]) == (array_id, "sweep", "running")
    assert (shown["owner"], shown["queue"]) == ("ann", "a-train")
    assert shown["array"]["size"] == 3
    assert [one["id"] for one in shown["array"]["members"]] == ids
    assert shown["attempts"] == [] and '"array": 3' in shown["document"]


def test_an_array_ends_with_its_last_member_and_fails_with_any(api: ApiHarness) -> None:
    array_id, ids = submit_array(api.ann)
    for job_id, code in zip(ids, (0, 3, 0), strict=True):
        api.wait_for_state(job_id, "running")
        assert api.ann.get(f"/v1/jobs/{array_id}").json["state"] == "running"
        api.engine.end(job_id, code=code)
        api.wait_until(lambda: api.plane.reader.job(job_id).ended_at_ms, "the array has ended")  # type: ignore[union-attr] # noqa: B023
    assert api.ann.get(f"/v1/jobs/{array_id}").json["state"] == "failed"


def test_cancelling_an_array_cancels_all_members(api: ApiHarness) -> None:
    array_id, ids = submit_array(api.ann)
    wait_until_two_run(api, array_id)
    assert api.abe.post(f"/v1/jobs/{array_id}:cancel").code == "forbidden"
    response = api.ann.post(f"/v1/jobs/{array_id}:cancel")
    assert response.status == 200 and response.json["id"] == array_id
    for job_id in ids:
        api.wait_for_state(job_id, "cancelled")
    again = api.ann.post(f"/v1/jobs/{array_id}:cancel")
    assert (again.status, again.json["state"]) == (200, "cancelled")


def test_retrying_an_array_submits_all_members(api: ApiHarness) -> None:
    array_id, _ = submit_array(api.ann, name="sweep")
    assert api.ann.post(f"/v1/jobs/{array_id}:retry").code == "job-not-over"
    api.ann.post(f"/v1/jobs/{array_id}:cancel")
    api.wait_until(
        lambda: api.ann.get(f"/v1/jobs/{array_id}").json["state"] == "cancelled",
        "the array has ended",
    )
    body = api.ann.post(f"/v1/jobs/{array_id}:retry").json
    assert body["id"] != array_id and len(body["ids"]) == 3
    names = [api.ann.get(f"/v1/jobs/{body['id']}[{n}]").json["name"] for n in range(3)]
    assert names == ["sweep[0]", "sweep[1]", "sweep[2]"]


def test_why_explains_a_waiting_member(api: ApiHarness) -> None:
    array_id, ids = submit_array(api.ann)
    wait_until_two_run(api, array_id)
    body = api.ann.get(f"/v1/jobs/{array_id}/why").json
    assert (body["id"], body["state"]) == (array_id, "running")
    assert body["text"][0] == f"{array_id} is an array of 3 jobs: 1 queued, 2 running."
    assert body["text"][1].startswith(f"{ids[2]} (2 GPUs of t4-16gb) waits in a-train")
    assert body["reasons"]


def test_the_output_of_an_array_is_that_of_its_members(api: ApiHarness) -> None:
    array_id, ids = submit_array(api.ann)
    wait_until_two_run(api, array_id)
    for job_id in ids[:2]:
        api.engine.path(job_id).write_text(f"hello from {job_id}\n")
    text = api.ann.get(f"/v1/jobs/{array_id}/logs?stream=stdout").body.decode()
    assert text == "".join(f"==> {one} <==\nhello from {one}\n" for one in ids[:2])
    assert api.ann.get(f"/v1/jobs/{array_id}/logs?follow=true").code == "is-an-array"


def test_the_events_of_an_array_are_those_of_its_members_in_order(api: ApiHarness) -> None:
    array_id, ids = submit_array(api.ann)
    wait_until_two_run(api, array_id)
    items = api.ann.get(f"/v1/jobs/{array_id}/events").json["items"]
    assert {one["job_id"] for one in items} == set(ids)
    assert [one["sequence"] for one in items] == sorted(one["sequence"] for one in items)


def test_a_job_can_depend_on_an_array(api: ApiHarness) -> None:
    array_id, ids = submit_array(api.ann, size=2)
    after = api.ann.submit("a-train", depends_on=[array_id])
    assert api.plane.reader.job(after).state == "blocked"  # type: ignore[union-attr]
    for job_id in ids:
        api.wait_for_state(job_id, "running")
        api.engine.end(job_id)
    api.wait_for_state(after, "running")
    api.engine.end(after)
    late = api.ann.submit("a-train", depends_on=[array_id])
    api.wait_for_state(late, "running")


@pytest.mark.parametrize("path", ["", "/why", "/events", "/logs", ":cancel", ":retry"])
def test_a_foreign_array_gets_the_response_of_a_missing_one(api: ApiHarness, path: str) -> None:
    array_id, _ = submit_array(api.ann)
    missing = "j-aaaaaaaaaa"
    method = "POST" if path.startswith(":") else "GET"
    foreign = api.bob.request(method, f"/v1/jobs/{array_id}{path}")
    absent = api.bob.request(method, f"/v1/jobs/{missing}{path}")
    assert foreign.status == absent.status == 404
    hidden = foreign.without_request_id.replace(array_id.encode(), missing.encode())
    assert hidden == absent.without_request_id


def test_a_job_cannot_depend_on_a_foreign_array(api: ApiHarness) -> None:
    array_id, _ = submit_array(api.ann)
    foreign = api.bob.post("/v1/jobs", job("b-train", depends_on=[array_id]))
    absent = api.bob.post("/v1/jobs", job("b-train", depends_on=["j-aaaaaaaaaa"]))
    hidden = foreign.without_request_id.replace(array_id.encode(), b"j-aaaaaaaaaa")
    assert hidden == absent.without_request_id
