"""Readers of published workloads, machines and spot capacity.

Importing this package registers the formats with ``read_trace``.
"""

from bursar.simulate.traces.formats import LineFormat, TraceFormat, register_formats
from studies.formats import (
    acme,
    bench,
    chronus,
    gavel,
    helios,
    hydra,
    muri,
    openb,
    pai,
    pai_tasks,
    philly,
    pollux,
)

# The first format that recognises a file is used, so the more specific of two comes first.
FORMATS: tuple[TraceFormat, ...] = (
    bench.FORMAT,
    philly.FORMAT,
    helios.FORMAT,
    acme.HELIOS_LOG,
    acme.FORMAT,
    openb.FORMAT,
    chronus.FORMAT,
    muri.FORMAT,
    hydra.FORMAT,
    hydra.ON_V100,
    hydra.ON_2080TI,
    pollux.FORMAT,
    pai.FORMAT,
    LineFormat(pai_tasks.NAME, pai_tasks.TITLE, pai_tasks.recognises, pai_tasks.read),
    LineFormat(gavel.NAME, gavel.TITLE, gavel.recognises, gavel.read),
)

register_formats(*FORMATS)
