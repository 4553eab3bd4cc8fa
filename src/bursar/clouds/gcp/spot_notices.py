"""Compute Engine preemption notices, by long polling of one metadata value."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from bursar.clouds.instance_metadata import MetadataServer, NowMs, notices_for, wall_clock_ms
from bursar.model.engine_report import NoticeReported
from bursar.model.event import NoticeKind

ADDRESS = "http://metadata.google.internal"
SOURCE = "gcp"
PATH = "/computeMetadata/v1/instance/preempted"
NOTICE_MS = 30_000
"""Time between the notice and the end of the machine."""
WAIT_SECONDS = 4


class GcpNotices:
    """Polls for notices of this machine, which is ``nodes`` in the fleet."""

    def __init__(
        self, nodes: Sequence[str], address: str = ADDRESS, now_ms: NowMs = wall_clock_ms
    ) -> None:
        self._nodes = tuple(nodes)
        self._server = MetadataServer(address, {"Metadata-Flavor": "Google"})
        self._now_ms = now_ms
        self._etag = ""
        self._ends_at_ms: int | None = None

    def poll(self) -> Sequence[NoticeReported]:
        """Returns the notices; waits a few seconds for a change after the first call.

        The server does not report the time of the change: the 30 s count from the first poll that
        returns it.
        """
        path, wait_seconds = PATH, 0.0
        if self._etag:
            path += (
                f"?wait_for_change=true&timeout_sec={WAIT_SECONDS}&last_etag={quote(self._etag)}"
            )
            wait_seconds = float(WAIT_SECONDS)
        response = self._server.get(path, wait_seconds=wait_seconds)
        if response.status != 200 or response.headers.get("metadata-flavor") != "Google":
            raise self._server.fault(
                f"returned {response.status} and is not Google's, or has failed"
            )
        self._etag = response.headers.get("etag", "")
        if response.text.upper() != "TRUE":
            self._ends_at_ms = None
            return ()
        if self._ends_at_ms is None:
            self._ends_at_ms = self._now_ms() + NOTICE_MS
        return notices_for(self._nodes, SOURCE, NoticeKind.TERMINATE, self._ends_at_ms)
