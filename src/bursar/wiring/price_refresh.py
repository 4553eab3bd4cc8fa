"""The thread that refreshes prices of pools, and the price feeds of the clouds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from bursar.background import BackgroundThread
from bursar.model.errors import EngineFault, UserError

if TYPE_CHECKING:
    from bursar.catalog.prices.price_book import PriceBook
    from bursar.control.control_plane import ControlPlane
    from bursar.control.price_refresh import MakeFeed
    from bursar.ports import Clock, PriceFeed

EVERY_SECONDS = 900.0
GCP_KEY_VARIABLE = "BURSAR_GCP_API_KEY"


@cache
def packaged_prices() -> PriceBook:
    """The price tables that come with Bursar."""
    from bursar.catalog.prices.price_table import read_price_book

    folder = resources.files("bursar.catalog.prices")
    machines, prices = folder / "machines.csv", folder / "prices.csv"
    return read_price_book(machines.read_text("utf-8"), prices.read_text("utf-8"))


@contextmanager
def refreshing_prices(
    plane: ControlPlane, log: Callable[[str], None], every_seconds: float = EVERY_SECONDS
) -> Iterator[None]:
    """Within the block, the prices of pools follow their cloud."""
    from bursar.control.monotonic_clock import MonotonicClock
    from bursar.control.price_refresh import PriceRefresh

    refresh = PriceRefresh(plane, clouds(MonotonicClock()), log)

    def refresh_once() -> None:
        try:
            refresh.run_once()
        except (EngineFault, UserError, TimeoutError) as error:
            log(f"prices were not refreshed: {error}")

    thread = BackgroundThread("bursar-prices", refresh_once, every_seconds)
    thread.start()
    try:
        yield
    finally:
        thread.close(timeout_seconds=2)


def clouds(clock: Clock) -> Mapping[str, MakeFeed]:
    """How each cloud's feed is built when a pool first follows it."""
    return {
        "aws": lambda: _aws(clock),
        "gcp": lambda: _gcp(clock),
        "azure": lambda: _azure(clock),
    }


def _aws(clock: Clock) -> PriceFeed:
    try:
        from bursar.clouds.aws.prices import aws_prices
    except ImportError as error:
        raise UserError(
            "boto3 is not installed.", fix="pip install 'bursar[aws]'.", code="needs-boto3"
        ) from error
    return aws_prices(clock)


def _gcp(clock: Clock) -> PriceFeed:
    from bursar.clouds.gcp.prices import GcpPrices
    from bursar.clouds.https import HttpFetch

    key = os.environ.get(GCP_KEY_VARIABLE, "")
    if not key:
        raise UserError(
            f"the variable {GCP_KEY_VARIABLE} is not set.",
            fix="Set it to an API key that may read the billing catalogue.",
            code="needs-api-key",
        )
    fetch = HttpFetch(headers={"X-Goog-Api-Key": key})
    shapes = {one.instance_type: one for one in packaged_prices().shapes("gcp")}
    return GcpPrices(fetch=fetch, clock=clock, shapes=shapes)


def _azure(clock: Clock) -> PriceFeed:
    from bursar.clouds.azure.prices import AzurePrices
    from bursar.clouds.https import HttpFetch

    return AzurePrices(fetch=HttpFetch(), clock=clock)
