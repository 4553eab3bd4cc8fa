"""GET with timeouts, retries and limits, against a fake network."""

from __future__ import annotations

import io
import urllib.error
from email.message import Message
from typing import Any

import pytest

from bursar.clouds import https
from bursar.clouds.https import HttpFetch
from bursar.model.errors import EngineFault

URL = "https://prices.example/list"


def error(code: int, **headers: str) -> urllib.error.HTTPError:
    message = Message()
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    return urllib.error.HTTPError(URL, code, "no", message, io.BytesIO())


class Network:
    """Returns or raises one outcome for each attempt."""

    def __init__(self, *outcomes: bytes | Exception) -> None:
        self.outcomes = list(outcomes)
        self.requests: list[Any] = []
        self.timeouts: list[float] = []
        self.pauses: list[float] = []

    def open(self, request: Any, timeout: float) -> io.BytesIO:
        self.requests.append(request)
        self.timeouts.append(timeout)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return io.BytesIO(outcome)

    def fetch(self, **options: Any) -> HttpFetch:
        return HttpFetch(open_url=self.open, sleep=self.pauses.append, **options)


def test_a_request_has_headers_and_a_timeout() -> None:
    network = Network(b"body")
    assert network.fetch(headers={"X-Goog-Api-Key": "secret"}, timeout_seconds=3)(URL) == b"body"
    assert network.requests[0].get_header("X-goog-api-key") == "secret"
    assert network.timeouts == [3] and network.pauses == []


def test_transient_errors_are_retried_with_backoff() -> None:
    network = Network(error(503), TimeoutError("slow"), error(429, Retry_After="7"), b"body")
    assert network.fetch()(URL) == b"body"
    assert network.pauses == [1, 2, 7]


def test_a_pause_is_at_most_30_seconds() -> None:
    network = Network(error(429, Retry_After="86400"), b"body")
    assert network.fetch()(URL) == b"body"
    assert network.pauses == [30]


@pytest.mark.parametrize(
    ("outcomes", "problem"),
    [
        ([error(404)], "prices.example returned 404 no (1 attempt)"),
        ([error(403)], "prices.example returned 403 no (1 attempt)"),
        ([error(503)] * 4, "prices.example returned 503 no (4 attempts)"),
        ([ConnectionResetError("reset")] * 4, "prices.example cannot be reached: reset"),
        ([urllib.error.URLError("no route")] * 4, "cannot be reached"),
    ],
)
def test_permanent_errors_are_faults(outcomes: list[Exception], problem: str) -> None:
    network = Network(*outcomes)
    with pytest.raises(EngineFault) as caught:
        network.fetch(headers={"X-Goog-Api-Key": "secret"})(URL)
    assert problem in str(caught.value) and "Prices are unchanged" in str(caught.value)
    assert "secret" not in str(caught.value)
    assert caught.value.retry_after_seconds == 900 and network.outcomes == []


@pytest.mark.parametrize("url", ["http://prices.example/", "file:/etc/passwd", "nothing"])
def test_only_https_is_allowed(url: str) -> None:
    network = Network()
    with pytest.raises(EngineFault, match="over https only"):
        network.fetch()(url)
    assert network.requests == []


def test_a_body_over_the_limit_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(https, "MAX_BYTES", 10)
    with pytest.raises(EngineFault, match="sent more than"):
        Network(b"x" * 11).fetch()(URL)
