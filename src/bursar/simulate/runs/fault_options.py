"""Parses ``--faults``: types of faults by name, with their rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from bursar.model.errors import UserError
from bursar.model.fleet.fleet import Fleet, Market
from bursar.model.suggestion import suggest_among
from bursar.model.units import DAY_MS, MINUTE_MS, SECOND_MS
from bursar.simulate.faults import (
    Faults,
    NodeLosses,
    PoolSeries,
    SlowStarts,
    SpotReclaims,
    Stragglers,
)
from bursar.simulate.traces.spot_series import read_machine_changes, read_spot_series

ALWAYS_MS = 100 * 365 * DAY_MS
"""Far beyond any run: outages are drawn only while other events are due."""


def choose_faults(text: str, seed: int, fleet: Fleet) -> Faults | None:
    """Parses ``spot,node-loss=200,failure=0.02``; None for an empty text."""
    faults = Faults(seed=seed, until_ms=ALWAYS_MS)
    named = [part.strip() for part in text.split(",") if part.strip()]
    for part in named:
        key, _, value = (one.strip() for one in part.partition("="))
        if key not in FAULTS:
            raise _unknown(key)
        faults = FAULTS[key](faults, value)
    if faults.spot_reclaims is not None:
        _require_spot_pools(faults.spot_reclaims, fleet)
    return faults if named else None


def _require_spot_pools(reclaims: SpotReclaims, fleet: Fleet) -> None:
    known = sorted(pool.name for pool in fleet.pools if pool.market is Market.SPOT)
    for name in sorted(reclaims.series):
        if name not in known:
            raise UserError(
                f"--faults spot={name}: not a spot pool of the fleet.",
                fix=f"There are: {', '.join(known) or 'none; give a pool the market spot'}.",
                code="bad-faults",
            )


def _spot(faults: Faults, value: str) -> Faults:
    """Reclaims at the rates of the fleet's spot pools, or by a recorded series for one of them."""
    reclaims = faults.spot_reclaims or SpotReclaims(saves_at_notice=True)
    if value:
        pool, colon, path = value.partition(":")
        if not (pool and colon and path):
            raise UserError(
                f"--faults spot={value}: not a pool and a file.",
                fix="Write 'spot=POOL:FILE' with a recorded series, or 'spot' alone for the rates of "
                "the fleet file, interruptions_per_million_hours.",
                code="bad-faults",
            )
        reclaims = replace(reclaims, series={**reclaims.series, pool: read_pool_series(path)})
    return replace(faults, spot_reclaims=reclaims)


def read_pool_series(path: str) -> PoolSeries:
    """The available fraction of a pool over time: availability in JSON, or machines in CSV."""
    if ".json" in path:
        series = read_spot_series(path)
        changes, end_ms = tuple(series.changes()), series.span_ms
    else:
        recorded = read_machine_changes(path)
        changes = tuple(recorded.changes())
        end_ms = changes[-1][0] if changes else 0
    full = max((machines for _, machines in changes), default=0)
    if not full:
        raise UserError(
            f"--faults spot: {path} never has a machine.",
            fix="Name a series with machines.",
            code="bad-faults",
        )
    return PoolSeries(changes=changes, end_ms=end_ms, full=full)


def _node_loss(faults: Faults, value: str) -> Faults:
    rate = _number("node-loss", value or "100", highest=1_000_000_000)
    return replace(faults, node_losses=NodeLosses(per_million_hours=round(rate)))


def _failure(faults: Faults, value: str) -> Faults:
    return replace(faults, failure_chance=_number("failure", value or "0.05", highest=1))


def _straggler(faults: Faults, value: str) -> Faults:
    chance = _number("straggler", value or "0.05", highest=1)
    return replace(faults, stragglers=Stragglers(chance=chance))


def _slow_start(faults: Faults, value: str) -> Faults:
    median_ms = round(_number("slow-start", value or "30", highest=3_600) * SECOND_MS)
    starts = SlowStarts(median_ms=median_ms, p90_ms=median_ms + 5 * MINUTE_MS)
    return replace(faults, slow_starts=starts)


FAULTS: Mapping[str, Callable[[Faults, str], Faults]] = {
    "spot": _spot,
    "node-loss": _node_loss,
    "failure": _failure,
    "straggler": _straggler,
    "slow-start": _slow_start,
}


def _number(key: str, value: str, *, highest: float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= highest:
        raise UserError(
            f"--faults {key}={value}: not a number from 0 to {highest:,g}.",
            fix=f"Write one, or {key!r} alone for the usual rate.",
            code="bad-faults",
        )
    return number


def _unknown(key: str) -> UserError:
    return UserError(
        f"--faults {key}: not a type of fault.",
        fix=suggest_among(key, FAULTS),
        code="bad-faults",
    )
