"""Readers of the workloads and spot capacity that a user has recorded.

``read_trace`` takes any format it knows and loses no row unseen. ``write_trace`` writes the one form
that we document, and ``describe`` says what a trace is like before anyone runs it.
"""

from bursar.simulate.traces.formats import format_titles, read_trace, register_formats
from bursar.simulate.traces.own_form import write_trace
from bursar.simulate.traces.spot_series import (
    SpotChanges,
    SpotSeries,
    read_machine_changes,
    read_spot_series,
)
from bursar.simulate.traces.trace_summary import TraceSummary, describe

__all__ = [
    "SpotChanges",
    "SpotSeries",
    "TraceSummary",
    "describe",
    "format_titles",
    "read_machine_changes",
    "read_spot_series",
    "read_trace",
    "register_formats",
    "write_trace",
]
