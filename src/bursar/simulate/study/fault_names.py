"""What ``--faults`` takes: kinds of trouble by name, with how often they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import get_close_matches

from bursar.model.errors import UserError
from bursar.model.units import DAY_MS, MINUTE_MS, SECOND_MS
from bursar.simulate.faults import Faults, NodeLosses, SlowStarts, SpotReclaims, Stragglers

ALWAYS_MS = 100 * 365 * DAY_MS
"""Outages are drawn only while work goes on, so the bound need not be near."""


def choose_faults(text: str, seed: int) -> Faults | None:
    """The troubles that a text names: ``spot,node-loss=200,failure=0.02``; none for an empty one."""
    faults = Faults(seed=seed, until_ms=ALWAYS_MS)
    named = [part.strip() for part in text.split(",") if part.strip()]
    for part in named:
        key, _, value = (one.strip() for one in part.partition("="))
        if key not in FAULTS:
            raise _unknown(key)
        faults = FAULTS[key](faults, value)
    return faults if named else None


def _spot(faults: Faults, value: str) -> Faults:
    """At the rates of the fleet's spot pools."""
    if value:
        raise UserError(
            f"--faults spot={value}: spot takes no value.",
            fix="Each spot pool has its rate in the fleet file, interruptions_per_million_hours.",
            code="bad-faults",
        )
    return replace(faults, spot_reclaims=SpotReclaims(saves_at_notice=True))


def _node_loss(faults: Faults, value: str) -> Faults:
    rate = _number("node-loss", value or "100", most=1_000_000_000)
    return replace(faults, node_losses=NodeLosses(per_million_hours=round(rate)))


def _failure(faults: Faults, value: str) -> Faults:
    return replace(faults, failure_chance=_number("failure", value or "0.05", most=1))


def _straggler(faults: Faults, value: str) -> Faults:
    chance = _number("straggler", value or "0.05", most=1)
    return replace(faults, stragglers=Stragglers(chance=chance))


def _slow_start(faults: Faults, value: str) -> Faults:
    median_ms = round(_number("slow-start", value or "30", most=3_600) * SECOND_MS)
    starts = SlowStarts(median_ms=median_ms, tenth_ms=median_ms + 5 * MINUTE_MS)
    return replace(faults, slow_starts=starts)


FAULTS: Mapping[str, Callable[[Faults, str], Faults]] = {
    "spot": _spot,
    "node-loss": _node_loss,
    "failure": _failure,
    "straggler": _straggler,
    "slow-start": _slow_start,
}


def _number(key: str, value: str, *, most: float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= most:
        raise UserError(
            f"--faults {key}={value}: not a number from 0 to {most:,g}.",
            fix=f"Write one, or {key!r} alone for the usual rate.",
            code="bad-faults",
        )
    return number


def _unknown(key: str) -> UserError:
    close = get_close_matches(key, FAULTS, n=1)
    meant = f"Did you mean {close[0]!r}? " if close else ""
    return UserError(
        f"--faults {key}: not a kind of trouble we know.",
        fix=f"{meant}There are: {', '.join(FAULTS)}.",
        code="bad-faults",
    )
