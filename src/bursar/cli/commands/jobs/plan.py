"""``bursar plan``: what the scheduler would do with a job, without submitting it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from bursar.cli.arguments import CONNECTION, FORMAT, command, flag
from bursar.cli.commands.jobs.job_options import JOB, document_of, with_queue
from bursar.cli.connection import ask
from bursar.cli.exit_codes import FAILED, INFEASIBLE, OK, exit_code_of
from bursar.cli.terminal.format import at_most, duration, per_hour, timestamp, until
from bursar.cli.terminal.safe_text import one_line
from bursar.cli.terminal.table import print_one
from bursar.model.units import write_usd

if TYPE_CHECKING:
    from bursar.client import wire

SHOWN_NODES: Final = 4
SHOWN_ESTIMATES: Final = 8


@command(
    "plan",
    *JOB,
    flag(
        "--detailed-exitcode",
        "exit with 0 only if the job would start now, with 1 if it would wait",
    ),
    FORMAT,
    CONNECTION,
    examples=(
        "bursar plan job.yaml",
        "bursar plan --queue vision --gpus T4:4 --max-hours 6 -- ./train",
    ),
)
def plan(parsed: argparse.Namespace) -> int:
    """Print whether, where and when a job would start, and its cost.

    Nothing is submitted. Exit code 0: the job can run, now or later; 6: it can never run; 5: quota or budget
    forbids it; 2: it is invalid.
    """
    document, changes = document_of(parsed)
    planned = ask(
        parsed,
        lambda client: client.plan(document, **with_queue(client, document, changes)),
    )
    print_one(parsed, planned, lambda: print("\n".join(long_lines(planned))))
    if parsed.detailed_exitcode and planned["feasible"]:
        return OK if planned["starts"] is not None and planned["starts"]["now"] else FAILED
    return exit_code(planned)


def exit_code(plan: wire.Plan) -> int:
    """The exit code that submitting the job would have."""
    from bursar.client.errors import refusal

    if plan["feasible"]:
        return OK
    if not plan["problems"]:
        return INFEASIBLE
    return exit_code_of(refusal(422, dict(plan["problems"][0])))


def short_lines(plan: wire.Plan) -> Iterator[str]:
    """Whether it can run, when, where and at what cost."""
    if not plan["feasible"]:
        yield "feasible  no"
        for problem in plan["problems"]:
            yield f"problem   {one_line(problem['field'])} {one_line(problem['text'])}"
            yield f"fix       {one_line(problem['fix'])}"
        return
    yield "feasible  yes"
    yield f"starts    {start_line(plan['starts'])}"
    placement = plan["placement"]
    if placement is not None:
        yield f"runs on   {placement_line(placement)}"
    yield f"costs     {cost_line(plan['cost'])}"
    for warning in plan["warnings"]:
        yield f"warning   {one_line(warning)}"


def long_lines(plan: wire.Plan) -> Iterator[str]:
    """Also estimates for other pools, the reasons to wait, and alternatives."""
    yield from short_lines(plan)
    yield from estimate_lines(plan)
    for reason in plan["reasons"]:
        yield f"waits     {one_line(reason['text'])}"
    for other in plan["alternatives"]:
        yield f"instead   {one_line(other['text'])}"


def estimate_lines(plan: wire.Plan) -> Iterator[str]:
    """The estimated cost on each pool, the cheapest first, then the warnings."""
    estimates = plan["estimates"]
    if estimates or plan["estimates_note"]:
        yield f"estimate  {one_line(plan['estimates_note'])}"
    if not estimates:
        return
    names = [
        f"{one_line(one['pool'])} ({one_line(one['market'])})"
        for one in estimates[:SHOWN_ESTIMATES]
    ]
    widest = max(len(name) for name in names)
    for name, one in zip(names, estimates, strict=False):
        yield f"          {name.ljust(widest)}  {_figures(one)}"
    omitted = len(estimates) - SHOWN_ESTIMATES
    if omitted > 0:
        yield f"          {omitted} more expensive pools are omitted; -o json lists all"
    for one in estimates[:SHOWN_ESTIMATES]:
        for warning in one["warnings"]:
            yield f"note      {one_line(warning)}"


def _figures(one: wire.PlanEstimate) -> str:
    if one["p50_micro_usd"] is None or one["p90_micro_usd"] is None:
        return one_line(one["reason"])
    text = f"P50 {write_usd(one['p50_micro_usd'])} in {duration(one['p50_ms'])}, "
    text += f"P90 {write_usd(one['p90_micro_usd'])} in {duration(one['p90_ms'])}"
    return text if one["is_allowed"] else f"{text}; the job does not allow {one['market']}"


def start_line(starts: wire.PlannedStartView | None) -> str:
    """The expected start: now, or an interval."""
    if starts is None:
        return "unknown"
    if starts["now"]:
        return "now"
    if starts["likely_ms"] is None:
        return one_line(starts["text"]) or "no start is expected"
    low, high = starts["low_ms"], starts["high_ms"]
    if low is None or high is None:
        return f"about {until(starts['likely_ms'])} ({timestamp(starts['likely_ms'])})"
    return (
        f"between {until(low)} and {until(high)}, most likely {until(starts['likely_ms'])} "
        f"({timestamp(starts['likely_ms'])})"
    )


def placement_line(placement: wire.PlannedPlace) -> str:
    """Pool, flavor and nodes."""
    nodes = [one_line(node) for node in placement["nodes"]]
    more = f" and {len(nodes) - SHOWN_NODES} more" if len(nodes) > SHOWN_NODES else ""
    shown = ", ".join(nodes[:SHOWN_NODES])
    return f"{one_line(placement['pool'])} ({one_line(placement['flavor'])}): {shown}{more}"


def cost_line(cost: wire.CostView) -> str:
    """``$12.40/h x <= 6 h = <= $74.40, about $20.00 expected``."""
    price, most, expected = (
        cost["micro_usd_per_hour"],
        cost["max_micro_usd"],
        cost["expected_micro_usd"],
    )
    if price is None:
        return "unknown: no pool could run it"
    text = per_hour(price) if most is None else at_most(price, most)
    if most is None:
        text += ", no limit: it has no maximum run time (max_hours)"
    return text if expected is None else f"{text}, about {write_usd(expected)} expected"
