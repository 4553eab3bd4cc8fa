"""``bursar trace``: describe or convert a trace."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from bursar.cli.arguments import new_parser
from bursar.cli.commands.simulation.run_options import JSON, add_output, add_trace
from bursar.cli.exit_codes import OK, WRONG_USAGE
from bursar.cli.terminal.output import print_json

if TYPE_CHECKING:
    from bursar.cli.arguments import Subparsers


def add_parser(commands: Subparsers) -> None:
    parser = new_parser(
        commands,
        "trace",
        (
            "describe a trace, or convert it to Bursar's format",
            "All supported trace formats can be read.",
        ),
        ("bursar trace describe trace.csv", "bursar trace convert sacct.txt trace.parquet"),
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", title="verbs", required=True)
    describe = new_parser(
        verbs,
        "describe",
        ("print the number, size, run time and owners of the jobs", ""),
        ("bursar trace describe trace.csv --fleet fleet.yaml",),
    )
    add_trace(describe)
    describe.add_argument("--fleet", metavar="FILE", help="also print the load on this fleet")
    convert = new_parser(
        verbs,
        "convert",
        ("write a trace as .csv, .csv.gz, .csv.xz or .parquet", ""),
        ("bursar trace convert sacct.txt trace.csv.xz",),
    )
    add_trace(convert)
    convert.add_argument("out", metavar="OUT", help="file to write")
    for verb in (describe, convert):
        add_output(verb)


def run(parsed: argparse.Namespace) -> int:
    from bursar.wiring import simulation

    if parsed.verb == "describe":
        summary = simulation.describe_trace(parsed.trace, parsed.format, parsed.fleet, parsed.seed)
    elif parsed.verb == "convert":
        summary = simulation.convert_trace(parsed.trace, parsed.format, parsed.out, parsed.seed)
    else:
        return WRONG_USAGE
    if parsed.output == JSON:
        print_json(simulation.trace_json(summary))
        return OK
    for line in summary.lines():
        print(line)
    if parsed.verb == "convert":
        print(f"written     {parsed.out}")
    return OK
