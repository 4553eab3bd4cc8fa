"""EC2 spot notices from the instance metadata service (IMDSv2)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from bursar.clouds.instance_metadata import MetadataResponse, MetadataServer, notices_for
from bursar.model.engine_report import NoticeReported
from bursar.model.event import NoticeKind

ADDRESS = "http://169.254.169.254"
SOURCE = "aws"
TOKEN_PATH = "/latest/api/token"
ACTION_PATH = "/latest/meta-data/spot/instance-action"
REBALANCE_PATH = "/latest/meta-data/events/recommendations/rebalance"
TTL_HEADER = "X-aws-ec2-metadata-token-ttl-seconds"
TOKEN_HEADER = "X-aws-ec2-metadata-token"
TTL_SECONDS = 21_600
RENEW_SECONDS = 60.0
"""A token is renewed this long before it expires."""


class AwsNotices:
    """Polls for notices of this machine, which is ``nodes`` in the fleet."""

    def __init__(
        self,
        nodes: Sequence[str],
        address: str = ADDRESS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._nodes = tuple(nodes)
        self._server = MetadataServer(address)
        self._monotonic = monotonic
        self._token = ""
        self._token_renewal = 0.0

    def poll(self) -> Sequence[NoticeReported]:
        """Returns the notices; both paths return 404 until there is one.

        AWS announces a termination two minutes ahead, a hibernation only when it begins.
        """
        action = self._get(ACTION_PATH)
        if action.status == 200:
            notice = self._server.parse_object(action)
            ends_at_ms = self._server.parse_time_ms(notice.get("time"))
            return notices_for(self._nodes, SOURCE, NoticeKind.TERMINATE, ends_at_ms)
        if self._get(REBALANCE_PATH).status == 200:
            return notices_for(self._nodes, SOURCE, NoticeKind.REBALANCE)
        return ()

    def _get(self, path: str) -> MetadataResponse:
        response = self._server.get(path, {TOKEN_HEADER: self._valid_token()})
        if response.status == 401:
            self._token = ""
            response = self._server.get(path, {TOKEN_HEADER: self._valid_token()})
        if response.status not in (200, 404):
            raise self._server.fault(f"returned {response.status} for {path}")
        return response

    def _valid_token(self) -> str:
        if not self._token or self._monotonic() >= self._token_renewal:
            response = self._server.send("PUT", TOKEN_PATH, {TTL_HEADER: str(TTL_SECONDS)})
            if response.status != 200 or not response.text.isprintable():
                raise self._server.fault(f"returned no token but status {response.status}")
            self._token = response.text
            self._token_renewal = self._monotonic() + TTL_SECONDS - RENEW_SECONDS
        return self._token
