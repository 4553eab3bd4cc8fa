"""``bursar trace``: describe or convert a trace."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping

from bursar.cli.arguments import argument, command, command_of_verbs
from bursar.cli.commands.simulation.run_options import JSON, OUTPUT, TRACE
from bursar.cli.exit_codes import OK
from bursar.cli.terminal.output import print_json


@command(
    "describe",
    *TRACE,
    argument("--fleet", "FILE", "also print the load on this fleet"),
    OUTPUT,
    examples=("bursar trace describe trace.csv --fleet fleet.yaml",),
)
def describe(parsed: argparse.Namespace) -> int:
    """Print the number, size, run time and owners of the jobs."""
    from bursar.wiring import simulation

    summary = simulation.describe_trace(parsed.trace, parsed.format, parsed.fleet, parsed.seed)
    return _print(parsed, simulation.trace_json(summary), summary.lines())


@command(
    "convert",
    *TRACE,
    argument("out", "OUT", "file to write"),
    OUTPUT,
    examples=("bursar trace convert sacct.txt trace.csv.xz",),
)
def convert(parsed: argparse.Namespace) -> int:
    """Write a trace as .csv, .csv.gz, .csv.xz or .parquet."""
    from bursar.wiring import simulation

    summary = simulation.convert_trace(parsed.trace, parsed.format, parsed.out, parsed.seed)
    text = (*summary.lines(), f"written     {parsed.out}")
    return _print(parsed, simulation.trace_json(summary), text)


def _print(parsed: argparse.Namespace, plain: Mapping[str, object], text: Iterable[str]) -> int:
    if parsed.output == JSON:
        print_json(plain)
    else:
        print("\n".join(text))
    return OK


trace = command_of_verbs(
    "trace",
    """Describe a trace, or convert it to Bursar's format.

    All supported trace formats can be read.
    """,
    *(describe, convert),
    examples=("bursar trace describe trace.csv", "bursar trace convert sacct.txt trace.parquet"),
)
