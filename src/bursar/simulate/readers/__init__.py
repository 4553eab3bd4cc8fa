"""Readers: workloads, machines, spot capacity and prices that others recorded, as values of ours.

``read_trace`` takes any format it knows and loses no row unseen. ``write_trace`` writes the one form
that we document, and ``describe`` says what a trace is like before anyone runs it.
"""

from bursar.simulate.readers.describe import TraceSummary, describe
from bursar.simulate.readers.formats import FORMAT_TITLES
from bursar.simulate.readers.nodes import NodeList, TraceNode, read_nodes
from bursar.simulate.readers.prices import PriceHistory, PriceSeries, read_spot_prices
from bursar.simulate.readers.read import read_trace
from bursar.simulate.readers.spot import (
    SpotChanges,
    SpotLifetime,
    SpotLifetimes,
    SpotSeries,
    read_lifetimes,
    read_machine_changes,
    read_spot_archive,
    read_spot_series,
)
from bursar.simulate.readers.write import write_trace

__all__ = [
    "FORMAT_TITLES",
    "NodeList",
    "PriceHistory",
    "PriceSeries",
    "SpotChanges",
    "SpotLifetime",
    "SpotLifetimes",
    "SpotSeries",
    "TraceNode",
    "TraceSummary",
    "describe",
    "read_lifetimes",
    "read_machine_changes",
    "read_nodes",
    "read_spot_archive",
    "read_spot_prices",
    "read_spot_series",
    "read_trace",
    "write_trace",
]
