"""``bursar cost`` and the estimates of ``bursar plan``, on two weeks of history and a real server."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bursar.accounting.reports.group_by import write_day
from bursar.model.units import DAY_MS
from tests.api.cost_history import DAYS, begin_ms, today_ms, write_history
from tests.api.harness import open_harness
from tests.cli.live import Person, Ran

FROM, TO = write_day(begin_ms()), write_day(today_ms())
WHOLE = ("--from", FROM, "--to", TO)


@dataclass(frozen=True)
class People:
    admin: Person
    amy: Person
    bob: Person


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Iterator[People]:
    folder = tmp_path_factory.mktemp("state")
    write_history(folder)
    with open_harness(folder) as api:
        server = f"http://127.0.0.1:{api.server.port}"
        seats = [
            Person(server, api.tokens[name], folder, folder, {"COLUMNS": "100"})
            for name in ("admin", "lead_a", "bob")
        ]
        yield People(*seats)


def cost(who: Person, *words: str | Path) -> Ran:
    ran = who.run("cost", *words)
    assert ran.code == 0, ran.err
    return ran


def seen(who: Person, *words: str) -> list[str]:
    """The output at a terminal of 100 columns, without colours."""
    ran = who.run("cost", *words, "--no-color", types="")
    assert ran.code == 0, ran.err
    lines = re.sub(r"\x1b\[[0-9;]*m", "", ran.out).splitlines()
    assert max(len(line) for line in lines) <= 100
    assert "…" not in ran.out
    return lines


VERBS = {
    "report": WHOLE,
    "diff": WHOLE,
    "forecast": (),
    "statement": WHOLE,
    "savings": WHOLE,
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_every_form(people: People, verb: str) -> None:
    words = (verb, *VERBS[verb])
    plain = cost(people.admin, *words, "-o", "json").out
    assert json.loads(plain)
    rows = list(csv.DictReader(io.StringIO(cost(people.admin, *words, "-o", "csv").out)))
    assert rows and all(None not in row for row in rows)
    for form in ("table", "wide", "yaml"):
        assert cost(people.admin, *words, "-o", form).out


def test_a_report_is_printed_as_a_table(people: People) -> None:
    lines = seen(people.admin, "report", *WHOLE)
    assert lines[0] == f"{FROM} to {TO} (UTC, last day not included), by team"
    assert lines[1].split() == [
        "TEAM",
        "JOBS",
        "GPU-HOURS",
        "USAGE",
        "WASTE",
        "IDLE",
        "TOTAL",
        "SHARE",
    ]
    assert lines[2].split() == [
        *("team-a", "28", "756.00", "$1,344.00", "$168.00", "$0.00", "$1,512.00", "25.6%")
    ]
    assert [line.split()[0] for line in lines[2:]] == ["team-a", "team-b", "(platform)", "total"]
    own = seen(people.amy, "report", *WHOLE)
    assert "IDLE" not in own[1] and [line.split()[0] for line in own[2:]] == ["team-a", "total"]


@pytest.mark.parametrize("by", ["user", "project", "label:project", "gpu,market", "day", "job"])
def test_reports_fit_a_terminal(people: People, by: str) -> None:
    lines = seen(people.admin, "report", "--by", by, *WHOLE)
    assert lines[-1].startswith("total") and "$5,913.60" in lines[-1]


def test_programs_get_one_key_for_each_dimension(people: People) -> None:
    rows = json.loads(cost(people.admin, "report", "--by", "user,gpu", *WHOLE, "--json").out)
    assert rows[0]["user"] == "ann" and rows[0]["gpu"] == "a100-80gb"
    assert sum(row["total_micro_usd"] for row in rows) == DAYS * 422_400_000
    few = cost(people.admin, "report", "--by", "job", "--limit", "2", *WHOLE).out
    assert "the total includes 41 more rows" in few


def test_changes_are_printed_as_a_table(people: People) -> None:
    week = ("--from", write_day(today_ms() - 7 * DAY_MS), "--to", TO)
    lines = seen(people.admin, "diff", *week)
    assert lines[0] == f"before    {FROM} to {write_day(today_ms() - 7 * DAY_MS)}"
    assert "+0.0 %" in lines[-1]
    first = write_day(begin_ms() + DAY_MS)
    more = seen(people.admin, "diff", "--from", first, "--to", TO, "--before-from", FROM)
    assert any(re.search(r"team-a +\$108\.00 +\$1,404\.00 +\+\$1,296\.00", one) for one in more)
    new = seen(people.admin, "diff", *WHOLE)
    assert "new" in new[-1]


def test_a_forecast_is_printed_as_a_table(people: People) -> None:
    lines = seen(people.admin, "forecast")
    assert re.search(r"team-a +\d{4}-01-01 +\$4,000\.00 .* \$108\.00 .* \d{4}-\d\d-\d\d$", lines[1])
    assert "no budget" in seen(people.bob, "forecast")[1]
    assert people.bob.run("cost", "forecast", "--tenant", "team-a").code == 3


def test_statements_are_printed_as_a_table(people: People) -> None:
    lines = seen(people.admin, "statement", "--kind", "chargeback", *WHOLE)
    assert lines[0] == "chargeback statement for team-a"
    assert "owed: $1,512.00" in lines and "owed: nothing, the platform is its own payer" in lines
    assert lines[-1] == "total of 3 statements  $5,913.60"
    jobs = seen(people.amy, "statement", "--jobs", *WHOLE)
    assert sum(line.startswith(("usage", "waste")) for line in jobs) == 2 * DAYS
    empty = seen(people.amy, "statement", "--month", "2020-01")
    assert empty[-1] == "no usage."


def test_savings_are_printed_as_a_table(people: People) -> None:
    ran = cost(people.admin, "savings", *WHOLE)
    assert "--price a100=DOLLARS" in ran.err
    lines = seen(people.admin, "savings", "--price", "a100=20", *WHOLE)
    assert [line.split()[0] for line in lines[2:]] == [
        *("on-demand", "on-demand-while-used", "no-sharing")
    ]


def test_files(people: People, tmp_path: Path) -> None:
    text = cost(people.admin, "export", *WHOLE).out
    assert text.startswith("day,kind,pool,")
    path = tmp_path / "focus.csv"
    assert cost(people.admin, "export", "--format", "focus", "--file", path, *WHOLE).out == ""
    assert path.read_text().startswith("AvailabilityZone,BilledCost,")
    nowhere = people.admin.run("cost", "export", "--file", tmp_path / "no" / "such.csv")
    assert nowhere.code == 1 and "no/such.csv" in nowhere.err
    terminal = people.admin.run("cost", "export", "--format", "parquet", types="")
    assert terminal.code == 2 and "--file" in terminal.err


WRONG = {
    "an unknown dimension": (("report", "--by", "colour"), 2, "label:KEY"),
    "no month": (("report", "--month", "2026-13"), 2, "is not a month"),
    "no day": (("report", "--from", "2026-02-30"), 2, "which is not a day"),
    "a period given twice": (("report", "--month", "2026-10", "--to", TO), 2, "Keep one"),
    "month and days": (("diff", "--month", "2026-10", "--days", "3"), 2, "not allowed with"),
    "no verb": ((), 2, "VERB"),
    "no dollars": (("bill", "--pool", "a100", *WHOLE, "--usd", "x"), 2, "not an amount"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage(people: People, case: str) -> None:
    words, code, text = WRONG[case]
    ran = people.admin.run("cost", *words)
    assert ran.code == code and text in ran.err and "Traceback" not in ran.err


def test_a_period_without_usage(people: People) -> None:
    ran = people.admin.run("cost", "report", "--month", "2020-01")
    assert ran.code == 0 and ran.out == "" and "no usage" in ran.err
    assert json.loads(cost(people.admin, "report", "--month", "2020-01", "--json").out) == []


def test_only_operators_enter_a_bill(people: People) -> None:
    words = ("bill", "--pool", "t4", *WHOLE, "--usd", "$1,000.50")
    assert people.amy.run("cost", *words).code == 4
    lines = seen(people.admin, *words)
    assert lines[1:] == [
        f"metered     ${DAYS * 38.40:,.2f}",
        "billed      $1,000.50",
        f"adjustment  ${1000.50 - DAYS * 38.40:,.2f}",
    ]
    back = cost(people.admin, *words[:-1], f"{DAYS * 38.40:.2f}", "--json")
    assert json.loads(back.out)["adjustment_micro_usd"] < 0


def test_a_plan_prints_the_cost_on_each_market(people: People) -> None:
    words = ("--queue", "a-train", "--name", "pretrain", "--gpus", "A100-80GB:4")
    ran = people.amy.run("plan", *words, "--", "./train")
    assert ran.code == 0, ran.err
    assert "of 14 jobs" in ran.out
    assert re.search(
        r"^ +a100 \(owned\) +P50 \$96\.00 in 12 h, P90 \$96\.00 in 12 h$",
        ran.out,
        re.M,
    )
    unknown = people.amy.run("plan", "--queue", "a-dev", "--gpus", "1", "--", "./train")
    assert "The run time is not known" in unknown.out
