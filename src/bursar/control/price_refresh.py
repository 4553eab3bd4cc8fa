"""Polls cloud prices for the pools that follow them; changes become events.

A pool follows a cloud by the label ``bursar/prices`` with the cloud's name, besides labels for instance type
and region. All other pools have the price of the fleet file. A failed poll changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from bursar.catalog.prices.price_changes import FOLLOWS, INSTANCE_TYPE, REGION, price_update
from bursar.control.control_plane import ControlPlane
from bursar.control.requests.price_requests import ChangePrices
from bursar.model.errors import EngineFault, UserError
from bursar.model.fleet.fleet import Market, Pool
from bursar.model.units import write_usd
from bursar.ports import PriceFeed, PriceRequest

TIMEOUT_SECONDS = 60.0

MakeFeed = Callable[[], PriceFeed]
"""Builds a cloud's feed when a pool first needs it; ``UserError`` if a setting is missing."""


class PriceRefresh:
    """``run_once`` polls every cloud that some pool follows. A problem is reported once, until it changes."""

    def __init__(
        self, plane: ControlPlane, clouds: Mapping[str, MakeFeed], notify: Callable[[str], None]
    ) -> None:
        self._plane = plane
        self._clouds = clouds
        self._notify = notify
        self._feeds: dict[str, PriceFeed] = {}
        self._reported: set[str] = set()

    def run_once(self) -> int:
        """Poll once, if this process leads; returns how many prices changed."""
        if not self._plane.is_leader or self._plane.declaration() is None:
            return 0
        pools = self._plane.query_state(
            lambda state, _now_ms: [pool.spec for pool in state.pools.values()]
        ).result(TIMEOUT_SECONDS)
        problems: set[str] = set()
        changed = 0
        for cloud, followers in by_cloud(pools).items():
            try:
                changed += self._refresh(cloud, followers, problems)
            except UserError as error:
                problems.add(f"prices of {cloud} are not followed: {error.problem} {error.fix}")
            except EngineFault as fault:
                problems.add(f"prices of {cloud} could not be read: {fault}")
        for problem in sorted(problems - self._reported):
            self._notify(problem)
        self._reported = problems
        return changed

    def _refresh(self, cloud: str, pools: Sequence[Pool], problems: set[str]) -> int:
        reading = self._feed(cloud).read(requests_for(pools))
        now_ms = self._plane.query_state(lambda _state, now_ms: now_ms).result(TIMEOUT_SECONDS)
        update = price_update(pools, reading.rows, now_ms)
        problems |= {f"price of {one}" for one in update.refused}
        if not update.changes:
            return 0
        old_prices = {pool.name: pool.node_micro_usd_per_hour for pool in pools}
        changes = self._plane.send(ChangePrices(changes=update.changes)).result(TIMEOUT_SECONDS)
        for one in changes:
            old, new = write_usd(old_prices[one.pool]), write_usd(one.node_micro_usd_per_hour)
            self._notify(f"a node of {one.pool} now costs {new} an hour; it was {old}")
        return len(changes)

    def _feed(self, cloud: str) -> PriceFeed:
        if cloud not in self._feeds:
            make = self._clouds.get(cloud)
            if make is None:
                raise UserError(
                    f"there is no price feed for {cloud[:40]!r}.",
                    fix=f"Write {FOLLOWS}: {' or '.join(sorted(self._clouds))}.",
                    code="unknown-cloud",
                )
            self._feeds[cloud] = make()
        return self._feeds[cloud]


def by_cloud(pools: Iterable[Pool]) -> dict[str, list[Pool]]:
    """Pools that follow a cloud's prices, by cloud. Owned pools follow none."""
    pools_by_cloud: dict[str, list[Pool]] = {}
    for pool in sorted(pools, key=lambda pool: pool.name):
        cloud = pool.labels.get(FOLLOWS)
        if cloud is not None and pool.market is not Market.OWNED:
            pools_by_cloud.setdefault(cloud, []).append(pool)
    return pools_by_cloud


def requests_for(pools: Iterable[Pool]) -> tuple[PriceRequest, ...]:
    """One request for each region; pools without the labels are reported when prices are compared."""
    regions: dict[str, set[str]] = {}
    for pool in pools:
        machine, region = pool.labels.get(INSTANCE_TYPE), pool.labels.get(REGION)
        if machine and region:
            regions.setdefault(region, set()).add(machine)
    return tuple(
        PriceRequest(region=region, instance_types=tuple(sorted(machines)))
        for region, machines in sorted(regions.items())
    )
