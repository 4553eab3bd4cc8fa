"""``bursar plan``: what would become of a job, without submitting it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from bursar.cli.arguments import add_connection, add_format, new_parser
from bursar.cli.commands.jobs.estimates import estimate_lines
from bursar.cli.commands.jobs.job_options import add_job, document_of, with_queue
from bursar.cli.connection import ask
from bursar.cli.exit_codes import FAILED, INFEASIBLE, OK, exit_code_of
from bursar.cli.terminal.format import at_most, moment, per_hour, until
from bursar.cli.terminal.safe_text import one_line
from bursar.cli.terminal.table import print_one
from bursar.model.units import write_usd

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers
    from bursar.client import wire

SHOWN_NODES: Final = 4


def add_parser(commands: Subparsers) -> None:
    """The command and its options."""
    parser = new_parser(
        commands,
        "plan",
        (
            "say what would become of a job: can it run, where, when, at what cost",
            "Asks the scheduler what it would do with a job, without submitting it. Exit code 0: it can "
            "run, now or later; 6: it never could; 5: a quota or a budget forbids it; 2: it is wrong.",
        ),
        ("bursar plan job.yaml", "bursar plan --queue vision --gpus T4:4 --max-hours 6 -- ./train"),
    )
    add_job(parser)
    parser.add_argument(
        "--detailed-exitcode",
        action="store_true",
        help="exit with 0 only if it would start now, and with 1 if it would wait",
    )
    add_format(parser)
    add_connection(parser)


def run(parsed: argparse.Namespace) -> int:
    """Ask and tell."""
    document, changes = document_of(parsed)
    found = ask(
        parsed,
        lambda client: client.plan(document, **with_queue(client, document, changes)),
    )

    def tell() -> None:
        for line in long_lines(found):
            print(line)

    print_one(parsed, found, tell)
    if parsed.detailed_exitcode and found["feasible"]:
        return OK if found["starts"] is not None and found["starts"]["now"] else FAILED
    return exit_code(found)


def exit_code(found: wire.Plan) -> int:
    """Whether it can run at all: as submitting it would exit, by the first thing that is wrong."""
    from bursar.client.errors import refusal

    if found["feasible"]:
        return OK
    if not found["problems"]:
        return INFEASIBLE
    return exit_code_of(refusal(422, dict(found["problems"][0])))


def short_lines(found: wire.Plan) -> Iterator[str]:
    """Can it run, when, where, for how much."""
    if not found["feasible"]:
        yield "feasible  no"
        for problem in found["problems"]:
            yield f"problem   {one_line(problem['field'])} {one_line(problem['text'])}"
            yield f"fix       {one_line(problem['fix'])}"
        return
    yield "feasible  yes"
    yield f"starts    {start_line(found['starts'])}"
    place = found["placement"]
    if place is not None:
        yield f"runs on   {place_line(place)}"
    yield f"costs     {cost_line(found['cost'])}"
    for warning in found["warnings"]:
        yield f"warning   {one_line(warning)}"


def long_lines(found: wire.Plan) -> Iterator[str]:
    """Also what it would cost elsewhere, why it does not start now, and what would start it now."""
    yield from short_lines(found)
    yield from estimate_lines(found)
    for reason in found["reasons"]:
        yield f"waits     {one_line(reason['text'])}"
    for other in found["alternatives"]:
        yield f"instead   {one_line(other['text'])}"


def start_line(starts: wire.PlannedStartView | None) -> str:
    """Now, or from when to when."""
    if starts is None:
        return "unknown"
    if starts["now"]:
        return "now"
    if starts["likely_ms"] is None:
        return one_line(starts["text"]) or "no start is expected"
    low, high = starts["low_ms"], starts["high_ms"]
    if low is None or high is None:
        return f"about {until(starts['likely_ms'])} ({moment(starts['likely_ms'])})"
    return (
        f"between {until(low)} and {until(high)}, even odds {until(starts['likely_ms'])} "
        f"({moment(starts['likely_ms'])})"
    )


def place_line(place: wire.PlannedPlace) -> str:
    """Pool, flavor and nodes."""
    nodes = [one_line(node) for node in place["nodes"]]
    more = f" and {len(nodes) - SHOWN_NODES} more" if len(nodes) > SHOWN_NODES else ""
    where = ", ".join(nodes[:SHOWN_NODES])
    return f"{one_line(place['pool'])} ({one_line(place['flavor'])}): {where}{more}"


def cost_line(cost: wire.CostView) -> str:
    """``$12.40/h x <= 6 h = <= $74.40, about $20.00 expected``."""
    price, most, expected = (
        cost["micro_usd_per_hour"],
        cost["max_micro_usd"],
        cost["expected_micro_usd"],
    )
    if price is None:
        return "unknown: no pool could run it"
    told = per_hour(price) if most is None else at_most(price, most)
    if most is None:
        told += ", without end: it has no maximum run time (max_hours)"
    return told if expected is None else f"{told}, about {write_usd(expected)} expected"
