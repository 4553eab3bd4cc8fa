"""A row of the benchmark table, and measurement of CPU time and memory."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A measured value and its target or reference."""

    scenario: str
    what: str
    measured: str
    reference: str


class Stopwatch:
    """CPU seconds of this process, which other load on the machine hardly affects."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    @contextmanager
    def lap(self) -> Iterator[None]:
        began = time.process_time()
        yield
        self.seconds.append(time.process_time() - began)

    @property
    def total(self) -> float:
        return sum(self.seconds)

    def percentile_ms(self, percent: float) -> float:
        ordered = sorted(self.seconds)
        return 1_000 * ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


def peak_memory_gb() -> float:
    """Peak memory of this process in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def write_table(figures: Sequence[Figure]) -> str:
    """Format a table with aligned columns, one row per figure."""
    rows = [("scenario", "what", "measured", "target or reference")]
    rows += [(f.scenario, f.what, f.measured, f.reference) for f in figures]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)
