"""Findings of governance rules in the current fleet."""

from __future__ import annotations

from bursar.governance.fleet_findings import EmptyNode, RunTimes, idle_nodes, right_size
from bursar.model.fleet.fleet import Market
from bursar.model.tenants.governance import IdleNodes, RightSize
from bursar.model.units import HOUR_MS, MINUTE_MS


def test_idle_nodes_that_cost_by_the_hour() -> None:
    nodes = [
        EmptyNode("a", "bought", Market.ON_DEMAND, 0, 4_000_000),
        EmptyNode("b", "spot", Market.SPOT, 0, 9_000_000),
        EmptyNode("c", "ours", Market.OWNED, 0, 50_000_000),
        EmptyNode("d", "bought", Market.ON_DEMAND, 90 * MINUTE_MS, 4_000_000),
    ]
    found = list(idle_nodes(IdleNodes(after_ms=HOUR_MS), nodes, 2 * HOUR_MS))
    assert [one.subject for one in found] == ["node b", "node a"]
    assert "been idle for 2 h and cost $18.00" in found[0].text
    assert "$9.00 an hour" in found[0].fix


def test_limits_far_above_actual_run_times() -> None:
    past = [
        RunTimes("short", "team", 3, HOUR_MS, 24 * HOUR_MS),
        RunTimes("seldom", "team", 2, HOUR_MS, 24 * HOUR_MS),
        RunTimes("fair", "team", 9, 6 * HOUR_MS, 24 * HOUR_MS),
    ]
    found = list(right_size(RightSize(), past))
    assert [one.subject for one in found] == ["job 'short'"]
    assert "asks for 1 d, and the longest of its last 3 runs took 1 h" in found[0].text
    assert "max_hours: 2 " in found[0].fix
