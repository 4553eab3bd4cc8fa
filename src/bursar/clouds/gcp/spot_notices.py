"""Compute Engine preemption: one value that turns to TRUE, and a server that waits for it with us."""

from __future__ import annotations

import time
from collections.abc import Sequence
from urllib.parse import quote

from bursar.clouds.instance_metadata import MetadataServer, NowMs
from bursar.model.engine_report import NoticeReported
from bursar.model.event import NoticeKind

ADDRESS = "http://metadata.google.internal"
SOURCE = "gcp"
PATH = "/computeMetadata/v1/instance/preempted"
NOTICE_MS = 30_000
"""Between the signal and the end."""
WAIT_SECONDS = 4


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class GcpNotices:
    """``nodes`` are those that this machine is."""

    def __init__(
        self, nodes: Sequence[str], address: str = ADDRESS, now_ms: NowMs = _wall_ms
    ) -> None:
        self._nodes = tuple(nodes)
        self._server = MetadataServer(address, {"Metadata-Flavor": "Google"})
        self._now_ms = now_ms
        self._etag = ""
        self._ends_at_ms: int | None = None

    def poll(self) -> Sequence[NoticeReported]:
        """Once the value is known, wait a little for it to change instead of asking again and again.

        When it changed is not said: the half minute counts from when it was first seen.
        """
        path, wait_seconds = PATH, 0.0
        if self._etag:
            path += (
                f"?wait_for_change=true&timeout_sec={WAIT_SECONDS}&last_etag={quote(self._etag)}"
            )
            wait_seconds = float(WAIT_SECONDS)
        answer = self._server.get(path, wait_seconds=wait_seconds)
        if answer.status != 200 or answer.headers.get("metadata-flavor") != "Google":
            raise self._server.fault(
                f"answered {answer.status} and is not Google's, or is not well"
            )
        self._etag = answer.headers.get("etag", "")
        if answer.text.upper() != "TRUE":
            self._ends_at_ms = None
            return ()
        if self._ends_at_ms is None:
            self._ends_at_ms = self._now_ms() + NOTICE_MS
        return [
            NoticeReported(
                node=node,
                source=SOURCE,
                kind=NoticeKind.TERMINATE,
                ends_at_ms=self._ends_at_ms,
            )
            for node in self._nodes
        ]
