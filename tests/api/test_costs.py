"""What things cost, over HTTP, on two weeks of history whose figures are worked out by hand."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from bursar.accounting.reports.focus import COLUMNS
from bursar.accounting.reports.group_by import write_day
from bursar.model.units import DAY_MS
from tests.api.asking import PATIENCE_SECONDS, Asker
from tests.api.cost_history import DAYS, begin_ms, today_ms, write_history
from tests.api.scene import Scene, open_scene
from tests.support.book_views import by_job

USD = 1_000_000
A_DAY, IDLE_A_DAY = 422_400_000, 312 * USD
WHOLE = f"from={write_day(begin_ms())}&to={write_day(today_ms())}"
A_MARKS = ("team-a", "a-train", "ann", "amos", "atlas", "birch", "pretrain", "sweep", "j-train")
BY = ("team", "project", "queue", "user", "label:project", "gpu", "market", "pool", "job", "day")


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("state")
    write_history(folder)
    with open_scene(folder) as scene:
        yield scene


def get(asker: Asker, path: str) -> Any:
    told = asker.get(f"/v1/cost/{path}")
    assert told.status == 200, told.body
    return told.json


def totals(told: Any) -> dict[str, int]:
    return {"/".join(row["keys"]): row["total_micro_usd"] for row in told["items"]}


# -- reports -------------------------------------------------------------------------------------------


def test_a_report_by_team_has_everything_the_fleet_cost(past: Scene) -> None:
    told = get(past.admin, f"report?{WHOLE}")
    assert [row["keys"] for row in told["items"]] == [["team-a"], ["team-b"], ["(platform)"]]
    assert totals(told) == {
        "team-a": DAYS * 108 * USD,
        "team-b": DAYS * 2_400_000,
        "(platform)": DAYS * IDLE_A_DAY,
    }
    assert told["total"]["total_micro_usd"] == DAYS * A_DAY
    first = told["items"][0]
    assert (first["usage_micro_usd"], first["waste_micro_usd"]) == (
        DAYS * 96 * USD,
        DAYS * 12 * USD,
    )
    assert (first["gpu_hours"], first["jobs"]) == (DAYS * 54, 2 * DAYS)
    assert told["is_over"] and told["sees_fleet"]


@pytest.mark.parametrize("by", [*BY, "team,gpu", "day,user,pool"])
def test_along_every_dimension_the_rows_come_to_the_same(past: Scene, by: str) -> None:
    told = get(past.admin, f"report?by={by}&{WHOLE}")
    assert told["by"] == by.split(",")
    assert sum(totals(told).values()) == told["total"]["total_micro_usd"] == DAYS * A_DAY
    assert told["rows"] == len(told["items"])


EXPECTED = {
    "user": {"ann": 96 * USD, "amos": 12 * USD, "bob": 2_400_000, "(platform)": IDLE_A_DAY},
    "label:project": {
        "atlas": 96 * USD,
        "=birch": 12 * USD,
        "(no such label)": 2_400_000,
        "(platform)": IDLE_A_DAY,
    },
    "gpu": {"a100-80gb": 384 * USD, "t4-16gb": 38_400_000},
    "market": {"owned": 384 * USD, "spot": 38_400_000},
}


@pytest.mark.parametrize("by", EXPECTED)
def test_rows_are_what_they_should_be(past: Scene, by: str) -> None:
    told = get(past.admin, f"report?by={by}&{WHOLE}")
    assert totals(told) == {name: DAYS * usd for name, usd in EXPECTED[by].items()}


def test_days_stand_in_order_and_jobs_say_whose_they_are(past: Scene) -> None:
    days = get(past.admin, f"report?by=day&{WHOLE}")["items"]
    assert [row["keys"] for row in days] == sorted(row["keys"] for row in days)
    jobs = get(past.admin, f"report?by=job&limit=1&{WHOLE}")
    assert jobs["items"][0]["name"] == "pretrain" and jobs["items"][0]["owner"] == "ann"
    assert jobs["rows"] == 3 * DAYS + 1 and len(jobs["items"]) == 1
    assert jobs["total"]["total_micro_usd"] == DAYS * A_DAY


def test_a_tenant_sees_what_is_his_and_nothing_that_is_idle(past: Scene) -> None:
    for by in BY:
        told = get(past.bob, f"report?by={by}&{WHOLE}")
        assert told["total"]["total_micro_usd"] == DAYS * 2_400_000
        assert told["total"]["idle_micro_usd"] == 0 and not told["sees_fleet"]
    assert get(past.gone, f"report?{WHOLE}")["items"] == []


@pytest.mark.parametrize(
    "path",
    [
        *(f"report?by={by}&{WHOLE}" for by in BY),
        *(f"diff?by={by}&{WHOLE}" for by in BY),
        "forecast",
        f"statement?{WHOLE}",
        f"statement?lines=jobs&{WHOLE}",
        f"savings?{WHOLE}",
        *(f"export?format={form}&{WHOLE}" for form in ("csv", "json", "focus")),
    ],
)
def test_nothing_of_another_tenant_is_in_an_answer(past: Scene, path: str) -> None:
    told = past.bob.get(f"/v1/cost/{path}")
    assert told.status == 200
    text = told.body.decode()
    assert [mark for mark in A_MARKS if mark in text] == []
    assert past.lead_a.get(f"/v1/cost/{path}").body.decode() != text


def test_today_so_far_is_told_as_such(past: Scene) -> None:
    told = get(past.admin, f"report?by=pool&from={write_day(today_ms())}")
    assert not told["is_over"]
    assert told["total"]["usage_micro_usd"] == 0 < told["total"]["idle_micro_usd"] < A_DAY


WRONG = {
    "by=colour": ("unknown-dimension", "label:KEY"),
    "by=team,team": ("unknown-dimension", "1 to 3"),
    "by=team,user,gpu,pool": ("unknown-dimension", "1 to 3"),
    "by=label": ("unknown-dimension", "label:KEY"),
    "by=": ("unknown-dimension", "team"),
    "from=2026-02-30": ("bad-period", "YYYY-MM-DD"),
    "from=0001-01-01": ("bad-period", "2000"),
    "from=2026-11-05&to=2026-11-05": ("bad-period", "day after"),
    "from=2026-11-05&to=2026-11-01": ("bad-period", "day after"),
    "from=yesterday": ("wrong-value", "[0-9]"),
    "limit=0": ("wrong-value", "from 1"),
}


@pytest.mark.parametrize("query", WRONG)
@pytest.mark.parametrize("route", ["report", "diff"])
def test_a_wrong_question_is_told_what_to_write(past: Scene, route: str, query: str) -> None:
    told = past.admin.get(f"/v1/cost/{route}?{query}")
    code, fix = WRONG[query]
    assert (told.status, told.code) == (422, code)
    assert fix in told.json["fix"]


def test_a_time_without_anything_is_empty_and_no_error(past: Scene) -> None:
    told = get(past.admin, "report?from=2020-01-01&to=2020-02-01")
    assert told["items"] == [] and told["total"]["total_micro_usd"] == 0
    assert get(past.admin, "diff?from=2020-01-01&to=2020-02-01")["items"] == []
    assert get(past.lead_a, "statement?from=2020-01-01&to=2020-02-01")["items"][0]["lines"] == []
    assert past.admin.get("/v1/cost/export?from=2020-01-01&to=2020-02-01").body.count(b"\n") == 1


def test_jobs_of_long_ago_are_found_in_the_log(tmp_path: Any) -> None:
    """The live books have forgotten which jobs they were; sums are the same either way."""
    long_ago_ms = today_ms() - 120 * DAY_MS
    write_history(tmp_path, days=2, from_ms=long_ago_ms)
    days = f"from={write_day(long_ago_ms)}&to={write_day(long_ago_ms + 2 * DAY_MS)}"
    with open_scene(tmp_path) as scene:
        scene.ann.submit("a-dev", resources={"accelerators": "A100-80GB:1"})
        kept = scene.plane.query_ledger(lambda ledger, _state, _now: set(by_job(ledger.books)))
        assert "j-train00000" not in kept.result(PATIENCE_SECONDS)
        by_user = totals(get(scene.admin, f"report?by=user&{days}"))
        assert by_user == {name: 2 * usd for name, usd in EXPECTED["user"].items()}
        team = totals(get(scene.admin, f"report?by=team&{days}"))
        assert team == {"team-a": 216 * USD, "team-b": 4_800_000, "(platform)": 2 * IDLE_A_DAY}
        assert totals(get(scene.bob, f"report?by=job&{days}")).keys() == {
            *("j-serve00000", "j-serve00001")
        }
        lines = json.loads(scene.admin.get(f"/v1/cost/export?format=json&{days}").body)
        assert {line["user"] for line in lines} == {"ann", "amos", "bob", ""}


# -- changes -------------------------------------------------------------------------------------------


def test_a_week_against_the_week_before(past: Scene) -> None:
    week = f"from={write_day(today_ms() - 7 * DAY_MS)}&to={write_day(today_ms())}"
    told = get(past.admin, f"diff?{week}")
    assert told["before_from_day"] == write_day(begin_ms())
    assert all(row["change_micro_usd"] == 0 for row in told["items"])
    assert told["total"]["change_permille"] == 0


def test_days_that_are_named_are_what_is_compared_with(past: Scene) -> None:
    last = f"from={write_day(today_ms() - 2 * DAY_MS)}&to={write_day(today_ms())}"
    before = f"before_from={write_day(begin_ms())}&before_to={write_day(begin_ms() + DAY_MS)}"
    told = get(past.admin, f"diff?by=user&{last}&{before}")
    rows = {row["keys"][0]: row for row in told["items"]}
    assert rows["ann"]["before_micro_usd"] == 96 * USD
    assert rows["ann"]["change_micro_usd"] == 96 * USD and rows["ann"]["change_permille"] == 1_000
    assert told["items"][0]["keys"] == ["(platform)"]
    new = get(past.admin, f"diff?from={write_day(begin_ms())}&to={write_day(today_ms())}")
    assert all(row["change_permille"] is None for row in new["items"])


# -- forecasts -----------------------------------------------------------------------------------------


def test_a_budget_burns_down(past: Scene) -> None:
    rows = get(past.admin, "forecast")["items"]
    assert [row["tenant"] for row in rows] == ["team-a"]
    row = rows[0]
    assert row["amount_micro_usd"] == 4_000 * USD
    assert row["micro_usd_per_day"] == 108 * USD
    assert row["left_micro_usd"] == row["amount_micro_usd"] - row["spent_micro_usd"]
    days = row["left_micro_usd"] / (108 * USD)
    assert abs(row["exhausted_ms"] - today_ms() - days * DAY_MS) <= 1.1 * DAY_MS
    assert row["earliest_ms"] <= row["exhausted_ms"] <= row["latest_ms"]
    assert "whole days" in row["basis"] and "team-a has spent" in row["text"]


def test_without_a_budget_the_top_of_what_is_seen_is_told(past: Scene) -> None:
    rows = get(past.bob, "forecast")["items"]
    assert [(row["tenant"], row["amount_micro_usd"]) for row in rows] == [("team-b", None)]
    assert rows[0]["exhausted_ms"] is None
    named = get(past.admin, "forecast?tenant=b-train")["items"]
    assert [row["tenant"] for row in named] == ["b-train"]
    for asker, tenant in ((past.admin, "nobody"), (past.bob, "team-a")):
        told = asker.get(f"/v1/cost/forecast?tenant={tenant}")
        assert (told.status, told.code) == (404, "no-such-tenant")


# -- statements ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("idle", ["absorbed", "proportional", "quota-owner"])
def test_all_statements_together_are_what_the_fleet_cost(past: Scene, idle: str) -> None:
    told = get(past.admin, f"statement?kind=chargeback&idle={idle}&{WHOLE}")
    assert told["micro_usd"] == DAYS * A_DAY and told["cents"] == DAYS * A_DAY // 10_000
    for one in told["items"]:
        assert sum(line["cents"] for line in one["lines"]) == one["cents"]
        assert one["owed_cents"] == (0 if one["payer"] == "(platform)" else one["cents"])
    assert sum(one["cents"] for one in told["items"]) == told["cents"]


def test_lines_are_of_queues_or_of_jobs(past: Scene) -> None:
    one = get(past.lead_a, f"statement?{WHOLE}")["items"][0]
    assert (one["payer"], one["style"], one["owed_cents"]) == ("team-a", "showback", 0)
    kinds = [(line["kind"], line["queue"], line["cents"]) for line in one["lines"]]
    assert kinds == [("usage", "a-train", 9_600 * DAYS), ("waste", "a-train", 1_200 * DAYS)]
    jobs = get(past.lead_a, f"statement?lines=jobs&{WHOLE}")["items"][0]
    assert len(jobs["lines"]) == 2 * DAYS and jobs["cents"] == one["cents"]


def test_a_tenant_cannot_share_out_the_fleet_nor_see_anothers_statement(past: Scene) -> None:
    told = past.bob.get("/v1/cost/statement?idle=proportional")
    assert (told.status, told.code) == (403, "forbidden")
    for tenant in ("team-a", "a-train", "nobody", "acme"):
        told = past.bob.get(f"/v1/cost/statement?tenant={tenant}")
        assert (told.status, told.code) == (404, "no-such-tenant")
    assert get(past.admin, f"statement?tenant=team-b&{WHOLE}")["cents"] == 240 * DAYS


# -- savings -------------------------------------------------------------------------------------------


def test_savings_against_baselines(past: Scene) -> None:
    told = get(past.admin, f"savings?price=a100=20&price=t4=3.912&{WHOLE}")
    rows = {row["baseline"]: row for row in told["items"]}
    same = rows["on-demand"]
    assert same["baseline_micro_usd"] == DAYS * 24 * round(23.912 * USD)
    assert same["cost_micro_usd"] == DAYS * A_DAY
    assert rows["no-sharing"]["saved_micro_usd"] == DAYS * 7_200_000
    only = get(past.bob, f"savings?{WHOLE}")["items"]
    assert [row["baseline"] for row in only] == ["no-sharing"]
    assert only[0]["cost_micro_usd"] == DAYS * 2_400_000


def test_a_price_that_is_not_known_is_asked_for(past: Scene) -> None:
    told = get(past.admin, f"savings?{WHOLE}")
    assert [row["baseline"] for row in told["items"]] == ["no-sharing"]
    assert "--price a100=DOLLARS" in told["warnings"][-1]
    refused = past.admin.get(f"/v1/cost/savings?baseline=on-demand&{WHOLE}")
    assert (refused.status, refused.code) == (422, "no-on-demand-price")
    assert past.bob.get("/v1/cost/savings?baseline=on-demand").code == "forbidden"
    assert past.admin.get("/v1/cost/savings?price=a100").code == "wrong-value"


# -- files ---------------------------------------------------------------------------------------------


def exported(asker: Asker, form: str) -> bytes:
    told = asker.get(f"/v1/cost/export?format={form}&{WHOLE}")
    assert told.status == 200, told.body
    assert f"bursar-{write_day(begin_ms())}" in told.headers["content-disposition"]
    return told.body


def test_every_file_has_all_the_money(past: Scene) -> None:
    plain = json.loads(exported(past.admin, "json"))
    assert sum(line["micro_usd"] for line in plain) == DAYS * A_DAY
    table = list(csv.DictReader(io.StringIO(exported(past.admin, "csv").decode())))
    assert sum(int(line["micro_usd"]) for line in table) == DAYS * A_DAY
    assert len(table) == len(plain) == DAYS * 5 + _today_lines(plain)
    focus = list(csv.DictReader(io.StringIO(exported(past.admin, "focus").decode())))
    assert round(sum(float(row["BilledCost"]) for row in focus), 6) == DAYS * A_DAY / USD
    assert tuple(focus[0]) == COLUMNS
    assert {row["InvoiceIssuerName"] for row in focus} == {"acme"}
    assert {row["RegionId"] for row in focus} == {"", "us-east-1"}
    tags = {row["Tags"] for row in focus if row["x_Owner"] == "ann"}
    assert tags == {'{"project":"atlas"}'}


def _today_lines(plain: list[dict[str, Any]]) -> int:
    return sum(line["day"] >= write_day(today_ms()) for line in plain)


def test_a_spreadsheet_is_given_no_formula(past: Scene) -> None:
    for form in ("csv", "focus"):
        for row in csv.reader(io.StringIO(exported(past.admin, form).decode())):
            assert not any(cell.startswith(("=", "+", "@")) for cell in row)


def test_parquet_has_the_same_rows_with_their_types(past: Scene) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(exported(past.admin, "parquet")))
    assert sum(table["micro_usd"].to_pylist()) == DAYS * A_DAY
    focus = parquet.read_table(io.BytesIO(exported(past.admin, "focus-parquet")))
    assert tuple(focus.column_names) == COLUMNS
    assert focus.schema.field("BilledCost").type == arrow.decimal128(28, 9)
    assert sum(focus["BilledCost"].to_pylist()) * USD == DAYS * A_DAY


def test_parquet_without_pyarrow_says_what_to_install(
    past: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    told = past.admin.get(f"/v1/cost/export?format=parquet&{WHOLE}")
    assert (told.status, told.code) == (422, "parquet-needs-pyarrow")
    assert "bursar[parquet]" in told.json["fix"]


# -- bills ---------------------------------------------------------------------------------------------


def bill(**more: Any) -> dict[str, Any]:
    return {
        "pool": "a100",
        "from_day": write_day(begin_ms()),
        "to_day": write_day(begin_ms() + DAY_MS),
        "billed_micro_usd": 400 * USD,
        **more,
    }


def test_a_bill_is_booked_and_shared_and_replaced_by_a_later_one(tmp_path: Any) -> None:
    write_history(tmp_path, days=2)
    day = f"from={write_day(begin_ms())}&to={write_day(begin_ms() + DAY_MS)}"
    with open_scene(tmp_path) as scene:
        told = scene.admin.post("/v1/cost/bills", bill())
        assert told.status == 201, told.body
        assert told.json["metered_micro_usd"] == 384 * USD
        assert told.json["adjustment_micro_usd"] == 16 * USD
        report = get(scene.admin, f"report?by=pool&{day}")
        assert totals(report)["a100"] == 400 * USD
        shared = get(scene.admin, f"statement?{day}")
        mine = next(one for one in shared["items"] if one["payer"] == "team-a")
        assert mine["cents"] == 10_800 + 450
        assert [line["kind"] for line in mine["lines"]] == ["usage", "waste", "adjustment"]
        own = get(scene.lead_a, f"statement?{day}")["items"][0]
        assert own["cents"] == mine["cents"]
        again = scene.admin.post("/v1/cost/bills", bill(billed_micro_usd=384 * USD)).json
        assert again["adjustment_micro_usd"] == -16 * USD
        assert totals(get(scene.admin, f"report?by=pool&{day}"))["a100"] == 384 * USD
    with open_scene(tmp_path) as scene:
        assert totals(get(scene.admin, f"report?by=pool&{day}"))["a100"] == 384 * USD
        entries = scene.admin.get("/v1/audit?limit=1000").json["items"]
        assert sum(one["action"] == "BillReceived" for one in entries) == 2


BAD_BILLS: dict[str, tuple[dict[str, Any], str]] = {
    "a pool that is not there": ({"pool": "h100"}, "unknown-pool"),
    "a flavor that was never metered": ({"flavor": "h100/spot"}, "nothing-metered"),
    "days on which there was nothing": (
        {"from_day": "2020-01-01", "to_day": "2020-02-01"},
        "nothing-metered",
    ),
    "days that are not over": ({"to_day": write_day(today_ms() + DAY_MS)}, "period-not-over"),
    "no day at all": ({"to_day": write_day(begin_ms())}, "bad-period"),
    "no day of the calendar": ({"to_day": "2026-02-30"}, "bad-period"),
    "less than nothing": ({"billed_micro_usd": -1}, "wrong-value"),
    "half a micro-dollar": ({"billed_micro_usd": 0.5}, "wrong-value"),
    "a mistake of units": ({"billed_micro_usd": 10**16}, "wrong-value"),
    "a key that means nothing": ({"colour": "red"}, "wrong-value"),
}


@pytest.mark.parametrize("case", BAD_BILLS)
def test_a_bill_is_refused(past: Scene, case: str) -> None:
    more, code = BAD_BILLS[case]
    told = past.admin.post("/v1/cost/bills", bill(**more))
    assert (told.status, told.code) == (422, code)


def test_only_who_runs_the_installation_enters_bills(past: Scene) -> None:
    for asker in (past.lead_a, past.bob, past.admin_b):
        assert asker.post("/v1/cost/bills", bill()).status == 403
