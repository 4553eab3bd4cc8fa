"""Axes: from values to positions, with ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from bursar.model.units import DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS

TIME_STEPS_MS = (
    *(SECOND_MS * n for n in (1, 2, 5, 10, 20, 30)),
    *(MINUTE_MS * n for n in (1, 2, 5, 10, 20, 30)),
    *(HOUR_MS * n for n in (1, 2, 3, 6, 12)),
    *(DAY_MS * n for n in (1, 2, 5, 7, 14, 30, 60, 90, 180, 365, 730)),
)
LOG_TICKS_MS = (
    (SECOND_MS, "1 s"),
    (10 * SECOND_MS, "10 s"),
    (MINUTE_MS, "1 min"),
    (10 * MINUTE_MS, "10 min"),
    (HOUR_MS, "1 h"),
    (10 * HOUR_MS, "10 h"),
    (DAY_MS * 4, "4 d"),
    (DAY_MS * 40, "40 d"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartAxis:
    """Values from zero to ``high``, with ticks and a title.

    ``logarithmic`` positions v by log(1 + v / 1 s), so that zero has a position. ``form`` is the format
    of a value in the tooltip and the table of numbers.
    """

    high: float
    ticks: tuple[tuple[float, str], ...]
    title: str
    form: str = "number"
    logarithmic: bool = False

    def fraction(self, value: float) -> float:
        """The position of a value between the ends, from 0 to 1."""
        if self.logarithmic:
            return math.log1p(value / SECOND_MS) / math.log1p(max(1.0, self.high) / SECOND_MS)
        return value / self.high


def value_axis(highest: float, title: str, form: str, write: Callable[[float], str]) -> ChartAxis:
    """From zero to a round number at or above the highest value; to one when all are zero."""
    step = _round_step(highest / 4) if highest > 0 else 1.0
    count = max(1, math.ceil(highest / step - 1e-9))
    ticks = tuple((step * n, write(step * n)) for n in range(count + 1))
    return ChartAxis(high=step * count, ticks=ticks, title=title, form=form)


def percent_axis(title: str, highest: float = 1.0) -> ChartAxis:
    """From 0 to 100 %, or to 50 or 20 % when no value is higher."""
    high = next((one for one in (20, 50) if 100 * highest <= one), 100)
    ticks = tuple((high * n / 400, f"{high * n / 4:g} %") for n in range(5))
    return ChartAxis(high=high / 100, ticks=ticks, title=title, form="percent")


def time_axis(length_ms: int, max_ticks: int = 8) -> ChartAxis:
    """Time since the start of the run, with ticks at common units."""
    length_ms = max(SECOND_MS, length_ms)
    step = next((one for one in TIME_STEPS_MS if length_ms / one <= max_ticks), TIME_STEPS_MS[-1])
    ticks = tuple((at, write_tick(at, step)) for at in range(0, length_ms + 1, step))
    return ChartAxis(
        high=float(length_ms), ticks=ticks, title="time since the first job", form="time"
    )


def wait_axis(longest_ms: int) -> ChartAxis:
    """Waits from zero to the longest, on a logarithmic scale."""
    high = max(10 * SECOND_MS, longest_ms)
    ticks = ((0, "0"), *((at, label) for at, label in LOG_TICKS_MS if at <= high))
    return ChartAxis(
        high=float(high), ticks=ticks, title="queue wait", form="time", logarithmic=True
    )


def write_tick(at_ms: int, step_ms: int) -> str:
    if not at_ms:
        return "0"
    for unit_ms, name in ((DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min")):
        if step_ms % unit_ms == 0:
            return f"{at_ms // unit_ms} {name}"
    return f"{at_ms // SECOND_MS} s"


def _round_step(least: float) -> float:
    """The next of 1, 2, 2.5, 5, 10 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= least * 0.999)
