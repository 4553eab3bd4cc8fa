"""Asking the metadata server of a machine: plain HTTP to an address that never leaves it.

No proxy, no redirect, short time limits, bounded answers: it is asked every few seconds, and whoever
answers in its place must not be able to keep us busy.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from bursar.model.errors import EngineFault

MOST_BYTES = 1 << 18
ASK_AGAIN_SECONDS = 5.0
TIMEOUT_SECONDS = 2.0

NowMs = Callable[[], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataResponse:
    """What came back; names of headers are in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", errors="replace").strip()


class MetadataServer:
    """One machine's, at an address such as ``http://169.254.169.254``."""

    def __init__(self, address: str, headers: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(address)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._headers = dict(headers or {})
        self.address = address

    def get(
        self, path: str, headers: Mapping[str, str] | None = None, wait_seconds: float = 0.0
    ) -> MetadataResponse:
        """``wait_seconds``: how much longer than usual it may take to answer."""
        return self._ask("GET", path, {**self._headers, **(headers or {})}, None, wait_seconds)

    def send(
        self, method: str, path: str, headers: Mapping[str, str], body: object = None
    ) -> MetadataResponse:
        content = None if body is None else json.dumps(body).encode()
        return self._ask(method, path, {**self._headers, **headers}, content, 0.0)

    def _ask(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes | None,
        wait_seconds: float,
    ) -> MetadataResponse:
        line = http.client.HTTPConnection(
            self._host, self._port, timeout=TIMEOUT_SECONDS + wait_seconds
        )
        try:
            line.request(method, path, body, headers)
            reply = line.getresponse()
            content = reply.read(MOST_BYTES + 1)
            said = {name.lower(): value for name, value in reply.getheaders()}
        except (OSError, http.client.HTTPException) as error:
            raise self.fault(f"does not answer: {error}") from error
        finally:
            line.close()
        if len(content) > MOST_BYTES:
            raise self.fault(f"sent more than {MOST_BYTES >> 10} KiB")
        return MetadataResponse(status=reply.status, body=content, headers=said)

    def fault(self, problem: str) -> EngineFault:
        return EngineFault(
            f"the metadata server {self.address} {problem}", retry_after_seconds=ASK_AGAIN_SECONDS
        )

    def parsed(self, answer: MetadataResponse) -> dict[str, Any]:
        """A JSON object, or a fault that says what came instead."""
        try:
            found = json.loads(answer.body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self.fault(f"answered {answer.text[:60]!r}, which is no notice")
        return found

    def moment_ms(self, text: object) -> int:
        """A moment such as ``2026-11-16T08:22:00Z``."""
        try:
            moment = datetime.fromisoformat(str(text))
        except ValueError:
            raise self.fault(f"names {str(text)[:40]!r} as a time") from None
        if moment.tzinfo is None:
            raise self.fault(f"names {str(text)[:40]!r}, a time without a zone")
        return round(moment.timestamp() * 1_000)
