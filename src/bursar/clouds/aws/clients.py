"""Builds boto3 clients with timeouts and retries."""

from __future__ import annotations

from functools import cache

import boto3  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]

from bursar.clouds.aws.prices import PRICE_LIST_REGION, AwsPrices, Ec2Client
from bursar.ports import Clock

CLIENT_CONFIG = Config(
    connect_timeout=5, read_timeout=20, retries={"mode": "standard", "max_attempts": 5}
)


def aws_prices(clock: Clock) -> AwsPrices:
    """The AWS price feed, with boto3's default credentials."""

    @cache
    def ec2(region: str) -> Ec2Client:
        client: Ec2Client = boto3.client("ec2", region_name=region, config=CLIENT_CONFIG)
        return client

    pricing = boto3.client("pricing", region_name=PRICE_LIST_REGION, config=CLIENT_CONFIG)
    return AwsPrices(pricing=pricing, ec2=ec2, clock=clock)
