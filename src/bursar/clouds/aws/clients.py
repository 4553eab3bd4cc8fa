"""boto3 clients with time limits and retries, built where AWS is asked and nowhere else."""

from __future__ import annotations

from functools import cache

import boto3  # type: ignore[import-untyped]
from botocore.config import Config  # type: ignore[import-untyped]

from bursar.clouds.aws.prices import PRICE_LIST_REGION, AwsPrices, Ec2Client
from bursar.ports import Clock

PATIENCE = Config(
    connect_timeout=5, read_timeout=20, retries={"mode": "standard", "max_attempts": 5}
)


def aws_prices(clock: Clock) -> AwsPrices:
    """The feed with the credentials that boto3 finds for itself."""

    @cache
    def ec2(region: str) -> Ec2Client:
        client: Ec2Client = boto3.client("ec2", region_name=region, config=PATIENCE)
        return client

    pricing = boto3.client("pricing", region_name=PRICE_LIST_REGION, config=PATIENCE)
    return AwsPrices(pricing=pricing, ec2=ec2, clock=clock)
