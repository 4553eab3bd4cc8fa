"""Reads recorded workloads and recorded spot capacity.

``read_trace`` reads any known format and accounts for every row; ``write_trace`` writes our own form.
"""

from bursar.simulate.traces.formats import format_titles, read_trace, register_formats
from bursar.simulate.traces.own_form import write_trace
from bursar.simulate.traces.spot_series import read_machine_changes, read_spot_series
from bursar.simulate.traces.trace_summary import TraceSummary

__all__ = [
    "TraceSummary",
    "format_titles",
    "read_machine_changes",
    "read_spot_series",
    "read_trace",
    "register_formats",
    "write_trace",
]
