"""Pools that follow a cloud's prices: asked now and then, and what changed becomes events.

A pool says so itself, by the label ``bursar/prices`` with the name of its cloud, beside the machine and the
region that it is. All others keep the price of the fleet file. A cloud that cannot be asked changes nothing.
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

ANSWER_SECONDS = 60.0

MakeFeed = Callable[[], PriceFeed]
"""Builds a cloud's feed when a pool first wants it; ``UserError`` says what is missing."""


class PriceRefresh:
    """``once`` asks every cloud that some pool follows. What went wrong is told once, until it changes."""

    def __init__(
        self, plane: ControlPlane, clouds: Mapping[str, MakeFeed], tell: Callable[[str], None]
    ) -> None:
        self._plane = plane
        self._clouds = clouds
        self._tell = tell
        self._feeds: dict[str, PriceFeed] = {}
        self._told: set[str] = set()

    def once(self) -> int:
        """How many prices changed. Only who leads asks."""
        if not self._plane.is_leader or self._plane.declaration() is None:
            return 0
        asked = self._plane.ask(lambda state, _now_ms: [pool.spec for pool in state.pools.values()])
        followers = by_cloud(asked.result(ANSWER_SECONDS))
        problems: set[str] = set()
        changed = 0
        for cloud, pools in followers.items():
            try:
                changed += self._refresh(cloud, pools, problems)
            except UserError as error:
                problems.add(f"prices of {cloud} are not followed: {error.problem} {error.fix}")
            except EngineFault as fault:
                problems.add(f"prices of {cloud} could not be asked: {fault}")
        for problem in sorted(problems - self._told):
            self._tell(problem)
        self._told = problems
        return changed

    def _refresh(self, cloud: str, pools: Sequence[Pool], problems: set[str]) -> int:
        reading = self._feed(cloud).read(requests_for(pools))
        now_ms = self._plane.ask(lambda _state, now_ms: now_ms).result(ANSWER_SECONDS)
        update = price_update(pools, reading.rows, now_ms)
        problems |= {f"price of {one}" for one in update.refused}
        if not update.changes:
            return 0
        was = {pool.name: pool.node_micro_usd_per_hour for pool in pools}
        taken = self._plane.send(ChangePrices(changes=update.changes)).result(ANSWER_SECONDS)
        for one in taken:
            old, new = write_usd(was[one.pool]), write_usd(one.node_micro_usd_per_hour)
            self._tell(f"a node of {one.pool} costs {new} an hour from now on; it was {old}")
        return len(taken)

    def _feed(self, cloud: str) -> PriceFeed:
        if cloud not in self._feeds:
            make = self._clouds.get(cloud)
            if make is None:
                raise UserError(
                    f"there is no feed of {cloud[:40]!r}.",
                    fix=f"Write {FOLLOWS}: {' or '.join(sorted(self._clouds))}.",
                    code="unknown-cloud",
                )
            self._feeds[cloud] = make()
        return self._feeds[cloud]


def by_cloud(pools: Iterable[Pool]) -> dict[str, list[Pool]]:
    """Pools that follow a cloud, by its name. What one's own hardware costs no cloud knows."""
    found: dict[str, list[Pool]] = {}
    for pool in sorted(pools, key=lambda pool: pool.name):
        cloud = pool.labels.get(FOLLOWS)
        if cloud is not None and pool.market is not Market.OWNED:
            found.setdefault(cloud, []).append(pool)
    return found


def requests_for(pools: Iterable[Pool]) -> tuple[PriceRequest, ...]:
    """One for each region; pools that lack a label are refused by name when prices are compared."""
    regions: dict[str, set[str]] = {}
    for pool in pools:
        machine, region = pool.labels.get(INSTANCE_TYPE), pool.labels.get(REGION)
        if machine and region:
            regions.setdefault(region, set()).add(machine)
    return tuple(
        PriceRequest(region=region, instance_types=tuple(sorted(machines)))
        for region, machines in sorted(regions.items())
    )
