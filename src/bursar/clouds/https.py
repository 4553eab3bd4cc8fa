"""GET over HTTPS with a timeout, retries and a size limit; pages of price lists."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from bursar.model.errors import EngineFault

MAX_BYTES = 64 << 20
MAX_PAUSE_SECONDS = 30.0
RETRY_SECONDS = 900.0
RETRIED_STATUSES = frozenset({408, 429, 500, 502, 503, 504})

OpenUrl = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpFetch:
    """Fetches URLs. Credentials are in ``headers``: URLs appear in error messages."""

    timeout_seconds: float = 20.0
    tries: int = 4
    headers: Mapping[str, str] = field(default_factory=dict)
    open_url: OpenUrl = urllib.request.urlopen
    sleep: Callable[[float], None] = time.sleep

    def __call__(self, url: str) -> bytes:
        parts = urlsplit(url)
        if parts.scheme != "https":
            raise EngineFault(
                f"{parts.scheme or 'no'} address rejected: prices are fetched over https only",
                retry_after_seconds=RETRY_SECONDS,
            )
        host = parts.hostname or ""
        request = urllib.request.Request(url, headers=dict(self.headers))
        for attempt in range(1, self.tries + 1):
            problem, pause_seconds = "", float(2 ** (attempt - 1))
            try:
                with self.open_url(request, timeout=self.timeout_seconds) as response:
                    return _checked_size(response.read(MAX_BYTES + 1), host)
            except urllib.error.HTTPError as error:
                problem = f"{host} returned {error.code} {error.reason}"
                if error.code not in RETRIED_STATUSES:
                    raise _fault(problem, attempt) from error
                pause_seconds = _retry_after(error, pause_seconds)
            except (OSError, HTTPException) as error:
                problem = f"{host} cannot be reached: {error}"
            if attempt < self.tries:
                self.sleep(min(MAX_PAUSE_SECONDS, pause_seconds))
        raise _fault(problem, self.tries)


def parse_page(cloud: str, body: bytes, key: str, items: str) -> dict[str, Any]:
    """One page of a price list, with its items in a list at ``key``."""
    try:
        page = json.loads(body)
    except ValueError as error:
        raise price_fault(cloud, f"the response is not JSON ({error})") from error
    if not isinstance(page, dict) or not isinstance(page.get(key, []), list):
        raise price_fault(cloud, f"the response has no list of {items}")
    return page


def price_fault(cloud: str, problem: str) -> EngineFault:
    return EngineFault(
        f"{cloud} prices cannot be read: {problem}. Prices are unchanged.",
        retry_after_seconds=RETRY_SECONDS,
    )


def _checked_size(body: bytes, host: str) -> bytes:
    if len(body) > MAX_BYTES:
        problem = f"{host} sent more than {MAX_BYTES >> 20} MiB"
        raise EngineFault(problem, retry_after_seconds=RETRY_SECONDS)
    return body


def _retry_after(error: urllib.error.HTTPError, default_seconds: float) -> float:
    seconds = error.headers.get("Retry-After", "") if error.headers else ""
    return float(seconds) if seconds.isdigit() else default_seconds


def _fault(problem: str, tries: int) -> EngineFault:
    attempts = "1 attempt" if tries == 1 else f"{tries} attempts"
    return EngineFault(
        f"{problem} ({attempts}). Prices are unchanged.", retry_after_seconds=RETRY_SECONDS
    )
