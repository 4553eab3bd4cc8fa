"""The demonstration, pages and traces for the command line.

Imports are inside the functions, so that a command loads only what it uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from bursar.model.errors import UserError

if TYPE_CHECKING:
    from bursar.simulate.demo.demo_text import TextLine
    from bursar.simulate.runs import RunOutcome
    from bursar.simulate.traces import TraceSummary
    from bursar.simulate.workload.trace import Trace


def demo(*, seed: int, verbose: bool) -> Iterator[TextLine]:
    """A simulated day of a demonstration fleet, line by line."""
    from bursar.core.check import require_valid
    from bursar.simulate.demo.demo import demonstration
    from bursar.simulate.demo.demo_text import demo_text
    from bursar.simulate.simulation import Simulation

    return demo_text(Simulation(demonstration(seed), check=require_valid), verbose=verbose)


def page_of(outcomes: Sequence[RunOutcome]) -> str:
    """The comparison as an HTML page with plots, in one file without external resources."""
    from bursar.simulate.report.page import page_html

    return page_html([one.summary for one in outcomes], [one.series for one in outcomes])


def describe_trace(source: str, format: str | None, fleet: str | None, seed: int) -> TraceSummary:
    """A summary of a trace; with a fleet also the load on it."""
    from bursar.simulate.traces.trace_summary import describe
    from bursar.wiring.run_requests import choose_fleet

    gpus = choose_fleet(fleet).gpus if fleet else None
    return describe(_trace(source, format, gpus, seed), gpus=gpus)


def _trace(source: str, format: str | None, gpus: int | None, seed: int) -> Trace:
    from bursar.simulate.runs.workload_source import WorkloadSource, open_workload

    return open_workload(WorkloadSource(name=source, format=format, seed=seed, gpus=gpus)).trace()


def trace_json(summary: TraceSummary) -> dict[str, Any]:
    """A summary as JSON; bad rows are counted, and the first ones listed."""
    from bursar.simulate.traces.trace_summary import SHOWN_BAD_ROWS

    first = [str(row) for row in summary.bad_rows[:SHOWN_BAD_ROWS]]
    return {**asdict(summary), "bad_rows": {"count": len(summary.bad_rows), "first": [*first]}}


def convert_trace(source: str, format: str | None, out: str, seed: int) -> TraceSummary:
    """Write a trace in Bursar's format; returns its summary."""
    from bursar.simulate.traces import write_trace
    from bursar.simulate.traces.trace_summary import describe

    trace = _trace(source, format, None, seed)
    try:
        write_trace(trace, out)
    except OSError as error:
        raise cannot_write(out, error) from error
    return describe(trace)


def cannot_write(path: str, error: OSError) -> UserError:
    """The error for an output file that cannot be written."""
    return UserError(
        f"{path} cannot be written: {error.strerror or error}.",
        fix="Name a file in a folder that exists and that you may write to.",
        code="cannot-write",
    )
