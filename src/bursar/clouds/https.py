"""GET over HTTPS with a time limit, a few tries, and a limit to what is read."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from bursar.model.errors import EngineFault

MOST_BYTES = 64 << 20
LONGEST_PAUSE_SECONDS = 30.0
ASK_AGAIN_SECONDS = 900.0
"""Prices can wait: whoever asked may ask again after a quarter of an hour."""
WORTH_ANOTHER_TRY = frozenset({408, 429, 500, 502, 503, 504})

OpenUrl = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpFetch:
    """``headers`` carry credentials, so that no address, and no message with one in it, ever does."""

    timeout_seconds: float = 20.0
    tries: int = 4
    headers: Mapping[str, str] = field(default_factory=dict)
    open_url: OpenUrl = urllib.request.urlopen
    sleep: Callable[[float], None] = time.sleep

    def __call__(self, url: str) -> bytes:
        parts = urlsplit(url)
        if parts.scheme != "https":
            raise EngineFault(
                f"{parts.scheme or 'no'} address refused: only https is asked for prices",
                retry_after_seconds=ASK_AGAIN_SECONDS,
            )
        host = parts.hostname or ""
        request = urllib.request.Request(url, headers=dict(self.headers))
        for last in range(1, self.tries + 1):
            problem, pause_seconds = "", float(2 ** (last - 1))
            try:
                with self.open_url(request, timeout=self.timeout_seconds) as answer:
                    return _body(answer.read(MOST_BYTES + 1), host)
            except urllib.error.HTTPError as error:
                problem = f"{host} answered {error.code} {error.reason}"
                if error.code not in WORTH_ANOTHER_TRY:
                    raise _fault(problem, last) from error
                pause_seconds = _told_to_wait(error, pause_seconds)
            except (OSError, HTTPException) as error:
                problem = f"{host} cannot be reached: {error}"
            if last < self.tries:
                self.sleep(min(LONGEST_PAUSE_SECONDS, pause_seconds))
        raise _fault(problem, self.tries)


def _body(body: bytes, host: str) -> bytes:
    if len(body) > MOST_BYTES:
        problem = f"{host} sent more than {MOST_BYTES >> 20} MiB at once"
        raise EngineFault(problem, retry_after_seconds=ASK_AGAIN_SECONDS)
    return body


def _told_to_wait(error: urllib.error.HTTPError, usual_seconds: float) -> float:
    told = error.headers.get("Retry-After", "") if error.headers else ""
    return float(told) if told.isdigit() else usual_seconds


def _fault(problem: str, tries: int) -> EngineFault:
    times = "once" if tries == 1 else f"{tries} times"
    return EngineFault(
        f"{problem} (asked {times}). Old prices stand.", retry_after_seconds=ASK_AGAIN_SECONDS
    )
