"""Cost reports over HTTP, on two weeks of history with amounts calculated by hand."""

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
from tests.api.cost_history import DAYS, begin_ms, today_ms, write_history
from tests.api.harness import ApiHarness, open_harness
from tests.api.http_client import TIMEOUT_SECONDS, HttpClient
from tests.support.book_views import by_job

USD = 1_000_000
DAILY_COST, DAILY_IDLE_COST = 422_400_000, 312 * USD
PERIOD = f"from={write_day(begin_ms())}&to={write_day(today_ms())}"
TEAM_A_NAMES = (
    "team-a",
    "a-train",
    "ann",
    "amos",
    "atlas",
    "birch",
    "pretrain",
    "sweep",
    "j-train",
)
BY = ("team", "project", "queue", "user", "label:project", "gpu", "market", "pool", "job", "day")


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiHarness]:
    folder = tmp_path_factory.mktemp("state")
    write_history(folder)
    with open_harness(folder) as api:
        yield api


def get(client: HttpClient, path: str) -> Any:
    response = client.get(f"/v1/cost/{path}")
    assert response.status == 200, response.body
    return response.json


def totals(body: Any) -> dict[str, int]:
    return {"/".join(row["keys"]): row["total_micro_usd"] for row in body["items"]}


# -- reports -------------------------------------------------------------------------------------------


def test_a_report_by_team_adds_up_to_the_cost_of_the_fleet(api: ApiHarness) -> None:
    body = get(api.admin, f"report?{PERIOD}")
    assert [row["keys"] for row in body["items"]] == [["team-a"], ["team-b"], ["(platform)"]]
    assert totals(body) == {
        "team-a": DAYS * 108 * USD,
        "team-b": DAYS * 2_400_000,
        "(platform)": DAYS * DAILY_IDLE_COST,
    }
    assert body["total"]["total_micro_usd"] == DAYS * DAILY_COST
    first = body["items"][0]
    assert (first["usage_micro_usd"], first["waste_micro_usd"]) == (
        DAYS * 96 * USD,
        DAYS * 12 * USD,
    )
    assert (first["gpu_hours"], first["jobs"]) == (DAYS * 54, 2 * DAYS)
    assert body["is_over"] and body["sees_fleet"]


@pytest.mark.parametrize("by", [*BY, "team,gpu", "day,user,pool"])
def test_the_total_is_equal_for_every_dimension(api: ApiHarness, by: str) -> None:
    body = get(api.admin, f"report?by={by}&{PERIOD}")
    assert body["by"] == by.split(",")
    assert sum(totals(body).values()) == body["total"]["total_micro_usd"] == DAYS * DAILY_COST
    assert body["rows"] == len(body["items"])


EXPECTED = {
    "user": {"ann": 96 * USD, "amos": 12 * USD, "bob": 2_400_000, "(platform)": DAILY_IDLE_COST},
    "label:project": {
        "atlas": 96 * USD,
        "=birch": 12 * USD,
        "(no such label)": 2_400_000,
        "(platform)": DAILY_IDLE_COST,
    },
    "gpu": {"a100-80gb": 384 * USD, "t4-16gb": 38_400_000},
    "market": {"owned": 384 * USD, "spot": 38_400_000},
}


@pytest.mark.parametrize("by", EXPECTED)
def test_rows_have_the_calculated_amounts(api: ApiHarness, by: str) -> None:
    body = get(api.admin, f"report?by={by}&{PERIOD}")
    assert totals(body) == {name: DAYS * usd for name, usd in EXPECTED[by].items()}


def test_days_are_in_order_and_jobs_have_owners(api: ApiHarness) -> None:
    days = get(api.admin, f"report?by=day&{PERIOD}")["items"]
    assert [row["keys"] for row in days] == sorted(row["keys"] for row in days)
    jobs = get(api.admin, f"report?by=job&limit=1&{PERIOD}")
    assert jobs["items"][0]["name"] == "pretrain" and jobs["items"][0]["owner"] == "ann"
    assert jobs["rows"] == 3 * DAYS + 1 and len(jobs["items"]) == 1
    assert jobs["total"]["total_micro_usd"] == DAYS * DAILY_COST


def test_a_tenant_sees_its_own_cost_and_no_idle_cost(api: ApiHarness) -> None:
    for by in BY:
        body = get(api.bob, f"report?by={by}&{PERIOD}")
        assert body["total"]["total_micro_usd"] == DAYS * 2_400_000
        assert body["total"]["idle_micro_usd"] == 0 and not body["sees_fleet"]
    assert get(api.gone, f"report?{PERIOD}")["items"] == []


@pytest.mark.parametrize(
    "path",
    [
        *(f"report?by={by}&{PERIOD}" for by in BY),
        *(f"diff?by={by}&{PERIOD}" for by in BY),
        "forecast",
        f"statement?{PERIOD}",
        f"statement?lines=jobs&{PERIOD}",
        f"savings?{PERIOD}",
        *(f"export?format={form}&{PERIOD}" for form in ("csv", "json", "focus")),
    ],
)
def test_a_response_contains_nothing_of_another_tenant(api: ApiHarness, path: str) -> None:
    response = api.bob.get(f"/v1/cost/{path}")
    assert response.status == 200
    text = response.body.decode()
    assert [name for name in TEAM_A_NAMES if name in text] == []
    assert api.lead_a.get(f"/v1/cost/{path}").body.decode() != text


def test_a_report_on_today_is_marked_as_incomplete(api: ApiHarness) -> None:
    body = get(api.admin, f"report?by=pool&from={write_day(today_ms())}")
    assert not body["is_over"]
    assert body["total"]["usage_micro_usd"] == 0 < body["total"]["idle_micro_usd"] < DAILY_COST


BAD_QUERIES = {
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


@pytest.mark.parametrize("query", BAD_QUERIES)
@pytest.mark.parametrize("route", ["report", "diff"])
def test_a_bad_query_is_rejected_with_a_fix(api: ApiHarness, route: str, query: str) -> None:
    response = api.admin.get(f"/v1/cost/{route}?{query}")
    code, fix = BAD_QUERIES[query]
    assert (response.status, response.code) == (422, code)
    assert fix in response.json["fix"]


def test_a_period_without_cost_is_empty(api: ApiHarness) -> None:
    body = get(api.admin, "report?from=2020-01-01&to=2020-02-01")
    assert body["items"] == [] and body["total"]["total_micro_usd"] == 0
    assert get(api.admin, "diff?from=2020-01-01&to=2020-02-01")["items"] == []
    assert get(api.lead_a, "statement?from=2020-01-01&to=2020-02-01")["items"][0]["lines"] == []
    assert api.admin.get("/v1/cost/export?from=2020-01-01&to=2020-02-01").body.count(b"\n") == 1


def test_old_jobs_are_read_from_the_log(tmp_path: Any) -> None:
    """The live ledger no longer has these jobs; the report reads the log and the sums are equal."""
    long_ago_ms = today_ms() - 120 * DAY_MS
    write_history(tmp_path, days=2, from_ms=long_ago_ms)
    days = f"from={write_day(long_ago_ms)}&to={write_day(long_ago_ms + 2 * DAY_MS)}"
    with open_harness(tmp_path) as api:
        api.ann.submit("a-dev", resources={"accelerators": "A100-80GB:1"})
        job_ids = api.plane.query_ledger(lambda ledger, _state, _now: set(by_job(ledger.books)))
        assert "j-train00000" not in job_ids.result(TIMEOUT_SECONDS)
        by_user = totals(get(api.admin, f"report?by=user&{days}"))
        assert by_user == {name: 2 * usd for name, usd in EXPECTED["user"].items()}
        team = totals(get(api.admin, f"report?by=team&{days}"))
        assert team == {"team-a": 216 * USD, "team-b": 4_800_000, "(platform)": 2 * DAILY_IDLE_COST}
        assert totals(get(api.bob, f"report?by=job&{days}")).keys() == {
            *("j-serve00000", "j-serve00001")
        }
        lines = json.loads(api.admin.get(f"/v1/cost/export?format=json&{days}").body)
        assert {line["user"] for line in lines} == {"ann", "amos", "bob", ""}


# -- changes -------------------------------------------------------------------------------------------


def test_a_week_is_compared_with_the_week_before(api: ApiHarness) -> None:
    week = f"from={write_day(today_ms() - 7 * DAY_MS)}&to={write_day(today_ms())}"
    body = get(api.admin, f"diff?{week}")
    assert body["before_from_day"] == write_day(begin_ms())
    assert all(row["change_micro_usd"] == 0 for row in body["items"])
    assert body["total"]["change_permille"] == 0


def test_the_days_to_compare_with_can_be_given(api: ApiHarness) -> None:
    last = f"from={write_day(today_ms() - 2 * DAY_MS)}&to={write_day(today_ms())}"
    before = f"before_from={write_day(begin_ms())}&before_to={write_day(begin_ms() + DAY_MS)}"
    body = get(api.admin, f"diff?by=user&{last}&{before}")
    rows = {row["keys"][0]: row for row in body["items"]}
    assert rows["ann"]["before_micro_usd"] == 96 * USD
    assert rows["ann"]["change_micro_usd"] == 96 * USD and rows["ann"]["change_permille"] == 1_000
    assert body["items"][0]["keys"] == ["(platform)"]
    new = get(api.admin, f"diff?from={write_day(begin_ms())}&to={write_day(today_ms())}")
    assert all(row["change_permille"] is None for row in new["items"])


# -- forecasts -----------------------------------------------------------------------------------------


def test_a_forecast_has_the_day_a_budget_is_exhausted(api: ApiHarness) -> None:
    rows = get(api.admin, "forecast")["items"]
    assert [row["tenant"] for row in rows] == ["team-a"]
    row = rows[0]
    assert row["amount_micro_usd"] == 4_000 * USD
    assert row["micro_usd_per_day"] == 108 * USD
    assert row["left_micro_usd"] == row["amount_micro_usd"] - row["spent_micro_usd"]
    days = row["left_micro_usd"] / (108 * USD)
    assert abs(row["exhausted_ms"] - today_ms() - days * DAY_MS) <= 1.1 * DAY_MS
    assert row["earliest_ms"] <= row["exhausted_ms"] <= row["latest_ms"]
    assert "whole days" in row["basis"] and "team-a has spent" in row["text"]


def test_without_a_budget_the_topmost_visible_tenant_is_forecast(api: ApiHarness) -> None:
    rows = get(api.bob, "forecast")["items"]
    assert [(row["tenant"], row["amount_micro_usd"]) for row in rows] == [("team-b", None)]
    assert rows[0]["exhausted_ms"] is None
    named = get(api.admin, "forecast?tenant=b-train")["items"]
    assert [row["tenant"] for row in named] == ["b-train"]
    for client, tenant in ((api.admin, "missing"), (api.bob, "team-a")):
        response = client.get(f"/v1/cost/forecast?tenant={tenant}")
        assert (response.status, response.code) == (404, "no-such-tenant")


# -- statements ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("idle", ["absorbed", "proportional", "quota-owner"])
def test_all_statements_add_up_to_the_cost_of_the_fleet(api: ApiHarness, idle: str) -> None:
    body = get(api.admin, f"statement?kind=chargeback&idle={idle}&{PERIOD}")
    assert body["micro_usd"] == DAYS * DAILY_COST and body["cents"] == DAYS * DAILY_COST // 10_000
    for one in body["items"]:
        assert sum(line["cents"] for line in one["lines"]) == one["cents"]
        assert one["owed_cents"] == (0 if one["payer"] == "(platform)" else one["cents"])
    assert sum(one["cents"] for one in body["items"]) == body["cents"]


def test_a_statement_has_lines_by_queue_or_by_job(api: ApiHarness) -> None:
    one = get(api.lead_a, f"statement?{PERIOD}")["items"][0]
    assert (one["payer"], one["style"], one["owed_cents"]) == ("team-a", "showback", 0)
    kinds = [(line["kind"], line["queue"], line["cents"]) for line in one["lines"]]
    assert kinds == [("usage", "a-train", 9_600 * DAYS), ("waste", "a-train", 1_200 * DAYS)]
    jobs = get(api.lead_a, f"statement?lines=jobs&{PERIOD}")["items"][0]
    assert len(jobs["lines"]) == 2 * DAYS and jobs["cents"] == one["cents"]


def test_a_tenant_cannot_allocate_idle_cost_or_see_foreign_statements(api: ApiHarness) -> None:
    response = api.bob.get("/v1/cost/statement?idle=proportional")
    assert (response.status, response.code) == (403, "forbidden")
    for tenant in ("team-a", "a-train", "missing", "acme"):
        response = api.bob.get(f"/v1/cost/statement?tenant={tenant}")
        assert (response.status, response.code) == (404, "no-such-tenant")
    assert get(api.admin, f"statement?tenant=team-b&{PERIOD}")["cents"] == 240 * DAYS


# -- savings -------------------------------------------------------------------------------------------


def test_savings_are_computed_against_baselines(api: ApiHarness) -> None:
    body = get(api.admin, f"savings?price=a100=20&price=t4=3.912&{PERIOD}")
    rows = {row["baseline"]: row for row in body["items"]}
    same = rows["on-demand"]
    assert same["baseline_micro_usd"] == DAYS * 24 * round(23.912 * USD)
    assert same["cost_micro_usd"] == DAYS * DAILY_COST
    assert rows["no-sharing"]["saved_micro_usd"] == DAYS * 7_200_000
    only = get(api.bob, f"savings?{PERIOD}")["items"]
    assert [row["baseline"] for row in only] == ["no-sharing"]
    assert only[0]["cost_micro_usd"] == DAYS * 2_400_000


def test_a_missing_price_is_requested(api: ApiHarness) -> None:
    body = get(api.admin, f"savings?{PERIOD}")
    assert [row["baseline"] for row in body["items"]] == ["no-sharing"]
    assert "--price a100=DOLLARS" in body["warnings"][-1]
    refused = api.admin.get(f"/v1/cost/savings?baseline=on-demand&{PERIOD}")
    assert (refused.status, refused.code) == (422, "no-on-demand-price")
    assert api.bob.get("/v1/cost/savings?baseline=on-demand").code == "forbidden"
    assert api.admin.get("/v1/cost/savings?price=a100").code == "wrong-value"


# -- files ---------------------------------------------------------------------------------------------


def export(client: HttpClient, form: str) -> bytes:
    response = client.get(f"/v1/cost/export?format={form}&{PERIOD}")
    assert response.status == 200, response.body
    assert f"bursar-{write_day(begin_ms())}" in response.headers["content-disposition"]
    return response.body


def test_every_export_format_has_the_full_cost(api: ApiHarness) -> None:
    plain = json.loads(export(api.admin, "json"))
    assert sum(line["micro_usd"] for line in plain) == DAYS * DAILY_COST
    table = list(csv.DictReader(io.StringIO(export(api.admin, "csv").decode())))
    assert sum(int(line["micro_usd"]) for line in table) == DAYS * DAILY_COST
    assert len(table) == len(plain) == DAYS * 5 + _today_lines(plain)
    focus = list(csv.DictReader(io.StringIO(export(api.admin, "focus").decode())))
    assert round(sum(float(row["BilledCost"]) for row in focus), 6) == DAYS * DAILY_COST / USD
    assert tuple(focus[0]) == COLUMNS
    assert {row["InvoiceIssuerName"] for row in focus} == {"acme"}
    assert {row["RegionId"] for row in focus} == {"", "us-east-1"}
    tags = {row["Tags"] for row in focus if row["x_Owner"] == "ann"}
    assert tags == {'{"project":"atlas"}'}


def _today_lines(plain: list[dict[str, Any]]) -> int:
    return sum(line["day"] >= write_day(today_ms()) for line in plain)


def test_exports_contain_no_spreadsheet_formulas(api: ApiHarness) -> None:
    for form in ("csv", "focus"):
        for row in csv.reader(io.StringIO(export(api.admin, form).decode())):
            assert not any(cell.startswith(("=", "+", "@")) for cell in row)


def test_parquet_has_the_same_rows_with_their_types(api: ApiHarness) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = parquet.read_table(io.BytesIO(export(api.admin, "parquet")))
    assert sum(table["micro_usd"].to_pylist()) == DAYS * DAILY_COST
    focus = parquet.read_table(io.BytesIO(export(api.admin, "focus-parquet")))
    assert tuple(focus.column_names) == COLUMNS
    assert focus.schema.field("BilledCost").type == arrow.decimal128(28, 9)
    assert sum(focus["BilledCost"].to_pylist()) * USD == DAYS * DAILY_COST


def test_parquet_without_pyarrow_names_the_package_to_install(
    api: ApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    response = api.admin.get(f"/v1/cost/export?format=parquet&{PERIOD}")
    assert (response.status, response.code) == (422, "parquet-needs-pyarrow")
    assert "bursar[parquet]" in response.json["fix"]


# -- bills ---------------------------------------------------------------------------------------------


def bill(**more: Any) -> dict[str, Any]:
    return {
        "pool": "a100",
        "from_day": write_day(begin_ms()),
        "to_day": write_day(begin_ms() + DAY_MS),
        "billed_micro_usd": 400 * USD,
        **more,
    }


def test_a_bill_is_posted_allocated_and_replaced_by_a_later_one(tmp_path: Any) -> None:
    write_history(tmp_path, days=2)
    day = f"from={write_day(begin_ms())}&to={write_day(begin_ms() + DAY_MS)}"
    with open_harness(tmp_path) as api:
        response = api.admin.post("/v1/cost/bills", bill())
        assert response.status == 201, response.body
        assert response.json["metered_micro_usd"] == 384 * USD
        assert response.json["adjustment_micro_usd"] == 16 * USD
        report = get(api.admin, f"report?by=pool&{day}")
        assert totals(report)["a100"] == 400 * USD
        shared = get(api.admin, f"statement?{day}")
        mine = next(one for one in shared["items"] if one["payer"] == "team-a")
        assert mine["cents"] == 10_800 + 450
        assert [line["kind"] for line in mine["lines"]] == ["usage", "waste", "adjustment"]
        own = get(api.lead_a, f"statement?{day}")["items"][0]
        assert own["cents"] == mine["cents"]
        again = api.admin.post("/v1/cost/bills", bill(billed_micro_usd=384 * USD)).json
        assert again["adjustment_micro_usd"] == -16 * USD
        assert totals(get(api.admin, f"report?by=pool&{day}"))["a100"] == 384 * USD
    with open_harness(tmp_path) as api:
        assert totals(get(api.admin, f"report?by=pool&{day}"))["a100"] == 384 * USD
        entries = api.admin.get("/v1/audit?limit=1000").json["items"]
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
def test_a_bad_bill_is_rejected(api: ApiHarness, case: str) -> None:
    more, code = BAD_BILLS[case]
    response = api.admin.post("/v1/cost/bills", bill(**more))
    assert (response.status, response.code) == (422, code)


def test_only_an_installation_admin_enters_bills(api: ApiHarness) -> None:
    for client in (api.lead_a, api.bob, api.admin_b):
        assert client.post("/v1/cost/bills", bill()).status == 403
