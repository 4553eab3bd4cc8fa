"""Jobs over HTTP: submission, lists, cancellation, plans."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.api.harness import FLEET, ApiHarness, open_harness
from tests.api.http_client import job

YAML = """
name: from-yaml
queue: a-dev
resources:
  accelerators: T4:1
run: echo hello
"""


def test_a_job_is_accepted_runs_and_ends(api: ApiHarness) -> None:
    response = api.ann.post("/v1/jobs", job("a-train", name="lifecycle"))
    assert response.status == 201
    assert response.json["ids"] == [response.json["id"]] and response.json["replayed"] is False
    assert response.headers["location"] == f"/v1/jobs/{response.json['id']}"
    job_id = response.json["id"]
    api.wait_for_state(job_id, "running")
    shown = api.ann.get(f"/v1/jobs/{job_id}").json
    assert (shown["owner"], shown["queue"], shown["nodes"]) == ("ann", "a-train", ["t4-0001"])
    assert [one["attempt"] for one in shown["attempts"]] == [1]
    assert json.loads(shown["document"])["name"] == "lifecycle"
    api.engine.end(job_id, code=3)
    api.wait_for_state(job_id, "failed")
    assert api.ann.get(f"/v1/jobs/{job_id}").json["exit_code"] == 3
    events = api.ann.get(f"/v1/jobs/{job_id}/events").json["items"]
    assert [one["type"] for one in events] == [
        *("JobSubmitted", "AttemptAssigned", "AttemptStarted", "AttemptFailed"),
    ]
    assert [one["sequence"] for one in events] == sorted(one["sequence"] for one in events)


def test_a_job_may_be_sent_as_yaml(api: ApiHarness) -> None:
    response = api.ann.post("/v1/jobs", YAML.encode(), Content_Type="application/yaml")
    assert response.status == 201, response.body
    shown = api.ann.get(f"/v1/jobs/{response.json['id']}").json
    assert (shown["name"], shown["queue"]) == ("from-yaml", "a-dev")


def test_a_mistake_in_yaml_is_reported_with_line_and_column(api: ApiHarness) -> None:
    wrong = YAML.replace("accelerators", "accelerator").encode()
    response = api.ann.post("/v1/jobs", wrong, Content_Type="application/yaml; charset=utf-8")
    assert response.status == 422
    assert "job.yaml:5:3" in response.json["detail"] and "accelerators" in response.json["fix"]


def test_a_user_with_one_queue_need_not_name_it(api: ApiHarness) -> None:
    document = {key: value for key, value in job("x").items() if key != "queue"}
    response = api.bob.post("/v1/jobs", document)
    assert response.status == 201
    assert api.bob.get(f"/v1/jobs/{response.json['id']}").json["queue"] == "b-train"
    assert api.ann.post("/v1/jobs", document).code == "missing-key"


def test_a_batch_is_accepted_completely_or_not_at_all(api: ApiHarness) -> None:
    response = api.ann.post(
        "/v1/jobs:bulk", {"jobs": [job("a-dev", name=f"n{n}") for n in range(20)]}
    )
    assert response.status == 201 and len(set(response.json["ids"])) == 20
    before = len(api.ann.get("/v1/jobs?limit=1000").json["items"])
    bad = api.ann.post("/v1/jobs:bulk", {"jobs": [job("a-dev"), {**job("a-dev"), "nmae": 1}]})
    assert bad.status == 422 and bad.json["detail"].startswith("jobs[1]: ")
    assert len(api.ann.get("/v1/jobs?limit=1000").json["items"]) == before


def test_an_array_has_an_id_for_each_member(api: ApiHarness) -> None:
    body = api.ann.post("/v1/jobs", job("a-dev", array=3)).json
    assert [one[one.index("[") :] for one in body["ids"]] == ["[0]", "[1]", "[2]"]
    quoted = body["ids"][1].replace("[", "%5B").replace("]", "%5D")
    assert api.ann.get(f"/v1/jobs/{quoted}").json["id"] == body["ids"][1]


# -- idempotency -------------------------------------------------------------------------------------


def test_a_repeated_request_with_the_same_key_gets_the_same_response(api: ApiHarness) -> None:
    first = api.ann.post("/v1/jobs", job("a-dev"), Idempotency_Key="k1")
    again = api.ann.post("/v1/jobs", job("a-dev"), Idempotency_Key="k1")
    assert (first.json["replayed"], again.json["replayed"]) == (False, True)
    assert (first.status, first.json["ids"]) == (again.status, again.json["ids"])


def test_another_request_with_the_same_key_is_rejected(api: ApiHarness) -> None:
    api.ann.post("/v1/jobs", job("a-dev"), Idempotency_Key="k2")
    response = api.ann.post("/v1/jobs", job("a-dev", name="other"), Idempotency_Key="k2")
    assert (response.status, response.code) == (409, "idempotency-key-reused")
    bulk = api.ann.post("/v1/jobs:bulk", {"jobs": [job("a-dev")]}, Idempotency_Key="k2")
    assert bulk.status == 409


def test_idempotency_keys_are_separate_for_each_user(api: ApiHarness) -> None:
    ours = api.ann.post("/v1/jobs", job("a-dev"), Idempotency_Key="k3").json
    theirs = api.abe.post("/v1/jobs", job("a-dev"), Idempotency_Key="k3").json
    assert ours["id"] != theirs["id"] and theirs["replayed"] is False


def test_a_rejected_request_does_not_use_its_key(api: ApiHarness) -> None:
    wrong = job("a-dev", resources={"accelerators": "H100:8"})
    assert api.ann.post("/v1/jobs", wrong, Idempotency_Key="k4").status == 422
    assert api.ann.post("/v1/jobs", job("a-dev"), Idempotency_Key="k4").status == 201


@pytest.mark.parametrize("key", ["", "a b", "x" * 129, "é"])
def test_a_bad_idempotency_key_is_rejected(api: ApiHarness, key: str) -> None:
    response = api.ann.request(
        "POST", "/v1/jobs", job("a-dev"), {"Idempotency-Key": key.encode().decode("latin-1")}
    )
    assert response.status == 422


# -- lists -------------------------------------------------------------------------------------------


def test_pages_have_no_gaps_or_duplicates(api: ApiHarness) -> None:
    jobs = [job("b-train", name="paged") for _ in range(25)]
    submitted = api.bob.post("/v1/jobs:bulk", {"jobs": jobs}).json["ids"]
    listed: list[str] = []
    cursor = ""
    while cursor is not None:
        body = api.bob.get(f"/v1/jobs?name=paged&limit=10{cursor and f'&cursor={cursor}'}").json
        listed += [one["id"] for one in body["items"]]
        assert len(body["items"]) <= 10
        cursor = body["next_cursor"]
    assert sorted(listed) == sorted(submitted)


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
def test_a_bad_query_is_rejected(api: ApiHarness, query: str) -> None:
    assert api.ann.get(f"/v1/jobs?{query}").status in (400, 422)


def test_jobs_are_filtered_by_label(api: ApiHarness) -> None:
    job_id = api.ann.submit("a-dev", labels={"run": "42"})
    items = api.ann.get("/v1/jobs?label=run=42").json["items"]
    assert [one["id"] for one in items] == [job_id]
    assert api.ann.get("/v1/jobs?label=run=4").json["items"] == []


@pytest.mark.parametrize("text", ["%25", "_", "'%20OR%201=1--", "a-tr%25", "%22"])
def test_filters_are_values_and_not_patterns(api: ApiHarness, text: str) -> None:
    for name in ("name", "owner", "queue"):
        assert api.ann.get(f"/v1/jobs?{name}={text}").json["items"] == []


# -- cancel and retry --------------------------------------------------------------------------------


def test_only_the_owner_or_a_lead_cancels_a_job(api: ApiHarness) -> None:
    job_id = api.ann.submit("a-dev", resources={"accelerators": "T4:4"})
    assert api.abe.post(f"/v1/jobs/{job_id}:cancel").code == "forbidden"
    assert api.viewer_a.post(f"/v1/jobs/{job_id}:cancel").code == "forbidden"
    assert api.abe.get(f"/v1/jobs/{job_id}").status == 200
    assert api.lead_a.post(f"/v1/jobs/{job_id}:cancel").status == 200
    api.wait_for_state(job_id, "cancelled")
    again = api.ann.post(f"/v1/jobs/{job_id}:cancel")
    assert (again.status, again.json["state"]) == (200, "cancelled")


def test_an_ended_job_can_be_retried(api: ApiHarness) -> None:
    job_id = api.ann.submit("a-dev", resources={"accelerators": "T4:4"}, name="again")
    assert api.ann.post(f"/v1/jobs/{job_id}:retry").code == "job-not-over"
    api.ann.post(f"/v1/jobs/{job_id}:cancel")
    api.wait_for_state(job_id, "cancelled")
    assert api.abe.post(f"/v1/jobs/{job_id}:retry").code == "forbidden"
    response = api.ann.post(f"/v1/jobs/{job_id}:retry")
    assert response.status == 201 and response.json["id"] != job_id
    assert api.ann.get(f"/v1/jobs/{response.json['id']}").json["name"] == "again"


def test_a_job_with_secrets_cannot_be_retried(api: ApiHarness) -> None:
    response = api.ann.post("/v1/jobs", job("a-dev", secrets={"KEY": "canary-7731"}))
    job_id = response.json["id"]
    for path in (f"/v1/jobs/{job_id}", "/v1/jobs", f"/v1/jobs/{job_id}/events"):
        assert b"canary-7731" not in api.ann.get(path).body
    api.ann.post(f"/v1/jobs/{job_id}:cancel")
    api.wait_until(
        lambda: api.ann.get(f"/v1/jobs/{job_id}").json["state"] == "cancelled", "the job has ended"
    )
    assert api.ann.post(f"/v1/jobs/{job_id}:retry").code == "secrets-forgotten"


# -- why, queue, plan, fleet ---------------------------------------------------------------------------


def test_a_blocked_job_is_explained_and_listed_in_the_queue(api: ApiHarness) -> None:
    job_id = api.ann.submit("a-train", resources={"accelerators": "T4:4"}, name="blocked-one")
    body = api.ann.get(f"/v1/jobs/{job_id}/why").json
    assert body["id"] == job_id and body["text"]
    api.wait_until(
        lambda: job_id in [one["id"] for one in api.ann.get("/v1/queue").json["items"]],
        "it is in the queue",
    )
    queue = api.ann.get("/v1/queue").json
    own = next(one for one in queue["items"] if one["id"] == job_id)
    assert own["position"] >= 1 and own["reason"] and own["owner"] == "ann"
    positions = [one["position"] for one in queue["items"]]
    assert positions == sorted(positions)


def test_a_plan_shows_the_cost_and_submits_nothing(api: ApiHarness) -> None:
    before = api.plane.reader.last_sequence()
    body = api.ann.post("/v1/plan", job("a-train", max_hours=2)).json
    assert body["feasible"] is True and body["problems"] == []
    assert body["starts"]["likely_ms"] is not None
    if body["placement"] is not None:
        assert body["cost"]["max_micro_usd"] == 2 * body["cost"]["micro_usd_per_hour"]
    jobs = [one for one in api.plane.reader.events(after=before) if hasattr(one.event, "spec")]
    assert jobs == []


def test_a_plan_lists_the_problems(api: ApiHarness) -> None:
    body = api.ann.post("/v1/plan", job("a-train", resources={"accelerators": "T4:64"})).json
    assert body["feasible"] is False
    assert [one["code"] for one in body["problems"]] == ["no-pool-fits"]
    assert body["problems"][0]["fix"]


def test_requests_before_a_fleet_is_declared_get_no_fleet(tmp_path: Path) -> None:
    with open_harness(tmp_path, None) as empty:
        assert empty.admin.get("/v1/whoami").json["queues"] == []
        assert empty.admin.get("/v1/jobs").json["items"] == []
        for method, path in (("POST", "/v1/jobs"), ("GET", "/v1/queue"), ("GET", "/v1/fleet")):
            body = job("a-train") if method == "POST" else None
            response = empty.admin.request(method, path, body)
            assert (response.status, response.code) == (503, "no-fleet")
        files = {"files": {"fleet.yaml": FLEET}}
        assert empty.admin.post("/v1/fleet:plan", files).json["changes"]
        assert empty.admin.post("/v1/fleet:apply", files).status == 200
        assert empty.ann.post("/v1/jobs", job("a-train")).status == 201


def test_a_fleet_is_planned_then_applied_once(api: ApiHarness) -> None:
    files = {"files": {"fleet.yaml": FLEET.replace("nodes: 1", "nodes: 2")}}
    planned = api.admin.post("/v1/fleet:plan", files).json
    assert planned["changes"]
    expected = {**files, "expected_sequence": planned["sequence"]}
    assert api.admin.post("/v1/fleet:apply", expected).status == 200
    api.wait_until(
        lambda: api.ann.get("/v1/fleet").json["pools"][0]["node_count"] == 2, "two nodes"
    )
    assert api.admin.post("/v1/fleet:apply", expected).code == "fleet-changed"
    assert api.lead_a.post("/v1/fleet:plan", files).status == 403


def test_nodes_are_drained_and_restored(api: ApiHarness) -> None:
    assert api.admin.post("/v1/nodes/t4-0001:drain").json["action"] == "drained"
    node = api.ann.get("/v1/fleet").json["pools"][0]["nodes"][0]
    assert node["is_open"] is False
    assert api.admin.post("/v1/nodes/t4-0001:restore").status == 200
    assert api.admin.post("/v1/nodes/none:drain").code == "no-such-node"
