"""The estimated cost of a job on each pool, for ``bursar plan``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from bursar.cli.terminal.format import duration
from bursar.cli.terminal.safe_text import one_line
from bursar.model.units import write_usd

if TYPE_CHECKING:
    from bursar.client import wire

SHOWN: Final = 8


def estimate_lines(plan: wire.Plan) -> Iterator[str]:
    """One line for each pool, the cheapest first, then the warnings."""
    estimates = plan["estimates"]
    if not estimates:
        if plan["estimates_note"]:
            yield f"estimate  {one_line(plan['estimates_note'])}"
        return
    yield f"estimate  {one_line(plan['estimates_note'])}"
    names = [f"{one_line(one['pool'])} ({one_line(one['market'])})" for one in estimates[:SHOWN]]
    widest = max(len(name) for name in names)
    for name, one in zip(names, estimates, strict=False):
        yield f"          {name.ljust(widest)}  {_figures(one)}"
    if len(estimates) > SHOWN:
        yield f"          {len(estimates) - SHOWN} more expensive pools are omitted; -o json lists all"
    yield from _notes(estimates[:SHOWN])


def _figures(one: wire.PlanEstimate) -> str:
    if one["p50_micro_usd"] is None or one["p90_micro_usd"] is None:
        return one_line(one["reason"])
    text = f"P50 {write_usd(one['p50_micro_usd'])} in {duration(one['p50_ms'])}, "
    text += f"P90 {write_usd(one['p90_micro_usd'])} in {duration(one['p90_ms'])}"
    return text if one["is_allowed"] else f"{text}; the job does not allow {one['market']}"


def _notes(estimates: Sequence[wire.PlanEstimate]) -> Iterator[str]:
    for one in estimates:
        for warning in one["warnings"]:
            yield f"note      {one_line(warning)}"
