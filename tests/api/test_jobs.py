"""The life of a job over HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.api.asking import job
from tests.api.scene import FLEET, Scene, open_scene

YAML = """
name: from-yaml
queue: a-dev
resources:
  accelerators: T4:1
run: echo hello
"""


def test_a_job_is_taken_runs_and_ends(scene: Scene) -> None:
    told = scene.ann.post("/v1/jobs", job("a-train", name="whole-life"))
    assert told.status == 201
    assert told.json["ids"] == [told.json["id"]] and told.json["replayed"] is False
    assert told.headers["location"] == f"/v1/jobs/{told.json['id']}"
    job_id = told.json["id"]
    scene.until_state(job_id, "running")
    shown = scene.ann.get(f"/v1/jobs/{job_id}").json
    assert (shown["owner"], shown["queue"], shown["nodes"]) == ("ann", "a-train", ["t4-0001"])
    assert [one["attempt"] for one in shown["attempts"]] == [1]
    assert json.loads(shown["document"])["name"] == "whole-life"
    scene.engine.end(job_id, code=3)
    scene.until_state(job_id, "failed")
    assert scene.ann.get(f"/v1/jobs/{job_id}").json["exit_code"] == 3
    events = scene.ann.get(f"/v1/jobs/{job_id}/events").json["items"]
    assert [one["type"] for one in events] == [
        *("JobSubmitted", "AttemptAssigned", "AttemptStarted", "AttemptFailed"),
    ]
    assert [one["sequence"] for one in events] == sorted(one["sequence"] for one in events)


def test_a_job_may_be_sent_as_it_is_written(scene: Scene) -> None:
    told = scene.ann.post("/v1/jobs", YAML.encode(), Content_Type="application/yaml")
    assert told.status == 201, told.body
    shown = scene.ann.get(f"/v1/jobs/{told.json['id']}").json
    assert (shown["name"], shown["queue"]) == ("from-yaml", "a-dev")


def test_a_mistake_in_yaml_is_told_with_its_place(scene: Scene) -> None:
    wrong = YAML.replace("accelerators", "accelerator").encode()
    told = scene.ann.post("/v1/jobs", wrong, Content_Type="application/yaml; charset=utf-8")
    assert told.status == 422
    assert "job.yaml:5:3" in told.json["detail"] and "accelerators" in told.json["fix"]


def test_whoever_has_one_queue_need_not_name_it(scene: Scene) -> None:
    document = {key: value for key, value in job("x").items() if key != "queue"}
    told = scene.bob.post("/v1/jobs", document)
    assert told.status == 201
    assert scene.bob.get(f"/v1/jobs/{told.json['id']}").json["queue"] == "b-train"
    assert scene.ann.post("/v1/jobs", document).code == "missing-key"


def test_many_are_taken_or_none(scene: Scene) -> None:
    told = scene.ann.post(
        "/v1/jobs:bulk", {"jobs": [job("a-dev", name=f"n{n}") for n in range(20)]}
    )
    assert told.status == 201 and len(set(told.json["ids"])) == 20
    before = len(scene.ann.get("/v1/jobs?limit=1000").json["items"])
    bad = scene.ann.post("/v1/jobs:bulk", {"jobs": [job("a-dev"), {**job("a-dev"), "nmae": 1}]})
    assert bad.status == 422 and bad.json["detail"].startswith("jobs[1]: ")
    assert len(scene.ann.get("/v1/jobs?limit=1000").json["items"]) == before


def test_an_array_has_an_id_for_each_member(scene: Scene) -> None:
    told = scene.ann.post("/v1/jobs", job("a-dev", array=3)).json
    assert [one[one.index("[") :] for one in told["ids"]] == ["[0]", "[1]", "[2]"]
    quoted = told["ids"][1].replace("[", "%5B").replace("]", "%5D")
    assert scene.ann.get(f"/v1/jobs/{quoted}").json["id"] == told["ids"][1]


# -- idempotency -------------------------------------------------------------------------------------


def test_the_same_key_and_request_get_the_same_answer(scene: Scene) -> None:
    first = scene.ann.post("/v1/jobs", job("a-dev"), Idempotency_Key="k1")
    again = scene.ann.post("/v1/jobs", job("a-dev"), Idempotency_Key="k1")
    assert (first.json["replayed"], again.json["replayed"]) == (False, True)
    assert (first.status, first.json["ids"]) == (again.status, again.json["ids"])


def test_the_same_key_with_another_request_is_refused(scene: Scene) -> None:
    scene.ann.post("/v1/jobs", job("a-dev"), Idempotency_Key="k2")
    told = scene.ann.post("/v1/jobs", job("a-dev", name="other"), Idempotency_Key="k2")
    assert (told.status, told.code) == (409, "idempotency-key-reused")
    bulk = scene.ann.post("/v1/jobs:bulk", {"jobs": [job("a-dev")]}, Idempotency_Key="k2")
    assert bulk.status == 409


def test_keys_of_others_are_others_keys(scene: Scene) -> None:
    ours = scene.ann.post("/v1/jobs", job("a-dev"), Idempotency_Key="k3").json
    theirs = scene.abe.post("/v1/jobs", job("a-dev"), Idempotency_Key="k3").json
    assert ours["id"] != theirs["id"] and theirs["replayed"] is False


def test_a_refused_request_does_not_use_its_key_up(scene: Scene) -> None:
    wrong = job("a-dev", resources={"accelerators": "H100:8"})
    assert scene.ann.post("/v1/jobs", wrong, Idempotency_Key="k4").status == 422
    assert scene.ann.post("/v1/jobs", job("a-dev"), Idempotency_Key="k4").status == 201


@pytest.mark.parametrize("key", ["", "a b", "x" * 129, "é"])
def test_a_key_is_short_and_visible(scene: Scene, key: str) -> None:
    told = scene.ann.ask(
        "POST", "/v1/jobs", job("a-dev"), {"Idempotency-Key": key.encode().decode("latin-1")}
    )
    assert told.status == 422


# -- lists -------------------------------------------------------------------------------------------


def test_pages_follow_each_other_without_gap_or_repeat(scene: Scene) -> None:
    jobs = [job("b-train", name="paged") for _ in range(25)]
    made = scene.bob.post("/v1/jobs:bulk", {"jobs": jobs}).json["ids"]
    found: list[str] = []
    cursor = ""
    while cursor is not None:
        told = scene.bob.get(f"/v1/jobs?name=paged&limit=10{cursor and f'&cursor={cursor}'}").json
        found += [one["id"] for one in told["items"]]
        assert len(told["items"]) <= 10
        cursor = told["next_cursor"]
    assert sorted(found) == sorted(made)


@pytest.mark.parametrize(
    "query",
    [
        "cursor=AAAA",
        "cursor=WzFd",
        "cursor=%00",
        "cursor=",
        "limit=0",
        "limit=1001",
        "limit=x",
        "limit=1e3",
        "limit=99999999999999999999",
        "state=dead",
        "label=x",
        "nmae=x",
        "limit=1&limit=2",
        "name=%ff",
        "name=a%0ab",
        "&".join(f"queue={n}" for n in range(40)),
    ],
)
def test_a_wrong_question_is_told_apart(scene: Scene, query: str) -> None:
    assert scene.ann.get(f"/v1/jobs?{query}").status in (400, 422)


def test_a_label_finds_its_job(scene: Scene) -> None:
    made = scene.ann.submit("a-dev", labels={"run": "42"})
    found = scene.ann.get("/v1/jobs?label=run=42").json["items"]
    assert [one["id"] for one in found] == [made]
    assert scene.ann.get("/v1/jobs?label=run=4").json["items"] == []


@pytest.mark.parametrize("text", ["%25", "_", "'%20OR%201=1--", "a-tr%25", "%22"])
def test_filters_are_values_and_not_patterns(scene: Scene, text: str) -> None:
    for name in ("name", "owner", "queue"):
        assert scene.ann.get(f"/v1/jobs?{name}={text}").json["items"] == []


# -- who may end it ----------------------------------------------------------------------------------


def test_only_its_user_or_a_lead_ends_a_job(scene: Scene) -> None:
    job_id = scene.ann.submit("a-dev", resources={"accelerators": "T4:4"})
    assert scene.abe.post(f"/v1/jobs/{job_id}:cancel").code == "forbidden"
    assert scene.viewer_a.post(f"/v1/jobs/{job_id}:cancel").code == "forbidden"
    assert scene.abe.get(f"/v1/jobs/{job_id}").status == 200
    assert scene.lead_a.post(f"/v1/jobs/{job_id}:cancel").status == 200
    scene.until_state(job_id, "cancelled")
    again = scene.ann.post(f"/v1/jobs/{job_id}:cancel")
    assert (again.status, again.json["state"]) == (200, "cancelled")


def test_a_job_that_is_over_can_be_submitted_again(scene: Scene) -> None:
    job_id = scene.ann.submit("a-dev", resources={"accelerators": "T4:4"}, name="again")
    assert scene.ann.post(f"/v1/jobs/{job_id}:retry").code == "job-not-over"
    scene.ann.post(f"/v1/jobs/{job_id}:cancel")
    scene.until_state(job_id, "cancelled")
    assert scene.abe.post(f"/v1/jobs/{job_id}:retry").code == "forbidden"
    told = scene.ann.post(f"/v1/jobs/{job_id}:retry")
    assert told.status == 201 and told.json["id"] != job_id
    assert scene.ann.get(f"/v1/jobs/{told.json['id']}").json["name"] == "again"


def test_a_job_with_secrets_must_be_sent_again_with_them(scene: Scene) -> None:
    told = scene.ann.post("/v1/jobs", job("a-dev", secrets={"KEY": "canary-7731"}))
    job_id = told.json["id"]
    for path in (f"/v1/jobs/{job_id}", "/v1/jobs", f"/v1/jobs/{job_id}/events"):
        assert b"canary-7731" not in scene.ann.get(path).body
    scene.ann.post(f"/v1/jobs/{job_id}:cancel")
    scene.until(
        lambda: scene.ann.get(f"/v1/jobs/{job_id}").json["state"] == "cancelled", "it is over"
    )
    assert scene.ann.post(f"/v1/jobs/{job_id}:retry").code == "secrets-forgotten"


# -- why, when, how much -----------------------------------------------------------------------------


def test_why_and_queue_say_the_same(scene: Scene) -> None:
    job_id = scene.ann.submit("a-train", resources={"accelerators": "T4:4"}, name="blocked-one")
    told = scene.ann.get(f"/v1/jobs/{job_id}/why").json
    assert told["id"] == job_id and told["text"]
    scene.until(
        lambda: job_id in [one["id"] for one in scene.ann.get("/v1/queue").json["items"]],
        "it is in the queue",
    )
    queue = scene.ann.get("/v1/queue").json
    own = next(one for one in queue["items"] if one["id"] == job_id)
    assert own["position"] >= 1 and own["reason"] and own["owner"] == "ann"
    positions = [one["position"] for one in queue["items"]]
    assert positions == sorted(positions)


def test_a_plan_submits_nothing_and_says_what_it_costs(scene: Scene) -> None:
    before = scene.plane.reader.last_sequence()
    told = scene.ann.post("/v1/plan", job("a-train", max_hours=2)).json
    assert told["feasible"] is True and told["problems"] == []
    assert told["starts"]["likely_ms"] is not None
    if told["placement"] is not None:
        assert told["cost"]["max_micro_usd"] == 2 * told["cost"]["micro_usd_per_hour"]
    jobs = [one for one in scene.plane.reader.events(after=before) if hasattr(one.event, "spec")]
    assert jobs == []


def test_a_plan_lists_what_is_wrong(scene: Scene) -> None:
    told = scene.ann.post("/v1/plan", job("a-train", resources={"accelerators": "T4:64"})).json
    assert told["feasible"] is False
    assert [one["code"] for one in told["problems"]] == ["no-pool-fits"]
    assert told["problems"][0]["fix"]


def test_before_a_fleet_is_declared_the_server_says_so(tmp_path: Path) -> None:
    with open_scene(tmp_path, None) as empty:
        assert empty.admin.get("/v1/whoami").json["queues"] == []
        assert empty.admin.get("/v1/jobs").json["items"] == []
        for method, path in (("POST", "/v1/jobs"), ("GET", "/v1/queue"), ("GET", "/v1/fleet")):
            body = job("a-train") if method == "POST" else None
            told = empty.admin.ask(method, path, body)
            assert (told.status, told.code) == (503, "no-fleet")
        files = {"files": {"fleet.yaml": FLEET}}
        assert empty.admin.post("/v1/fleet:plan", files).json["changes"]
        assert empty.admin.post("/v1/fleet:apply", files).status == 200
        assert empty.ann.post("/v1/jobs", job("a-train")).status == 201


def test_a_fleet_is_planned_then_applied_once(scene: Scene) -> None:
    files = {"files": {"fleet.yaml": FLEET.replace("nodes: 1", "nodes: 2")}}
    planned = scene.admin.post("/v1/fleet:plan", files).json
    assert planned["changes"]
    expected = {**files, "expected_sequence": planned["sequence"]}
    assert scene.admin.post("/v1/fleet:apply", expected).status == 200
    scene.until(lambda: scene.ann.get("/v1/fleet").json["pools"][0]["node_count"] == 2, "two nodes")
    assert scene.admin.post("/v1/fleet:apply", expected).code == "fleet-changed"
    assert scene.lead_a.post("/v1/fleet:plan", files).status == 403


def test_nodes_are_drained_and_restored(scene: Scene) -> None:
    assert scene.admin.post("/v1/nodes/t4-0001:drain").json["action"] == "drained"
    node = scene.ann.get("/v1/fleet").json["pools"][0]["nodes"][0]
    assert node["is_open"] is False
    assert scene.admin.post("/v1/nodes/t4-0001:restore").status == 200
    assert scene.admin.post("/v1/nodes/none:drain").code == "no-such-node"
