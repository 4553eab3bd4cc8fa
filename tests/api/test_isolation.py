"""Another tenant's things answer exactly as things that do not exist, on every route there is.

The cases are made from the route table: a route that is added tomorrow is asked tomorrow.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from bursar.api.http.route import Open, Route
from bursar.api.routes import ROUTES
from tests.api.asking import Asker, Told, job
from tests.api.scene import Scene, open_scene

OTHERS = ("bob", "lead_b", "admin_b", "gone")
STREAMS = {"GET /v1/events"}
MISSING = {"job_id": "j-zzzzzzzzzz", "token_id": "zzzzzzzzzzzzzzzz"}
SHARED = {"sha256", "node"}
"""What is nobody's: archives are known by their content, nodes by whoever runs the installation."""

with_a_path = [route for route in ROUTES if route.path_parameters]
without_a_path = [
    route
    for route in ROUTES
    if not route.path_parameters and route.needs is not Open.TO_ALL and route.name not in STREAMS
]


@dataclass(frozen=True)
class Belongings:
    """What team A has, and how each of it is called."""

    scene: Scene
    ids: dict[str, str]
    marks: tuple[str, ...]


@pytest.fixture(scope="module")
def belongings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Belongings]:
    with open_scene(tmp_path_factory.mktemp("state")) as scene:
        labels = {"secret-label": "very-secret-value"}
        running = scene.ann.submit("a-train", name="a-running-name", labels=labels)
        scene.until_state(running, "running")
        scene.engine.path(running).write_text("a-secret-output\n")
        waiting = scene.ann.submit(
            "a-train", name="a-waiting-name", resources={"accelerators": "T4:4"}
        )
        tokens = [one for one in scene.served.app.context.tokens.all() if one.tenant == "team-a"]
        own = next(one for one in tokens if one.user == "amy")
        marks = (
            *(running, waiting, "a-running-name", "a-waiting-name", "a-train", "a-dev", "team-a"),
            *("secret-label", "very-secret-value", "a-secret-output", '"ann"', '"amy"'),
            *(one.id for one in tokens),
        )
        yield Belongings(scene, {"job_id": running, "token_id": own.id}, marks)


def fill(route: Route, ids: dict[str, str]) -> str:
    path = route.path
    for name in route.path_parameters:
        path = path.replace(f"{{{name}}}", ids[name])
    return path


def ask(asker: Asker, route: Route, path: str) -> Told:
    body: Any = None
    headers = {}
    if route.body is not None:
        headers["Content-Type"] = next(iter(route.body.media))
        body = b"{}"
    return asker.ask(route.method, path, body, headers)


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("route", with_a_path, ids=lambda route: route.name)
def test_anothers_id_answers_as_a_missing_one(
    belongings: Belongings, route: Route, other: str
) -> None:
    if set(route.path_parameters) & SHARED:
        return
    asker = belongings.scene.asker(other)
    theirs = ask(asker, route, fill(route, belongings.ids))
    missing = ask(asker, route, fill(route, MISSING))
    assert theirs.status in (403, 404)
    assert (theirs.status, _nameless(theirs, belongings.ids)) == (
        missing.status,
        _nameless(missing, MISSING),
    )
    assert _kept(theirs) == _kept(missing)


def _nameless(told: Told, ids: dict[str, str]) -> bytes:
    body = told.without_request_id
    for one in ids.values():
        body = body.replace(one.encode(), b"ID")
    return body


def _kept(told: Told) -> dict[str, str]:
    varying = {"date", "bursar-request-id", "content-length"}
    return {name: value for name, value in told.headers.items() if name not in varying}


@pytest.mark.parametrize("route", with_a_path, ids=lambda route: route.name)
def test_a_path_parameter_is_known_to_this_test(route: Route) -> None:
    """A new kind of id must be put among those that are kept apart, or said to be nobody's."""
    assert set(route.path_parameters) <= MISSING.keys() | SHARED


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("route", without_a_path, ids=lambda route: route.name)
def test_nothing_of_another_tenant_is_in_an_answer(
    belongings: Belongings, route: Route, other: str
) -> None:
    told = ask(belongings.scene.asker(other), route, route.path)
    text = told.body.decode()
    assert [mark for mark in belongings.marks if mark in text] == []


def test_the_marks_are_there_for_those_who_may_see_them(belongings: Belongings) -> None:
    """A test that looks for marks that are nowhere could not fail."""
    lead = belongings.scene.lead_a
    paths = ["/v1/jobs", "/v1/queue", "/v1/tokens", "/v1/tenants", "/v1/fleet", "/v1/whoami"]
    paths.append(f"/v1/jobs/{belongings.ids['job_id']}/logs")
    text = "".join(lead.get(path).body.decode() for path in paths)
    assert [mark for mark in belongings.marks if mark not in text] == []


@pytest.mark.parametrize(
    "query",
    [
        "queue=a-train",
        "owner=ann",
        "name=a-running-name",
        "label=secret-label=very-secret-value",
        "state=running",
        "queue=a-train&queue=b-train",
    ],
)
def test_filters_do_not_reach_over_the_fence(belongings: Belongings, query: str) -> None:
    told = belongings.scene.bob.get(f"/v1/jobs?{query}")
    assert told.json == {"items": [], "next_cursor": None}


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/plan"])
def test_anothers_queue_answers_as_a_missing_one(belongings: Belongings, path: str) -> None:
    bob = belongings.scene.bob
    theirs, missing = bob.post(path, job("a-train")), bob.post(path, job("x-train"))
    assert theirs.status == missing.status == 422
    assert theirs.without_request_id.replace(b"a-train", b"Q") == (
        missing.without_request_id.replace(b"x-train", b"Q")
    )
    assert theirs.code == "unknown-queue"


def test_anothers_queue_in_a_bulk_takes_the_whole_bulk_down(belongings: Belongings) -> None:
    told = belongings.scene.bob.post("/v1/jobs:bulk", {"jobs": [job("b-train"), job("a-train")]})
    assert told.status == 422
    assert belongings.scene.bob.get("/v1/jobs").json["items"] == []


def test_anothers_job_as_a_dependency_answers_as_a_missing_one(belongings: Belongings) -> None:
    bob, theirs = belongings.scene.bob, belongings.ids["job_id"]
    one = bob.post("/v1/jobs", job("b-train", depends_on=[theirs]))
    other = bob.post("/v1/jobs", job("b-train", depends_on=["j-zzzzzzzzzz"]))
    assert one.status == other.status == 422
    assert one.without_request_id.replace(theirs.encode(), b"ID") == (
        other.without_request_id.replace(b"j-zzzzzzzzzz", b"ID")
    )


def test_why_names_nobody_elses_jobs(tmp_path: Any) -> None:
    with open_scene(tmp_path) as scene:
        for _ in range(4):
            scene.until_state(scene.ann.submit("a-train", name="a-name"), "running")
        scene.until(lambda: b"a-train" in scene.ann.get("/v1/fleet").body, "the holder is shown")
        waiting = scene.bob.submit("b-train", resources={"accelerators": "T4:4"})
        for path in (f"/v1/jobs/{waiting}/why", "/v1/queue", "/v1/fleet"):
            text = scene.bob.get(path).body.decode()
            assert "a-train" not in text and "a-name" not in text
        planned = scene.bob.post("/v1/plan", job("b-train", resources={"accelerators": "T4:4"}))
        assert planned.status == 200
        assert b"a-train" not in planned.body


def test_a_token_of_a_tenant_that_is_gone_sees_nothing(belongings: Belongings) -> None:
    gone = belongings.scene.gone
    assert gone.get("/v1/jobs").json["items"] == []
    assert gone.get("/v1/whoami").json["queues"] == []
    assert gone.post("/v1/jobs", job("a-train")).code == "unknown-queue"


def test_whoever_looks_over_the_fence_is_written_down(belongings: Belongings) -> None:
    theirs = belongings.ids["job_id"]
    belongings.scene.bob.get(f"/v1/jobs/{theirs}")

    def is_written() -> bool:
        return any(
            one["outcome"] == "hidden" and one["user"] == "bob" and theirs in one["detail"]
            for one in belongings.scene.admin.get("/v1/audit?limit=1000").json["items"]
        )

    belongings.scene.until(is_written, "it is in the audit log")


def test_the_archive_of_another_tenant_is_not_confirmed_by_its_name(belongings: Belongings) -> None:
    sha256 = hashlib.sha256(b"never sent").hexdigest()
    told = belongings.scene.bob.post("/v1/jobs", job("b-train", workdir=f"sha256:{sha256}"))
    assert (told.status, told.code) == (422, "no-such-bundle")
