"""Answers for Slurm's backfill: a plan of exclusive nodes, filled in order of priority."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bursar.core.other_schedulers.slurm_node_plan import NodePlan, NodeRequest, plan_in_order
from tests.oracle.answer_quota import keys, note_unread

Case = dict[str, Any]
Starts = dict[int, int]

MINUTE_MS = 60_000
WINDOW_MIN = 1440
RESOLUTION_S = 60
MAX_JOB_TEST = 500

_JOB = "priority nodes time_limit_min licenses license"
INPUT_KEYS = keys(
    # Nodes are always exclusive in this plan, and the order is the one we sort by.
    "nodes licenses bf_resolution_s bf_window_min bf_max_job_test node_allocation order",
    jobs=keys(f"id {_JOB}"),
    jobs_repeat=keys(f"count {_JOB}"),
)


def answer_backfill(case: Case, fixtures: dict[str, Any]) -> str | None:
    given = case["input"]
    note_unread(given, INPUT_KEYS)
    jobs = sorted(_jobs(given), key=lambda job: (-job["priority"], job["id"]))
    plan = NodePlan(
        given["nodes"],
        0,
        given.get("bf_resolution_s", RESOLUTION_S) * 1000,
        given.get("bf_window_min", WINDOW_MIN) * MINUTE_MS,
        _licenses(given.get("licenses")),
    )
    runs = plan_in_order(
        plan, [_request(job) for job in jobs], given.get("bf_max_job_test", MAX_JOB_TEST)
    )
    starts = {int(run.job): run.start_ms for run in runs}
    for key, want in case["expect"].items():
        check = _check_for(key)
        if check is None:
            return f"expect has {key!r}; we answer {sorted(CHECKS)} and {sorted(RELATIONS)}"
        difference = check(want, starts, jobs)
        if difference is not None:
            return difference
    return None


def _jobs(given: Case) -> list[dict[str, Any]]:
    """The jobs of a case: listed, or a count of identical jobs with ids from 1."""
    jobs = list(given.get("jobs") or [])
    repeated = given.get("jobs_repeat")
    if repeated:
        first = max((job["id"] for job in jobs), default=0) + 1
        jobs += [{**repeated, "id": number} for number in range(first, first + repeated["count"])]
    return jobs


def _request(job: dict[str, Any]) -> NodeRequest:
    return NodeRequest(
        job=str(job["id"]),
        nodes=job["nodes"],
        duration_ms=job["time_limit_min"] * MINUTE_MS,
        licenses=_licenses(job.get("licenses") or job.get("license")),
    )


def _licenses(written: Any) -> dict[str, int]:
    """License counts from a mapping, a list of names, or Slurm's ``name:count,name`` text."""
    if not written:
        return {}
    if isinstance(written, dict):
        return written
    names = written.split(",") if isinstance(written, str) else written
    counts = {}
    for name in names:
        plain, _, count = name.strip().partition(":")
        counts[plain] = int(count or 1)
    return counts


def _all_running(want: list[int], starts: Starts, jobs: list[Any]) -> str | None:
    late = [job for job in want if starts.get(job) != 0]
    return f"jobs {late} do not run now" if late else None


def _none_running(want: list[int], starts: Starts, jobs: list[Any]) -> str | None:
    early = [job for job in want if starts.get(job) == 0]
    return f"jobs {early} run now" if early else None


def _all_planned(want: list[int], starts: Starts, jobs: list[Any]) -> str | None:
    missing = [job for job in want if job not in starts]
    return f"jobs {missing} have no planned start" if missing else None


def _none_planned(want: list[int], starts: Starts, jobs: list[Any]) -> str | None:
    planned = [job for job in want if job in starts]
    return f"jobs {planned} have a planned start" if planned else None


def _same_start(want: list[Any], starts: Starts, jobs: list[Any]) -> str | None:
    groups = want if want and isinstance(want[0], list) else [want]
    for group in groups:
        found = [starts.get(job) for job in group]
        if None in found or len(set(found)) != 1:
            return f"jobs {group} start at {found}, published as starting together"
    return None


def _at_minutes(want: dict[Any, int], starts: Starts, jobs: list[Any]) -> str | None:
    for job, minute in want.items():
        if starts.get(int(job)) != minute * MINUTE_MS:
            return f"job {job} starts at {starts.get(int(job))} ms, published minute {minute}"
    return None


def _in_order(want: Any, starts: Starts, jobs: list[Any]) -> str | None:
    """A list (or lists) of jobs whose starts never decrease; any other value is the rule itself.

    The rule: a job is never planned after one of lower priority that needs at least as many nodes.
    """
    if not isinstance(want, list):
        return _no_overtaking(starts, jobs)
    for group in want if want and isinstance(want[0], list) else [want]:
        found = [starts[job] for job in group if job in starts]
        if len(found) < len(group) or found != sorted(found):
            return f"jobs {group} start at {found}, published as starting in that order"
    return None


def _no_overtaking(starts: Starts, jobs: list[Any]) -> str | None:
    for first in jobs:
        for second in jobs:
            ahead = first["priority"] > second["priority"] and first["nodes"] <= second["nodes"]
            if not ahead or second["id"] not in starts:
                continue
            if first["id"] not in starts or starts[first["id"]] > starts[second["id"]]:
                return f"job {second['id']} overtakes job {first['id']}"
    return None


Check = Callable[[Any, Starts, list[Any]], str | None]

CHECKS: dict[str, Check] = {
    "running": _all_running,
    "not_running": _none_running,
    "has_planned_start": _all_planned,
    "no_planned_start": _none_planned,
    "planned_start_min": _at_minutes,
    "start_min": _at_minutes,
}

# Relations between starts are spelled in more than one way; the word in the key decides.
RELATIONS: dict[str, Check] = {
    "same": _same_start,
    "equal": _same_start,
    "order": _in_order,
    "overtak": _in_order,
    "invariant": _in_order,
    "rule": _in_order,
}


def _check_for(key: str) -> Check | None:
    return CHECKS.get(key) or next((RELATIONS[word] for word in RELATIONS if word in key), None)


FAMILIES = {"backfill": answer_backfill}
