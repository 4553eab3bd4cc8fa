"""Dollars by purchase option: the cost of the fleet, of what was allocated, and of idle capacity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bursar.core.state.fleet_state import FleetState
from bursar.model.fleet.fleet import Market
from bursar.model.units import HOUR_MS
from bursar.simulate.metrics.time_integral import TimeIntegral

MARKETS = tuple(Market)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCost:
    """Micro-dollars by purchase option.

    ``idle`` is ``capacity`` less ``allocated``, to the micro-dollar. Attempts are charged for the
    largest fraction of any resource of a node that they hold, at the price at their start; so where one
    task holds the GPUs of a node and another its CPUs, or a price falls, idle can be negative.
    """

    capacity: Mapping[str, int]
    allocated: Mapping[str, int]
    idle: Mapping[str, int]

    @property
    def capacity_micro_usd(self) -> int:
        return sum(self.capacity.values())

    @property
    def idle_micro_usd(self) -> int:
        return sum(self.idle.values())


class CostMeter:
    """Rates in micro-dollars an hour, one pair of integrals for each purchase option."""

    def __init__(self, state: FleetState) -> None:
        self._state = state
        self.capacity = {market: TimeIntegral() for market in MARKETS}
        self.allocated = {market: TimeIntegral() for market in MARKETS}

    def recount(self, at_ms: int) -> None:
        """Computes the hourly cost of the fleet again after nodes or prices changed."""
        rates = dict.fromkeys(MARKETS, 0)
        for pool in self._state.pools.values():
            rates[pool.spec.market] += len(pool.nodes) * pool.spec.node_micro_usd_per_hour
        for market, rate in rates.items():
            self.capacity[market].set(rate, at_ms)


def cost_of(capacity: Mapping[Market, int], allocated: Mapping[Market, int]) -> RunCost:
    """Converts micro-dollars an hour times milliseconds to whole micro-dollars.

    Purchase options without capacity are omitted.
    """
    total = {m: capacity[m] // HOUR_MS for m in MARKETS if capacity[m]}
    held = {m: allocated[m] // HOUR_MS for m in total}
    return RunCost(
        capacity={str(m): total[m] for m in total},
        allocated={str(m): held[m] for m in total},
        idle={str(m): total[m] - held[m] for m in total},
    )
