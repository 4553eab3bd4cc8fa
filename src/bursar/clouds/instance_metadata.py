"""Client of a machine's metadata server: plain HTTP to a link-local address.

No proxy, no redirects, short timeouts, bounded responses: it is polled every few seconds, and an impostor
must not be able to block the poller.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from bursar.model.engine_report import NoticeReported
from bursar.model.errors import EngineFault
from bursar.model.event import NoticeKind

MAX_BYTES = 1 << 18
RETRY_SECONDS = 5.0
TIMEOUT_SECONDS = 2.0

NowMs = Callable[[], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponse:
    """A response; header names are in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", errors="replace").strip()


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def notices_for(
    nodes: Iterable[str], source: str, kind: NoticeKind, ends_at_ms: int | None = None
) -> list[NoticeReported]:
    """The same notice for each node that the machine is in the fleet."""
    return [
        NoticeReported(node=node, source=source, kind=kind, ends_at_ms=ends_at_ms) for node in nodes
    ]


class MetadataServer:
    """The metadata server at an address such as ``http://169.254.169.254``."""

    def __init__(self, address: str, headers: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(address)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._headers = dict(headers or {})
        self.address = address

    def get(
        self, path: str, headers: Mapping[str, str] | None = None, wait_seconds: float = 0.0
    ) -> MetadataResponse:
        """GET; ``wait_seconds`` is added to the usual timeout."""
        return self._request("GET", path, {**self._headers, **(headers or {})}, None, wait_seconds)

    def send(
        self, method: str, path: str, headers: Mapping[str, str], body: object = None
    ) -> MetadataResponse:
        content = None if body is None else json.dumps(body).encode()
        return self._request(method, path, {**self._headers, **headers}, content, 0.0)

    def _request(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes | None,
        wait_seconds: float,
    ) -> MetadataResponse:
        connection = http.client.HTTPConnection(
            self._host, self._port, timeout=TIMEOUT_SECONDS + wait_seconds
        )
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            content = response.read(MAX_BYTES + 1)
            response_headers = {name.lower(): value for name, value in response.getheaders()}
        except (OSError, http.client.HTTPException) as error:
            raise self.fault(f"does not respond: {error}") from error
        finally:
            connection.close()
        if len(content) > MAX_BYTES:
            raise self.fault(f"sent more than {MAX_BYTES >> 10} KiB")
        return MetadataResponse(status=response.status, body=content, headers=response_headers)

    def fault(self, problem: str) -> EngineFault:
        return EngineFault(
            f"the metadata server {self.address} {problem}", retry_after_seconds=RETRY_SECONDS
        )

    def parse_object(self, response: MetadataResponse) -> dict[str, Any]:
        """The JSON object in a response."""
        try:
            value = json.loads(response.body)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise self.fault(f"returned {response.text[:60]!r}, which is not a notice")
        return value

    def parse_time_ms(self, text: object) -> int:
        """Parses a time such as ``2026-11-16T08:22:00Z``."""
        try:
            parsed = datetime.fromisoformat(str(text))
        except ValueError:
            raise self.fault(f"returned {str(text)[:40]!r} as a time") from None
        if parsed.tzinfo is None:
            raise self.fault(f"returned {str(text)[:40]!r}, a time without a time zone")
        return round(parsed.timestamp() * 1_000)
