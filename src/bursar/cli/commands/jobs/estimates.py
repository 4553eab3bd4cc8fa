"""What a job would cost on each pool, as ``bursar plan`` shows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from bursar.cli.terminal.format import duration
from bursar.cli.terminal.safe_text import one_line
from bursar.model.units import write_usd

if TYPE_CHECKING:
    from bursar.client import wire

SHOWN: Final = 8


def estimate_lines(found: wire.Plan) -> Iterator[str]:
    """A line for each pool, the cheapest first, then what there is to know about them."""
    estimates = found["estimates"]
    if not estimates:
        if found["estimates_note"]:
            yield f"estimate  {one_line(found['estimates_note'])}"
        return
    yield f"estimate  {one_line(found['estimates_note'])}"
    names = [f"{one_line(one['pool'])} ({one_line(one['market'])})" for one in estimates[:SHOWN]]
    widest = max(len(name) for name in names)
    for name, one in zip(names, estimates, strict=False):
        yield f"          {name.ljust(widest)}  {_figures(one)}"
    if len(estimates) > SHOWN:
        yield f"          {len(estimates) - SHOWN} dearer pools are left out; -o json has all"
    yield from _notes(estimates[:SHOWN])


def _figures(one: wire.PlanEstimate) -> str:
    if one["p50_micro_usd"] is None or one["p90_micro_usd"] is None:
        return one_line(one["reason"])
    told = f"even odds {write_usd(one['p50_micro_usd'])} in {duration(one['p50_ms'])}, "
    told += f"nine in ten {write_usd(one['p90_micro_usd'])} in {duration(one['p90_ms'])}"
    return told if one["is_allowed"] else f"{told}; the job does not allow {one['market']}"


def _notes(estimates: Sequence[wire.PlanEstimate]) -> Iterator[str]:
    for one in estimates:
        for warning in one["warnings"]:
            yield f"note      {one_line(warning)}"
