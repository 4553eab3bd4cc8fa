"""Two teams share a fleet: quota, priority, budgets, a governance rule, and costs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.examples.test_three_projects import state_of, until_jobs
from tests.examples.up import Installation, up

EXAMPLE = Path(__file__).parents[2] / "examples" / "research-product"
JOBS = EXAMPLE / "jobs"


@pytest.mark.thorough
def test_two_teams_share_a_fleet_and_see_their_costs(tmp_path: Path) -> None:
    with up(tmp_path, EXAMPLE / "fleet.yaml") as there:
        expect_borrowing_and_reclaim(there)
        expect_budgets(there, tmp_path)
        expect_governance_rule(there, tmp_path)
        expect_costs_add_up(there)


def expect_borrowing_and_reclaim(there: Installation) -> None:
    there.bursar("submit", str(JOBS / "1-research.yaml"), "-y")
    until_jobs(there, "research", lambda all_: state_of(all_, "running") == 10, "research runs ten")
    quota = {row["tenant"]: row for row in query(there, "quota")}
    assert quota["research"]["borrowed"] == 4_000, "four GPUs of product are lent"
    time.sleep(1.2)
    there.bursar("submit", str(JOBS / "2-product.yaml"), "-y")
    until_jobs(there, "product", lambda all_: state_of(all_, "running") == 1, "product runs")
    sweep = there.jobs("--queue", "research")
    assert sum(job["preemptions"] for job in sweep) == 4, "exactly four GPUs were reclaimed"


def expect_budgets(there: Installation, folder: Path) -> None:
    budgets = {row["tenant"]: row for row in query(there, "budget")}
    product = budgets["product"]
    committed = product["spent_micro_usd"] + product["held_micro_usd"]
    assert product["amount_micro_usd"] == 400_000_000
    assert 144_000_000 <= committed <= 400_000_000, "an hour of four GPUs, plus start and stop"
    long = folder / "long.yaml"
    text = (JOBS / "2-product.yaml").read_text(encoding="utf-8")
    long.write_text(text.replace("max_hours: 1", "max_hours: 3"), encoding="utf-8")
    output = there.error("submit", str(long), "-y", code=5)
    assert "product may spend $400.00 a month" in output


def expect_governance_rule(there: Installation, folder: Path) -> None:
    dear = folder / "dear.yaml"
    dear.write_text(
        "name: dear\nqueue: research\nresources: {accelerators: 'A100-80GB:5'}\nnum_nodes: 2\nrun: 'true'\n"
    )
    output = there.error("submit", str(dear), "-y", code=2)
    assert "$360.00 an hour" in output and "the finance team" in output


def expect_costs_add_up(there: Installation) -> None:
    until_jobs(there, "product", lambda all_: state_of(all_, "succeeded") == 1, "product has ended")
    until_jobs(
        there, "research", lambda all_: state_of(all_, "succeeded") == 10, "research has ended"
    )
    teams, jobs, projects = (
        {row[what]: row for row in query(there, "cost", "report", "--by", what)}
        for what in ("queue", "job", "label:project")
    )
    assert teams["product"]["waste_micro_usd"] == 0
    assert teams["research"]["waste_micro_usd"] > 0, "four experiments lost part of their work"
    assert (teams["research"]["jobs"], teams["product"]["jobs"]) == (10, 1)
    for team, project in (("research", "ablations"), ("product", "ranking")):
        assert paid(teams[team]) == paid(projects[project])
    both = paid(teams["research"]) + paid(teams["product"])
    assert sum(paid(row) for row in jobs.values()) == both, "every micro-dollar is charged to a job"
    report = there.bursar("doctor", "--rebuild")
    assert "ledger" in report


def paid(row: dict[str, Any]) -> int:
    found: int = row["usage_micro_usd"] + row["waste_micro_usd"]
    return found


def query(there: Installation, *arguments: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(there.bursar(*arguments, "-o", "json"))
    return found
