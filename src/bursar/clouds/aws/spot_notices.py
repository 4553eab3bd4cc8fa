"""EC2 spot notices: what the instance metadata service (IMDSv2) says of this machine's future."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from bursar.clouds.instance_metadata import MetadataResponse, MetadataServer
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
"""A token is renewed so long before it ends."""


class AwsNotices:
    """``nodes`` are those that this machine is. Two minutes before the end the action is there."""

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
        self._token_ends = 0.0

    def poll(self) -> Sequence[NoticeReported]:
        """Both are 404 until there is something to say. Hibernation is announced as it begins."""
        action = self._get(ACTION_PATH)
        if action.status == 200:
            said = self._server.parsed(action)
            ends_at_ms = self._server.moment_ms(said.get("time"))
            return self._each(NoticeKind.TERMINATE, ends_at_ms)
        if self._get(REBALANCE_PATH).status == 200:
            return self._each(NoticeKind.REBALANCE, None)
        return ()

    def _each(self, kind: NoticeKind, ends_at_ms: int | None) -> Sequence[NoticeReported]:
        return [
            NoticeReported(node=node, source=SOURCE, kind=kind, ends_at_ms=ends_at_ms)
            for node in self._nodes
        ]

    def _get(self, path: str) -> MetadataResponse:
        answer = self._server.get(path, {TOKEN_HEADER: self._fresh_token()})
        if answer.status == 401:
            self._token = ""
            answer = self._server.get(path, {TOKEN_HEADER: self._fresh_token()})
        if answer.status not in (200, 404):
            raise self._server.fault(f"answered {answer.status} to {path}")
        return answer

    def _fresh_token(self) -> str:
        if not self._token or self._monotonic() >= self._token_ends:
            answer = self._server.send("PUT", TOKEN_PATH, {TTL_HEADER: str(TTL_SECONDS)})
            if answer.status != 200 or not answer.text.isprintable():
                raise self._server.fault(f"gave no token: it answered {answer.status}")
            self._token = answer.text
            self._token_ends = self._monotonic() + TTL_SECONDS - RENEW_SECONDS
        return self._token
